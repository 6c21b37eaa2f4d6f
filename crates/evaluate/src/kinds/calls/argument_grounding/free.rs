//! Free texts, which the agent writes itself: prose, search queries, code.

use crate::shared::roles;
use spanscore_base::value::Value;

/// Number of words from which a text counts as prose.
const PROSE_WORDS_MIN: usize = 6;
/// Arguments whose texts of two or more words are free.
const OWN: [&str; 26] = [
    "reason", "thought", "thoughts", "summary", "description", "comment", "comments", "note",
    "notes", "message", "body", "content", "text", "query", "question", "prompt", "request",
    "instructions", "explanation", "justification", "subject", "code", "command", "script", "task",
    "feedback",
];
/// Argument whose texts are free at any length.
const COMMAND: &str = "command";
/// Last words of arguments that select an option of the tool.
const OPTIONS: [&str; 10] = [
    "type", "types", "kind", "mode", "action", "actions", "strategy", "operation", "format",
    "conclusion",
];
/// Last words of arguments whose single words select a format or an order.
const LOOKS: [&str; 10] = [
    "scheme", "theme", "style", "color", "colour", "layout", "align", "alignment", "direction",
    "orientation",
];
/// Last words of arguments with search queries.
const SEARCHES: [&str; 8] =
    ["query", "q", "search", "pattern", "keyword", "keywords", "term", "regex"];
/// Words in the names of arguments for files or folders.
const FILES: [&str; 14] = [
    "file", "files", "filename", "filenames", "filepath", "filepaths", "pathname", "path", "paths",
    "folder", "folders", "subfolder", "directory", "directories",
];
/// Longest file extension, bytes.
const EXTENSION_BYTES_MAX: usize = 5;
const CAPITAL_OPTIONS: [&str; 6] = ["Type", "Kind", "Mode", "Action", "Strategy", "Format"];
/// Substrings that mark code.
const CODE: [&str; 20] = [
    "\n", ";", "==", "=>", "->", " = ", "&&", "||", " | ", "</", "/>", "${", "$(", "{{", "};",
    "):", "import ", "def ", "select ", " --",
];

/// Returns true if a text is free: prose or code, without a format in its schema.
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

/// Returns true for a search query with an operator: `select:get_order,get_user`.
fn is_search(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || "_-".contains(c))
    };
    text.split_once(':').is_some_and(|(how, words)| is_word(how) && words.split(',').all(is_word))
}

/// Returns true for an option word: `action_mode: stage_only`. A value with several words or digits
/// may be a name: `room_type: Penthouse Suite 12`.
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

/// Returns true for a search term; a term with digits may be an id.
fn is_searched(key: &str, text: &str) -> bool {
    let last = key.rsplit('_').next().unwrap_or(key);
    SEARCHES.contains(&last) && !has_digit(text) && !text.contains('@')
}

/// Returns true for a hashtag: `#GoodNews`.
fn is_tag(text: &str) -> bool {
    text.strip_prefix('#')
        .is_some_and(|tag| !tag.is_empty() && tag.chars().all(char::is_alphabetic))
}

fn is_color(key: &str, text: &str) -> bool {
    let is_hex = |hex: &str| hex.len() == 6 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    key.to_lowercase().contains("colo") && text.strip_prefix('#').is_some_and(is_hex)
}

/// Returns true for an argument for a file or a folder.
pub(super) fn is_file(key: &str) -> bool {
    roles::words(key).iter().any(|word| FILES.contains(&word.as_str()))
}

/// Returns true for a file name that the agent may choose; one with digits may contain an id.
pub(super) fn is_new_file(text: &str) -> bool {
    !has_digit(text)
}

/// Returns true for a file extension.
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
