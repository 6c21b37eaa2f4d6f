//! Cache of the relevant sources for a record, by its conditions and attributes: an
//! instrumentation's spans repeat both, and most sources read keys that a record does not have.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;

use super::super::dialect::{Mark, Role};
use super::plan::{FactPlace, PlannedSource, ReadingPlan};
use crate::record::layout;
use crate::table::KeySlot;
use crate::table::bit_set::BitSet;

/// Limit on cached forms. The next one clears the cache, so that rare spans cannot occupy the place
/// of common ones.
const KEPT_MAX: usize = 512;

/// Limit on the attributes of a cached form.
const KEPT_SLOTS_MAX: usize = 1024;

/// Limit on forms searched linearly before the hash table: this many recent ones, and as many of
/// the trace.
const NEAR_MAX: usize = 8;

/// Cycle of misses of the recent forms: the first [`NEAR_MAX`] misses of each cycle replace a
/// recent form.
const MISSED_MAX: usize = 64;

/// Cache key of a record's form.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Signature<'a> {
    /// Encoded conditions.
    pub(super) conditions: &'a [u8],
    /// The [kinds](crate::record::layout::kind) of its facts.
    pub(super) kinds: u16,
    /// Sources with a word matched by the key of an attribute without a slot.
    pub(super) words: u32,
    /// Slots of its attributes, in order.
    pub(super) slots: &'a [KeySlot],
}

/// Sources relevant for all records of one signature.
#[derive(Debug)]
pub(super) struct RecordForm {
    /// Dialects that read such a record as a tool call, by priority.
    pub(super) dialects: Vec<u16>,
    /// The first of them tells a call by the names of keys only.
    pub(super) doubtful: bool,
    /// The record hands over to another agent.
    pub(super) handoff: bool,
    /// The record is a model call.
    pub(super) model: bool,
    /// The record announces a span.
    pub(super) pending: bool,
    /// The record is an evaluation of the run.
    pub(super) evaluator: bool,
    /// Sources of all facts except tool calls that read an attribute, each after the attribute's
    /// index, sorted by index.
    pub(super) by_attribute: Vec<(u16, u16)>,
    /// Other relevant sources, except those of tool calls.
    pub(super) by_other: Vec<u16>,
    /// Relevant sources for the parts of a tool call.
    call: [Vec<Candidate>; Role::CALL.len()],
    /// Number of words that all of these search in keys.
    word_count: usize,
    encoded_conditions: Box<[u8]>,
    kinds: u16,
    words: u32,
    slots: Box<[KeySlot]>,
}

/// Relevant source for a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) source: u16,
    /// Index of the attribute that it reads; `None` if it reads something else.
    pub(super) place: Option<u16>,
}

impl RecordForm {
    fn new(plan: &ReadingPlan, signature: Signature<'_>) -> Self {
        let conditions = layout::condition_set(signature.conditions);
        let has = |mark| plan.dialects_of(mark, &conditions).next().is_some();
        let dialects = plan.tool_dialects(&conditions);
        let by_first = |mark| {
            let mut marking = plan.dialects_of(mark, &conditions);
            marking.any(|dialect| dialects.first() == Some(&dialect))
        };
        let doubtful = by_first(Mark::Doubtful);
        // The built-in dialects have hundreds of sources, of which a span needs a few. The relevant
        // ones depend on the slots only, not on values, so they are computed once per signature,
        // and a record is read by walking its own attributes.
        let filter = CandidateFilter::new(plan, &signature);
        let applies = |number: &&u16| {
            let source: Option<&PlannedSource> = plan.sources.get(usize::from(**number));
            source.is_some_and(|source| source.applies(&conditions))
        };
        let mut by_attribute = Vec::new();
        for (place, slot) in (0..).zip(signature.slots) {
            let sources = plan.by_slot.get(usize::from(slot.0)).into_iter().flatten();
            by_attribute.extend(sources.filter(applies).map(|source| (place, *source)));
        }
        let by_other = plan.by_other.iter().filter(applies).copied();
        let by_other: Vec<u16> = by_other.filter(|it| filter.candidate(*it).is_some()).collect();
        let call = Role::CALL.map(|role| {
            let sources = plan.sources_of_call(role, &dialects, &conditions);
            sources.filter_map(|number| filter.candidate(number)).collect::<Vec<_>>()
        });
        let of_calls = call.iter().flatten().map(|candidate| candidate.source);
        let word_count = |number: u16| match plan.sources.get(usize::from(number)) {
            Some(PlannedSource { read: FactPlace::WordMatch(..), source, .. }) => {
                source.key.split('|').count()
            }
            _ => 0,
        };
        Self {
            handoff: has(Mark::Handoff),
            model: has(Mark::Model),
            pending: has(Mark::Pending),
            evaluator: has(Mark::Evaluator),
            word_count: by_other.iter().copied().chain(of_calls).map(word_count).sum(),
            dialects,
            doubtful,
            by_attribute,
            by_other,
            call,
            encoded_conditions: signature.conditions.into(),
            kinds: signature.kinds,
            words: signature.words,
            slots: signature.slots.into(),
        }
    }

    #[inline]
    fn signature(&self) -> Signature<'_> {
        let Self { encoded_conditions: conditions, kinds, words, slots, .. } = self;
        Signature { conditions, kinds: *kinds, words: *words, slots }
    }

    /// Returns the number of attributes of the records.
    #[inline]
    pub(super) fn attribute_count(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of words that the sources of all facts search in a record's keys.
    #[inline]
    pub(super) fn word_count(&self) -> usize {
        self.word_count
    }

    /// Returns the relevant sources for a part of a tool call by precedence.
    #[inline]
    pub(super) fn call(&self, role: Role) -> &[Candidate] {
        role.call_place().map_or(&[], |at| &self.call[at])
    }
}

/// Filter of the sources relevant for the records of a signature.
struct CandidateFilter<'s> {
    plan: &'s ReadingPlan,
    signature: &'s Signature<'s>,
    slots: BitSet,
}

impl<'s> CandidateFilter<'s> {
    fn new(plan: &'s ReadingPlan, signature: &'s Signature<'s>) -> Self {
        let mut slots = BitSet::default();
        signature.slots.iter().for_each(|slot| slots.insert(slot.0));
        Self { plan, signature, slots }
    }

    /// Returns a source with the place that it reads; `None` if it is irrelevant.
    fn candidate(&self, number: u16) -> Option<Candidate> {
        let Signature { kinds, words, slots, .. } = *self.signature;
        let has = |slot: &KeySlot| self.slots.has(slot.0);
        let mut place = None;
        let is_there = match &self.plan.sources.get(usize::from(number))?.read {
            FactPlace::Attr(slot) => {
                place = slots.iter().position(|other| other == slot).map(|at| at as u16);
                place.is_some()
            }
            FactPlace::Object(any) => any.iter().any(has),
            FactPlace::WordMatch(source, any) => {
                source.bit & words != 0 || any.iter().any(|(slot, _)| has(slot))
            }
            read => read.kinds() & kinds != 0,
        };
        is_there.then_some(Candidate { source: number, place })
    }
}

/// Forms of all records so far.
#[derive(Debug, Default)]
pub(super) struct RecordForms {
    hasher: DefaultHashBuilder,
    known: RwLock<HashTable<Arc<RecordForm>>>,
    /// Forms of recent traces, with which each trace starts.
    recent: RwLock<Arc<Vec<Arc<RecordForm>>>>,
    /// Number of misses of the recent forms.
    missed: AtomicUsize,
}

impl RecordForms {
    fn recent(&self) -> Arc<Vec<Arc<RecordForm>>> {
        Arc::clone(&self.recent.read())
    }

    /// Counts a miss; the first few of each cycle enter the recent forms.
    fn miss(&self, form: &Arc<RecordForm>) {
        // Relaxed: a race of two shards changes which forms are tried first, never the result. One
        // miss in eight changes the list, so that a trace of rare spans cannot replace all common
        // forms, and the lock is rarely taken for writing.
        let at = self.missed.fetch_add(1, Ordering::Relaxed) % MISSED_MAX;
        if at >= NEAR_MAX {
            return;
        }
        let mut recent = self.recent.write();
        if recent.iter().any(|known| Arc::ptr_eq(known, form)) {
            return;
        }
        let recent = Arc::make_mut(&mut recent);
        match recent.get_mut(at) {
            Some(place) => *place = Arc::clone(form),
            None => recent.push(Arc::clone(form)),
        }
    }

    fn of(&self, plan: &ReadingPlan, signature: Signature<'_>) -> Arc<RecordForm> {
        let hash = self.hasher.hash_one(signature);
        let known = self.known.read();
        if let Some(form) = known.find(hash, |form| form.signature() == signature) {
            return Arc::clone(form);
        }
        // Built outside of the lock: two shards may build equal forms, of which one stays. Holding
        // it would let one sender's rare spans block all shards.
        drop(known);
        let form = Arc::new(RecordForm::new(plan, signature));
        if form.slots.len() > KEPT_SLOTS_MAX {
            return form;
        }
        let mut known = self.known.write();
        // Cleared as a whole: forms are rebuilt within one trace, and an order by age would cost on
        // every hit.
        if known.len() >= KEPT_MAX {
            known.clear();
        }
        let hash_of = |form: &Arc<RecordForm>| self.hasher.hash_one(form.signature());
        known.insert_unique(hash, Arc::clone(&form), hash_of);
        form
    }
}

/// Numbered forms of one trace.
pub(super) struct TraceForms<'a> {
    plan: &'a ReadingPlan,
    forms: &'a RecordForms,
    /// Snapshot of the recent forms; they have the first numbers.
    recent: Arc<Vec<Arc<RecordForm>>>,
    found: Vec<Arc<RecordForm>>,
    /// Index of `found` beyond the first [`NEAR_MAX`], which are searched linearly.
    far: HashTable<u32>,
    /// True if any record announces a span.
    pub(super) announce: bool,
    /// True if any record is an evaluation of the run.
    pub(super) evaluates: bool,
}

impl<'a> TraceForms<'a> {
    pub(super) fn new(plan: &'a ReadingPlan, forms: &'a RecordForms) -> Self {
        let recent = forms.recent();
        let found = Vec::new();
        let far = HashTable::new();
        Self { plan, forms, recent, found, far, announce: false, evaluates: false }
    }

    /// Returns the number of a record's form.
    #[inline]
    pub(super) fn number(&mut self, signature: Signature<'_>) -> u32 {
        let mut near = self.recent.iter().chain(self.found.iter().take(NEAR_MAX));
        let number = match near.position(|form| form.signature() == signature) {
            Some(at) => at as u32,
            None => self.recent.len() as u32 + self.add(signature),
        };
        self.announce |= self.get(number).pending;
        self.evaluates |= self.get(number).evaluator;
        number
    }

    fn add(&mut self, signature: Signature<'_>) -> u32 {
        let place = self.found.len() as u32;
        if self.found.len() >= NEAR_MAX {
            let hasher = &self.forms.hasher;
            let found = &self.found;
            let hash = hasher.hash_one(signature);
            let is_it = |at: &u32| found[*at as usize].signature() == signature;
            if let Some(known) = self.far.find(hash, is_it) {
                return *known;
            }
            let hash_of = |at: &u32| hasher.hash_one(found[*at as usize].signature());
            self.far.insert_unique(hash, place, hash_of);
        }
        let form = self.forms.of(self.plan, signature);
        self.forms.miss(&form);
        self.found.push(form);
        place
    }

    /// Returns the form with a number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &RecordForm {
        let at = number as usize;
        self.recent.get(at).unwrap_or_else(|| &self.found[at - self.recent.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::layout::{ATTRIBUTE, kind};

    #[test]
    fn odd_records_do_not_fill_the_place_of_common_ones() {
        let plan = ReadingPlan::default();
        let forms = RecordForms::default();
        let form = |condition: u16, slot: u16| {
            let condition = condition.to_le_bytes();
            let kinds = kind(ATTRIBUTE);
            let slots = &[KeySlot(slot)];
            let signature = Signature { conditions: &condition, kinds, words: 0, slots };
            forms.of(&plan, signature)
        };
        for odd in 0..3000 {
            form(odd, odd % 7);
            assert!(forms.known.read().len() <= KEPT_MAX);
        }
        assert!(Arc::ptr_eq(&form(5000, 1), &form(5000, 1)));
        assert!(!Arc::ptr_eq(&form(5000, 1), &form(5000, 2)));
    }

    #[test]
    fn a_trace_of_many_forms_gives_each_its_number() {
        let plan = ReadingPlan::default();
        let forms = RecordForms::default();
        for round in 0..2 {
            let mut trace = TraceForms::new(&plan, &forms);
            for slot in 0..100 {
                let slots = &[KeySlot(slot)];
                let signature = Signature { conditions: &[], kinds: 0, words: 0, slots };
                let number = trace.number(signature);
                assert_eq!(trace.get(number).slots[..], slots[..], "round {round}");
            }
        }
    }
}
