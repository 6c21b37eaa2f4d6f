//! Hash index from attribute keys to slots: one hash of at most 24 bytes, then one comparison.
//!
//! Keys come from dialects, never from traffic, so a sender can slow a look-up at most to the
//! longest probe sequence in a table that is a quarter full.

/// Fixed set of keys, numbered in order of insertion.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    keys: Vec<Box<[u8]>>,
    /// For each bucket the key's number, or [`EMPTY`], and some bits of its hash.
    places: Vec<(u16, u16)>,
    mask: usize,
}

const EMPTY: u16 = u16::MAX;

impl Default for KeyIndex {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl KeyIndex {
    /// Builds an index of keys, at most [`BitSet::LIMIT`](super::bit_set::BitSet::LIMIT).
    pub(crate) fn new(keys: Vec<Box<[u8]>>) -> Self {
        let size = (keys.len() * 4).next_power_of_two().max(16);
        let mut places = vec![(EMPTY, 0); size];
        let mask = size - 1;
        for (number, key) in keys.iter().enumerate() {
            let hash = hash(key);
            let mut at = hash as usize & mask;
            while places[at].0 != EMPTY {
                at = (at + 1) & mask;
            }
            places[at] = (number as u16, (hash >> 48) as u16);
        }
        Self { keys, places, mask }
    }

    /// Returns the key's number.
    #[inline(always)]
    pub(crate) fn get(&self, key: &[u8]) -> Option<u16> {
        let hash = hash(key);
        let mut at = hash as usize & self.mask;
        loop {
            let (number, check) = self.places[at];
            if number == EMPTY {
                return None;
            }
            if check == (hash >> 48) as u16 && is_same(&self.keys[usize::from(number)], key) {
                return Some(number);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> u16 {
        self.keys.len() as u16
    }

    /// Returns the key with a number.
    pub(crate) fn key(&self, number: u16) -> &[u8] {
        self.keys.get(usize::from(number)).map_or(&[], |key| key)
    }
}

/// Compares two keys by words: keys are short, so a call would cost more.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (Some(end), Some(other_end)) = (one.last_chunk::<8>(), other.last_chunk::<8>()) else {
        return one == other;
    };
    let words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    end == other_end && words.fold(true, |same, (one, other)| same & (one == other))
}

/// Mixes the length with the first, middle and last eight bytes, which differ between attribute
/// keys.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    let len = key.len();
    let (first, middle, last) =
        if let (Some(first), Some(last)) = (key.first_chunk::<8>(), key.last_chunk::<8>()) {
            let middle = key[len / 2 - 4..].first_chunk::<8>().unwrap_or(last);
            (u64::from_le_bytes(*first), u64::from_le_bytes(*middle), u64::from_le_bytes(*last))
        } else {
            let short = key.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
            (short, 0, 0)
        };
    let mixed = (first ^ len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ last.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(29)
        ^ middle.wrapping_mul(0xa076_1d64_78bd_642f).rotate_left(47);
    let mixed = mixed.wrapping_mul(0xe703_7ed1_a0b4_28db);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_search_finds(
            keys in proptest::collection::hash_set("[a-c.]{0,20}", 0..200),
            others in proptest::collection::vec("[a-c.]{0,20}", 0..50),
        ) {
            let keys: Vec<Box<[u8]>> =
                keys.into_iter().map(|key| key.into_bytes().into_boxed_slice()).collect();
            let table = KeyIndex::new(keys.clone());
            for wanted in others.iter().map(|key| key.as_bytes()).chain(keys.iter().map(|k| &**k)) {
                let naive = keys.iter().position(|key| **key == *wanted);
                prop_assert_eq!(table.get(wanted).map(usize::from), naive);
            }
        }
    }
}
