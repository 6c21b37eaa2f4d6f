//! Evaluations and verdicts remembered with a trace, and traces without an evaluation.

use super::{Handle, Shard};
use spanscore_base::model::{GivenVerdicts, Reported, Sender, TraceId};

impl Shard {
    /// Returns the last evaluations of a trace that evaluators need again.
    pub fn reported(&self, handle: Handle) -> &[Reported] {
        self.get(handle).map_or(&[], |trace| trace.remembered.reported())
    }

    /// Remembers sent evaluations of a trace, as long as the trace is remembered.
    pub fn keep_reported(&mut self, handle: Handle, reported: Vec<Reported>) {
        if let Some(trace) = self.get_mut(handle) {
            trace.remembered.keep_reported(reported);
        }
        self.recount(handle);
    }

    /// Returns the verdicts of a trace.
    pub fn verdicts(&self, handle: Handle) -> GivenVerdicts {
        self.get(handle).map(|trace| trace.remembered.verdicts()).unwrap_or_default()
    }

    /// Remembers the verdicts of a trace, as long as the trace is remembered.
    pub fn keep_verdicts(&mut self, handle: Handle, verdicts: GivenVerdicts) {
        if let Some(trace) = self.get_mut(handle) {
            trace.remembered.keep_verdicts(verdicts);
        }
        self.recount(handle);
    }

    /// Enables or disables the record of traces dropped without an agent span.
    pub fn watch_ignored_if(&mut self, is_watched: bool) {
        self.ignored = is_watched.then(|| self.take_ignored());
    }

    /// Returns the traces dropped without an agent span since the last call, with their senders.
    pub fn take_ignored(&mut self) -> Vec<(TraceId, Sender)> {
        self.ignored.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
