//! Keys under which messages stand field by field, behind a prefix of an instrumentation's own:
//! `acme.input_messages.0.message.role`.

/// Longest key that is searched: no instrumentation writes longer ones, and a stranger's may be as
/// long as a request.
const KEY_BYTES_MAX: usize = 256;

/// Fields that a message has.
const FIELDS: [&[u8]; 8] = [
    b"role",
    b"content",
    b"contents",
    b"tool_calls",
    b"tool_call_id",
    b"function_call",
    b"name",
    b"parts",
];

/// The words behind which messages are numbered.
#[derive(Debug, Default)]
pub(in super::super) struct Indexed {
    words: Vec<Box<[u8]>>,
}

impl Indexed {
    /// Adds the words of a source, several divided by `|`.
    pub(super) fn add(&mut self, words: &str) {
        for word in words.split('|').map(str::as_bytes) {
            if !self.words.iter().any(|known| **known == *word) {
                self.words.push(word.into());
            }
        }
    }

    /// Whether a key holds a field of a message behind one of the words.
    pub(in super::super) fn has(&self, key: &[u8]) -> bool {
        // Most keys hold no number at all.
        key.array_windows().any(|[dot, digit]| *dot == b'.' && digit.is_ascii_digit())
            && self.words.iter().any(|word| tail(key, word).is_some())
    }
}

/// Where in a key stands what follows one of the words, divided by `|`: `0.message.role`.
pub(in super::super) fn indexed_by(key: &[u8], words: &str) -> Option<usize> {
    words.split('|').find_map(|word| tail(key, word.as_bytes()))
}

fn tail(key: &[u8], word: &[u8]) -> Option<usize> {
    if key.len() > KEY_BYTES_MAX {
        return None;
    }
    let mut parts = key.split(|byte| *byte == b'.');
    let mut at = 0;
    while let Some(part) = parts.next() {
        at += part.len() + 1;
        if part == word {
            return holds_field(parts).then_some(at);
        }
    }
    None
}

/// Whether a number and a field of a message come next.
fn holds_field<'k>(mut parts: impl Iterator<Item = &'k [u8]>) -> bool {
    let number = parts.next().unwrap_or_default();
    let field = match parts.next() {
        Some(b"message") => parts.next(),
        field => field,
    };
    !number.is_empty()
        && number.iter().all(u8::is_ascii_digit)
        && field.is_some_and(|field| FIELDS.contains(&field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_numbered_behind_a_word() {
        for (key, tail) in [
            ("acme.input_messages.0.message.role", Some("0.message.role")),
            ("messages.12.content", Some("12.content")),
            ("a.b.messages.0.tool_calls.1.function.name", Some("0.tool_calls.1.function.name")),
            ("acme.messages.0.size", None),
            ("acme.messages.role", None),
            ("acme.messages.0", None),
            ("acme.messages..role", None),
            ("acme.remessages.0.role", None),
            ("", None),
        ] {
            let found = indexed_by(key.as_bytes(), "messages|input_messages").map(|at| &key[at..]);
            assert_eq!(found, tail, "{key}");
        }
        let long = format!("{}.messages.0.role", "k".repeat(KEY_BYTES_MAX));
        assert_eq!(indexed_by(long.as_bytes(), "messages"), None);
    }
}
