//! Unquoted words in flat texts, for values after keys: `password=hunter2`.

use std::ops::Range;

use super::keys::scheme;

/// Longest value, bytes.
pub(super) const VALUE_BYTES_MAX: usize = 8 << 10;
/// Limit on secret keys without a secret in one word; after more of them everything is hidden.
pub(super) const VAIN_KEYS_MAX: usize = 16;

/// Unquoted words of a text: up to white space or a sign that ends a value.
///
/// A word contains signs, each possibly after a key. So its end is searched once, and values after
/// keys are judged at most [`VAIN_KEYS_MAX`] times. Without the first rule, `key=key=...` takes 70
/// times as long as other texts; without the second, `pin:pin:...` takes 500 times as long.
pub(super) struct BareWords<'t> {
    text: &'t str,
    /// Last word found.
    known: Range<usize>,
    /// Keys in it whose values are no secrets.
    vain_keys: usize,
}

impl<'t> BareWords<'t> {
    /// Starts without a word.
    pub(super) fn of(text: &'t str) -> Self {
        Self { text, known: 0..0, vain_keys: 0 }
    }

    /// Returns the rest of the word from an offset.
    pub(super) fn at(&mut self, start: usize) -> Range<usize> {
        let start = start.min(self.text.len());
        if !self.known.contains(&start) {
            let rest = &self.text.as_bytes()[start..];
            let length = rest.iter().position(ends_word).unwrap_or(rest.len());
            self.known = start..start + length;
            self.vain_keys = 0;
        }
        let most = self.known.end.min(start + VALUE_BYTES_MAX);
        start..self.text.floor_char_boundary(most)
    }

    /// Returns true if too many keys in the last word have no secret, as in no ordinary text.
    pub(super) fn are_crowded(&self) -> bool {
        self.vain_keys >= VAIN_KEYS_MAX
    }

    /// Counts a key in the last word whose value is no secret.
    pub(super) fn count_vain_key(&mut self) {
        self.vain_keys += 1;
    }

    /// Returns the rest of the word, including a preceding scheme.
    pub(super) fn with_scheme(&mut self, start: usize) -> Range<usize> {
        let scheme = self.text.get(start..).and_then(scheme).unwrap_or_default();
        start..self.at(start + scheme).end
    }
}

fn ends_word(byte: &u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(byte, b',' | b';' | b'&' | b'"' | b'\'' | b'`' | b'<' | b'>')
        || matches!(byte, b')' | b'}' | b']' | b'|' | b'\\')
}
