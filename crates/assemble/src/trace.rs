//! One open or remembered trace.

pub(super) mod lendable;
mod limit;
mod places;
mod remembered;

use std::ops::Range;
use std::sync::Arc;

use smart_default::SmartDefault;

pub use limit::TraceLimit;
pub(super) use limit::{LeftOut, TraceLimits};

use lendable::LendableSpans;
use places::PlaceIndex;
use remembered::RememberedResults;

use super::completion_policy::RootEnd;
use super::tally::SpanTally;
use spanscore_base::model::{
    Completion, Resource, RunState, SpanBatch, SpanFlags, SpanRecord, TraceSpans, fingerprint,
};

/// Limit on scanned spans and scanned resources of a trace; beyond it they are indexed.
const SCAN_MAX: usize = 48;

/// Inverse of the growth after which an open trace is checked again.
const LOOK_SHARE: usize = 16;

/// State of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// Collecting spans.
    #[default]
    Open,
    /// Judged at this time, milliseconds; late spans reopen it.
    Judged(u64),
    /// Judged at this time because it exceeded a limit; later records are dropped.
    Closed(u64),
}

/// Outcome of adding a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Added {
    /// The record is new, or a later state of an open span.
    New,
    /// The trace already has the record, or a later state of it.
    Duplicate,
    /// The record was left out by a limit of the trace.
    LeftOut,
    /// The trace has a record of that span with other content; one of them was dropped.
    Conflict {
        /// True if the evidence for the judgement changed.
        is_news: bool,
    },
}

/// Part of a trace counted by its shard.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct CountedTrace {
    /// Bytes held for it alone.
    pub(super) bytes: usize,
    /// Number of its first resources.
    pub(super) resources: usize,
}

/// Trace with the times and flags for its judgement.
#[derive(SmartDefault)]
pub(super) struct OpenTrace {
    /// Its records.
    pub(super) spans: LendableSpans,
    /// State of the trace.
    pub(super) state: State,
    /// True while it waits for judgement.
    #[default = true]
    pub(super) is_open: bool,
    /// Arrival of the first record, milliseconds.
    pub(super) first_ms: u64,
    /// Arrival of the last record, milliseconds.
    pub(super) last_ms: u64,
    /// True if it holds an ended root span.
    pub(super) root_ended: bool,
    /// True if it holds a tool, agent or model span.
    pub(super) is_agent: bool,
    /// Counts of its spans, without log events.
    pub(super) tally: SpanTally,
    /// Hash of the spans, independent of their order; includes the id if `is_apart`.
    pub(super) digest: u128,
    /// True if its evaluation ids must differ from those of equal evidence in another group.
    pub(super) is_apart: bool,
    /// Number of its judgements.
    judged_count: u32,
    /// Digest of the last judgement.
    judged_digest: u128,
    /// Records left out by a limit.
    pub(super) left_out: Option<LeftOut>,
    /// Its sent evaluations.
    pub(super) remembered: RememberedResults,
    /// Steps charged to it.
    pub(super) steps: ChargedSteps,
    /// Part counted by its shard.
    pub(super) counted: CountedTrace,
    /// Bytes counted as held for a judged trace; 0 while it is open.
    pub(super) remembered_bytes: usize,
    /// Bytes of all its resources, which other traces may share.
    pub(super) resource_bytes: usize,
    /// Its size at the last check while open.
    looked_at: usize,
    /// Arrival of the end of the root.
    pub(super) root_end: Option<RootEnd>,
    /// Wait for missing parts, milliseconds; 0 without one.
    pub(super) wait_ms: u64,
    /// True if parts are certainly missing at its judgement.
    pub(super) is_partial: bool,
    /// True if it counts among those judged without root and parents.
    pub(super) lacked_parents: bool,
    /// True if earlier records of it were evicted.
    pub(super) was_forgotten: bool,
    /// True if some of its records lack facts that are now read.
    pub(super) lacks_facts: bool,
    /// The earliest armed deadline, milliseconds.
    #[default(u64::MAX)]
    pub(super) armed_ms: u64,
    /// Index of records and resources, once there are many.
    places: PlaceIndex,
}

const _: () = assert!(size_of::<OpenTrace>() <= 336, "very many are open at once");

impl OpenTrace {
    pub(super) fn new(spans: TraceSpans, now_ms: u64) -> Self {
        Self {
            spans: LendableSpans::Own(spans),
            first_ms: now_ms,
            last_ms: now_ms,
            ..Self::default()
        }
    }

    /// Returns true if parts are certainly missing at its judgement.
    pub(super) fn is_partial_at(&self, completion: Completion) -> bool {
        if self.lacks_facts || self.was_forgotten {
            return true;
        }
        match completion {
            Completion::RootEnded
            | Completion::Idle
            | Completion::AgeMax
            | Completion::EndOfInput => match self.spans.run_state() {
                Some(RunState::Waiting) => true,
                Some(RunState::Finished) if !self.root_ended => false,
                _ => self.is_partial,
            },
            // The rest arrives when the process is back, at another process, or finds no room.
            Completion::Shutdown | Completion::Evicted => !self.root_ended,
            _ => false,
        }
    }

    /// Returns the bytes of its facts and its resources.
    pub(super) fn kept_bytes(&self) -> usize {
        self.spans.arena.len() + self.resource_bytes
    }

    /// Returns the bytes held for it, without its resources.
    pub(super) fn bytes(&self) -> usize {
        self.spans.bytes() + self.spans.copied() + self.places.bytes() + self.remembered.bytes()
    }

    /// Returns the number of its judgements and the digest of the last; `None` before the first.
    pub(super) fn judged(&self) -> Option<(u32, u128)> {
        (self.judged_count > 0).then_some((self.judged_count, self.judged_digest))
    }

    /// Sets the number of its judgements and the digest of the last.
    pub(super) fn set_judged(&mut self, judged: Option<(u32, u128)>) {
        (self.judged_count, self.judged_digest) = judged.unwrap_or_default();
    }

    /// Returns the time of the last judgement, milliseconds; `None` while it is open.
    pub(super) fn judged_since(&self) -> Option<u64> {
        match self.state {
            State::Open => None,
            State::Judged(since_ms) | State::Closed(since_ms) => Some(since_ms),
        }
    }

    /// Adds a record with its facts and resource, within the limits.
    pub(super) fn add(
        &mut self,
        record: &SpanRecord,
        facts: &[u8],
        resource: &Arc<Resource>,
        limits: TraceLimits,
    ) -> Added {
        let Some(index) = self.find(record, facts) else {
            if let Some(left_out) = self.leave_out(true, facts.len(), limits) {
                return left_out;
            }
            self.push(record, facts, resource);
            self.note(record);
            return Added::New;
        };
        if record.flags.has(SpanFlags::LOG) {
            return Added::Duplicate;
        }
        // The flags of both records count, in any order.
        self.note_flags(record.flags);
        let old = &self.spans.spans[index];
        let old_resource = self.spans.resources.get(old.resource as usize);
        let old_resource = old_resource.map_or(&[][..], |resource| &resource.encoded);
        let order =
            (record.precedence(), &resource.encoded[..]).cmp(&(old.precedence(), old_resource));
        let has_ended = |record: &SpanRecord| record.flags.has(SpanFlags::ENDED);
        let is_conflict = has_ended(old) == has_ended(record);
        if order.is_eq() || (order.is_lt() && !is_conflict) {
            return Added::Duplicate;
        }
        if order.is_gt()
            && let Some(left_out) = self.leave_out(false, facts.len(), limits)
        {
            return left_out;
        }
        let before = self.digest;
        self.digest = self.digest.wrapping_sub(self.evidence(index));
        if order.is_gt() {
            self.replace(index, record, facts, resource);
        }
        if is_conflict {
            self.spans.spans[index].flags.set(SpanFlags::CONFLICT);
        }
        self.digest = self.digest.wrapping_add(self.evidence(index));
        if is_conflict {
            Added::Conflict { is_news: order.is_gt() || self.digest != before }
        } else {
            Added::New
        }
    }

    /// Returns the contribution of the record at `index` to the digest. After a conflict it
    /// includes the content, since the evidence differs from that without a conflict.
    fn evidence(&self, index: usize) -> u128 {
        let record = &self.spans.spans[index];
        if !record.flags.has(SpanFlags::CONFLICT) {
            return hash(record);
        }
        let resource = self.spans.resources.get(record.resource as usize);
        let resource = resource.map_or(0, |resource| fingerprint(&resource.encoded));
        let content = mix(u64::from(record.content) << 32 | u64::from(resource));
        let id = u64::from_be_bytes(record.span_id.0);
        hash(record).wrapping_add(u128::from(content) << 64 | u128::from(mix(content ^ id)))
    }

    /// Counts a record with this many bytes of facts as left out, if a limit excludes it.
    fn leave_out(&mut self, is_new: bool, bytes: usize, limits: TraceLimits) -> Option<Added> {
        let limit = self.limit_met(is_new, bytes, limits)?;
        let left_out = self.left_out.get_or_insert(LeftOut { limit, count: 0 });
        left_out.count += 1;
        Some(Added::LeftOut)
    }

    /// Returns the limit that excludes a record with this many bytes of facts; for a closed trace
    /// the one that closed it.
    fn limit_met(&self, is_new: bool, bytes: usize, limits: TraceLimits) -> Option<TraceLimit> {
        if let Some(left_out) = self.left_out {
            Some(left_out.limit)
        } else if is_new && self.spans.spans.len() >= limits.spans_max {
            Some(TraceLimit::Spans)
        } else {
            let is_full = self.kept_bytes() + bytes > limits.bytes_max;
            is_full.then_some(TraceLimit::Bytes)
        }
    }

    /// Adds a batch's records with one copy of their facts, if all are new and few, as in most
    /// requests; otherwise adds none and returns false.
    pub(super) fn add_all(&mut self, run: &[SpanRecord], batch: &SpanBatch) -> bool {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return true };
        let facts = batch.arena.get(first.facts.start as usize..last.facts.end as usize);
        let known = self.spans.spans.len();
        let Some(facts) = facts.filter(|_| known + run.len() <= SCAN_MAX) else { return false };
        let moved = (self.spans.arena.len() as u32).wrapping_sub(first.facts.start);
        let mut last_place = None;
        for record in run {
            let is_known = self.spans.spans.iter().any(|old| old.span_id == record.span_id);
            let resource = batch.resources.get(record.resource as usize);
            let (false, false, Some(resource)) =
                (is_known, record.flags.has(SpanFlags::LOG), resource)
            else {
                self.spans.spans.truncate(known);
                return false;
            };
            let place = match last_place {
                Some((last, place)) if last == record.resource => place,
                _ => self.place_of(resource),
            };
            last_place = Some((record.resource, place));
            self.spans.spans.push(record.clone());
            if let Some(stored) = self.spans.spans.last_mut() {
                let Range { start, end } = record.facts;
                stored.facts = start.wrapping_add(moved)..end.wrapping_add(moved);
                stored.resource = place;
            }
        }
        self.spans.arena.extend_from_slice(facts);
        run.iter().for_each(|record| self.note(record));
        true
    }

    /// Updates digest, counts and flags of the trace after a new record.
    fn note(&mut self, record: &SpanRecord) {
        self.digest = self.digest.wrapping_add(hash(record));
        self.tally.taken += u32::from(!record.flags.has(SpanFlags::LOG));
        self.note_flags(record.flags);
    }

    fn note_flags(&mut self, flags: SpanFlags) {
        self.root_ended |= flags.has(SpanFlags::ROOT | SpanFlags::ENDED);
        self.is_agent |= flags.has(SpanFlags::TOOL) || flags.has(SpanFlags::AGENT);
    }

    /// Returns the index of the record that this one repeats, if any.
    fn find(&mut self, record: &SpanRecord, facts: &[u8]) -> Option<usize> {
        if self.spans.spans.len() <= SCAN_MAX {
            return self.spans.spans.iter().position(|old| self.is_same(old, record, facts));
        }
        let spans = &self.spans;
        let all = || spans.spans.iter().map(|old| key(old, spans.facts(old))).zip(0..).collect();
        let place = *self.places.records(all).get(&key(record, facts))? as usize;
        self.is_same(self.spans.spans.get(place)?, record, facts).then_some(place)
    }

    /// Returns true if both are one span, by id, or one log event, by content.
    fn is_same(&self, old: &SpanRecord, record: &SpanRecord, facts: &[u8]) -> bool {
        let is_log = record.flags.has(SpanFlags::LOG);
        old.span_id == record.span_id
            && old.flags.has(SpanFlags::LOG) == is_log
            && (!is_log || old.start_ns == record.start_ns && self.spans.facts(old) == facts)
    }

    fn push(&mut self, record: &SpanRecord, facts: &[u8], resource: &Arc<Resource>) {
        let index = self.spans.spans.len();
        self.places.add_record(|| key(record, facts), index as u32);
        self.spans.spans.push(record.clone());
        self.store(index, facts, resource);
    }

    fn replace(
        &mut self,
        index: usize,
        record: &SpanRecord,
        facts: &[u8],
        resource: &Arc<Resource>,
    ) {
        self.spans.spans[index] = record.clone();
        self.store(index, facts, resource);
    }

    /// Stores the facts and the resource of a record that is already in place. Creating the record
    /// after the copy of its facts would stall on the stores of that copy.
    fn store(&mut self, index: usize, facts: &[u8], resource: &Arc<Resource>) {
        let start = self.spans.arena.len() as u32;
        self.spans.arena.extend_from_slice(facts);
        let end = self.spans.arena.len() as u32;
        let place = self.place_of(resource);
        let record = &mut self.spans.spans[index];
        record.facts = start..end;
        record.resource = place;
    }

    /// Returns the index of a resource in the trace; adds the resource if it is new.
    fn place_of(&mut self, resource: &Arc<Resource>) -> u32 {
        let resources = &mut self.spans.resources;
        // Addresses are unique, since the trace keeps its resources alive.
        let address = |resource: &Arc<Resource>| Arc::as_ptr(resource).addr();
        let known = if resources.len() <= SCAN_MAX {
            resources.iter().position(|known| Arc::ptr_eq(known, resource)).map(|at| at as u32)
        } else {
            let all = || resources.iter().map(address).zip(0..).collect();
            self.places.resources(all).get(&address(resource)).copied()
        };
        known.unwrap_or_else(|| {
            let place = resources.len() as u32;
            resources.push(Arc::clone(resource));
            self.resource_bytes += resource.bytes();
            self.places.add_resource(address(resource), place);
            place
        })
    }

    /// Returns true if an agent is running in a trace that was never judged.
    pub(super) fn is_running(&self) -> bool {
        self.state == State::Open && self.is_agent && !self.root_ended && self.judged().is_none()
    }

    /// Returns true if the trace has grown enough since the last such growth. A long trace must
    /// grow by a share of its size, so that all checks cost as much as a fixed number of checks of
    /// the whole.
    pub(super) fn has_grown(&mut self) -> bool {
        let size = self.spans.spans.len() + self.spans.arena.len();
        let has_grown = size > self.looked_at + self.looked_at / LOOK_SHARE;
        if has_grown {
            self.looked_at = size;
        }
        has_grown
    }

    /// Returns the wait of a judgement with a first wait of `first_ms`, with exponential back-off.
    /// Each further revision waits twice as long as its predecessor, so that a trickle of late
    /// spans causes only a few judgements.
    fn revision_wait(&self, first_ms: u64, settings: &super::TracesSettings) -> u64 {
        let revisions = self.judged().map_or(0, |(count, _)| count.saturating_sub(1)).min(32);
        let longest = settings.revision_wait_max.as_ms().max(first_ms);
        first_ms.saturating_mul(1 << revisions).min(longest)
    }

    /// Returns the completion time without further records, and the cause.
    pub(super) fn deadline(&self, settings: &super::TracesSettings) -> (u64, Completion) {
        let age = (self.first_ms.saturating_add(settings.age_max.as_ms()), Completion::AgeMax);
        let (first_ms, why) = if self.root_ended {
            (settings.quiet_period.whole_ms(), Completion::RootEnded)
        } else {
            (settings.idle_timeout.as_ms(), Completion::Idle)
        };
        let wait_ms = self.revision_wait(first_ms, settings).max(self.wait_ms);
        let rest = (self.last_ms.saturating_add(wait_ms), why);
        // A reopened trace was complete before: its age no longer counts.
        if self.judged().is_none() && age.0 < rest.0 { age } else { rest }
    }
}

/// Steps charged to a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChargedSteps {
    /// Steps of its judgements.
    pub judged: u64,
    /// Steps of early verdicts.
    pub early: u64,
}

/// Mixes the bits of a number (the finaliser of splitmix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the key of a record within one trace.
fn key(record: &SpanRecord, facts: &[u8]) -> u64 {
    let id = u64::from_be_bytes(record.span_id.0);
    if !record.flags.has(SpanFlags::LOG) {
        return id;
    }
    let words = facts.chunks(8).map(|chunk| {
        chunk.iter().fold(chunk.len() as u64, |word, byte| word << 8 | u64::from(*byte))
    });
    words.fold(mix(id ^ record.start_ns), |hash, word| mix(hash ^ word))
}

/// Hashes the evidence of a span: its id, its times and its error status.
fn hash(record: &SpanRecord) -> u128 {
    let id = u64::from_be_bytes(record.span_id.0);
    let failed = u64::from(record.flags.has(SpanFlags::ERROR));
    let a = mix(id ^ mix(record.start_ns ^ 0x9e37_79b9_7f4a_7c15));
    let b = mix(a ^ mix(record.end_ns.rotate_left(1) ^ failed ^ 0xc2b2_ae3d_27d4_eb4f));
    u128::from(a.wrapping_add(b)) << 64 | u128::from(mix(b ^ id))
}

#[cfg(test)]
mod tests;
