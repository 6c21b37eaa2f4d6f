//! Token bucket: a steady rate with bursts.

/// Token bucket. Pure: times are milliseconds.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    /// Tokens per period.
    rate: u64,
    /// Milliseconds of the period.
    period_ms: u64,
    /// Milliseconds of capacity; at least one token fits.
    burst_ms: u64,
    /// Tokens times the period, which avoids rounding loss; negative while in debt.
    level: i64,
    at_ms: Option<u64>,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(rate: u64, period_ms: u64, burst_ms: u64) -> Self {
        Self { rate, period_ms, burst_ms, level: 0, at_ms: None }
    }

    /// Changes the rate from now on, and keeps the tokens that fit.
    pub fn change(&mut self, rate: u64) {
        self.rate = rate;
        self.level = self.level.min(self.capacity());
    }

    fn capacity(&self) -> i64 {
        saturated(self.rate.saturating_mul(self.burst_ms).max(self.period_ms))
    }

    fn scaled(&self, tokens: u64) -> i64 {
        saturated(tokens.saturating_mul(self.period_ms))
    }

    /// Returns the earliest time at which this many tokens may be taken: `now_ms`, or later. An
    /// amount above the capacity may be taken from a full bucket, and leaves a debt.
    pub fn free_at(&mut self, now_ms: u64, tokens: u64) -> u64 {
        let capacity = self.capacity();
        let since = self.at_ms.replace(now_ms);
        let filled = since.map_or(capacity, |since| {
            let elapsed = now_ms.saturating_sub(since).saturating_mul(self.rate);
            self.level.saturating_add(saturated(elapsed))
        });
        self.level = filled.min(capacity);
        let lacks = self.scaled(tokens).min(capacity).saturating_sub(self.level);
        match u64::try_from(lacks) {
            Ok(lacks @ 1..) => now_ms.saturating_add(lacks.div_ceil(self.rate.max(1))),
            _ => now_ms,
        }
    }

    /// Takes tokens, even without enough of them.
    pub fn take(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(self.scaled(tokens));
    }

    /// Gives back unused tokens.
    pub fn give_back(&mut self, tokens: u64) {
        self.level = self.level.saturating_add(self.scaled(tokens)).min(self.capacity());
    }
}

fn saturated(level: u64) -> i64 {
    i64::try_from(level).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_minute(rate: u64) -> TokenBucket {
        TokenBucket::new(rate, 60_000, 10_000)
    }

    #[test]
    fn buckets_let_a_burst_through_then_an_even_flow() {
        let mut bucket = per_minute(60);
        let mut taken = 0;
        for second in 0..60u64 {
            while bucket.free_at(second * 1_000, 1) <= second * 1_000 {
                bucket.take(1);
                taken += 1;
            }
        }
        assert_eq!(taken, 10 + 59);
        assert_eq!(bucket.free_at(60_000, 1), 60_000);
        bucket.take(1);
        assert_eq!(bucket.free_at(60_000, 1), 61_000);
    }

    #[test]
    fn what_is_larger_than_the_bucket_passes_and_is_paid_off() {
        let mut bucket = per_minute(600);
        assert_eq!(bucket.free_at(0, 1_000), 0);
        bucket.take(1_000);
        assert_eq!(bucket.free_at(0, 1), 90_100);
        bucket.give_back(500);
        assert_eq!(bucket.free_at(0, 1), 40_100);
    }
}
