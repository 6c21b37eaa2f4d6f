//! What to retain of a span: worked out once for each sequence of keys and the conditions that
//! hold, and remembered as an entry at the node of the trie where the sequence ends.

use std::cell::OnceCell;

use super::attributes::{RootKey, SpanAttributes};
use super::key_trie::KeyMeaning;
use super::layout::{CONDITIONS, put_header};
use super::tool_messages::{MessageField, MessagePart};
use crate::table::bit_set::BitSet;
use crate::table::{Kept, Matching, Table, names_tools};
use spanscore_base::otlp::any_value::key_value;

/// Most entries that are remembered.
const RETENTIONS_MAX: usize = 1024;
/// Most entries that are remembered for one sequence of keys.
const PER_SEQUENCE_MAX: usize = 8;
const NONE: u32 = u32::MAX;

/// What to retain of spans of certain keys of which certain conditions hold.
#[derive(Default)]
pub(crate) struct Retention {
    bits: BitSet,
    /// Another one for the same keys.
    other: u32,
    /// The stated conditions that hold, as a field of a record's facts.
    pub(crate) conditions: Vec<u8>,
    pub(crate) keep: Kept,
    pub(crate) kind: SpanKind,
    /// The attributes to keep, by their place among those that were read.
    pub(crate) attributes: Vec<KeptAttribute>,
    /// The places of attributes without a slot that are kept, and by the words of which sources
    /// their keys are worded.
    pub(crate) others: Vec<(u32, u32)>,
    /// The places of those that are kept if they hold the body of a request or response, and such
    /// words.
    pub(crate) bodies: Vec<(u32, u32)>,
    /// The places of those that are fields of numbered messages, and whether their keys name
    /// tools.
    pub(crate) indexed: Vec<(u32, bool)>,
    /// The places of those that are kept since their keys end with words that are read, whether
    /// bodies may stand under their keys, and such words.
    pub(crate) worded: Vec<(u32, bool, u32)>,
    /// The places of those that are kept if they belong to a message about tools.
    pub(crate) messages: Vec<MessagePart>,
    /// What the keys of a root span mean, once one was written.
    pub(crate) root: OnceCell<Vec<RootKey>>,
}

/// An attribute to keep.
#[derive(Clone, Copy)]
pub(crate) struct KeptAttribute {
    pub(crate) place: u32,
    pub(crate) slot: u16,
    /// Only if its text speaks of tools.
    pub(crate) tools_only: bool,
}

/// What the conditions that hold say about a span.
#[derive(Clone, Copy, Default)]
pub(crate) struct SpanKind {
    pub(crate) tool: bool,
    pub(crate) agent: bool,
    pub(crate) pending: bool,
    pub(crate) log: bool,
}

/// The entries of the sequences so far.
#[derive(Default)]
pub(crate) struct Retentions {
    known: Vec<Retention>,
    /// That of a span that has fallen off the trie, or that found no room.
    once: Retention,
    /// How many spans found no room for their entry.
    missed: u32,
}

impl Retentions {
    pub(crate) fn is_full(&self) -> bool {
        self.known.len() >= RETENTIONS_MAX
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.missed = 0;
    }

    /// How many spans found no room for their entry: odd ones may have taken that of common ones.
    pub(crate) fn missed(&self) -> u32 {
        self.missed
    }

    /// The entry among those that begin with `first`; a new one becomes the first.
    #[inline]
    pub(crate) fn of(
        &mut self,
        table: &Table,
        matching: &Matching,
        found: &SpanAttributes<'_>,
        first: &mut u32,
    ) -> &Retention {
        // The same keys do not mean the same retention: conditions speak of values, too (a span
        // kind, a status). So an entry is found by the bits of the conditions that hold, among the
        // few that this sequence of keys has had. Forgetting the comparison of bits would read a
        // tool span as the model span that had the same keys before it.
        let mut at = *first;
        for _ in 0..PER_SEQUENCE_MAX {
            match self.known.get(at as usize) {
                Some(retention) if retention.bits == *matching.bits() => {
                    return &self.known[at as usize];
                }
                Some(retention) => at = retention.other,
                None if self.is_full() => break,
                None => {
                    // What came last is looked at first: kinds of spans come in runs.
                    let retention =
                        Retention { other: *first, ..Retention::new(table, matching, found) };
                    *first = self.known.len() as u32;
                    self.known.push(retention);
                    return &self.known[*first as usize];
                }
            }
        }
        // Counted, not refused: the span is read rightly all the same, only without a memo, and
        // many such spans make the trie start anew.
        self.missed = self.missed.saturating_add(1);
        self.once(table, matching, found)
    }

    /// A retention that is not remembered.
    #[cold]
    pub(crate) fn once(
        &mut self,
        table: &Table,
        matching: &Matching,
        found: &SpanAttributes<'_>,
    ) -> &Retention {
        self.once = Retention::new(table, matching, found);
        &self.once
    }
}

impl Retention {
    fn new(table: &Table, matching: &Matching, found: &SpanAttributes<'_>) -> Self {
        let conditions = matching.finish(table);
        let mut retention = Self {
            bits: *matching.bits(),
            other: NONE,
            keep: table.base.clone(),
            ..Self::default()
        };
        let means = || conditions.iter().filter_map(|id| Some((*id, table.compiled(*id)?)));
        let stated = means().filter(|(_, means)| means.stated).count();
        if stated > 0 {
            put_header(&mut retention.conditions, CONDITIONS, 2 * stated);
        }
        for (id, means) in means() {
            retention.keep.extend(&means.keep);
            retention.kind.tool |= means.tool;
            retention.kind.agent |= means.agent;
            retention.kind.pending |= means.pending;
            retention.kind.log |= means.log;
            if means.stated {
                retention.conditions.extend_from_slice(&id.to_le_bytes());
            }
        }
        retention.list(table, found);
        retention
    }

    /// Lists the attributes that are kept.
    fn list(&mut self, table: &Table, found: &SpanAttributes<'_>) {
        let keep = &self.keep;
        let mut messages = Vec::new();
        for (place, (meaning, entry)) in (0..).zip(found.meanings()) {
            match meaning {
                KeyMeaning::Slot(slot) | KeyMeaning::Stated(slot) => {
                    let tools_only = !keep.slots.has(slot);
                    if !tools_only || keep.tools_only.has(slot) {
                        self.attributes.push(KeptAttribute { place, slot, tools_only });
                    } else if keep.worded && is_worded(table, keep, entry) && is_body(table, entry)
                    {
                        self.worded.push((place, true, words(table, entry)));
                    } else if is_worded(table, keep, entry) {
                        let tools_only = !keep.worded;
                        self.attributes.push(KeptAttribute { place, slot, tools_only });
                    } else if is_body(table, entry) {
                        self.bodies.push((place, words(table, entry)));
                    }
                }
                // What says a kind may be a part of what is read, or hold the id of a call.
                KeyMeaning::Behind | KeyMeaning::Kind => {
                    let key = key_value(entry).unwrap_or_default().0;
                    let known = table.prefixes.of(key);
                    let prefixes = known & keep.prefixes;
                    if prefixes & !table.tools_only_prefixes != 0 {
                        self.others.push((place, table.worded.bits(key)));
                    } else if prefixes != 0 {
                        let prefix = prefixes.trailing_zeros() as u16;
                        let field = MessageField::new(prefix, table.prefixes.tail(prefix, key));
                        messages.push((place, field, table.worded.bits(key)));
                    } else if known == 0 && table.indexed.has(key) {
                        self.indexed.push((place, names_tools(key)));
                    } else if keep.worded && table.worded.has(key) {
                        let words = table.worded.bits(key);
                        self.worded.push((place, table.endings.has(key), words));
                    } else if table.endings.has(key) || is_worded(table, keep, entry) {
                        self.bodies.push((place, table.worded.bits(key)));
                    }
                }
                KeyMeaning::Unread => {}
            }
        }
        self.messages = MessagePart::all(&messages);
    }
}

/// By the words of which sources the key of an attribute is worded.
fn words(table: &Table, entry: &[u8]) -> u32 {
    table.worded.bits(key_value(entry).unwrap_or_default().0)
}

/// Whether a key ends with a word that is read of the span at hand.
fn is_worded(table: &Table, keep: &Kept, entry: &[u8]) -> bool {
    (keep.worded || keep.worded_bodies) && table.worded.has(key_value(entry).unwrap_or_default().0)
}

/// Whether bodies may stand under a key that is nobody's own: many instrumentations write `input`
/// or `gen_ai.prompt`, and some dialect reads it of others. Keys of a vendor are left to the
/// dialects that read them: to keep the states of all steps of a graph costs too much.
fn is_body(table: &Table, entry: &[u8]) -> bool {
    let key = key_value(entry).unwrap_or_default().0;
    let is_bare = key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (is_bare || key.starts_with(b"gen_ai.")) && table.endings.has(key)
}
