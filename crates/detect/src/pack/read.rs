//! A text as expressions read it: as it is, or in small letters where capitals do not matter.

use std::cell::OnceCell;
use std::ops::Range;

/// A part of a text; small letters are made of the whole once, when first asked for.
pub(super) struct ReadText<'t> {
    whole: &'t [u8],
    small: &'t OnceCell<Vec<u8>>,
    part: Range<usize>,
}

impl<'t> ReadText<'t> {
    /// Takes a text, with room for its small letters.
    pub(super) fn of(whole: &'t [u8], small: &'t OnceCell<Vec<u8>>) -> Self {
        Self { whole, small, part: 0..whole.len() }
    }

    /// Returns a part of it.
    pub(super) fn part(&self, part: Range<usize>) -> Self {
        let start = self.part.start;
        Self { part: start + part.start..start + part.end, ..*self }
    }

    /// Returns it as it is.
    pub(super) fn normal(&self) -> &'t [u8] {
        &self.whole[self.part.clone()]
    }

    /// Returns it with small letters for those of ASCII.
    pub(super) fn small(&self) -> &'t [u8] {
        let small = self.small.get_or_init(|| self.whole.to_ascii_lowercase());
        &small[self.part.clone()]
    }
}
