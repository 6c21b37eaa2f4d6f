//! Exponential back-off with jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Waits that grow by a factor up to a limit. Pure: the caller supplies the random number.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// First wait.
    pub first: Duration,
    /// Growth from wait to wait, at least 1.
    pub factor: f64,
    /// Longest wait, before jitter.
    pub longest: Duration,
    /// Share of a wait by which it is varied at random, 0 to 1.
    pub jitter: f64,
}

impl Backoff {
    /// Returns waits that double, without jitter.
    pub const fn doubling(first: Duration, longest: Duration) -> Self {
        Self { first, factor: 2.0, longest, jitter: 0.0 }
    }

    /// Returns the wait after `before` others; `chance` is 0 to 1.
    pub fn wait(&self, before: u32, chance: f64) -> Duration {
        let growth = self.factor.powi(i32::try_from(before).unwrap_or(i32::MAX));
        // An infinite growth is no duration.
        let wait = Duration::try_from_secs_f64(self.first.as_secs_f64() * growth);
        let wait = wait.unwrap_or(self.longest).min(self.longest);
        wait.mul_f64((1.0 + self.jitter * (2.0 * chance - 1.0)).max(0.0))
    }
}

/// Returns a random number from 0 to 1.
pub fn chance() -> f64 {
    RandomState::new().hash_one(0u8) as f64 / u64::MAX as f64
}

/// Returns a time in whole milliseconds.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Waits for a few attempts: each up to 500 ms, 1 s, 2 s and so on to 30 s.
const FEW_TRIES: Backoff = Backoff {
    jitter: 1.0,
    ..Backoff::doubling(Duration::from_millis(250), Duration::from_secs(15))
};

/// Returns the wait after an attempt, counted from 1, in milliseconds: at least the requested wait.
/// It varies by `id` instead of at random, and so is pure.
pub fn back_off_ms(id: u64, attempt: u32, asked: Option<Duration>) -> u64 {
    let hash = (id ^ u64::from(attempt) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let wait = FEW_TRIES.wait(attempt.saturating_sub(1), hash as f64 / (1u64 << 31) as f64);
    millis(wait.max(asked.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_vary_by_the_jitter() {
        let secs = Duration::from_secs_f64;
        let backoff = Backoff { jitter: 0.5, ..Backoff::doubling(secs(1.0), secs(3.0)) };
        let waits = [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.0), (u32::MAX, 1.0)];
        let waits = waits.map(|(before, chance)| backoff.wait(before, chance));
        assert_eq!(waits, [1.0, 2.0, 3.0, 1.5, 4.5].map(secs));
    }

    #[test]
    fn few_tries_wait_longer_each_time_and_at_least_the_wait_that_is_asked_for() {
        let most = |attempt| (0..1000).map(|id| back_off_ms(id, attempt, None)).max();
        assert!((450..=500).contains(&most(1).unwrap_or(0)), "{:?}", most(1));
        assert!((1800..=2000).contains(&most(3).unwrap_or(0)), "{:?}", most(3));
        assert!((27_000..=30_000).contains(&most(40).unwrap_or(0)), "{:?}", most(40));
        assert_eq!(back_off_ms(7, 1, Some(Duration::from_secs(600))), 600_000);
    }
}
