//! Gives memory back to the system once a flood is over.
//!
//! The allocator (mimalloc) keeps freed pages for a second, in case they are wanted again, and lets
//! go of them only when it is next asked for pages. After a flood nobody asks, so somebody does.

use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// How often the allocator is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// More than the allocator takes from what it has at hand; nothing of it is touched.
const ASKED_BYTES: usize = 2 << 20;

/// Asks until dropped.
pub(super) struct Keeper(CancellationToken);

impl Keeper {
    pub(super) fn start() -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
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
