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
mod ending;
mod indexed;
mod keep;
pub(crate) mod key_index;
mod lower;
mod matching;
mod prefix;
mod spoken;
mod worded;

use std::sync::Arc;

use self::bit_set::BitSet;
use self::key_index::KeyIndex;
use super::dialect::{Condition, Dialect, Role};
use spanscore_base::model::Facts;

pub use compile::TableError;
pub(super) use ending::{Endings, ends_with};
pub(super) use indexed::{Indexed, indexed_by};
pub(super) use keep::{Kept, SpanPart};
pub(super) use lower::names_tools;
pub(super) use matching::{Bound, Matching};
pub(super) use prefix::Prefixes;
pub(super) use spoken::{may_say_kind, names_kind};
pub(super) use worded::{SourceWords, Worded, WordedKey};

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
    pub(super) prefixes: Prefixes,
    /// Those of the prefixes behind which only messages about tools are kept, a bit each.
    pub(super) tools_only_prefixes: u64,
    /// The keys under which bodies of requests and responses may stand.
    pub(super) endings: Endings,
    /// The words behind which messages may be numbered.
    pub(super) indexed: Indexed,
    /// The words of keys that are read of spans that say what they are.
    pub(super) worded: Worded,
    pub(super) events: KeyIndex,
    /// For each event name the attributes that some source reads.
    pub(super) event_slots: Vec<BitSet>,
    statements: matching::Statements,
    /// What is kept of every span.
    pub(super) base: Kept,
    pub(super) root_attributes: bool,
    /// Where the id of a model's reply stands, if it is asked for.
    pub(super) response_id: Option<KeySlot>,
    groups: Vec<Vec<KeySlot>>,
    facts: Facts,
}

/// What a condition means for the spans that it holds for.
#[derive(Debug, Clone, Default)]
pub(super) struct CompiledCondition {
    /// They are tool calls.
    pub(super) tool: bool,
    /// They are no tool calls, whatever else holds.
    pub(super) exclude: bool,
    /// They are spans of agents or models.
    pub(super) agent: bool,
    /// They come again when they have ended.
    pub(super) pending: bool,
    /// The condition speaks of log events.
    pub(super) log: bool,
    /// A dialect states it, so that records tell whether it holds.
    pub(super) stated: bool,
    /// What is kept of them.
    pub(super) keep: Kept,
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

    /// How many attribute keys have a slot.
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

    /// Whether some fact needs what sources of the role read.
    pub(super) fn needs(&self, role: Role) -> bool {
        lower::needed(role, &self.facts)
    }

    /// The statements about an attribute.
    #[inline]
    pub(super) fn bound(&self, slot: u16) -> Option<&Bound> {
        self.bound.get(usize::from(slot))
    }

    /// Whether any condition asks what spans say that they are.
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
