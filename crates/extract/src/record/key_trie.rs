//! A trie over the sequences of attribute keys of spans, remembered from request to request.
//!
//! The spans of an instrumentation repeat the same keys in the same order. What a key means, and
//! what all keys of a span together mean, is worked out when the sequence comes for the first time;
//! from then on a key costs one comparison. A key that does not come where the trie expects it is
//! inserted there, or where there is no room, the span falls off the trie: it is read all the same,
//! only more slowly.

use std::sync::Arc;

use super::attributes::SpanAttributes;
use super::retention::{Retention, Retentions};
use crate::table::bit_set::BitSet;
use crate::table::{Bound, Matching, Table, is_kind_key};
use spanscore_base::otlp::any_value::key_value;
use spanscore_base::otlp::wire::{Fields, Malformed, leading_bytes};

/// Most nodes of the trie.
const NODES_MAX: usize = 4096;
/// Most attributes of a span whose sequence of keys is remembered.
const DEPTH_MAX: u16 = 256;
/// Longest key that is remembered, bytes with its tag and length: a sender's keys may be as long as
/// its requests, and what is remembered outlives them.
const HEAD_BYTES_MAX: usize = 256;
/// Most keys that are remembered to come after the same ones.
const NEXT_MAX: usize = 8;
/// After so many spans that found no room, remembering starts anew: odd spans cannot fill the place
/// of those that come all the time.
const MISSED_MAX: u32 = 1024;

/// No node.
const NONE: u32 = u32::MAX;
/// The root of the trie.
const START: u32 = 0;

/// Meaning of a key to a [`Table`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyMeaning {
    /// Nothing reads it, or it came before.
    Unread,
    /// It has a slot.
    Slot(u16),
    /// It has a slot, and statements speak of its value.
    Stated(u16),
    /// It lies behind some prefix, or ends at a word that some source reads.
    Behind,
    /// It has no slot, and a span may say under it what it is.
    Kind,
}

impl KeyMeaning {
    fn of(table: &Table, key: &[u8]) -> Self {
        if let Some(slot) = table.keys.get(key) {
            let is_stated = table.bound(slot).is_some_and(Bound::states_value);
            return if is_stated { Self::Stated(slot) } else { Self::Slot(slot) };
        }
        if table.hears_kinds() && is_kind_key(key) {
            Self::Kind
        } else if table.matcher.has(key) {
            Self::Behind
        } else {
            Self::Unread
        }
    }
}

/// The sequences of keys of the spans so far.
#[derive(Default)]
pub(crate) struct KeyTrie {
    /// The table that all of this holds for.
    table: Arc<()>,
    nodes: Vec<TrieNode>,
    /// The heads of the nodes, end to end.
    heads: Vec<u8>,
    /// For each node the statements that hold because the keys so far are there.
    present: Vec<BitSet>,
    retentions: Retentions,
    missed: u32,
    /// The node that the span at hand has come to; [`NONE`] once it has fallen off the trie.
    at: u32,
    /// The first of the nodes that may come next.
    next: u32,
    off_trie: OffTrie,
}

/// Keys of a span that has fallen off the trie.
#[derive(Default)]
struct OffTrie {
    /// Their slots.
    slots: BitSet,
    /// The statements that hold because they are there.
    present: BitSet,
}

/// A key behind the keys of the nodes before it.
struct TrieNode {
    /// Place of its head: the key as it opens an encoded `KeyValue`.
    head: (u32, u32),
    meaning: KeyMeaning,
    depth: u16,
    /// The first of the keys that come next.
    next: u32,
    /// Another key that comes after the same ones.
    other: u32,
    /// The first of the retention entries of spans that end here.
    retention: u32,
}

impl KeyTrie {
    /// Begins a request.
    pub(crate) fn enter(&mut self, table: &Table) {
        let missed = self.missed.saturating_add(self.retentions.missed());
        let is_full = self.nodes.len() >= NODES_MAX || missed >= MISSED_MAX;
        if !self.nodes.is_empty()
            && !is_full
            && !self.retentions.is_full()
            && Arc::ptr_eq(&self.table, &table.identity)
        {
            return;
        }
        // All or nothing, between requests only: nodes point at each other by number, and what a
        // span has noted points at them, so a single one cannot be taken out. Starting anew costs
        // the spans of one request a look-up for each key.
        self.table = Arc::clone(&table.identity);
        self.nodes.clear();
        self.heads.clear();
        self.present.clear();
        self.retentions.clear();
        self.missed = 0;
        self.add(TrieNode::new((0, 0), KeyMeaning::Unread, 0), BitSet::default());
    }

    /// Begins a span.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.at = START;
        self.next = self.nodes.get(START as usize).map_or(NONE, |node| node.next);
    }

    /// Takes an encoded attribute: what of it is read goes to `attributes`.
    #[inline(always)]
    pub(crate) fn attribute<'a>(
        &mut self,
        table: &Table,
        matching: &mut Matching,
        attributes: &mut SpanAttributes<'a>,
        entry: &'a [u8],
    ) -> Result<(), Malformed> {
        let Some((meaning, rest)) = self.follow(entry) else {
            return self.insert(table, matching, attributes, entry);
        };
        if meaning == KeyMeaning::Unread {
            return Ok(());
        }
        let value = match leading_bytes(rest, 2) {
            Some((value, [])) => value,
            _ => key_value(entry)?.1,
        };
        read(table, matching, attributes, (meaning, value, entry))
    }

    /// One step down the trie: what the key means, and what stands behind it.
    #[inline(always)]
    fn follow<'a>(&mut self, entry: &'a [u8]) -> Option<(KeyMeaning, &'a [u8])> {
        // A list of siblings and no map: where the order of keys is fixed, which is nearly always,
        // the first sibling is the right one, and a hash would cost more than the comparison that
        // has to follow it anyway. [`NEXT_MAX`] bounds the list.
        let mut at = self.next;
        loop {
            let node = self.nodes.get(at as usize)?;
            let (from, to) = node.head;
            let head = self.heads.get(from as usize..to as usize)?;
            // The head holds tag and length beside the key, so a key that only begins like another
            // never matches: its length differs. That saves decoding both before comparing.
            if let Some(rest) = behind(entry, head) {
                (self.at, self.next) = (at, node.next);
                return Some((node.meaning, rest));
            }
            at = node.other;
        }
    }

    /// Reads a key that is not expected here, and remembers it if there is room.
    #[inline(never)]
    fn insert<'a>(
        &mut self,
        table: &Table,
        matching: &mut Matching,
        attributes: &mut SpanAttributes<'a>,
        entry: &'a [u8],
    ) -> Result<(), Malformed> {
        let (key, value) = key_value(entry)?;
        let mut meaning = KeyMeaning::of(table, key);
        let mut present = self.present();
        if let KeyMeaning::Slot(slot) | KeyMeaning::Stated(slot) = meaning {
            let is_repeated = if self.at == NONE {
                self.off_trie.slots.has(slot)
            } else {
                attributes.slots().any(|known| known == slot)
            };
            if is_repeated {
                // Keys are unique; where a sender breaks that, the first counts.
                let is_matched = table.also_keyed.has(slot);
                meaning = if is_matched { KeyMeaning::Behind } else { KeyMeaning::Unread };
            } else if let Some(bit) = table.bound(slot).and_then(|bound| bound.present) {
                present.insert(bit);
            }
        }
        if !self.branch(key, entry, meaning, present) {
            self.fall_off(attributes, meaning, present);
        }
        if meaning == KeyMeaning::Unread {
            return Ok(());
        }
        read(table, matching, attributes, (meaning, value, entry))
    }

    /// Goes on from the node at hand by a key that did not come there before; not if there is no
    /// room, or the key does not stand where encoders write it.
    fn branch(&mut self, key: &[u8], entry: &[u8], meaning: KeyMeaning, present: BitSet) -> bool {
        let opening = leading_bytes(entry, 1).filter(|(first, _)| std::ptr::eq(*first, key));
        let head = opening.and_then(|(_, rest)| entry.get(..entry.len() - rest.len()));
        let from = self.heads.len() as u32;
        let depth = self.nodes.get(self.at as usize).map_or(DEPTH_MAX, |node| node.depth);
        let has_room =
            depth < DEPTH_MAX && self.nodes.len() < NODES_MAX && self.next_count() < NEXT_MAX;
        let Some(head) = head.filter(|head| has_room && head.len() <= HEAD_BYTES_MAX) else {
            return false;
        };
        self.heads.extend_from_slice(head);
        let head = (from, self.heads.len() as u32);
        let mut node = TrieNode::new(head, meaning, depth + 1);
        let new = self.nodes.len() as u32;
        let before = &mut self.nodes[self.at as usize];
        // The newest sibling goes first: a sender that changed its keys is likelier to send the new
        // ones again than the old ones.
        node.other = std::mem::replace(&mut before.next, new);
        self.add(node, present);
        (self.at, self.next) = (new, NONE);
        true
    }

    /// Falls off the trie at this key, or goes on without it.
    fn fall_off(&mut self, attributes: &SpanAttributes<'_>, meaning: KeyMeaning, present: BitSet) {
        if self.at != NONE {
            (self.at, self.next) = (NONE, NONE);
            self.missed += 1;
            self.off_trie = OffTrie::default();
            attributes.slots().for_each(|slot| self.off_trie.slots.insert(slot));
        }
        self.off_trie.present = present;
        if let KeyMeaning::Slot(slot) | KeyMeaning::Stated(slot) = meaning {
            self.off_trie.slots.insert(slot);
        }
    }

    fn add(&mut self, node: TrieNode, present: BitSet) {
        self.nodes.push(node);
        self.present.push(present);
    }

    /// Returns the number of keys that are remembered to come next.
    fn next_count(&self) -> usize {
        let first = self.nodes.get(self.at as usize).map_or(NONE, |node| node.next);
        let node = |at: u32| self.nodes.get(at as usize);
        std::iter::successors(node(first), |last| node(last.other)).count()
    }

    /// The statements that hold because the keys of the span at hand are there.
    fn present(&self) -> BitSet {
        self.present.get(self.at as usize).copied().unwrap_or(self.off_trie.present)
    }

    /// Returns the retention of the span at hand, whose attributes are all read.
    #[inline]
    pub(crate) fn retention(
        &mut self,
        table: &Table,
        matching: &mut Matching,
        attributes: &SpanAttributes<'_>,
    ) -> &Retention {
        matching.extend(&self.present());
        match self.nodes.get_mut(self.at as usize) {
            Some(node) => self.retentions.of(table, matching, attributes, &mut node.retention),
            None => self.retentions.once(table, matching, attributes),
        }
    }
}

impl TrieNode {
    fn new(head: (u32, u32), meaning: KeyMeaning, depth: u16) -> Self {
        Self { head, meaning, depth, next: NONE, other: NONE, retention: NONE }
    }
}

/// Notes an attribute that is read: what its key means, its encoded value, and both.
#[inline(always)]
fn read<'a>(
    table: &Table,
    matching: &mut Matching,
    attributes: &mut SpanAttributes<'a>,
    (meaning, value, entry): (KeyMeaning, &'a [u8], &'a [u8]),
) -> Result<(), Malformed> {
    let text = check(value)?;
    match meaning {
        KeyMeaning::Stated(slot) => matching.attribute(table, slot, value, text),
        KeyMeaning::Kind => {
            let key = key_value(entry)?.0;
            matching.kind(table, key, text.unwrap_or_default());
        }
        _ => {}
    }
    attributes.push(meaning, value, entry);
    Ok(())
}

/// Checks that an encoded value is well-formed, one level deep; deeper levels are checked when they
/// are read. Returns the bytes of the text, if it is nothing but one.
#[inline]
pub(crate) fn check(value: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    if let Some((text, [])) = leading_bytes(value, 1) {
        return Ok(Some(text));
    }
    let mut fields = Fields::new(value);
    while fields.next()?.is_some() {}
    Ok(None)
}

/// Returns the rest of an entry that begins with a head. Heads are short and mostly the right ones:
/// comparing them here takes less than a call.
#[inline(always)]
fn behind<'a>(entry: &'a [u8], head: &[u8]) -> Option<&'a [u8]> {
    // Words of eight bytes, the last one overlapping: `==` on slices of unknown length is a call to
    // `memcmp`, and heads have 15 to 40 bytes.
    let (own, rest) = entry.split_at_checked(head.len())?;
    let words = head.as_chunks::<8>().0.iter().zip(own.as_chunks::<8>().0);
    let same_tail = match (head.last_chunk::<8>(), own.last_chunk::<8>()) {
        (Some(tail), Some(own_tail)) => tail == own_tail,
        _ => head == own,
    };
    (same_tail && words.into_iter().all(|(word, own)| word == own)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{calls, table};

    fn entry(key: &str) -> Vec<u8> {
        let value = b"\x12\x03\x0a\x01x";
        [&[0x0a, key.len() as u8], key.as_bytes(), value].concat()
    }

    #[test]
    fn long_keys_are_read_and_not_remembered() {
        let table = table(&calls());
        let mut trie = KeyTrie::default();
        trie.enter(&table);
        for number in 0..9 {
            let key = format!("{number}{}", "k".repeat(HEAD_BYTES_MAX));
            let mut entry = vec![0x0a];
            prost::encoding::encode_varint(key.len() as u64, &mut entry);
            entry.extend([key.as_bytes(), b"\x12\x03\x0a\x01x"].concat());
            let mut matching = Matching::default();
            let mut attributes = SpanAttributes::default();
            trie.begin();
            trie.attribute(&table, &mut matching, &mut attributes, &entry).unwrap();
            assert_eq!((trie.at, trie.heads.len()), (NONE, 0));
        }
    }

    #[test]
    fn keys_that_never_come_again_do_not_keep_others_from_being_remembered() {
        let table = table(&calls());
        let mut trie = KeyTrie::default();
        let mut matching = Matching::default();
        let mut span = |trie: &mut KeyTrie, keys: &[Vec<u8>]| {
            let mut attributes = SpanAttributes::default();
            trie.begin();
            for key in keys {
                trie.attribute(&table, &mut matching, &mut attributes, key).unwrap();
            }
            trie.at != NONE
        };
        let common = [entry("tool.name"), entry("input.value")];
        for number in 0..3 * MISSED_MAX {
            trie.enter(&table);
            span(&mut trie, &[entry(&format!("odd.{number}"))]);
            assert!(trie.nodes.len() <= NODES_MAX);
        }
        assert!((0..2 * MISSED_MAX).any(|number| {
            trie.enter(&table);
            span(&mut trie, &[entry(&format!("more.{number}"))]);
            span(&mut trie, &common)
        }));
    }

    proptest! {
        #[test]
        fn an_entry_begins_with_a_head_if_all_its_bytes_do(
            head in proptest::collection::vec(0..3_u8, 0..40),
            rest in proptest::collection::vec(0..3_u8, 0..10),
            changed in 0..60_usize,
        ) {
            let entry = [&head[..], &rest].concat();
            prop_assert_eq!(behind(&entry, &head), Some(&rest[..]));
            let mut other = head.clone();
            if let Some(byte) = other.get_mut(changed) {
                *byte += 1;
                prop_assert_eq!(behind(&entry, &other), None);
            }
            prop_assert_eq!(behind(&head[..head.len() / 2], &entry).is_some(), entry.is_empty());
        }
    }
}
