//! Eviction of judged traces after their time, and of traces beyond a limit.

use super::super::shares::{Measure, TraceClass};
use super::super::trace::{LeftOut, OpenTrace, State, TraceLimit};
use super::{Due, Handle, Shard, TRACE_BYTES};
use spanscore_base::model::{Completion, Sender, TraceId, TraceSpans};
use std::sync::Arc;

/// Trace truncated by a limit of one trace, judged with the retained spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutTrace {
    /// The trace's id.
    pub trace_id: TraceId,
    /// Retained spans and log events.
    pub kept: usize,
    /// Spans and log events left out.
    pub left_out: u64,
    /// The limit reached first.
    pub limit: TraceLimit,
}

impl Shard {
    /// Returns the traces truncated by a limit, in the order of their first spans while no trace
    /// was forgotten.
    pub fn cut_traces(&self) -> impl Iterator<Item = CutTrace> {
        let traces = self.places.iter().filter_map(|place| place.trace.as_deref());
        traces.filter_map(|trace| {
            let LeftOut { limit, count } = trace.left_out?;
            let trace_id = trace.spans.sent_id();
            let kept = trace.spans.spans.len();
            Some(CutTrace { trace_id, kept, left_out: count, limit })
        })
    }

    /// Returns true if a due trace is not yet [`done`](Self::done).
    pub fn is_due(&self, due: &Due) -> bool {
        let is_due = |trace: &OpenTrace| trace.state != State::Open && trace.remembered_bytes == 0;
        self.get(due.handle).is_some_and(is_due)
    }

    /// Undoes a judgement without evaluations, before the trace is [`done`](Self::done): the next
    /// one revises its predecessor, if any.
    pub fn undo_judgement(&mut self, due: &Due) {
        self.take_back(due);
        self.counts.spans.lost += self.settle(due.handle);
    }

    /// Takes back a due, unjudged trace that has grown: it will be due again.
    pub fn take_back(&mut self, due: &Due) {
        // An earlier process has delivered a silent one: the next revises it.
        if let Some(trace) = self.get_mut(due.handle).filter(|_| !due.is_silent) {
            let before = due.revised.map(|digest| (due.revision, u128::from_be_bytes(digest)));
            trace.set_judged(before);
        }
    }

    /// Replaces an earlier, unjudged due of the same trace. After a silent one the new due is
    /// unchanged: it revises the delivered evaluations of an earlier process.
    pub fn join_due(&mut self, earlier: &Due, due: &mut Due) {
        if earlier.is_silent {
            return;
        }
        due.revision = earlier.revision;
        due.revised = earlier.revised;
        if let Some(trace) = self.get_mut(due.handle) {
            let digest = u128::from_be_bytes(due.digest);
            trace.set_judged(Some((due.revision.saturating_add(1), digest)));
        }
    }

    /// Lets a due trace wait for its judgement on another thread, in its sender's share.
    pub fn wait(&mut self, handle: Handle) {
        if self.get(handle).is_some() {
            self.shares.put(handle.index, TraceClass::Waiting);
        }
    }

    /// Lends the records of a due trace to another thread for judgement, until
    /// [`returned`](Self::returned). New records meanwhile cause a copy, in the sender's share.
    pub fn lend(&mut self, handle: Handle) -> Option<Arc<TraceSpans>> {
        self.get_mut(handle).map(|trace| trace.spans.lend())
    }

    /// Ends a loan of records; returns the bytes of the copy, 0 without one.
    pub fn returned(&mut self, handle: Handle) -> usize {
        let copied = self.get_mut(handle).map_or(0, |trace| trace.spans.give_back());
        if copied > 0 {
            self.recount(handle);
        }
        copied
    }

    /// Returns the sender of a trace; `None` if it is forgotten.
    pub fn sender(&self, handle: Handle) -> Option<Sender> {
        self.get(handle).map(|trace| trace.spans.sender)
    }

    /// Marks a due trace as judged: it is now remembered for late spans.
    pub fn done(&mut self, handle: Handle) {
        self.counts.spans.judged += self.settle(handle);
        self.remember(handle);
    }

    /// Settles the spans of a trace; returns their number.
    pub(super) fn settle(&mut self, handle: Handle) -> u64 {
        let Some(trace) = self.get_mut(handle) else { return 0 };
        let settled = trace.tally.settle();
        self.open_spans -= settled as usize;
        u64::from(settled)
    }

    /// Remembers a trace for late spans.
    pub(super) fn remember(&mut self, handle: Handle) {
        let Some(trace) = self.get_mut(handle) else { return };
        let Some(since_ms) = trace.judged_since() else { return };
        if trace.remembered_bytes == 0 {
            let bytes = trace.counted.bytes + TRACE_BYTES;
            trace.remembered_bytes = bytes;
            self.remembered_bytes += bytes;
        }
        self.judged.push_back((since_ms, handle));
        self.shares.put(handle.index, TraceClass::Remembered);
    }

    /// Forgets a judged trace, for callers without revisions.
    pub fn forget(&mut self, handle: Handle) {
        let Some(place) = self.places.get_mut(handle.index as usize) else { return };
        if place.generation != handle.generation {
            return;
        }
        let Some(mut trace) = place.trace.take() else { return };
        let unsettled = trace.tally.settle();
        self.counts.spans.forgotten += u64::from(unsettled);
        self.open_spans -= unsettled as usize;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(handle.index);
        self.by_id.remove(&trace.spans.trace_id);
        self.grouped.leave(&trace.spans);
        self.uncount(&trace);
        self.shares.leave(handle.index);
        self.bytes -= TRACE_BYTES;
        self.remembered_bytes -= trace.remembered_bytes;
        self.open_count -= usize::from(trace.is_open);
    }

    pub(super) fn forget_judged(&mut self, now_ms: u64) {
        let remember_ms = self.traces.remember_period.as_ms();
        while let Some(&(since_ms, handle)) = self.judged.front() {
            if self.is_remembered_since(handle, since_ms) {
                if since_ms.saturating_add(remember_ms) > now_ms {
                    return;
                }
                self.keep_judgement(handle, now_ms);
                self.forget(handle);
            }
            self.judged.pop_front();
        }
    }

    /// Returns true if the last judgement of a trace was at this time; false if it is open, gone,
    /// or judged again.
    fn is_remembered_since(&mut self, handle: Handle, since_ms: u64) -> bool {
        self.get_mut(handle).is_some_and(|trace| trace.judged_since() == Some(since_ms))
    }

    /// Forgets judged traces, then judges open ones, until the limits hold, each time from the
    /// largest holder ([`crate::shares`]). A trace judged here is removed when the driver has
    /// finished it.
    pub(super) fn make_room(&mut self, now_ms: u64, due: &mut Vec<Due>) {
        let mut evicted_count = 0;
        let mut evicted_bytes = 0;
        loop {
            let over_bytes = self.bytes().saturating_sub(evicted_bytes) > self.limits.bytes_max;
            let over_count =
                self.by_id.len().saturating_sub(evicted_count) > self.limits.trace_count_max;
            let over_remembered = self.remembered_bytes > self.limits.remembered_bytes_max;
            if !over_bytes && !over_count && !over_remembered {
                return;
            }
            if let Some(handle) = self.next_to_go(Measure::RememberedBytes) {
                self.counts.forgotten_early += 1;
                self.keep_judgement(handle, now_ms);
                self.forget(handle);
                continue;
            }
            if !over_bytes && !over_count {
                return;
            }
            let measure = if over_bytes { Measure::OpenBytes } else { Measure::OpenTraces };
            let Some(handle) = self.next_to_go(measure) else { return };
            let Some(trace) = self.get(handle) else { return };
            let bytes = trace.counted.bytes + TRACE_BYTES + self.resources.alone(trace);
            if over_bytes {
                self.counts.evicted_by_memory += 1;
            } else {
                self.counts.evicted_by_count += 1;
            }
            self.judge(handle, Completion::Evicted, now_ms, due);
            // Others are remembered at once, and forgotten in the next round.
            if self.shares.class_of(handle.index) == TraceClass::BeingJudged {
                evicted_count += 1;
                evicted_bytes += bytes;
            }
        }
    }

    fn next_to_go(&self, measure: Measure) -> Option<Handle> {
        self.shares.next(measure).map(|index| self.handle_at(index))
    }

    /// Records the judgement of a removed trace, for revision by later parts.
    pub(super) fn keep_judgement(&mut self, handle: Handle, now_ms: u64) {
        let Some(trace) = self.get(handle) else { return };
        if let Some(judged) = trace.judged() {
            let TraceSpans { trace_id, sender, .. } = *trace.spans;
            self.forgotten_traces.add(trace_id, sender.peer, judged, now_ms);
        }
    }
}
