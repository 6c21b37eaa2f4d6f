//! Adaptive waits of a shard: `quiet_period: auto`.

use super::{Handle, Shard, State};
use crate::completion_policy::RootEnd;

impl Shard {
    /// Updates the waits of a trace after an arrival.
    pub(super) fn note_arrival(&mut self, handle: Handle, now_ms: u64) {
        let Some(place) = self.places.get_mut(handle.index as usize) else { return };
        let Some(trace) = place.trace.as_deref_mut() else { return };
        trace.wait_ms = 0;
        trace.is_partial = false;
        if !trace.root_ended {
            return;
        }
        match &mut trace.root_end {
            None => trace.root_end = Some(RootEnd::at(now_ms)),
            Some(end) if now_ms > end.ms && self.traces.quiet_period.is_auto() => {
                let late_ms = now_ms - end.ms;
                self.completion_policy.learn_lateness(&trace.spans, end, late_ms);
            }
            Some(_) => {}
        }
    }

    /// Marks a trace that another cause than its ended root completes as partial if parts are
    /// certainly missing.
    pub(super) fn note_lack(&mut self, handle: Handle) {
        let Some(place) = self.places.get_mut(handle.index as usize) else { return };
        let Some(trace) = place.trace.as_deref_mut() else { return };
        trace.is_partial = if trace.root_ended {
            self.completion_policy.missing_parts(&trace.spans).is_certain
        } else {
            self.completion_policy.lacks_parents(&trace.spans, trace.lacked_parents)
        };
        trace.lacked_parents |= trace.is_partial && !trace.root_ended;
    }

    /// Returns true if a trace whose root has ended must wait for missing parts; its deadline is
    /// then armed anew.
    pub(super) fn is_waited_for(&mut self, handle: Handle, now_ms: u64) -> bool {
        if !self.traces.quiet_period.is_auto() {
            return false;
        }
        let Some(place) = self.places.get_mut(handle.index as usize) else { return false };
        let Some(trace) = place.trace.as_deref_mut().filter(|trace| trace.state == State::Open)
        else {
            return false;
        };
        let missing = self.completion_policy.missing_parts(&trace.spans);
        if !missing.is_nothing() && trace.wait_ms == 0 {
            let most_ms = self.traces.quiet_period_max.as_ms();
            let wait_ms = self.completion_policy.wait_ms(&trace.spans, &missing, most_ms);
            if trace.last_ms.saturating_add(wait_ms) > now_ms {
                trace.wait_ms = wait_ms;
                trace.armed_ms = u64::MAX;
                self.counts.waited_longer += 1;
                self.arm(handle);
                return true;
            }
        }
        trace.is_partial = missing.is_certain;
        let in_vain = Some(&missing).filter(|missing| !missing.is_nothing());
        self.completion_policy.learn(&trace.spans, in_vain);
        self.completion_policy
            .learn_parents(&trace.spans, std::mem::take(&mut trace.lacked_parents));
        false
    }
}
