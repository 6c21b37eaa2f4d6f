//! Clock of a shard: that of the process, or of a restored log.

use std::time::Duration;

use tokio::time::Instant;

use super::elapsed_ms;

/// Settable clock in milliseconds: runs on from the time it was last set to.
pub(crate) struct ShardClock {
    set_at: Instant,
    set_to_ms: u64,
}

impl ShardClock {
    pub(crate) fn new() -> Self {
        Self { set_at: Instant::now(), set_to_ms: 0 }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.set_to_ms.saturating_add(elapsed_ms(self.set_at))
    }

    pub(super) fn set(&mut self, now_ms: u64) {
        *self = Self { set_at: Instant::now(), set_to_ms: now_ms };
    }

    /// Returns true if `now_ms` is at least `more` past the time it was last set to.
    pub(super) fn has_passed(&self, now_ms: u64, more: Duration) -> bool {
        u128::from(now_ms.saturating_sub(self.set_to_ms)) >= more.as_millis()
    }
}
