//! A small set of small numbers.

/// Numbers below [`BitSet::LIMIT`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BitSet([u64; WORDS]);

const WORDS: usize = 8;

impl PartialEq for BitSet {
    /// Compared here, a set takes less than a call.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
    }
}

impl Eq for BitSet {}

impl BitSet {
    /// The numbers that fit are below this.
    pub(crate) const LIMIT: usize = WORDS * 64;

    /// Adds a number; one beyond the limit is passed over.
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

    /// The numbers in the set, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> {
        (0..).zip(&self.0).flat_map(|(at, word): (u16, _)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        })
    }

    /// Adds all numbers of the other set.
    #[inline]
    pub(crate) fn extend(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }
}
