//! What is let go of, and when: judged traces after their time, and what limits push out.

use super::super::trace::{OpenTrace, State};
use super::{Due, Handle, Shard, TRACE_BYTES};
use crate::model::Completion;

impl Shard {
    /// Whether a due trace was not said to be [`done`](Self::done) yet.
    pub fn is_due(&self, due: &Due) -> bool {
        let is_due = |trace: &OpenTrace| trace.state != State::Open && trace.remembered_bytes == 0;
        self.get(due.handle).is_some_and(is_due)
    }

    /// Says that nobody saw an evaluation of a due trace, before it is [`done`](Self::done): the
    /// next one revises what was seen before, if anything was.
    pub fn not_judged(&mut self, due: &Due) {
        if let Some(trace) = self.get_mut(due.handle) {
            trace.judged = due.revised.map(|digest| (due.revision, u128::from_be_bytes(digest)));
        }
    }

    /// Says that a due trace was judged: from now on it is remembered for late spans.
    pub fn done(&mut self, handle: Handle) {
        self.judged.push_back(handle);
        let Some(trace) = self.get_mut(handle) else { return };
        if trace.state != State::Open && trace.remembered_bytes == 0 {
            let bytes = trace.spans.bytes() + TRACE_BYTES;
            trace.remembered_bytes = bytes;
            self.remembered_bytes += bytes;
        }
    }

    /// Lets go of a trace that was judged, for those who need no revisions.
    pub fn forget(&mut self, handle: Handle) {
        let Some(place) = self.places.get_mut(handle.index as usize) else { return };
        if place.generation != handle.generation {
            return;
        }
        let Some(trace) = place.trace.take() else { return };
        place.generation = place.generation.wrapping_add(1);
        self.free.push(handle.index);
        self.by_id.remove(&trace.spans.trace_id);
        self.bytes -= trace.spans.bytes() + TRACE_BYTES;
        self.remembered_bytes -= trace.remembered_bytes;
        self.open_count -= usize::from(trace.is_open);
    }

    pub(super) fn forget_judged(&mut self, now_ms: u64) {
        let remember_ms = self.traces.remember_period.0.as_millis() as u64;
        while let Some(&handle) = self.judged.front() {
            match self.get_mut(handle).map(|trace| trace.state) {
                Some(State::Judged(since_ms) | State::Closed(since_ms)) => {
                    if since_ms.saturating_add(remember_ms) > now_ms {
                        return;
                    }
                    self.forget(handle);
                }
                Some(State::Open) | None => {}
            }
            self.judged.pop_front();
        }
    }

    /// Forgets judged traces, then judges open ones, oldest first, until the limits hold. What is
    /// judged here goes once the driver is done with it.
    pub(super) fn make_room(&mut self, now_ms: u64, due: &mut Vec<Due>) {
        let (mut going_count, mut going_bytes) = (0, 0);
        loop {
            let over_bytes = self.bytes.saturating_sub(going_bytes) > self.limits.bytes_max;
            let over_count =
                self.by_id.len().saturating_sub(going_count) > self.limits.trace_count_max;
            let over_remembered = self.remembered_bytes > self.limits.remembered_bytes_max;
            if !over_bytes && !over_count && !over_remembered {
                return;
            }
            if let Some(handle) = self.judged.pop_front() {
                if self.get_mut(handle).is_some_and(|trace| trace.state != State::Open) {
                    self.counts.forgotten_early += 1;
                    self.forget(handle);
                }
                continue;
            }
            if !over_bytes && !over_count {
                return;
            }
            let Some(handle) = self.opened.pop_front() else { return };
            let Some(trace) = self.get_mut(handle) else { continue };
            if trace.state != State::Open {
                continue;
            }
            going_count += 1;
            going_bytes += trace.spans.bytes() + TRACE_BYTES;
            if over_bytes {
                self.counts.evicted_by_memory += 1;
            } else {
                self.counts.evicted_by_count += 1;
            }
            self.judge(handle, Completion::Evicted, now_ms, due);
        }
    }
}
