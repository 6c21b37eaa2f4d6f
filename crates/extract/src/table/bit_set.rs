//! Fixed-size set of small numbers.

/// Set of numbers below [`BitSet::LIMIT`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BitSet([u64; WORDS]);

const WORDS: usize = 8;

impl PartialEq for BitSet {
    /// Inlined, since a call would cost more than the comparison.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
    }
}

impl Eq for BitSet {}

impl BitSet {
    /// Exclusive upper bound of the numbers.
    pub(crate) const LIMIT: usize = WORDS * 64;

    /// Adds a number; one beyond the limit is ignored.
    #[inline]
    pub(crate) fn insert(&mut self, number: u16) {
        if let Some(word) = self.0.get_mut(usize::from(number) / 64) {
            *word |= 1 << (number % 64);
        }
    }

    /// Returns true if the number is in the set.
    #[inline]
    pub(crate) fn has(&self, number: u16) -> bool {
        self.0.get(usize::from(number) / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Returns the numbers in the set, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> {
        (0..).zip(&self.0).flat_map(|(at, word): (u16, _)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        })
    }

    /// Adds all numbers of another set.
    #[inline]
    pub(crate) fn extend(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }
}
