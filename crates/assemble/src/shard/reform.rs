//! Config updates with open traces: other facts, times and limits.

use super::{Handle, Shard, ShardLimits};
use crate::{LimitsSettings, TracesSettings};
use spanscore_base::model::{Reported, TraceId, TraceSpans};

impl Shard {
    /// Rewrites the records of all traces and their remembered evaluations; `lacks` if earlier
    /// records lack facts that are read from now on.
    pub fn reform(
        &mut self,
        lacks: bool,
        mut change: impl FnMut(&mut TraceSpans, &mut Vec<Reported>),
    ) {
        let mut copied = Vec::new();
        for (index, place) in (0..).zip(&mut self.places) {
            let Some(trace) = &mut place.trace else { continue };
            trace.remembered.change_reported(|reported| change(&mut trace.spans, reported));
            trace.lacks_facts |= lacks;
            if trace.spans.copied() > 0 {
                copied.push(Handle { index, generation: place.generation });
            }
        }
        copied.into_iter().for_each(|handle| self.recount(handle));
    }

    /// Changes times and limits, also of open traces; those beyond the limits are evicted at the
    /// next tick.
    pub fn limit(&mut self, traces: TracesSettings, limits: LimitsSettings, shard_count: usize) {
        self.limits = ShardLimits::of(limits, shard_count);
        self.forgotten_traces.limit(self.limits.judged_count_max, self.limits.bytes_max);
        if traces == self.traces {
            return;
        }
        self.traces = traces;
        // Traces with a shorter time must be checked sooner.
        let open: Vec<Handle> = self.opened.iter().copied().collect();
        open.into_iter().for_each(|handle| self.arm(handle));
    }

    /// Marks a trace whose records lack facts that are now read.
    pub fn lacks_facts(&mut self, trace_id: TraceId) {
        let place = self.by_id.get(&trace_id).and_then(|at| self.places.get_mut(*at as usize));
        if let Some(trace) = place.and_then(|place| place.trace.as_mut()) {
            trace.lacks_facts = true;
        }
    }

    /// Enables or disables the record of growing traces.
    pub fn watch_if(&mut self, is_watched: bool) {
        self.watched = is_watched.then(|| self.watched.take().unwrap_or_default());
    }
}
