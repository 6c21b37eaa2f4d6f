//! Idle trimmer: frees caches after a period without requests.
//!
//! jemalloc's background thread returns the memory to the system some seconds later.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::PipelineIntake;

/// Time without a request after which caches are freed.
const REST: Duration = Duration::from_secs(5);

/// Starts the trimmer; dropping the guard ends it.
pub(super) fn start(intake: Arc<PipelineIntake>) -> DropGuard {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(REST);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
            intake.rest();
        }
    });
    stop.drop_guard()
}
