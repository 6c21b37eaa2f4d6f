//! Longest common subsequences by bits.
//!
//! The expected sequence lies in the bits of machine words: one actual call costs
//! `expected / 64` steps, and the length alone needs no table. The method is Hyyrö's
//! ("Bit-parallel LCS-length computation revisited", 2004): after each call, bit `j` of a row is 0
//! where the common subsequence with the first `j + 1` expected calls is longer than with the
//! first `j`.

use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};

use crate::shared::names::NameMap;

/// Cells of the table that one comparison may cost where a cell costs next to nothing.
pub(crate) const CELLS_MAX: usize = 64_000_000;

/// The comparison would cost more than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {cells_max} comparisons of calls would be needed")]
pub struct TableTooLarge {
    /// The limit.
    pub cells_max: usize,
}

/// For each word of an alphabet, the expected positions that it stands for.
#[derive(Default)]
pub(crate) struct Masks(NameMap<Vec<u64>>);

/// The expected positions that one call may take, one bit each; without bits at all for none.
pub(crate) type Mask<'m> = Cow<'m, [u64]>;

impl Masks {
    /// Says that `word` stands for an expected position.
    pub(crate) fn add(&mut self, word: &str, position: usize) {
        let mask = self.0.get_or_insert_with(word, Vec::new);
        let block = position / 64;
        if mask.len() <= block {
            mask.resize(block + 1, 0);
        }
        mask[block] |= 1 << (position % 64);
    }

    /// Ends the expected sequence, of that length.
    pub(crate) fn close(&mut self, length: usize) {
        let blocks = length.div_ceil(64);
        self.0.values_mut().for_each(|mask| mask.resize(blocks, 0));
    }

    /// The positions of a word.
    pub(crate) fn get(&self, word: &str) -> Mask<'_> {
        self.either(word, None)
    }

    /// The positions of a word and of a second one.
    pub(crate) fn either(&self, word: &str, other: Option<&str>) -> Mask<'_> {
        match (self.0.get(word), other.and_then(|other| self.0.get(other))) {
            (Some(a), Some(b)) => a.iter().zip(b).map(|(a, b)| a | b).collect(),
            (Some(mask), None) | (None, Some(mask)) => Cow::Borrowed(mask),
            (None, None) => Cow::Borrowed(&[]),
        }
    }
}

/// Goes from one call's row to the next.
fn step(row: &mut [u64], mask: &[u64]) {
    // The addition carries a 1 from each matched position to the next one that is still free: that
    // is what makes 64 cells of the table one operation. It must be allowed to wrap, and the carry
    // must go on into the next word, or a subsequence that crosses a multiple of 64 is one short.
    let mut carry = false;
    for (bits, mask) in row.iter_mut().zip(mask) {
        let common = *bits & mask;
        let (sum, over) = bits.overflowing_add(common);
        let (sum, over_again) = sum.overflowing_add(u64::from(carry));
        carry = over || over_again;
        *bits = sum | (*bits & !mask);
    }
}

/// Zeros among the first `upto` bits.
fn zeros(row: &[u64], upto: usize) -> usize {
    let whole = row.iter().take(upto / 64).map(|bits| bits.count_zeros() as usize);
    let part = match (row.get(upto / 64), upto % 64) {
        (Some(bits), rest) if rest > 0 => (!bits & ((1 << rest) - 1)).count_ones() as usize,
        _ => 0,
    };
    whole.sum::<usize>() + part
}

/// Length of the longest common subsequence of the calls, given as masks, and `expected` positions.
pub(crate) fn length<'m>(calls: impl Iterator<Item = Mask<'m>>, expected: usize) -> usize {
    let mut row: SmallVec<[u64; 4]> = smallvec![u64::MAX; expected.div_ceil(64)];
    calls.for_each(|mask| step(&mut row, &mask));
    zeros(&row, expected)
}

/// Length of the longest common subsequence of `0..a` and `0..b` under any relation: `same(i, j)`
/// says whether the element `i` of the first is the element `j` of the second. What is common at
/// both ends does not count against `cells_max`.
pub(crate) fn length_where(
    a: usize,
    b: usize,
    cells_max: usize,
    mut same: impl FnMut(usize, usize) -> bool,
) -> Result<usize, TableTooLarge> {
    // A match at either end belongs to some longest common subsequence.
    let head = (0..a.min(b)).take_while(|&i| same(i, i)).count();
    let a_rest = a - head;
    let b_rest = b - head;
    let tail = (1..=a_rest.min(b_rest)).take_while(|&i| same(a - i, b - i)).count();
    let rows = a_rest - tail;
    let columns = b_rest - tail;
    if rows == 0 || columns == 0 {
        return Ok(head + tail);
    }
    if rows.checked_mul(columns).is_none_or(|cells| cells > cells_max) {
        return Err(TableTooLarge { cells_max });
    }
    let mut row: SmallVec<[u64; 4]> = smallvec![u64::MAX; columns.div_ceil(64)];
    let mut mask = row.clone();
    for i in 0..rows {
        mask.fill(0);
        for j in 0..columns {
            mask[j / 64] |= u64::from(same(head + i, head + j)) << (j % 64);
        }
        step(&mut row, &mask);
    }
    Ok(head + tail + zeros(&row, columns))
}

/// All rows, to find a longest common subsequence: one bit for each call and expected position.
pub(crate) struct OrderTable<'m> {
    calls: Vec<Mask<'m>>,
    rows: Vec<u64>,
    expected: usize,
}

impl<'m> OrderTable<'m> {
    /// Fills the table.
    pub(crate) fn build(calls: impl Iterator<Item = Mask<'m>>, expected: usize) -> Self {
        let calls: Vec<_> = calls.collect();
        let mut row = vec![u64::MAX; expected.div_ceil(64)];
        let mut rows = row.clone();
        for mask in &calls {
            step(&mut row, mask);
            rows.extend_from_slice(&row);
        }
        Self { calls, rows, expected }
    }

    fn row(&self, call: usize) -> &[u64] {
        let blocks = self.expected.div_ceil(64);
        &self.rows[call * blocks..(call + 1) * blocks]
    }

    /// Length of the longest common subsequence.
    pub(crate) fn length(&self) -> usize {
        zeros(self.row(self.calls.len()), self.expected)
    }

    /// The expected positions of one longest common subsequence, in order: from the ends back,
    /// a match is taken; else a call is dropped if that keeps more than dropping an expected one.
    pub(crate) fn walk_back(&self) -> Vec<usize> {
        let mut call = self.calls.len();
        let mut position = self.expected;
        let mut found = Vec::new();
        while call > 0 && position > 0 {
            let at = position - 1;
            let block = self.calls[call - 1].get(at / 64);
            if block.is_some_and(|bits| bits >> (at % 64) & 1 == 1) {
                found.push(at);
                (call, position) = (call - 1, at);
            // Strictly more: of several longest subsequences this takes the one that the textbook's
            // walk takes, which the systems that scores are compared with use, too.
            } else if zeros(self.row(call - 1), position) > zeros(self.row(call), at) {
                call -= 1;
            } else {
                position -= 1;
            }
        }
        found.reverse();
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The textbook table, and the same way back through it.
    fn naive(calls: &[&str], expected: &[&str]) -> (usize, Vec<usize>) {
        let m = calls.len();
        let n = expected.len();
        let mut table = vec![vec![0; n + 1]; m + 1];
        for i in 1..=m {
            for j in 1..=n {
                table[i][j] = if calls[i - 1] == expected[j - 1] {
                    table[i - 1][j - 1] + 1
                } else {
                    table[i - 1][j].max(table[i][j - 1])
                };
            }
        }
        let mut i = m;
        let mut j = n;
        let mut found = Vec::new();
        while i > 0 && j > 0 {
            if calls[i - 1] == expected[j - 1] {
                found.push(j - 1);
                (i, j) = (i - 1, j - 1);
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        found.reverse();
        (table[m][n], found)
    }

    fn check(calls: &[&str], expected: &[&str]) {
        let mut masks = Masks::default();
        expected.iter().enumerate().for_each(|(at, word)| masks.add(word, at));
        masks.close(expected.len());
        let rows = || calls.iter().map(|word| masks.get(word));
        let table = OrderTable::build(rows(), expected.len());
        let (longest, found) = naive(calls, expected);
        assert_eq!(length(rows(), expected.len()), longest);
        assert_eq!(table.length(), longest);
        assert_eq!(table.walk_back(), found);
    }

    proptest! {
        #[test]
        fn bits_find_what_the_textbook_table_finds(
            calls in prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 0..150),
            expected in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 0..150),
        ) {
            check(&calls, &expected);
        }
    }

    #[test]
    fn ten_thousand_calls_against_a_thousand_take_a_bit_each() {
        let words = ["a", "b", "c", "d", "e", "f", "g"];
        let expected: Vec<&str> = (0..1000).map(|i| words[i * i % 7]).collect();
        let calls: Vec<&str> = (0..10_000).map(|i| words[i % 7]).collect();
        let mut masks = Masks::default();
        expected.iter().enumerate().for_each(|(at, word)| masks.add(word, at));
        masks.close(1000);
        let rows = || calls.iter().map(|word| masks.get(word));
        assert_eq!(length(rows(), 1000), 1000);
        assert_eq!(OrderTable::build(rows(), 1000).walk_back(), (0..1000).collect::<Vec<_>>());
    }

    /// Tries everything.
    fn tried(a: usize, b: usize, same: &dyn Fn(usize, usize) -> bool) -> usize {
        if a == 0 || b == 0 {
            return 0;
        }
        let paired = if same(a - 1, b - 1) { 1 + tried(a - 1, b - 1, same) } else { 0 };
        paired.max(tried(a - 1, b, same)).max(tried(a, b - 1, same))
    }

    proptest! {
        #[test]
        fn as_long_as_trying_everything_finds(
            relation in (0_usize..6).prop_flat_map(|columns| {
                prop::collection::vec(prop::collection::vec(any::<bool>(), columns), 0..6)
            }),
        ) {
            let rows = relation.len();
            let columns = relation.first().map_or(0, Vec::len);
            let same = |i: usize, j: usize| relation[i][j];
            let found = length_where(rows, columns, CELLS_MAX, same);
            prop_assert_eq!(found, Ok(tried(rows, columns, &same)));
        }

        #[test]
        fn order_of_the_two_does_not_count(a in "[abc]{0,9}", b in "[abc]{0,9}") {
            let a = a.as_bytes();
            let b = b.as_bytes();
            let forth = length_where(a.len(), b.len(), CELLS_MAX, |i, j| a[i] == b[j]);
            let back = length_where(b.len(), a.len(), CELLS_MAX, |i, j| b[i] == a[j]);
            prop_assert_eq!(forth, back);
        }
    }

    #[test]
    fn only_what_differs_counts_against_the_limit() {
        assert_eq!(length_where(100_000, 100_000, 0, |i, j| i == j), Ok(100_000));
        assert_eq!(length_where(10, 10, 100, |_, _| false), Ok(0));
        assert_eq!(length_where(10, 11, 100, |_, _| false), Err(TableTooLarge { cells_max: 100 }));
    }
}
