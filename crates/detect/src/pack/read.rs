//! Text as read by expressions: unchanged, or in lower case for case-insensitive ones.

use std::cell::OnceCell;
use std::ops::Range;

/// Part of a text; the lower-case form of the whole is made once, when first needed.
pub(super) struct ReadText<'t> {
    whole: &'t [u8],
    small: &'t OnceCell<Vec<u8>>,
    part: Range<usize>,
}

impl<'t> ReadText<'t> {
    /// Takes a text, with the cell for its lower-case form.
    pub(super) fn of(whole: &'t [u8], small: &'t OnceCell<Vec<u8>>) -> Self {
        Self { whole, small, part: 0..whole.len() }
    }

    /// Returns a part of it.
    pub(super) fn part(&self, part: Range<usize>) -> Self {
        let start = self.part.start;
        Self { part: start + part.start..start + part.end, ..*self }
    }

    /// Returns it unchanged.
    pub(super) fn normal(&self) -> &'t [u8] {
        &self.whole[self.part.clone()]
    }

    /// Returns it with ASCII letters in lower case.
    pub(super) fn small(&self) -> &'t [u8] {
        let small = self.small.get_or_init(|| self.whole.to_ascii_lowercase());
        &small[self.part.clone()]
    }
}
