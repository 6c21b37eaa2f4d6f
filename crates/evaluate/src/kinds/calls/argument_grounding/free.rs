//! Texts that the agent is meant to write by itself: prose, searches, code.

use spanscore_base::value::Value;

/// Words from which on a text is prose.
const PROSE_WORDS_MIN: usize = 6;
/// Arguments whose texts are the agent's own from two words on.
const OWN: [&str; 26] = [
    "reason",
    "thought",
    "thoughts",
    "summary",
    "description",
    "comment",
    "comments",
    "note",
    "notes",
    "message",
    "body",
    "content",
    "text",
    "query",
    "question",
    "prompt",
    "request",
    "instructions",
    "explanation",
    "justification",
    "subject",
    "code",
    "command",
    "script",
    "task",
    "feedback",
];
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
    let is_own = words > 1 && OWN.iter().any(|own| own.eq_ignore_ascii_case(key));
    words >= PROSE_WORDS_MIN || is_own || is_code(text)
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
            ("expr", "print(df.head())", true),
            ("phone", "(555) 010-2030", false),
            ("path", "/srv/data/a.csv", false),
            ("reason", "damaged", false),
            ("expr", "a) b(c", false),
            ("expr", "(a) b(c)", true),
        ] {
            assert_eq!(is_free(key, text, None), expected, "{text}");
        }
    }

    #[test]
    fn calls_that_never_end_are_looked_at_once() {
        // A search for the end of each call would read 2^40 bytes.
        assert!(!is_code(&"f(".repeat(1 << 20)));
    }
}
