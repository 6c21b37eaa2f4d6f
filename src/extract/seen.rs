//! What attribute keys mean, remembered while a request is read.
//!
//! The spans of an instrumentation repeat the same keys in the same order, so the key that followed
//! last time is tried first: one comparison in place of a hash, a look-up and the prefixes.

use super::keys::hash;
use super::table::Table;
use super::tools_only::MessageField;

/// Most keys that are remembered; when one more comes, remembering starts anew.
const SEEN_MAX: usize = 1024;
/// Places for their hashes.
const PLACES: usize = 2 * SEEN_MAX;
const NONE: u16 = u16::MAX;

/// What a key means to a [`Table`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyMeaning {
    /// Nothing reads it.
    Unread,
    /// It has a slot.
    Slot(u16),
    /// It lies behind these prefixes, a bit each; behind the first of them it says this.
    Behind(u64, MessageField),
}

impl KeyMeaning {
    fn of(table: &Table, key: &[u8]) -> Self {
        if let Some(slot) = table.keys.get(key) {
            return Self::Slot(slot);
        }
        match table.prefixes.of(key) {
            0 => Self::Unread,
            prefixes => {
                let first = prefixes.trailing_zeros() as u16;
                Self::Behind(prefixes, MessageField::new(first, table.prefixes.tail(first, key)))
            }
        }
    }
}

/// The keys of a request so far.
#[derive(Default)]
pub(super) struct SeenKeys<'a> {
    seen: Vec<Seen<'a>>,
    /// For some bits of a key's hash the key seen last that has them.
    places: Vec<u16>,
    last: u16,
    /// What is tried first.
    next: u16,
}

struct Seen<'a> {
    key: &'a [u8],
    meaning: KeyMeaning,
    /// What came after it last time, and what before that: spans of different kinds part at few
    /// keys.
    next: u16,
    other_next: u16,
}

impl<'a> SeenKeys<'a> {
    /// What the key means.
    #[inline(always)]
    pub(super) fn meaning(&mut self, table: &Table, key: &'a [u8]) -> KeyMeaning {
        match self.seen.get(usize::from(self.next)) {
            Some(seen) if is_same(seen.key, key) => {
                (self.last, self.next) = (self.next, seen.next);
                seen.meaning
            }
            _ => self.look_up(table, key),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, table: &Table, key: &'a [u8]) -> KeyMeaning {
        let other = self.seen.get(usize::from(self.last)).map_or(NONE, |last| last.other_next);
        let at = match self.seen.get(usize::from(other)) {
            Some(seen) if is_same(seen.key, key) => other,
            _ => self.find(table, key),
        };
        if let Some(last) = self.seen.get_mut(usize::from(self.last)) {
            (last.next, last.other_next) = (at, last.next);
        }
        self.last = at;
        match self.seen.get(usize::from(at)) {
            Some(seen) => {
                self.next = seen.next;
                seen.meaning
            }
            None => KeyMeaning::of(table, key),
        }
    }

    fn find(&mut self, table: &Table, key: &'a [u8]) -> u16 {
        let place = hash(key) as usize % PLACES;
        let known = self.places.get(place).copied().unwrap_or(NONE);
        match self.seen.get(usize::from(known)) {
            Some(seen) if is_same(seen.key, key) => known,
            _ => self.add(table, key, place),
        }
    }

    fn add(&mut self, table: &Table, key: &'a [u8], place: usize) -> u16 {
        if self.seen.len() >= SEEN_MAX || self.places.is_empty() {
            self.seen.clear();
            self.places.clear();
            self.places.resize(PLACES, NONE);
        }
        let at = self.seen.len() as u16;
        let meaning = KeyMeaning::of(table, key);
        self.seen.push(Seen { key, meaning, next: NONE, other_next: NONE });
        self.places[place] = at;
        at
    }
}

/// Whether two keys are equal. They mostly are, and they are short: comparing them here takes less
/// than a call.
#[inline(always)]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let (heads, _) = one.as_chunks::<8>();
    let (other_heads, _) = other.as_chunks::<8>();
    one.len() == other.len()
        && heads.iter().zip(other_heads).all(|(a, b)| a == b)
        && match (one.last_chunk::<8>(), other.last_chunk::<8>()) {
            (Some(tail), Some(other_tail)) => tail == other_tail,
            _ => one == other,
        }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::dialect::Dialect;
    use super::*;
    use crate::model::Facts;

    proptest! {
        #[test]
        fn keys_are_the_same_if_all_their_bytes_are(
            key in proptest::collection::vec(0..3_u8, 0..40),
            changed in 0..60_usize,
        ) {
            let mut other = key.clone();
            if let Some(byte) = other.get_mut(changed) {
                *byte += 1;
            }
            prop_assert_eq!(is_same(&key, &other), key == other);
            prop_assert!(!is_same(&key, &[&key[..], b"x"].concat()));
        }

        #[test]
        fn keys_mean_what_the_table_says_in_any_order(
            order in proptest::collection::vec(0..3000u32, 0..4000),
        ) {
            let facts = Facts { arguments: true, ..Facts::default() };
            let table = Table::compile(Dialect::with_builtin(Vec::new()), &facts).unwrap();
            let keys: Vec<Vec<u8>> = order.iter().map(|number| match number % 5 {
                0 => b"tool.name".to_vec(),
                1 => format!("llm.output_messages.{}.message.role", number / 5).into_bytes(),
                2 => format!("other.{number}").into_bytes(),
                3 => b"input.value".to_vec(),
                _ => vec![],
            }).collect();
            let mut seen = SeenKeys::default();
            for key in &keys {
                prop_assert_eq!(seen.meaning(&table, key), KeyMeaning::of(&table, key));
            }
        }
    }
}
