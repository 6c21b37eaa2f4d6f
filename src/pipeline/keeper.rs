//! Lets go of what is only held to be quick, once nothing has come for a while.
//!
//! What it frees goes back to the system some seconds later: the allocator (jemalloc) has a thread
//! of its own for that.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::PipelineIntake;

/// After so long without a request, what is remembered to be quick is forgotten.
const REST: Duration = Duration::from_secs(5);

/// Looks until dropped.
pub(super) struct Keeper(CancellationToken);

impl Keeper {
    pub(super) fn start(intake: Arc<PipelineIntake>) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(REST);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
                intake.rest();
            }
        });
        Self(stop)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
