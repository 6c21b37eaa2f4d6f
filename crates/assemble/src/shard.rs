//! Shard: open and remembered traces, owned by one thread.
//!
//! A shard owns its traces exclusively, without locks. Its driver adds batches, judges due traces
//! and reports each with [`Shard::done`]. The trace is then remembered until `remember_period` is
//! over or room is needed.

mod counts;
mod eviction;
mod forgotten_traces;
mod grouped;
mod judging;
mod memory;
mod partitions;
mod reform;
mod restore;
mod results;
mod running;
mod ticking;
mod waiting;

use std::collections::VecDeque;

pub use counts::{ShardCounts, SpanCounts};
pub use eviction::CutTrace;
pub use partitions::OldestTrace;
pub use restore::{PriorTrace, PriorVerdict};

use hashbrown::HashMap;

use forgotten_traces::ForgottenTraces;
use grouped::GroupedIds;
use memory::HeldResources;
use restore::Restoring;

use super::completion_policy::CompletionPolicy;
use super::shares::{Shares, TraceClass};
use super::trace::{Added, ChargedSteps, OpenTrace, State, TraceLimits};
use super::wheel::{TICK_MS, Wheel};
use super::{LimitsSettings, TracesSettings};
use spanscore_base::model::{
    Completion, Sender, SpanBatch, SpanFlags, SpanRecord, TraceId, TraceSpans,
};

/// Handle of a trace in a shard (generational index), unique even when its slot is reused. While a
/// shard forgets nothing, handles are in the order of their traces' first spans.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// Trace due for judgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// Handle of the trace.
    pub handle: Handle,
    /// Cause that completed it.
    pub completion: Completion,
    /// Number of its earlier judgements.
    pub revision: u32,
    /// Hash of its spans, independent of their order.
    pub digest: [u8; 16],
    /// Digest of the previous judgement, if any.
    pub revised: Option<[u8; 16]>,
    /// True if parts are certainly missing after the wait for them.
    pub is_partial: bool,
    /// True if an earlier process judged the same spans and delivered the evaluations: none is sent
    /// again.
    pub is_silent: bool,
}

/// Running trace, a candidate for early verdicts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunningTrace {
    /// Handle of the trace.
    pub handle: Handle,
    /// Hash of its spans, independent of their order.
    pub digest: [u8; 16],
}

struct TraceSlot {
    generation: u32,
    trace: Option<Box<OpenTrace>>,
}

/// Traces by id, with the timers and queues for their judgement and removal.
#[derive(Default)]
pub struct Shard {
    traces: TracesSettings,
    limits: ShardLimits,
    by_id: HashMap<TraceId, u32>,
    places: Vec<TraceSlot>,
    free: Vec<u32>,
    wheel: Wheel<Handle>,
    /// Open traces, oldest first; stale entries are skipped.
    opened: VecDeque<Handle>,
    /// Judgement times, milliseconds, oldest first; stale entries are skipped.
    judged: VecDeque<(u64, Handle)>,
    bytes: usize,
    /// Resources of all traces; `bytes` excludes theirs.
    resources: HeldResources,
    /// Holders of the limits, for eviction.
    shares: Shares,
    /// Ids, as sent, of traces of groups.
    grouped: GroupedIds,
    /// Judged, forgotten traces, so that later parts revise them.
    forgotten_traces: ForgottenTraces,
    /// Part of `bytes` for judged traces.
    remembered_bytes: usize,
    open_count: usize,
    /// Spans without a final outcome.
    open_spans: usize,
    counts: ShardCounts,
    /// Traces with new records in this request, since rules apply after it.
    touched: Vec<Handle>,
    /// Traces whose deadline has passed, to be checked.
    fired: VecDeque<Handle>,
    /// Completion policy, learnt from senders.
    completion_policy: CompletionPolicy,
    /// Traces that have grown since the last call; `None` while unused.
    watched: Option<Vec<Handle>>,
    /// Recovery state: verdicts of an earlier process, while its records are read again.
    restoring: Option<Restoring>,
    /// Traces dropped without an agent span since the last call; `None` likewise.
    ignored: Option<Vec<(TraceId, Sender)>>,
}

/// One shard's part of the limits.
#[derive(Clone, Copy, Default)]
struct ShardLimits {
    trace_count_max: usize,
    judged_count_max: usize,
    trace: TraceLimits,
    bytes_max: usize,
    remembered_bytes_max: usize,
}

impl ShardLimits {
    /// Returns one of `shard_count` parts of the limits.
    fn of(limits: LimitsSettings, shard_count: usize) -> Self {
        let mib = |mib: u32| (mib as usize) << 20;
        let part =
            |bytes: usize| (bytes / shard_count - bytes / shard_count / ALLOCATOR_PART).max(1);
        Self {
            trace_count_max: (limits.open_traces_max as usize / shard_count).max(1),
            judged_count_max: (limits.judged_traces_max as usize / shard_count).max(1),
            trace: TraceLimits {
                spans_max: limits.spans_per_trace_max as usize,
                // Facts have 32-bit addresses.
                bytes_max: mib(limits.trace_mib_max).min(u32::MAX as usize),
            },
            bytes_max: part(limits.traces_bytes()),
            remembered_bytes_max: part(limits.remembered_bytes()),
        }
    }
}

/// Bytes of a trace in the tables and queues of a shard: its id and slot number at 7/16 to 7/8
/// occupancy (about 32 bytes), its slot, its entries among open, touched and its holder's traces,
/// and one or two deadlines, in vectors that double.
const TABLES_BYTES: usize = 160;
/// Bytes of a trace without its spans, with its entries in tables and queues.
const TRACE_BYTES: usize = size_of::<OpenTrace>() + TABLES_BYTES;

/// Inverse of the allocator's share of the memory, since it rounds sizes up.
const ALLOCATOR_PART: usize = 9;

impl Shard {
    /// Returns a shard with one of `shard_count` parts of the limits.
    pub fn new(
        traces: TracesSettings,
        limits: LimitsSettings,
        shard_count: usize,
        now_ms: u64,
    ) -> Self {
        let limits = ShardLimits::of(limits, shard_count);
        Self {
            traces,
            forgotten_traces: ForgottenTraces::new(limits.judged_count_max, limits.bytes_max),
            limits,
            wheel: Wheel::new(now_ms),
            ..Self::default()
        }
    }

    /// Adds the batch of one request; pushes traces made due by a limit.
    pub fn add(&mut self, batch: &SpanBatch, now_ms: u64, due: &mut Vec<Due>) {
        for (trace_id, run) in batch.by_trace() {
            if self.is_forgotten(trace_id, batch) {
                continue;
            }
            let handle = self.handle_of(trace_id, run, batch, now_ms);
            self.reserve(handle, run);
            let evidence = self.evidence(handle);
            if !self.add_run(handle, run, batch, now_ms) {
                for record in run {
                    self.add_record(handle, record, batch, now_ms);
                }
            }
            // A restart need not read a repeated record, unless the first one's partition is gone:
            // then this one replaces it.
            let is_news = self.evidence(handle) != evidence;
            if let Some(trace) = self.get_mut(handle) {
                let claims = &mut trace.spans.claims;
                if is_news || claims.is_empty() || claims.has_retired() {
                    claims.join(batch.claims_of(trace_id));
                }
            }
            self.recount(handle);
        }
        self.apply_rules(now_ms, due);
        self.make_room(now_ms, due);
    }

    fn handle_at(&self, index: u32) -> Handle {
        Handle { index, generation: self.places[index as usize].generation }
    }

    /// Returns the handle of a trace; opens one for these records if it is new.
    fn handle_of(
        &mut self,
        trace_id: TraceId,
        run: &[SpanRecord],
        batch: &SpanBatch,
        now_ms: u64,
    ) -> Handle {
        let key = batch.sender.group.key(trace_id);
        // Topic records are always apart: another process may hold the other group's trace.
        let is_topic = batch.sender.is_topic();
        if let Some(&index) = self.by_id.get(&key) {
            let handle = self.handle_at(index);
            if let Some(trace) = self.get_mut(handle).filter(|_| is_topic) {
                trace.set_apart();
            }
            return handle;
        }
        let spans = TraceSpans::of(batch.sender, trace_id);
        let mut trace = Box::new(OpenTrace::new(spans, now_ms));
        let is_everybodys = self.by_id.contains_key(&trace_id);
        if self.grouped.join(&trace.spans, is_everybodys) || is_topic {
            trace.set_apart();
        }
        if let Some(judged) = self.forgotten_traces.take(key, now_ms) {
            trace.set_judged(Some(judged));
            trace.was_forgotten = true;
            trace.lacked_parents = true;
        }
        let trace = Some(trace);
        let index = match self.free.pop() {
            Some(index) => {
                self.places[index as usize].trace = trace;
                index
            }
            None => {
                self.places.push(TraceSlot { generation: 0, trace });
                self.places.len() as u32 - 1
            }
        };
        let handle = self.handle_at(index);
        self.by_id.insert(key, index);
        self.opened.push_back(handle);
        let resource = run.first().and_then(|record| batch.resources.get(record.resource as usize));
        let service = resource.map_or("", |resource| &resource.service_name);
        self.shares.join(index, batch.sender, service);
        self.bytes += TRACE_BYTES;
        self.open_count += 1;
        handle
    }

    /// Reserves room for records, within the limits of a trace.
    fn reserve(&mut self, handle: Handle, run: &[SpanRecord]) {
        let limits = self.limits.trace;
        let Some(trace) = self.get_mut(handle).filter(|trace| trace.left_out.is_none()) else {
            return;
        };
        let bytes: usize = run.iter().map(|record| record.facts.len()).sum();
        let spans_left = limits.spans_max.saturating_sub(trace.spans.spans.len());
        let bytes_left = limits.bytes_max.saturating_sub(trace.kept_bytes());
        trace.spans.reserve(run.len().min(spans_left), bytes.min(bytes_left));
    }

    /// Adds all of a batch's records of a trace at once, if no limit or known record prevents it;
    /// otherwise adds none.
    fn add_run(
        &mut self,
        handle: Handle,
        run: &[SpanRecord],
        batch: &SpanBatch,
        now_ms: u64,
    ) -> bool {
        let limits = self.limits.trace;
        let Some(trace) = self.get_mut(handle) else { return true };
        let bytes: usize = run.iter().map(|record| record.facts.len()).sum();
        let is_open = !matches!(trace.state, State::Closed(_));
        let fits = trace.spans.spans.len() + run.len() <= limits.spans_max
            && trace.kept_bytes() + bytes <= limits.bytes_max;
        if !is_open || !fits || !trace.add_all(run, batch) {
            return false;
        }
        self.open_spans += run.len();
        self.grown(handle, now_ms);
        true
    }

    fn add_record(&mut self, handle: Handle, record: &SpanRecord, batch: &SpanBatch, now_ms: u64) {
        let Some(trace) = self.places[handle.index as usize].trace.as_mut() else { return };
        let facts = record.facts.start as usize..record.facts.end as usize;
        let facts = batch.arena.get(facts).unwrap_or(&[]);
        let Some(resource) = batch.resources.get(record.resource as usize) else { return };
        let before = trace.tally.taken;
        let added = trace.add(record, facts, resource, self.limits.trace);
        let is_taken = trace.tally.taken > before;
        self.open_spans += usize::from(is_taken);
        self.counts.added(added, is_taken, record.flags.has(SpanFlags::LOG));
        match added {
            Added::New | Added::Conflict { is_news: true } => self.grown(handle, now_ms),
            Added::LeftOut => {
                match trace.state {
                    State::Open => {
                        trace.state = State::Closed(now_ms);
                        self.touched.push(handle);
                    }
                    // It was judged with everything that the limit allows.
                    State::Judged(since_ms) => trace.state = State::Closed(since_ms),
                    State::Closed(_) => {}
                }
            }
            Added::Duplicate | Added::Conflict { is_news: false } => {}
        }
    }

    /// Marks a trace as grown; reopens a judged one.
    fn grown(&mut self, handle: Handle, now_ms: u64) {
        let Some(trace) = self.places[handle.index as usize].trace.as_mut() else { return };
        trace.last_ms = now_ms;
        if let State::Judged(_) = trace.state {
            trace.state = State::Open;
            self.remembered_bytes -= std::mem::take(&mut trace.remembered_bytes);
            trace.is_open = true;
            self.shares.put(handle.index, class_of(trace));
            self.counts.reopened += 1;
            self.open_count += 1;
            self.opened.push_back(handle);
        }
        if self.touched.last() != Some(&handle) {
            self.touched.push(handle);
        }
    }

    /// Arms the deadlines of the traces touched by the last request.
    fn apply_rules(&mut self, now_ms: u64, due: &mut Vec<Due>) {
        let mut touched = std::mem::take(&mut self.touched);
        for handle in touched.drain(..) {
            self.note_arrival(handle, now_ms);
            let Some(trace) = self.get_mut(handle) else { continue };
            if let State::Closed(_) = trace.state {
                if trace.is_open {
                    self.counts.evicted_by_size += 1;
                    self.judge(handle, Completion::Evicted, now_ms, due);
                }
                continue;
            }
            self.arm(handle);
            self.watch(handle);
        }
        self.touched = touched;
    }

    /// Returns the steps charged to a trace so far.
    pub fn steps(&self, handle: Handle) -> ChargedSteps {
        self.get(handle).map_or_else(ChargedSteps::default, |trace| trace.steps)
    }

    /// Charges steps to a trace.
    pub fn charge_steps(&mut self, handle: Handle, steps: ChargedSteps) {
        if let Some(trace) = self.get_mut(handle) {
            trace.steps.judged = trace.steps.judged.saturating_add(steps.judged);
            trace.steps.early = trace.steps.early.saturating_add(steps.early);
        }
    }

    fn arm(&mut self, handle: Handle) {
        let traces = self.traces;
        let Some(trace) = self.get_mut(handle) else { return };
        let (deadline, _) = trace.deadline(&traces);
        // A later deadline is found when the armed one fires.
        if deadline.saturating_add(TICK_MS) < trace.armed_ms {
            trace.armed_ms = deadline;
            self.wheel.arm(deadline, handle);
        }
    }

    /// Makes all open traces due, at the end of the input or process.
    pub fn drain(&mut self, completion: Completion, now_ms: u64, due: &mut Vec<Due>) {
        while let Some(handle) = self.opened.pop_front() {
            if self.get_mut(handle).is_some_and(|trace| trace.state == State::Open) {
                self.note_lack(handle);
                self.judge(handle, completion, now_ms, due);
            }
        }
    }

    /// Returns the records of a due trace; `None` if it is forgotten.
    pub fn trace(&self, handle: Handle) -> Option<&TraceSpans> {
        self.get(handle).map(|trace| &*trace.spans)
    }

    /// Returns all traces, including those without an agent span, in no defined order.
    pub fn traces(&self) -> impl Iterator<Item = &TraceSpans> {
        self.places.iter().filter_map(|place| place.trace.as_deref()).map(|trace| &*trace.spans)
    }

    /// Returns the number of open traces.
    pub fn open_count(&self) -> usize {
        self.open_count
    }

    /// Returns the number of spans of traces that are open or being judged.
    pub fn open_spans(&self) -> usize {
        self.open_spans
    }

    /// Returns the number of open and remembered traces.
    pub fn trace_count(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the counts since the last call.
    pub fn take_counts(&mut self) -> ShardCounts {
        self.counts.forgotten_habits += self.completion_policy.take_forgotten();
        self.counts.judged_forgotten += self.forgotten_traces.take_lost();
        std::mem::take(&mut self.counts)
    }

    fn get(&self, handle: Handle) -> Option<&OpenTrace> {
        let place = self.places.get(handle.index as usize)?;
        place.trace.as_deref().filter(|_| place.generation == handle.generation)
    }

    fn get_mut(&mut self, handle: Handle) -> Option<&mut OpenTrace> {
        let place = self.places.get_mut(handle.index as usize)?;
        if place.generation != handle.generation {
            return None;
        }
        place.trace.as_deref_mut()
    }
}

/// Returns the class of an open trace.
fn class_of(trace: &OpenTrace) -> TraceClass {
    if !trace.is_agent {
        TraceClass::Plain
    } else if trace.root_ended {
        TraceClass::Complete
    } else {
        TraceClass::Running
    }
}

/// Returns true if a handle's trace waits for judgement.
fn is_open(places: &[TraceSlot], handle: &Handle) -> bool {
    let place = &places[handle.index as usize];
    let is_open = place.trace.as_ref().is_some_and(|trace| trace.is_open);
    place.generation == handle.generation && is_open
}

#[cfg(test)]
mod tests;
