//! Gives memory back to the system once a flood is over.
//!
//! The allocator (mimalloc) keeps freed pages for a second, in case they are wanted again, and lets
//! go of them only when it is next asked for pages. What one thread allocated and another freed it
//! finds only when the first has allocated some thousand times more. After a flood nobody does
//! either, so somebody has to.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::PipelineIntake;

/// How often the allocator is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// In so many intervals without a request, what is remembered to be quick is forgotten.
const REST_TICKS: u32 = 5;
/// More than the allocator takes from what it has at hand; nothing of it is touched.
const ASKED_BYTES: usize = 2 << 20;

/// Allocations of one thread after which the allocator looks through all that the thread has.
const COLLECT_ALLOCATIONS: usize = 10_000;
/// A size that the allocator does not serve from its short cut.
const COLLECT_BYTES: usize = 2 << 10;

/// How often a thread collects what others have freed for it.
pub(super) const COLLECT_INTERVAL: Duration = Duration::from_secs(5);

/// Lets the allocator collect what other threads have freed of this one; takes less than a
/// millisecond.
pub(super) fn collect() {
    for _ in 0..COLLECT_ALLOCATIONS {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(COLLECT_BYTES)));
    }
}

/// Asks until dropped.
pub(super) struct Keeper(CancellationToken);

impl Keeper {
    pub(super) fn start(intake: Arc<PipelineIntake>) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for tick in 1_u32.. {
                if stopped.run_until_cancelled(ticks.tick()).await.is_none() {
                    return;
                }
                if tick % REST_TICKS == 0 {
                    intake.rest();
                    // Idle threads of the network take these up, each some of them.
                    for _ in 0..2 * tokio::runtime::Handle::current().metrics().num_workers() {
                        tokio::spawn(async { collect() });
                    }
                }
                drop(std::hint::black_box(Vec::<u8>::with_capacity(ASKED_BYTES)));
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
