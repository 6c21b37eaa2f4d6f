//! Table: dialects compiled into one key index and bit tests.
//!
//! Every attribute key in a dialect has a [`KeySlot`]; every statement of a condition is a bit
//! ("the slot is present", "it has this value", "the scope is this"). A condition is a list of
//! alternatives, each with bits that must be set and bits that must not. An alternative is only
//! checked if its rarest bit is set, so that an unknown span only costs its look-ups. Equal
//! conditions of several dialects are one.

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
pub(super) use kind_attribute::{is_kind_key, is_tool_name, names_kind};
pub(super) use matching::{Bound, Matching};
pub(super) use word_match::{SourceWords, WordMatcher};

/// Number of an attribute key in a [`Table`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KeySlot(pub u16);

/// Number of a condition in a [`Table`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConditionId(pub u16);

/// Dialects compiled for reading requests.
#[derive(Debug)]
pub struct Table {
    /// Identity of the table, as caches are valid for one table only.
    pub(super) identity: Arc<()>,
    dialects: Vec<Dialect>,
    conditions: Vec<Condition>,
    compiled: Vec<CompiledCondition>,
    pub(super) keys: KeyIndex,
    /// Bits that each slot may set.
    bound: Vec<Bound>,
    /// Matchers of keys without a slot.
    pub(super) matcher: KeyMatcher,
    /// Slots with attributes that are also retained by key, for sources that match keys.
    pub(super) also_keyed: BitSet,
    /// Prefixes with which only messages about tools are retained, one bit each.
    pub(super) tools_only_prefixes: u64,
    pub(super) events: KeyIndex,
    /// Read attributes of each event name.
    pub(super) event_slots: Vec<BitSet>,
    statements: matching::Statements,
    /// Retained parts of every span.
    pub(super) base: Projection,
    pub(super) root_attributes: bool,
    /// True if every span's parts are needed.
    pub(super) spans: bool,
    /// Slot of the id of a model's response, if needed.
    pub(super) response_id: Option<KeySlot>,
    groups: Vec<Vec<KeySlot>>,
    facts: Facts,
}

/// Compiled condition with its meaning for satisfying spans.
#[derive(Debug, Clone, Default)]
pub(super) struct CompiledCondition {
    /// Marks given by dialects, with the dialect's number, in order of priority.
    pub(super) marks: Vec<(Mark, u16)>,
    /// True for a condition on log events.
    pub(super) log: bool,
    /// True if a dialect states it, so that records include it.
    pub(super) stated: bool,
    /// Retained parts.
    pub(super) keep: Projection,
}

impl CompiledCondition {
    /// Returns true if a dialect gives the mark.
    pub(super) fn is(&self, mark: Mark) -> bool {
        self.marks.iter().any(|(known, _)| *known == mark)
    }
}

/// Retained parts of a span, as sets.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Projection {
    /// Slots of attributes read by sources.
    pub(super) slots: BitSet,
    /// Slots of attributes retained in original form, independent of sources.
    pub(super) as_they_came: BitSet,
    /// Slots of attributes retained if their text mentions tools.
    pub(super) tools_only: BitSet,
    /// Prefixes of keys, one bit each.
    pub(super) prefixes: u64,
    /// Event names, one bit each.
    pub(super) events: u64,
    /// [`SpanPart`]s, one bit each.
    pub(super) parts: u8,
    /// True if attributes with keys that match words ([`WordMatcher`]) are retained.
    pub(super) worded: bool,
    /// True if only those with messages about tools are.
    pub(super) worded_bodies: bool,
}

/// Part of a span other than attributes and events.
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
    /// Compiles dialects. Retains only what `facts` need from their sources, and the attribute
    /// groups and root attributes of `facts`.
    pub fn compile(dialects: Vec<Dialect>, facts: &Facts) -> Result<Self, TableError> {
        lower::lower(dialects, facts)
    }

    /// Returns the dialects in order of priority, stable for equal ones.
    pub fn dialects(&self) -> &[Dialect] {
        &self.dialects
    }

    /// Returns the conditions by their ids.
    pub(super) fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Returns the marks of each condition, with their dialects.
    pub(super) fn marks(&self) -> impl Iterator<Item = &[(Mark, u16)]> {
        self.compiled.iter().map(|compiled| &compiled.marks[..])
    }

    /// Returns the number of attribute keys with a slot.
    pub(super) fn slot_count(&self) -> u16 {
        self.keys.len()
    }

    /// Returns the facts that it was compiled for.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the id of a condition (`detect`, `agent_span`, `on`, ...) in records; `None` if no
    /// dialect states it.
    pub fn condition(&self, condition: &Condition) -> Option<ConditionId> {
        let at = self.conditions.iter().position(|known| known == condition)?;
        Some(ConditionId(at as u16))
    }

    /// Returns the slot of an attribute key; `None` if no dialect names it or no fact needs it.
    pub fn slot(&self, key: &str) -> Option<KeySlot> {
        self.keys.get(key.as_bytes()).map(KeySlot)
    }

    /// Returns the attribute key of a slot.
    pub fn key(&self, slot: KeySlot) -> &str {
        std::str::from_utf8(self.keys.key(slot.0)).unwrap_or("")
    }

    /// Returns for each group of [`Facts::attributes`] the slots of its keys in order: a span
    /// belongs to a group if it has the first one.
    pub fn groups(&self) -> &[Vec<KeySlot>] {
        &self.groups
    }

    /// Returns true if the inputs of models are needed.
    pub(super) fn needs_model_inputs(&self) -> bool {
        self.facts.heard
    }

    /// Returns true if a fact needs the sources of the role.
    pub(super) fn needs(&self, role: Role) -> bool {
        lower::needed(role, &self.facts)
    }

    /// Returns the statements about an attribute.
    #[inline]
    pub(super) fn bound(&self, slot: u16) -> Option<&Bound> {
        self.bound.get(usize::from(slot))
    }

    /// Returns true if a condition reads span kinds from attributes of unknown vendors.
    pub(super) fn reads_vendor_kinds(&self) -> bool {
        self.statements.says.iter().any(Option::is_some)
    }

    #[inline]
    pub(super) fn compiled(&self, condition: u16) -> Option<&CompiledCondition> {
        self.compiled.get(usize::from(condition))
    }
}

#[cfg(test)]
mod tests;
