//! Ticks: traces that become due with time, a bounded number at once.

use super::{Due, Handle, Shard, State, TraceSlot, is_open};
use spanscore_base::model::{Completion, Sender};

/// Wait for a held-up sender's requests before its traces are checked again, and time to add them
/// afterwards.
const HELD_WAIT_MS: u64 = 1_000;

impl Shard {
    /// Pushes traces due at `now`, and removes expired remembered ones.
    pub fn tick(&mut self, now_ms: u64, due: &mut Vec<Due>) {
        self.tick_some(now_ms, usize::MAX, due);
    }

    /// Returns the number of possibly due traces left by the last tick.
    pub fn behind(&self) -> usize {
        self.fired.len()
    }

    /// Variant of [`Self::tick`] that pushes at most `most`; the next tick continues with the rest,
    /// which stay open until then.
    pub fn tick_some(&mut self, now_ms: u64, most: usize, due: &mut Vec<Due>) {
        self.tick_unless(now_ms, most, |_| false, due);
    }

    /// Variant of [`Self::tick_some`] that leaves traces of held-up senders open until their
    /// requests were added, or `age_max` is over: silence means nothing while requests wait.
    pub fn tick_unless(
        &mut self,
        now_ms: u64,
        most: usize,
        is_held: impl Fn(Sender) -> bool,
        due: &mut Vec<Due>,
    ) {
        let mut fired = Vec::new();
        let places = &self.places;
        self.wheel.due(now_ms, |handle| is_open(places, handle), &mut fired);
        self.fired.extend(fired);
        while due.len() < most {
            let Some(handle) = self.fired.pop_front() else { break };
            let traces = self.traces;
            let Some(trace) = self.get_mut(handle) else { continue };
            if trace.state != State::Open {
                continue;
            }
            let (deadline, completion) = trace.deadline(&traces);
            let sender = trace.spans.sender;
            if deadline <= now_ms {
                let is_of_age = trace.first_ms.saturating_add(traces.age_max.as_ms()) <= now_ms;
                if !is_of_age && is_held(sender) {
                    self.check_again(handle, now_ms);
                    continue;
                }
                let is_root = completion == Completion::RootEnded;
                if !is_root {
                    self.note_lack(handle);
                }
                if !is_root || !self.is_waited_for(handle, now_ms) {
                    self.judge(handle, completion, now_ms, due);
                }
            } else if trace.armed_ms <= now_ms {
                trace.armed_ms = u64::MAX;
                self.arm(handle);
            }
        }
        self.forget_judged(now_ms);
        // Traces leave this queue out of order; it is swept when mostly stale.
        if self.opened.len() > 2 * self.open_count + 1024 {
            let places = &self.places;
            self.opened.retain(|handle| is_open(places, handle));
        }
        let remembered_count = self.by_id.len() - self.open_count;
        if self.judged.len() > 2 * remembered_count + 1024 {
            let places = &self.places;
            self.judged.retain(|(since_ms, handle)| is_judged_at(places, handle, *since_ms));
        }
        self.make_room(now_ms, due);
        self.shrink();
    }

    /// Checks a trace again after [`HELD_WAIT_MS`], whatever its deadline.
    fn check_again(&mut self, handle: Handle, now_ms: u64) {
        let Some(trace) = self.get_mut(handle) else { return };
        trace.armed_ms = now_ms.saturating_add(HELD_WAIT_MS);
        let armed_ms = trace.armed_ms;
        self.wheel.arm(armed_ms, handle);
    }
}

/// Returns true if the last judgement of a trace was at this time.
fn is_judged_at(places: &[TraceSlot], handle: &Handle, since_ms: u64) -> bool {
    let place = &places[handle.index as usize];
    let judged_since = place.trace.as_ref().and_then(|trace| trace.judged_since());
    place.generation == handle.generation && judged_since == Some(since_ms)
}
