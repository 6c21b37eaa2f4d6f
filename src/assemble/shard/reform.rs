//! A change of what is looked at while traces are open.

use super::{Handle, Shard, ShardLimits};
use crate::assemble::{LimitsSettings, TracesSettings};
use crate::model::{Reported, TraceId, TraceSpans};

impl Shard {
    /// Lets the records of all its traces be rewritten, and what was reported of them; `lacks`:
    /// what came so far was not asked for all that is looked at from now on.
    pub fn reform(
        &mut self,
        lacks: bool,
        mut change: impl FnMut(&mut TraceSpans, &mut Vec<Reported>),
    ) {
        for trace in self.places.iter_mut().filter_map(|place| place.trace.as_mut()) {
            trace.said.change_reported(|reported| change(&mut trace.spans, reported));
            trace.lacks_facts |= lacks;
        }
    }

    /// Keeps traces so long and so much of them from now on, open ones too; what is beyond it goes
    /// with the next tick.
    pub fn limit(&mut self, traces: TracesSettings, limits: LimitsSettings, shard_count: usize) {
        self.limits = ShardLimits::of(limits, shard_count);
        if traces == self.traces {
            return;
        }
        self.traces = traces;
        // Those whose time is shorter now have to be looked at sooner.
        let open: Vec<Handle> = self.opened.iter().copied().collect();
        open.into_iter().for_each(|handle| self.arm(handle));
    }

    /// Notes that records of a trace were not asked for all that is looked at.
    pub fn lacks_facts(&mut self, trace_id: TraceId) {
        let place = self.by_id.get(&trace_id).and_then(|at| self.places.get_mut(*at as usize));
        if let Some(trace) = place.and_then(|place| place.trace.as_mut()) {
            trace.lacks_facts = true;
        }
    }

    /// Whether running traces are told of, from now on.
    pub fn watch_if(&mut self, is_watched: bool) {
        if !is_watched {
            self.watched = None;
        } else if self.watched.is_none() {
            self.watch_running();
        }
    }
}
