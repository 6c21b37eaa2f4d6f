//! Keys of any instrumentation that end with a word: `acme.tool.input`, `acme_inputs.city`.
//!
//! A key is worded if it ends with the word, or with the word and one that only says that the
//! content stands here (`input.value`); and if something stands behind the word and a dot, the key
//! is that of a part (`inputs.city`).

/// Words behind that of a fact that say no more than that it stands here.
const HOLDERS: [&str; 7] = ["value", "json", "text", "raw", "content", "data", "str"];
/// Words behind that of a fact that tell something about it.
const ABOUT: [&str; 10] = [
    "mime_type",
    "mimetype",
    "type",
    "tokens",
    "token_count",
    "size",
    "length",
    "truncated",
    "schema",
    "hash",
];

/// Longest key that is searched for words: no instrumentation writes longer ones, and a stranger's
/// may be as long as a request.
const KEY_BYTES_MAX: usize = 256;

/// What stands behind a word in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum WordedKey<'k> {
    /// Nothing: the value is the fact.
    Whole,
    /// The name of a part of the fact.
    Part(&'k str),
}

/// Which of some words, divided by `|`, a key is worded by; `None` for keys that are not UTF-8 or
/// longer than [`KEY_BYTES_MAX`].
pub(in super::super) fn worded_by<'k>(key: &'k [u8], words: &str) -> Option<WordedKey<'k>> {
    if key.len() > KEY_BYTES_MAX {
        return None;
    }
    let key = std::str::from_utf8(key).ok()?;
    words.split('|').find_map(|word| worded(key, word))
}

fn worded<'k>(key: &'k str, word: &str) -> Option<WordedKey<'k>> {
    let mut from = 0;
    while let Some(at) = find(key.as_bytes(), word.as_bytes(), from) {
        let rest = key.get(at + word.len()..)?;
        let is_begin = at == 0 || is_border(key.as_bytes()[at - 1]);
        match rest.as_bytes().first() {
            None if is_begin => return Some(WordedKey::Whole),
            Some(b'.' | b'_') if is_begin => match (&rest[1..], rest.starts_with('.')) {
                (tail, _) if HOLDERS.contains(&tail) => return Some(WordedKey::Whole),
                (tail, true) if !ABOUT.contains(&tail) && !tail.is_empty() => {
                    return Some(WordedKey::Part(tail));
                }
                _ => {}
            },
            _ => {}
        }
        from = at + 1;
    }
    None
}

fn is_border(byte: u8) -> bool {
    matches!(byte, b'.' | b':' | b'/' | b'_')
}

/// Where a word stands next, in letters of any case. Keys are short.
fn find(key: &[u8], word: &[u8], from: usize) -> Option<usize> {
    let ends = key.len().checked_sub(word.len())?;
    (from..=ends).find(|at| key[*at..*at + word.len()].eq_ignore_ascii_case(word))
}

/// The words of all sources of a table that read worded keys.
#[derive(Debug, Default)]
pub(in super::super) struct Worded {
    words: Vec<Box<str>>,
}

impl Worded {
    /// Adds the words of a source.
    pub(super) fn add(&mut self, words: &str) {
        self.words.push(words.into());
    }

    /// Whether any source reads a key of this form.
    pub(in super::super) fn has(&self, key: &[u8]) -> bool {
        self.words.iter().any(|words| worded_by(key, words).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_worded_at_their_end_or_before_a_part() {
        use WordedKey::{Part, Whole};
        for (key, expected) in [
            ("input", Some(Whole)),
            ("acme.tool.input", Some(Whole)),
            ("acme_inputs.city", Some(Part("city"))),
            ("acme.data.inputs.trip.city", Some(Part("trip.city"))),
            ("acme.input.value", Some(Whole)),
            ("acme.input_json", Some(Whole)),
            ("acme.Input", Some(Whole)),
            ("acme.input.mime_type", None),
            ("acme.input_tokens", None),
            ("acme.input.", None),
            ("acme.inputting", None),
            ("acme.reinput", None),
            ("input.x.input", Some(Part("x.input"))),
            ("", None),
        ] {
            assert_eq!(worded_by(key.as_bytes(), "input|inputs"), expected, "{key}");
        }
        assert_eq!(worded_by(b"\xff.input", "input"), None);
        let long = |bytes: usize| format!("{}.input", "k".repeat(bytes - ".input".len()));
        assert_eq!(worded_by(long(KEY_BYTES_MAX).as_bytes(), "input"), Some(Whole));
        assert_eq!(worded_by(long(KEY_BYTES_MAX + 1).as_bytes(), "input"), None);
    }
}
