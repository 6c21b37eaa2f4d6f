//! Clock of a shard: the process's clock, or that of a restored log.

use std::time::Duration;

use tokio::time::Instant;

use super::elapsed_ms;

/// Settable clock in milliseconds, which runs on from its last setting.
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

    /// Returns true if `now_ms` is at least `more` past the last setting.
    pub(super) fn has_passed(&self, now_ms: u64, more: Duration) -> bool {
        u128::from(now_ms.saturating_sub(self.set_to_ms)) >= more.as_millis()
    }
}
