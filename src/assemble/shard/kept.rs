//! What is kept of what was said of a trace, and what nothing is said of.

use super::{Handle, Shard};
use crate::model::{GivenVerdicts, Reported, TraceId};

impl Shard {
    /// What evaluators said of a trace before.
    pub fn reported(&self, handle: Handle) -> &[Reported] {
        self.get(handle).map_or(&[], |trace| trace.said.reported())
    }

    /// Keeps what evaluators said of a trace, once that has left, for as long as it is remembered.
    pub fn keep_reported(&mut self, handle: Handle, reported: Vec<Reported>) {
        if let Some(trace) = self.get_mut(handle) {
            trace.said.keep_reported(reported);
        }
        self.recount(handle);
    }

    /// The verdicts that were given of a trace.
    pub fn verdicts(&self, handle: Handle) -> GivenVerdicts {
        self.get(handle).map(|trace| trace.said.verdicts()).unwrap_or_default()
    }

    /// Keeps the verdicts that were given of a trace, for as long as it is remembered.
    pub fn keep_verdicts(&mut self, handle: Handle, verdicts: GivenVerdicts) {
        if let Some(trace) = self.get_mut(handle) {
            trace.said.keep_verdicts(verdicts);
        }
        self.recount(handle);
    }

    /// Whether the ids of traces that are given up without anything of an agent are kept, from now
    /// on.
    pub fn watch_ignored_if(&mut self, is_watched: bool) {
        if !is_watched {
            self.ignored = None;
        } else if self.ignored.is_none() {
            self.ignored = Some(Vec::new());
        }
    }

    /// The traces that were given up without anything of an agent since the last look.
    pub fn take_ignored(&mut self) -> Vec<TraceId> {
        self.ignored.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
