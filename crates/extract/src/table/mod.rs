//! Dialects compiled into one key look-up and bit tests.
//!
//! Every attribute key that a dialect names has a [`KeySlot`]; every statement of a condition is a
//! bit ("the slot is there", "it has this value", "the scope is this"); a condition is a list of
//! alternatives, each some bits that must be set and some that must not. An alternative is only
//! looked at when its rarest bit is set, so a span that no dialect knows costs its look-ups and
//! nothing more. Equal conditions of several dialects are one.

pub(crate) mod bit_set;
mod compile;
mod condition;
pub(crate) mod key_index;
mod key_match;
mod kind_attribute;
mod lower;
mod matching;
mod word_match;

use std::sync::Arc;

use self::bit_set::BitSet;
use self::key_index::KeyIndex;
use super::dialect::{Condition, Dialect, Mark, Role};
use spanscore_base::model::Facts;

pub use compile::TableError;
pub(super) use key_match::{KeyMatcher, ends_with, names_tools, numbered_prefix};
pub(super) use kind_attribute::{is_kind_key, names_kind};
pub(super) use matching::{Bound, Matching};
pub(super) use word_match::{SourceWords, WordMatcher};

/// The place of an attribute key in a [`Table`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KeySlot(pub u16);

/// The place of a condition in a [`Table`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConditionId(pub u16);

/// Dialects in the form that requests are read with.
#[derive(Debug)]
pub struct Table {
    /// Tells this table from others: what is remembered of requests holds for one only.
    pub(super) identity: Arc<()>,
    dialects: Vec<Dialect>,
    conditions: Vec<Condition>,
    compiled: Vec<CompiledCondition>,
    pub(super) keys: KeyIndex,
    /// For each slot the bits that it may set.
    bound: Vec<Bound>,
    /// Matchers of keys without a slot.
    pub(super) matcher: KeyMatcher,
    /// Slots whose attributes are retained under their keys too, for the sources that match keys.
    pub(super) also_keyed: BitSet,
    /// Prefixes behind which only messages about tools are retained, a bit each.
    pub(super) tools_only_prefixes: u64,
    pub(super) events: KeyIndex,
    /// For each event name the attributes that some source reads.
    pub(super) event_slots: Vec<BitSet>,
    statements: matching::Statements,
    /// Parts that are retained of every span.
    pub(super) base: Projection,
    pub(super) root_attributes: bool,
    /// True if the parts of every span are needed.
    pub(super) spans: bool,
    /// Slot of the id of a model's reply, if it is needed.
    pub(super) response_id: Option<KeySlot>,
    groups: Vec<Vec<KeySlot>>,
    facts: Facts,
}

/// Meaning of a condition for the spans of which it holds.
#[derive(Debug, Clone, Default)]
pub(super) struct CompiledCondition {
    /// Marks that dialects give them, each with the dialect's number, in order of priority.
    pub(super) marks: Vec<(Mark, u16)>,
    /// True if the condition is about log events.
    pub(super) log: bool,
    /// True if a dialect states it, so that records tell whether it holds.
    pub(super) stated: bool,
    /// Retained parts.
    pub(super) keep: Projection,
}

impl CompiledCondition {
    /// Returns true if some dialect gives the mark.
    pub(super) fn is(&self, mark: Mark) -> bool {
        self.marks.iter().any(|(known, _)| *known == mark)
    }
}

/// Parts of a span that are retained, as sets.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Projection {
    /// Slots of attributes that a source reads.
    pub(super) slots: BitSet,
    /// Slots of attributes that are retained as they came, whatever sources read.
    pub(super) as_they_came: BitSet,
    /// Slots of attributes that are retained if their text mentions tools.
    pub(super) tools_only: BitSet,
    /// Prefixes of keys, a bit each.
    pub(super) prefixes: u64,
    /// Event names, a bit each.
    pub(super) events: u64,
    /// [`SpanPart`]s, a bit each.
    pub(super) parts: u8,
    /// True if attributes whose keys match words ([`WordMatcher`]) are retained.
    pub(super) worded: bool,
    /// True if only those of them that hold messages about tools are.
    pub(super) worded_bodies: bool,
}

/// A part of a span beside its attributes and events.
#[derive(Debug, Clone, Copy)]
pub(super) enum SpanPart {
    SpanName = 1,
    StatusMessage = 2,
    LogBody = 4,
}

impl Projection {
    #[inline]
    pub(super) fn extend(&mut self, other: &Self) {
        self.slots.extend(&other.slots);
        self.as_they_came.extend(&other.as_they_came);
        self.tools_only.extend(&other.tools_only);
        self.prefixes |= other.prefixes;
        self.events |= other.events;
        self.parts |= other.parts;
        self.worded |= other.worded;
        self.worded_bodies |= other.worded_bodies;
    }

    #[inline]
    pub(super) fn has(&self, part: SpanPart) -> bool {
        self.parts & part as u8 != 0
    }
}

impl Table {
    /// Compiles dialects. Of what their sources name only what `facts` ask for is kept, and the
    /// attribute groups and root attributes of `facts`.
    pub fn compile(dialects: Vec<Dialect>, facts: &Facts) -> Result<Self, TableError> {
        lower::lower(dialects, facts)
    }

    /// The dialects in order of priority; of equal ones in the order given.
    pub fn dialects(&self) -> &[Dialect] {
        &self.dialects
    }

    /// The conditions, by their ids.
    pub(super) fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Returns for each condition its marks, with the dialects that give them.
    pub(super) fn marks(&self) -> impl Iterator<Item = &[(Mark, u16)]> {
        self.compiled.iter().map(|compiled| &compiled.marks[..])
    }

    /// Returns the number of attribute keys with a slot.
    pub(super) fn slot_count(&self) -> u16 {
        self.keys.len()
    }

    /// The facts that it was compiled for.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The id by which records tell that a condition (`detect`, `agent_span`, `on`, ...) holds;
    /// `None` for conditions that no dialect states.
    pub fn condition(&self, condition: &Condition) -> Option<ConditionId> {
        let at = self.conditions.iter().position(|known| known == condition)?;
        Some(ConditionId(at as u16))
    }

    /// The slot of an attribute key; `None` if no dialect names it or no fact needs it.
    pub fn slot(&self, key: &str) -> Option<KeySlot> {
        self.keys.get(key.as_bytes()).map(KeySlot)
    }

    /// The attribute key of a slot.
    pub fn key(&self, slot: KeySlot) -> &str {
        std::str::from_utf8(self.keys.key(slot.0)).unwrap_or("")
    }

    /// For each group of [`Facts::attributes`] the slots of its keys, in order: a span belongs to a
    /// group if it has the first of them.
    pub fn groups(&self) -> &[Vec<KeySlot>] {
        &self.groups
    }

    /// Returns true if the texts that models were given are needed.
    pub(super) fn hears(&self) -> bool {
        self.facts.heard
    }

    /// Returns true if some fact needs the sources of the role.
    pub(super) fn needs(&self, role: Role) -> bool {
        lower::needed(role, &self.facts)
    }

    /// The statements about an attribute.
    #[inline]
    pub(super) fn bound(&self, slot: u16) -> Option<&Bound> {
        self.bound.get(usize::from(slot))
    }

    /// Returns true if some condition reads the kind of a span from attributes of unknown vendors.
    pub(super) fn hears_kinds(&self) -> bool {
        self.statements.says.iter().any(Option::is_some)
    }

    #[inline]
    pub(super) fn compiled(&self, condition: u16) -> Option<&CompiledCondition> {
        self.compiled.get(usize::from(condition))
    }
}

#[cfg(test)]
mod tests;
