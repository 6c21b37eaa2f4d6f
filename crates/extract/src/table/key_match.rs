//! Matchers of attribute keys that no source names in full: prefix, last word, numbered prefix,
//! word.
//!
//! | source | matches | example |
//! |---|---|---|
//! | `attrs_prefix` | a prefix of the key | `llm.output_messages.` |
//! | `attrs_ending` | the last word: a body of a request or response | `acme.llm.request` |
//! | `attrs_indexed` | a word before a number and a message's field | `acme.messages.0.role` |
//! | `attrs_worded` | a word of the key ([`WordMatcher`]) | `acme_inputs.city` |

use super::word_match::WordMatcher;

/// Longest matched key, bytes: no instrumentation writes longer ones, and an untrusted one may be
/// as long as a request.
pub(super) const KEY_BYTES_MAX: usize = 256;

/// Fields of a message.
const FIELDS: [&[u8]; 8] = [
    b"role", b"content", b"contents", b"tool_calls", b"tool_call_id", b"function_call", b"name",
    b"parts",
];

/// Matchers of a table's sources, by kind.
#[derive(Debug, Default)]
pub(in super::super) struct KeyMatcher {
    prefixes: Vec<Prefix>,
    /// Last words of keys for bodies.
    bodies: Vec<Box<[u8]>>,
    /// True if bodies without a mention of tools are needed too.
    pub(in super::super) whole_bodies: bool,
    /// Words before message numbers.
    numbered: Vec<Box<[u8]>>,
    pub(in super::super) words: WordMatcher,
}

/// Prefix of keys.
#[derive(Debug, PartialEq, Eq)]
struct Prefix {
    text: Box<[u8]>,
    /// True if only messages about tools are retained with it.
    tools_only: bool,
}

impl KeyMatcher {
    /// Limit on the prefixes of a table: one bit of a word each.
    pub(super) const PREFIXES_MAX: usize = 64;

    /// Adds a prefix if new; returns its number.
    pub(super) fn add_prefix(&mut self, text: &str, tools_only: bool) -> usize {
        let prefix = Prefix { text: text.as_bytes().into(), tools_only };
        let known = self.prefixes.iter().position(|known| *known == prefix);
        known.unwrap_or_else(|| {
            self.prefixes.push(prefix);
            self.prefixes.len() - 1
        })
    }

    /// Adds last words of bodies, separated by `|`.
    pub(super) fn add_bodies(&mut self, words: &str, whole: bool) {
        self.bodies.extend(words.split('|').map(|word| word.as_bytes().into()));
        self.whole_bodies |= whole;
    }

    /// Adds words before message numbers, separated by `|`.
    pub(super) fn add_numbered(&mut self, words: &str) {
        self.numbered.extend(words.split('|').map(|word| word.as_bytes().into()));
        self.numbered.sort_unstable();
        self.numbered.dedup();
    }

    /// Returns the number of prefixes.
    pub(super) fn prefix_count(&self) -> usize {
        self.prefixes.len()
    }

    /// Returns true if any source matches the key.
    pub(in super::super) fn has(&self, key: &[u8]) -> bool {
        self.prefixes_of(key) != 0
            || self.is_body(key)
            || self.is_numbered(key)
            || self.words.sources_of(key) != 0
    }

    /// Returns the prefixes of a key, one bit each.
    pub(crate) fn prefixes_of(&self, key: &[u8]) -> u64 {
        self.bits(|prefix| key.starts_with(&prefix.text))
    }

    /// Returns the prefixes with which only messages about tools are retained, one bit each.
    pub(super) fn tools_only_prefixes(&self) -> u64 {
        self.bits(|prefix| prefix.tools_only)
    }

    fn bits(&self, is_meant: impl Fn(&Prefix) -> bool) -> u64 {
        let meant = self.prefixes.iter().enumerate().filter(|(_, prefix)| is_meant(prefix));
        meant.fold(0, |all, (at, _)| all | 1 << at)
    }

    /// Returns the rest of a key after its prefix with that number.
    pub(in super::super) fn tail<'a>(&self, number: u16, key: &'a [u8]) -> &'a [u8] {
        let prefix = self.prefixes.get(usize::from(number));
        prefix.and_then(|prefix| key.get(prefix.text.len()..)).unwrap_or_default()
    }

    /// Returns true if a key's last word is one for bodies.
    pub(crate) fn is_body(&self, key: &[u8]) -> bool {
        self.bodies.iter().any(|word| ends_with(key, word))
    }

    /// Returns true if a key has a numbered prefix and a field of a message.
    pub(crate) fn is_numbered(&self, key: &[u8]) -> bool {
        // Most keys have no number.
        key.array_windows().any(|[dot, digit]| *dot == b'.' && digit.is_ascii_digit())
            && self.numbered.iter().any(|word| behind_word(key, word).is_some())
    }
}

/// Returns true if a key ends with a whole word.
pub(in super::super) fn ends_with(key: &[u8], word: &[u8]) -> bool {
    key.strip_suffix(word)
        .is_some_and(|rest| matches!(rest.last(), None | Some(b'.' | b':' | b'/')))
}

/// Returns the length of a key's numbered prefix, up to the number (`0.message.role`), for the
/// first matching word of those separated by `|`.
pub(in super::super) fn numbered_prefix(key: &[u8], words: &str) -> Option<usize> {
    words.split('|').find_map(|word| behind_word(key, word.as_bytes()))
}

fn behind_word(key: &[u8], word: &[u8]) -> Option<usize> {
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

/// Returns true if a number and a field of a message follow.
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

/// Returns true if an attribute key names a tool or function call.
pub(in super::super) fn names_tools(key: &[u8]) -> bool {
    // Keys are short: setting up a search would take longer than running it.
    (0..key.len()).any(|at| match key[at..].first_chunk() {
        Some(b"tool") => true,
        Some(b"func") => key[at..].starts_with(b"function_call"),
        _ => false,
    })
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
            let words = "messages|input_messages";
            let found = numbered_prefix(key.as_bytes(), words).map(|at| &key[at..]);
            assert_eq!(found, tail, "{key}");
        }
        let long = format!("{}.messages.0.role", "k".repeat(KEY_BYTES_MAX));
        assert_eq!(numbered_prefix(long.as_bytes(), "messages"), None);
    }
}
