//! The clock of a shard: that of the process, or of what is brought back.

use std::time::Duration;

use tokio::time::Instant;

use super::elapsed_ms;

/// The clock of a shard, in milliseconds: it runs on from where it was set last.
pub(in crate::pipeline) struct ShardClock {
    set_at: Instant,
    set_to_ms: u64,
}

impl ShardClock {
    pub(in crate::pipeline) fn new() -> Self {
        Self { set_at: Instant::now(), set_to_ms: 0 }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.set_to_ms.saturating_add(elapsed_ms(self.set_at))
    }

    pub(super) fn set(&mut self, now_ms: u64) {
        *self = Self { set_at: Instant::now(), set_to_ms: now_ms };
    }

    /// Whether more than that lies between where it was set last and a time.
    pub(super) fn has_passed(&self, now_ms: u64, more: Duration) -> bool {
        u128::from(now_ms.saturating_sub(self.set_to_ms)) >= more.as_millis()
    }
}
