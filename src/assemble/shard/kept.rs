//! What is kept of what was said of a trace.

use super::{Handle, Shard};
use crate::model::{GivenVerdicts, Reported};

impl Shard {
    /// What evaluators said of a trace before.
    pub fn reported(&self, handle: Handle) -> &[Reported] {
        self.get(handle).map_or(&[], |trace| &trace.reported)
    }

    /// Keeps what evaluators said of a trace, once that has left, for as long as it is remembered.
    pub fn keep_reported(&mut self, handle: Handle, reported: Vec<Reported>) {
        if let Some(trace) = self.get_mut(handle) {
            trace.reported = reported;
        }
        self.recount(handle);
    }

    /// The verdicts that were given of a trace.
    pub fn verdicts(&self, handle: Handle) -> GivenVerdicts {
        self.get(handle).map(|trace| trace.verdicts.clone()).unwrap_or_default()
    }

    /// Keeps the verdicts that were given of a trace, for as long as it is remembered.
    pub fn keep_verdicts(&mut self, handle: Handle, verdicts: GivenVerdicts) {
        if let Some(trace) = self.get_mut(handle) {
            trace.verdicts = verdicts;
        }
        self.recount(handle);
    }
}
