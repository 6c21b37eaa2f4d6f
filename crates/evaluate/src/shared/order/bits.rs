//! Longest common subsequences of single calls with bit-parallel rows: 64 expected positions per
//! word.
//!
//! Bit `j` of a row is 0 if the common subsequence with the first `j + 1` positions is longer than
//! with the first `j`. The step from one call's row to the next is Hyyrö's ("Bit-parallel
//! LCS-length computation revisited", 2004). It needs the positions of each word in advance
//! ([`Masks`]). It is a special case of [`InOrder`](super::InOrder) for non-parallel calls compared
//! as words. For 10,000 calls and 1,000 positions it takes 0.3 ms, while a table of numbers takes
//! 13 ms and 32 times the memory.

use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};

use crate::shared::names::NameMap;

/// Expected positions of each word of an alphabet, one bit each.
#[derive(Default)]
pub(crate) struct Masks(NameMap<Vec<u64>>);

/// Expected positions that match a call, one bit each; empty for none.
pub(crate) type Mask<'m> = Cow<'m, [u64]>;

impl Masks {
    /// Returns the masks of an expected sequence.
    pub(crate) fn new<W: AsRef<str>>(
        words: impl IntoIterator<Item = W, IntoIter: ExactSizeIterator>,
    ) -> Self {
        let words = words.into_iter();
        let mut masks = NameMap::default();
        let blocks = words.len().div_ceil(64);
        for (position, word) in words.enumerate() {
            let mask = masks.get_or_insert_with(word.as_ref(), || vec![0; blocks]);
            mask[position / 64] |= 1 << (position % 64);
        }
        Self(masks)
    }

    /// Returns the positions of a word.
    pub(crate) fn get(&self, word: &str) -> Mask<'_> {
        self.either(word, None)
    }

    /// Returns the positions of either word.
    pub(crate) fn either(&self, word: &str, other: Option<&str>) -> Mask<'_> {
        match (self.0.get(word), other.and_then(|other| self.0.get(other))) {
            (Some(a), Some(b)) => a.iter().zip(b).map(|(a, b)| a | b).collect(),
            (Some(mask), None) | (None, Some(mask)) => Cow::Borrowed(mask),
            (None, None) => Cow::Borrowed(&[]),
        }
    }
}

/// Returns the length of the longest common subsequence of the calls and `expected` positions. If
/// requested, returns its positions in order, which needs a table.
pub(crate) fn of_singles<'m>(
    calls: impl Iterator<Item = Mask<'m>>,
    expected: usize,
    wants_positions: bool,
) -> (usize, Vec<usize>) {
    let mut row = row(expected);
    if !wants_positions {
        calls.for_each(|mask| step(&mut row, &mask));
        return (kept(&row, expected), Vec::new());
    }
    let calls: Vec<_> = calls.collect();
    let mut rows = row.to_vec();
    for mask in &calls {
        step(&mut row, mask);
        rows.extend_from_slice(&row);
    }
    let found = walk_back(&calls, &rows, expected);
    (found.len(), found)
}

/// Backtracks from the ends: takes a match, else drops a call if that keeps more than dropping a
/// position.
fn walk_back(calls: &[Mask<'_>], rows: &[u64], expected: usize) -> Vec<usize> {
    let blocks = expected.div_ceil(64);
    let kept = |calls: usize, upto| kept(&rows[calls * blocks..(calls + 1) * blocks], upto);
    let mut call = calls.len();
    let mut upto = expected;
    let mut found = Vec::new();
    while call > 0 && upto > 0 {
        let at = upto - 1;
        if holds(&calls[call - 1], at) {
            found.push(at);
            call -= 1;
            upto = at;
        // Strictly more selects, among several longest subsequences, the textbook's, as the systems
        // that scores are compared with do.
        } else if kept(call - 1, upto) > kept(call, at) {
            call -= 1;
        } else {
            upto = at;
        }
    }
    found.reverse();
    found
}

/// Returns true if a mask has a position.
pub(crate) fn holds(mask: &[u64], position: usize) -> bool {
    mask.get(position / 64).is_some_and(|bits| bits >> (position % 64) & 1 == 1)
}

/// Returns the row before the first call.
pub(super) fn row(expected: usize) -> SmallVec<[u64; 4]> {
    smallvec![u64::MAX; expected.div_ceil(64)]
}

/// Returns the row with the given lengths of the common subsequence before each position and after
/// the last.
pub(super) fn row_of(lengths: &[u32]) -> SmallVec<[u64; 4]> {
    let mut row = row(lengths.len() - 1);
    for (position, _) in lengths.array_windows().enumerate().filter(|(_, [a, b])| a < b) {
        row[position / 64] &= !(1 << (position % 64));
    }
    row
}

/// Advances from one call's row to the next.
fn step(row: &mut [u64], mask: &[u64]) {
    // The addition carries a 1 from each matched position to the next free one, which computes 64
    // cells of the table in one operation. It must wrap, and the carry must continue in the next
    // word; otherwise a subsequence across a multiple of 64 is one too short.
    let mut carry = false;
    for (bits, mask) in row.iter_mut().zip(mask) {
        let common = *bits & mask;
        let (sum, over) = bits.overflowing_add(common);
        let (sum, over_again) = sum.overflowing_add(u64::from(carry));
        carry = over || over_again;
        *bits = sum | (*bits & !mask);
    }
}

/// Returns the length of the common subsequence with the first `upto` positions: the zeros among
/// those bits.
pub(super) fn kept(row: &[u64], upto: usize) -> usize {
    let whole = row.iter().take(upto / 64).map(|bits| bits.count_zeros() as usize);
    let part = match (row.get(upto / 64), upto % 64) {
        (Some(bits), rest) if rest > 0 => (!bits & ((1 << rest) - 1)).count_ones() as usize,
        _ => 0,
    };
    whole.sum::<usize>() + part
}
