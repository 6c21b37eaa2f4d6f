//! Record shapes: the sources that apply to a record, cached by the set of conditions that hold for
//! it. The spans of an instrumentation are of few kinds.

use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::HashMap;

use super::super::dialect::Role;
use super::plan::{CALL_ROLES, FactPlace, PlannedSource, ReadingPlan};
use crate::record::layout::FactsReader;
use crate::table::KeySlot;

/// Most cached shapes. The next one clears the cache, so that odd spans cannot fill the place of
/// common ones.
const KEPT_MAX: usize = 512;

/// Sources and marks of the records for which certain conditions hold.
#[derive(Debug, Default)]
pub(super) struct RecordShape {
    /// Dialects that detect a tool call in such a record, in order of priority.
    pub(super) dialects: Vec<u16>,
    /// True if the record hands over to another agent.
    pub(super) handoff: bool,
    /// True if the record is a model call.
    pub(super) model: bool,
    /// True if the record announces a span.
    pub(super) pending: bool,
    /// Sources that read anything but an attribute, without those of tool calls, with the
    /// [kinds](super::plan::FactPlace::kinds) of facts that they read.
    by_other: Vec<(u16, u16)>,
    /// Union of these kinds.
    other_kinds: u16,
    /// Bounds in `sources_of` by slot: of the sources that read that attribute, without those of
    /// tool calls.
    places: Vec<u16>,
    sources_of: Vec<u16>,
    /// Sources of the parts of a tool call, in the order in which they are tried.
    call: [Vec<u16>; CALL_ROLES.len()],
}

impl RecordShape {
    fn new(plan: &ReadingPlan, facts: FactsReader<'_>) -> Self {
        let mut shape = Self::default();
        for meaning in facts.conditions().filter_map(|id| plan.meaning_of(id)) {
            shape.dialects.extend_from_slice(&meaning.tool);
            shape.handoff |= meaning.handoff;
            shape.model |= meaning.model;
            shape.pending |= meaning.pending;
        }
        shape.dialects.sort_unstable();
        let applies = |number: &&u16| {
            let source: Option<&PlannedSource> = plan.sources.get(usize::from(**number));
            source.is_some_and(|source| source.applies(facts))
        };
        for number in plan.by_other.iter().filter(applies) {
            let Some(source) = plan.sources.get(usize::from(*number)) else { continue };
            shape.by_other.push((*number, source.read.kinds()));
            shape.other_kinds |= source.read.kinds();
        }
        // All lists end to end with their bounds, not a `Vec` for each slot: most slots have no
        // source that applies here, and an empty `Vec` for each would be most of a shape.
        shape.places.push(0);
        for sources in &plan.by_slot {
            shape.sources_of.extend(sources.iter().filter(applies));
            shape.places.push(shape.sources_of.len() as u16);
        }
        for (role, sources) in CALL_ROLES.into_iter().zip(&mut shape.call) {
            let of = |dialect: &u16| plan.call_sources(*dialect, role).iter().filter(applies);
            *sources = shape.dialects.iter().flat_map(of).copied().collect();
            // Only the first dialect, which knows the span best, reads the status: it may be copied
            // from another span.
            let first = shape.dialects.first().copied();
            sources.retain(|number| {
                plan.sources.get(usize::from(*number)).is_none_or(|source| {
                    !matches!(source.read, FactPlace::Status) || Some(source.dialect) == first
                })
            });
        }
        shape
    }

    /// Yields the sources, without those of tool calls, that may find anything among facts of these
    /// kinds beside attributes.
    #[inline]
    pub(super) fn by_other(&self, kinds: u16) -> impl Iterator<Item = u16> {
        // Most records have attributes alone: one test of bits for all sources in place of one
        // each.
        let any = if self.other_kinds & kinds == 0 { &[] } else { &self.by_other[..] };
        any.iter().filter(move |(_, read)| read & kinds != 0).map(|(number, _)| *number)
    }

    /// Returns the sources that read the attribute of that slot, without those of tool calls.
    #[inline]
    pub(super) fn by_slot(&self, slot: KeySlot) -> &[u16] {
        let at = usize::from(slot.0);
        match (self.places.get(at), self.places.get(at + 1)) {
            (Some(from), Some(to)) => {
                self.sources_of.get(usize::from(*from)..usize::from(*to)).unwrap_or(&[])
            }
            _ => &[],
        }
    }

    /// Returns the sources for a part of a tool call, in the order in which they are tried.
    pub(super) fn call(&self, role: Role) -> &[u16] {
        let at = CALL_ROLES.iter().position(|known| *known == role);
        at.map_or(&[], |at| &self.call[at])
    }
}

/// Cache of record shapes by their encoded conditions, shared by all shards.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: RwLock<HashMap<Box<[u8]>, Arc<RecordShape>>>,
}

impl Shapes {
    /// Returns the shape of a record.
    pub(super) fn of(&self, plan: &ReadingPlan, facts: FactsReader<'_>) -> Arc<RecordShape> {
        let conditions = facts.encoded_conditions();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(shape) = known.get(conditions) {
            return Arc::clone(shape);
        }
        drop(known);
        let shape = Arc::new(RecordShape::new(plan, facts));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT_MAX {
            known.clear();
        }
        known.insert(conditions.into(), Arc::clone(&shape));
        shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::layout::{CONDITIONS, put};

    #[test]
    fn odd_records_do_not_fill_the_place_of_common_ones() {
        let plan = ReadingPlan::default();
        let shapes = Shapes::default();
        let shape = |condition: u16| {
            let mut facts = Vec::new();
            put(&mut facts, CONDITIONS, &condition.to_le_bytes());
            shapes.of(&plan, FactsReader::new(&facts))
        };
        for odd in 0..3000 {
            shape(odd);
            assert!(shapes.known.read().unwrap().len() <= KEPT_MAX);
        }
        assert!(Arc::ptr_eq(&shape(5000), &shape(5000)));
    }
}
