//! Exact-match search (Aho-Corasick) for values of secret keys anywhere in a text.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Limit on remembered values.
const KEYED_MAX: usize = 64;
/// Longest remembered value, bytes.
const KEYED_BYTES_MAX: usize = 8 << 10;
/// Limit on the bytes of all values, from which the automaton is built.
const ALL_BYTES_MAX: usize = 64 << 10;

/// Remembered values.
#[derive(Default)]
pub(super) struct KeyedSecrets {
    texts: Vec<String>,
    bytes: usize,
    /// Automaton, built when first needed.
    search: Option<AhoCorasick>,
}

impl KeyedSecrets {
    /// Remembers a value; returns false beyond the limits.
    pub(super) fn know(&mut self, text: &str) -> bool {
        // One value recurs with each call, and must not displace others.
        if self.texts.iter().any(|known| known == text) {
            return true;
        }
        let bytes = self.bytes + text.len();
        if self.texts.len() >= KEYED_MAX || text.len() > KEYED_BYTES_MAX || bytes > ALL_BYTES_MAX {
            return false;
        }
        self.texts.push(text.to_owned());
        (self.bytes, self.search) = (bytes, None);
        true
    }

    /// Returns the values in the order of arrival.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns the automaton for them, which prefers the longest at each offset; `None` if it
    /// cannot be built, which the limits rule out.
    pub(super) fn search(&mut self) -> Option<AhoCorasick> {
        if self.search.is_none() {
            let mut builder = AhoCorasick::builder();
            // The smallest form: larger ones take hundreds of bytes per input byte.
            let kind = Some(AhoCorasickKind::ContiguousNFA);
            let builder = builder.match_kind(MatchKind::LeftmostLongest).kind(kind);
            self.search = builder.build(&self.texts).ok();
        }
        self.search.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_by_number_and_bytes() {
        let mut secrets = KeyedSecrets::default();
        assert!(!secrets.know(&"x".repeat(KEYED_BYTES_MAX + 1)));
        for n in 0..ALL_BYTES_MAX / KEYED_BYTES_MAX {
            assert!(secrets.know(&format!("{n:0width$}", width = KEYED_BYTES_MAX)));
        }
        assert!(!secrets.know("one more") && secrets.know(&"0".repeat(KEYED_BYTES_MAX)));
        let search = secrets.search().expect("it is built");
        assert!(search.memory_usage() < 32 * ALL_BYTES_MAX, "{}", search.memory_usage());
        let mut secrets = KeyedSecrets::default();
        assert!((0..KEYED_MAX).all(|n| secrets.know(&format!("secret-{n}"))));
        assert!(!secrets.know("one more"));
    }
}
