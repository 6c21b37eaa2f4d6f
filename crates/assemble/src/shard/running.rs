//! Running traces: those that grew, for verdicts that need not wait for the end.

use super::{Handle, RunningTrace, Shard};

impl Shard {
    /// Begins to record the running traces that grow, for [`take_running`](Self::take_running).
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

    /// Returns the traces of agents still at work that have grown since the last call. A trace
    /// whose root has ended is not among them: it is judged soon.
    pub fn take_running(&mut self) -> Vec<RunningTrace> {
        let watched = self.watched.as_mut().map(std::mem::take).unwrap_or_default();
        let running = watched.into_iter().filter_map(|handle| {
            let trace = self.get_mut(handle).filter(|trace| trace.is_running())?;
            Some(RunningTrace { handle, digest: trace.digest.to_be_bytes() })
        });
        running.collect()
    }
}
