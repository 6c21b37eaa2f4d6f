//! Exact-match search (Aho-Corasick) for values of keys for secrets, wherever they stand in a text.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Most values that are remembered.
const KEYED_MAX: usize = 64;
/// Longest value that is remembered, bytes.
const KEYED_BYTES_MAX: usize = 8 << 10;
/// Bytes of all values, which the automaton is built of.
const ALL_BYTES_MAX: usize = 64 << 10;

/// Values that are remembered.
#[derive(Default)]
pub(super) struct KeyedSecrets {
    texts: Vec<String>,
    bytes: usize,
    /// Built when first asked for.
    search: Option<AhoCorasick>,
}

impl KeyedSecrets {
    /// Remembers a value; false if there is no room for it.
    pub(super) fn know(&mut self, text: &str) -> bool {
        // One value comes with each call again: it must not take the place of others.
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

    /// Returns the values, in the order in which they came.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns the automaton that finds them, of those that begin at one place the longest; `None`
    /// if it cannot be built, which the limits rule out.
    pub(super) fn search(&mut self) -> Option<AhoCorasick> {
        if self.search.is_none() {
            let mut builder = AhoCorasick::builder();
            // The smallest form: the larger ones take hundreds of bytes for each byte of them.
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
