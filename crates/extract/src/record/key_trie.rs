//! Trie of the sequences of attribute keys of spans, kept between requests.
//!
//! Spans of an instrumentation repeat the same keys in the same order. The meaning of a key, and of
//! all keys of a span together, is computed when the sequence first occurs; from then on a key
//! costs one comparison. An unexpected key is inserted. If there is no room, the span leaves the
//! trie and is read more slowly.

use std::sync::Arc;

use super::attributes::SpanAttributes;
use super::retention::{Retention, Retentions};
use crate::table::bit_set::BitSet;
use crate::table::{Bound, Matching, Table, is_kind_key};
use spanscore_base::otlp::any_value::key_value;
use spanscore_base::otlp::wire::{Fields, Malformed, leading_bytes};

/// Limit on the nodes.
const NODES_MAX: usize = 4096;
/// Limit on the attributes of a span with a stored sequence of keys.
const DEPTH_MAX: u16 = 256;
/// Longest stored key, bytes with tag and length: a sender's keys may be as long as its requests,
/// and stored ones outlive these.
const HEAD_BYTES_MAX: usize = 256;
/// Limit on the stored successors of a sequence.
const NEXT_MAX: usize = 8;
/// Number of spans without room after which the trie is cleared, so that rare spans cannot occupy
/// the place of common ones.
const MISSED_MAX: u32 = 1024;

/// Marks no node.
const NONE: u32 = u32::MAX;
/// Root of the trie.
const START: u32 = 0;

/// Meaning of a key for a [`Table`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyMeaning {
    /// Unread, or repeated.
    Unread,
    /// Key with a slot.
    Slot(u16),
    /// Key with a slot and statements about its value.
    Stated(u16),
    /// Key that a source matches by prefix or word.
    Behind,
    /// Key without a slot that may state the span's kind.
    Kind,
}

impl KeyMeaning {
    fn of(table: &Table, key: &[u8]) -> Self {
        if let Some(slot) = table.keys.get(key) {
            let is_stated = table.bound(slot).is_some_and(Bound::states_value);
            return if is_stated { Self::Stated(slot) } else { Self::Slot(slot) };
        }
        if table.reads_vendor_kinds() && is_kind_key(key) {
            Self::Kind
        } else if table.matcher.has(key) {
            Self::Behind
        } else {
            Self::Unread
        }
    }
}

/// Trie of the key sequences so far.
#[derive(Default)]
pub(crate) struct KeyTrie {
    /// Identity of its table.
    table: Arc<()>,
    nodes: Vec<TrieNode>,
    /// Heads of the nodes, concatenated.
    heads: Vec<u8>,
    /// For each node the statements satisfied by the presence of its keys.
    present: Vec<BitSet>,
    retentions: Retentions,
    missed: u32,
    /// Node of the current span; [`NONE`] once it has left the trie.
    at: u32,
    /// First of the possible next nodes.
    next: u32,
    off_trie: OffTrie,
}

/// Keys of a span that has left the trie.
#[derive(Default)]
struct OffTrie {
    /// Slots of the keys.
    slots: BitSet,
    /// Statements satisfied by their presence.
    present: BitSet,
}

/// Key after those of its ancestors.
struct TrieNode {
    /// Range of its head: the start of an encoded `KeyValue` up to the key.
    head: (u32, u32),
    meaning: KeyMeaning,
    depth: u16,
    /// First child.
    next: u32,
    /// Next sibling.
    other: u32,
    /// First retention entry of spans that end here.
    retention: u32,
}

impl KeyTrie {
    /// Starts a request.
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
        // Cleared only as a whole and between requests: nodes refer to each other by number, and so
        // does the state of a span, so that a single one cannot be removed. It costs the spans of
        // one request a look-up per key.
        self.table = Arc::clone(&table.identity);
        self.nodes.clear();
        self.heads.clear();
        self.present.clear();
        self.retentions.clear();
        self.missed = 0;
        self.add(TrieNode::new((0, 0), KeyMeaning::Unread, 0), BitSet::default());
    }

    /// Starts a span.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.at = START;
        self.next = self.nodes.get(START as usize).map_or(NONE, |node| node.next);
    }

    /// Reads an encoded attribute; what may be read goes to `attributes`.
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

    /// Descends one step; returns the key's meaning and the rest of the entry.
    #[inline(always)]
    fn follow<'a>(&mut self, entry: &'a [u8]) -> Option<(KeyMeaning, &'a [u8])> {
        // A list of siblings instead of a map: the order of keys is nearly always fixed, so the
        // first sibling matches, and a hash would cost more than the comparison that must follow
        // it. [`NEXT_MAX`] bounds the list.
        let mut at = self.next;
        loop {
            let node = self.nodes.get(at as usize)?;
            let (from, to) = node.head;
            let head = self.heads.get(from as usize..to as usize)?;
            // The head includes tag and length, so that a key with another as its prefix never
            // matches: its length differs. This saves decoding both before the comparison.
            if let Some(rest) = behind(entry, head) {
                (self.at, self.next) = (at, node.next);
                return Some((node.meaning, rest));
            }
            at = node.other;
        }
    }

    /// Reads an unexpected key, and inserts it if there is room.
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
                // Keys are unique; if a sender repeats one, the first counts.
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

    /// Adds a child to the current node; not without room, or if the key is not where encoders
    /// write it.
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
        // The newest sibling comes first: after a change of keys, a sender is likelier to repeat
        // the new ones.
        node.other = std::mem::replace(&mut before.next, new);
        self.add(node, present);
        (self.at, self.next) = (new, NONE);
        true
    }

    /// Leaves the trie at this key, or continues without it.
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

    /// Returns the number of stored children.
    fn next_count(&self) -> usize {
        let first = self.nodes.get(self.at as usize).map_or(NONE, |node| node.next);
        let node = |at: u32| self.nodes.get(at as usize);
        std::iter::successors(node(first), |last| node(last.other)).count()
    }

    /// Returns the statements satisfied by the current span's keys.
    fn present(&self) -> BitSet {
        self.present.get(self.at as usize).copied().unwrap_or(self.off_trie.present)
    }

    /// Returns the retention of the current span after its last attribute.
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

/// Records an attribute that may be read: its key's meaning, its encoded value, and its entry.
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

/// Checks the first level of an encoded value; deeper levels are checked when read. Returns the
/// bytes of a plain text.
#[inline]
pub(crate) fn check(value: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    if let Some((text, [])) = leading_bytes(value, 1) {
        return Ok(Some(text));
    }
    let mut fields = Fields::new(value);
    while fields.next()?.is_some() {}
    Ok(None)
}

/// Returns the rest of an entry after a head. Heads are short and usually match, so comparing them
/// inline is cheaper than a call.
#[inline(always)]
fn behind<'a>(entry: &'a [u8], head: &[u8]) -> Option<&'a [u8]> {
    // Words of eight bytes, the last one overlapping: `==` on slices of unknown length calls
    // `memcmp`, while heads have 15 to 40 bytes.
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
