//! Texts that the agent is meant to write by itself: prose, searches, code.

use crate::shared::roles;
use spanscore_base::value::Value;

/// Words from which on a text is prose.
const PROSE_WORDS_MIN: usize = 6;
/// Arguments whose texts are the agent's own from two words on.
const OWN: [&str; 26] = [
    "reason", "thought", "thoughts", "summary", "description", "comment", "comments", "note",
    "notes", "message", "body", "content", "text", "query", "question", "prompt", "request",
    "instructions", "explanation", "justification", "subject", "code", "command", "script", "task",
    "feedback",
];
/// That of them that is the agent's own, however short.
const COMMAND: &str = "command";
/// Last words of arguments that choose among what a tool offers, which its schema alone lists.
const OPTIONS: [&str; 10] = [
    "type", "types", "kind", "mode", "action", "actions", "strategy", "operation", "format",
    "conclusion",
];
/// Last words of arguments whose single words say how something is to look, or be put in order.
const LOOKS: [&str; 10] = [
    "scheme", "theme", "style", "color", "colour", "layout", "align", "alignment", "direction",
    "orientation",
];
/// Last words of arguments by which something is searched.
const SEARCHES: [&str; 8] =
    ["query", "q", "search", "pattern", "keyword", "keywords", "term", "regex"];
/// Words of arguments that are files or folders.
const FILES: [&str; 14] = [
    "file", "files", "filename", "filenames", "filepath", "filepaths", "pathname", "path", "paths",
    "folder", "folders", "subfolder", "directory", "directories",
];
/// Longest extension of a file's name.
const EXTENSION_BYTES_MAX: usize = 5;
const CAPITAL_OPTIONS: [&str; 6] = ["Type", "Kind", "Mode", "Action", "Strategy", "Format"];
/// Marks of code.
const CODE: [&str; 20] = [
    "\n", ";", "==", "=>", "->", " = ", "&&", "||", " | ", "</", "/>", "${", "$(", "{{", "};",
    "):", "import ", "def ", "select ", " --",
];

/// Returns true if a text is the agent's to write: of many words, or code, and not of a form that
/// the schema prescribes.
pub(super) fn is_free(key: &str, text: &str, schema: Option<&Value<'_>>) -> bool {
    let prescribes = |schema: &Value<'_>| {
        ["enum", "const", "format", "pattern"].iter().any(|key| schema.get(key).is_some())
    };
    if schema.is_some_and(prescribes) {
        return false;
    }
    let words = text.split_whitespace().count();
    let is_several = || words > 1 || is_search(text) || key == COMMAND;
    let is_own = OWN.iter().any(|own| own.eq_ignore_ascii_case(key)) && is_several();
    let is_word = || is_searched(key, text) || is_tag(text) || is_color(key, text);
    words >= PROSE_WORDS_MIN || is_own || is_option(key, text) || is_word() || is_code(text)
}

/// Returns true for a search by words, of which the first says how: `select:get_order,get_user`.
fn is_search(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || "_-".contains(c))
    };
    text.split_once(':').is_some_and(|(how, words)| is_word(how) && words.split(',').all(is_word))
}

/// Returns true for a word by which a tool is told how to work: `action_mode: stage_only`. Names
/// of things have several words, or digits: `room_type: Penthouse Suite 12`.
fn is_option(key: &str, text: &str) -> bool {
    let is_bare = OPTIONS.contains(&key);
    let is_word = |c: char| c.is_ascii_alphabetic() || "_-".contains(c) || is_bare && c == ' ';
    let last = key.rsplit('_').next().unwrap_or(key);
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_word)
        && (OPTIONS.contains(&last)
            || LOOKS.contains(&last)
            || CAPITAL_OPTIONS.iter().any(|end| key.ends_with(end)))
}

fn has_digit(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
}

/// Returns true for words by which the agent looks for something: an id has digits.
fn is_searched(key: &str, text: &str) -> bool {
    let last = key.rsplit('_').next().unwrap_or(key);
    SEARCHES.contains(&last) && !has_digit(text) && !text.contains('@')
}

/// Returns true for a tag that is put on something: `#GoodNews`.
fn is_tag(text: &str) -> bool {
    text.strip_prefix('#')
        .is_some_and(|tag| !tag.is_empty() && tag.chars().all(char::is_alphabetic))
}

fn is_color(key: &str, text: &str) -> bool {
    let is_hex = |hex: &str| hex.len() == 6 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    key.to_lowercase().contains("colo") && text.strip_prefix('#').is_some_and(is_hex)
}

/// Returns true for an argument that is a file or a folder.
pub(super) fn is_file(key: &str) -> bool {
    roles::words(key).iter().any(|word| FILES.contains(&word.as_str()))
}

/// Returns true for a name that the agent may give to a file: one with digits may hold an id.
pub(super) fn is_new_file(text: &str) -> bool {
    !has_digit(text)
}

/// Returns true for the extension of a file's name.
pub(super) fn is_extension(text: &str) -> bool {
    (1..=EXTENSION_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase())
}

fn is_code(text: &str) -> bool {
    let last_end = text.rfind(')');
    let is_called = |(at, _): (usize, &str)| {
        last_end.is_some_and(|end| end > at)
            && text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    };
    CODE.iter().any(|mark| text.contains(mark)) || text.match_indices('(').any(is_called)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_searches_and_code_are_free() {
        for (key, text, expected) in [
            ("title", "the customer wants another seat for tomorrow", true),
            ("query", "cheap hotels", true),
            ("city", "New York", false),
            ("query", "select:get_order,get_user", true),
            ("query", "ORD-4711", false),
            ("action_mode", "stage_only", true),
            ("query", "ORD-4711,ORD-4712", false),
            ("search_term", "parser", true),
            ("search_term", "ann@shop.example", false),
            ("tags", "#GoodNews", true),
            ("order_id", "#W12", false),
            ("color_scheme", "blue", true),
            ("background_colors", "#1a1a2e", true),
            ("order", "#1a1a2e", false),
            ("query", "order:4711", false),
            ("reason", "a:", false),
            ("serviceType", "lost_property", true),
            ("type", "lost property", true),
            ("room_type", "Penthouse Suite", false),
            ("type", "Suite 12", false),
            ("action", "ACT-99812", false),
            ("type", "4711", false),
            ("prototype", "oak", false),
            ("expr", "print(df.head())", true),
            ("phone", "(555) 010-2030", false),
            ("path", "/srv/data/a.csv", false),
            ("reason", "damaged", false),
            ("command", "pwd", true),
            ("expr", "a) b(c", false),
            ("expr", "(a) b(c)", true),
        ] {
            assert_eq!(is_free(key, text, None), expected, "{text}");
        }
    }

    #[test]
    fn files_are_told_by_the_words_of_their_arguments() {
        for (key, expected) in [
            ("file", true),
            ("filePath", true),
            ("output_files", true),
            ("filename", true),
            ("profile", false),
            ("xpath", false),
            ("profile_id", false),
        ] {
            assert_eq!(is_file(key), expected, "{key}");
        }
    }

    #[test]
    fn calls_that_never_end_are_looked_at_once() {
        // A search for the end of each call would read 2^40 bytes.
        assert!(!is_code(&"f(".repeat(1 << 20)));
    }
}
