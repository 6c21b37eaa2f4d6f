//! Record forms: the sources that can find anything on a record, cached by the record's
//! [`Signature`].
//!
//! The spans of an instrumentation repeat not only their [`RecordShape`] but also their attributes.
//! Most sources name attributes that a record does not have; its form lists those that it has.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::super::dialect::Role;
use super::plan::{CALL_ROLES, FactPlace, PlannedSource, ReadingPlan};
use super::shape::{RecordShape, Shapes};
use crate::record::layout::FactsReader;
use crate::table::KeySlot;
use crate::table::bit_set::BitSet;

/// Most cached forms. The next one clears the cache, so that odd spans cannot fill the place of
/// common ones.
const KEPT_MAX: usize = 512;

/// Most attributes of a form that is cached.
const KEPT_SLOTS_MAX: usize = 1024;

/// Forms that are searched before the hash table is asked: so many recent ones, and as many of the
/// trace.
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
    /// Bits of the sources whose words stand in keys of attributes without a slot.
    pub(super) words: u32,
    /// Slots of its attributes, in order.
    pub(super) slots: &'a [KeySlot],
}

/// Sources to be read on all records of one signature.
#[derive(Debug)]
pub(super) struct RecordForm {
    /// Shape of the records: the meaning of their conditions.
    pub(super) shape: Arc<RecordShape>,
    /// Sources that read an attribute, each behind the index of that attribute, in order of the
    /// indices; without those of tool calls.
    pub(super) by_attribute: Vec<(u16, u16)>,
    /// Other sources that may find anything, without those of tool calls.
    pub(super) by_other: Vec<u16>,
    /// Sources of the parts of a tool call that may find anything.
    call: [Vec<Candidate>; CALL_ROLES.len()],
    /// Number of words that all of these look for in keys.
    word_count: usize,
    conditions: Box<[u8]>,
    kinds: u16,
    words: u32,
    slots: Box<[KeySlot]>,
}

/// Source that may find something on a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) source: u16,
    /// Index of the attribute that it reads; `None` if it reads anything else.
    pub(super) place: Option<u16>,
}

impl RecordForm {
    fn new(plan: &ReadingPlan, shape: Arc<RecordShape>, signature: Signature<'_>) -> Self {
        let Signature { conditions, kinds, words, slots } = signature;
        // The built-in dialects have hundreds of sources, and a span holds what a few of them read.
        // The set of these depends on the slots alone, not on their values: so it is worked out
        // once for all records of a signature, and a record is read by walking its attributes.
        let mut by_attribute = Vec::new();
        let mut held = BitSet::default();
        for (place, slot) in (0..).zip(slots) {
            held.insert(slot.0);
            by_attribute.extend(shape.by_slot(*slot).iter().map(|source| (place, *source)));
        }
        let candidate = |number: &u16| {
            let place = match &plan.sources.get(usize::from(*number))?.read {
                FactPlace::Attr(slot) if held.has(slot.0) => {
                    Some(slots.iter().position(|other| other == slot)? as u16)
                }
                FactPlace::Attr(_) => return None,
                FactPlace::Object(any) if !any.iter().any(|slot| held.has(slot.0)) => return None,
                // On arrival each attribute without a slot got a bit for each source whose words
                // its key holds: without the bit a search of the keys would be in vain.
                FactPlace::Worded((_, bit), any)
                    if bit & words == 0 && !any.iter().any(|(slot, _)| held.has(slot.0)) =>
                {
                    return None;
                }
                read if read.kinds() & kinds == 0 => return None,
                _ => None,
            };
            Some(Candidate { source: *number, place })
        };
        let call: [Vec<Candidate>; CALL_ROLES.len()] =
            CALL_ROLES.map(|role| shape.call(role).iter().filter_map(candidate).collect());
        let by_other = shape.by_other(kinds).filter(|number| candidate(number).is_some());
        let by_other: Vec<u16> = by_other.collect();
        let word_count = |number: u16| match plan.sources.get(usize::from(number)) {
            Some(PlannedSource { read: FactPlace::Worded(..), source, .. }) => {
                source.key.split('|').count()
            }
            _ => 0,
        };
        let of_calls = call.iter().flatten().map(|candidate| candidate.source);
        Self {
            word_count: by_other.iter().copied().chain(of_calls).map(word_count).sum(),
            by_attribute,
            by_other,
            call,
            conditions: conditions.into(),
            kinds,
            words,
            slots: slots.into(),
            shape,
        }
    }

    #[inline]
    fn signature(&self) -> Signature<'_> {
        let Self { conditions, kinds, words, slots, .. } = self;
        Signature { conditions, kinds: *kinds, words: *words, slots }
    }

    /// Returns the number of attributes of the records.
    #[inline]
    pub(super) fn attribute_count(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of words that the sources of all facts look for in the keys of a record.
    #[inline]
    pub(super) fn word_count(&self) -> usize {
        self.word_count
    }

    /// Returns the sources for a part of a tool call that may find anything, in the order in which
    /// they are tried.
    #[inline]
    pub(super) fn call(&self, role: Role) -> &[Candidate] {
        let at = CALL_ROLES.iter().position(|known| *known == role);
        at.map_or(&[], |at| &self.call[at])
    }
}

/// Cache of record forms, shared by all shards, with their shapes.
#[derive(Debug, Default)]
pub(super) struct RecordForms {
    pub(super) shapes: Shapes,
    hasher: DefaultHashBuilder,
    known: RwLock<HashTable<Arc<RecordForm>>>,
    /// Forms that recent traces had: each trace starts with them.
    recent: RwLock<Arc<Vec<Arc<RecordForm>>>>,
    /// Number of misses of the recent forms.
    missed: AtomicUsize,
}

impl RecordForms {
    fn recent(&self) -> Arc<Vec<Arc<RecordForm>>> {
        Arc::clone(&self.recent.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a miss; the first few of each cycle enter the recent forms.
    fn miss(&self, form: &Arc<RecordForm>) {
        // Relaxed: a count that two shards race for changes which forms are tried first, never what
        // is read. One miss in eight changes the list, so a trace of odd spans cannot push out all
        // of the common ones, and the lock is seldom taken for writing.
        let at = self.missed.fetch_add(1, Ordering::Relaxed) % MISSED_MAX;
        if at >= NEAR_MAX {
            return;
        }
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        if recent.iter().any(|known| Arc::ptr_eq(known, form)) {
            return;
        }
        let recent = Arc::make_mut(&mut recent);
        match recent.get_mut(at) {
            Some(place) => *place = Arc::clone(form),
            None => recent.push(Arc::clone(form)),
        }
    }

    fn of(
        &self,
        plan: &ReadingPlan,
        facts: FactsReader<'_>,
        signature: Signature<'_>,
    ) -> Arc<RecordForm> {
        let hash = self.hasher.hash_one(signature);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(form) = known.find(hash, |form| form.signature() == signature) {
            return Arc::clone(form);
        }
        // Built outside of the lock: two shards may build the same form, and then one of the two
        // equal ones stays. Holding it would let one sender's odd spans hold up all shards.
        drop(known);
        let form = Arc::new(RecordForm::new(plan, self.shapes.of(plan, facts), signature));
        if form.slots.len() > KEPT_SLOTS_MAX {
            return form;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // Cleared whole: forms are worked out again within one trace, and an order of age would
        // have to be kept up on every hit.
        if known.len() >= KEPT_MAX {
            known.clear();
        }
        let hash_of = |form: &Arc<RecordForm>| self.hasher.hash_one(form.signature());
        known.insert_unique(hash, Arc::clone(&form), hash_of);
        form
    }
}

/// Forms of one trace, numbered.
pub(super) struct TraceForms<'a> {
    plan: &'a ReadingPlan,
    forms: &'a RecordForms,
    /// Snapshot of the recent forms; they have the first numbers.
    recent: Arc<Vec<Arc<RecordForm>>>,
    found: Vec<Arc<RecordForm>>,
    /// Index of `found` beyond the first [`NEAR_MAX`], which are searched.
    far: HashTable<u32>,
    /// True if any record announces a span.
    pub(super) announce: bool,
}

impl<'a> TraceForms<'a> {
    pub(super) fn new(plan: &'a ReadingPlan, forms: &'a RecordForms) -> Self {
        let recent = forms.recent();
        let found = Vec::new();
        let far = HashTable::new();
        Self { plan, forms, recent, found, far, announce: false }
    }

    /// Returns the number of a record's form.
    #[inline]
    pub(super) fn number(&mut self, facts: FactsReader<'a>, signature: Signature<'_>) -> u32 {
        let mut near = self.recent.iter().chain(self.found.iter().take(NEAR_MAX));
        let number = match near.position(|form| form.signature() == signature) {
            Some(at) => at as u32,
            None => self.recent.len() as u32 + self.add(facts, signature),
        };
        self.announce |= self.get(number).shape.pending;
        number
    }

    fn add(&mut self, facts: FactsReader<'a>, signature: Signature<'_>) -> u32 {
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
        let form = self.forms.of(self.plan, facts, signature);
        self.forms.miss(&form);
        self.found.push(form);
        place
    }

    /// Returns the form of that number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &RecordForm {
        let at = number as usize;
        self.recent.get(at).unwrap_or_else(|| &self.found[at - self.recent.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::layout::{ATTRIBUTE, CONDITIONS, kind, put};

    #[test]
    fn odd_records_do_not_fill_the_place_of_common_ones() {
        let plan = ReadingPlan::default();
        let forms = RecordForms::default();
        let form = |condition: u16, slot: u16| {
            let condition = condition.to_le_bytes();
            let mut facts = Vec::new();
            put(&mut facts, CONDITIONS, &condition);
            let kinds = kind(ATTRIBUTE);
            let slots = &[KeySlot(slot)];
            let signature = Signature { conditions: &condition, kinds, words: 0, slots };
            forms.of(&plan, FactsReader::new(&facts), signature)
        };
        for odd in 0..3000 {
            form(odd, odd % 7);
            assert!(forms.known.read().unwrap().len() <= KEPT_MAX);
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
                let number = trace.number(FactsReader::new(&[]), signature);
                assert_eq!(trace.get(number).slots[..], slots[..], "round {round}");
            }
        }
    }
}
