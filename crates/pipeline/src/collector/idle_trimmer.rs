//! Idle trimmer: frees caches after a while without requests.
//!
//! The memory goes back to the system some seconds later, by jemalloc's background thread.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::PipelineIntake;

/// Time without a request after which caches are freed.
const REST: Duration = Duration::from_secs(5);

/// Guard of the task, which ends when this is dropped.
pub(super) struct IdleTrimmer(CancellationToken);

impl IdleTrimmer {
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

impl Drop for IdleTrimmer {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
