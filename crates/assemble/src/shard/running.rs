//! Growing traces, for verdicts before the end.

use super::{Handle, RunningTrace, Shard};

impl Shard {
    /// Begins to record growing traces, for [`take_running`](Self::take_running).
    pub fn watch_running(&mut self) {
        self.watched = Some(Vec::new());
    }

    pub(super) fn watch(&mut self, handle: Handle) {
        if self.watched.is_none() {
            return;
        }
        if self.get_mut(handle).is_some_and(|trace| trace.is_running() && trace.has_grown())
            && let Some(watched) = &mut self.watched
        {
            watched.push(handle);
        }
    }

    /// Returns the running agents' traces that have grown since the last call, without those whose
    /// root has ended: they are judged soon.
    pub fn take_running(&mut self) -> Vec<RunningTrace> {
        let watched = self.watched.as_mut().map(std::mem::take).unwrap_or_default();
        let running = watched.into_iter().filter_map(|handle| {
            let trace = self.get_mut(handle).filter(|trace| trace.is_running())?;
            Some(RunningTrace { handle, digest: trace.digest.to_be_bytes() })
        });
        running.collect()
    }
}
