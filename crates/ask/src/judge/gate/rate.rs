//! Rate limits of a judge: token buckets for requests and tokens, and an adaptive concurrency limit
//! (additive increase, multiplicative decrease).

/// Burst of a bucket: the inflow of this time, milliseconds.
const BURST_MS: u64 = 10_000;
const MINUTE_MS: u64 = 60_000;
/// Replies without a 429 after which one more request may be under way.
const GOOD_RUN: u32 = 20;

/// Token bucket.
#[derive(Clone, Debug)]
pub(super) struct RateBucket {
    per_minute: u64,
    /// Level times [`MINUTE_MS`], so that a millisecond's inflow is a whole number. Negative after
    /// a request larger than the bucket.
    level: i64,
    at_ms: Option<u64>,
}

impl RateBucket {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute: u64::from(per_minute), level: 0, at_ms: None }
    }

    /// Changes the rate; the level is cut to the new capacity.
    pub(super) fn change(&mut self, per_minute: u32) {
        self.per_minute = u64::from(per_minute);
        self.level = self.level.min(self.capacity());
    }

    fn capacity(&self) -> i64 {
        let burst = self.per_minute.saturating_mul(BURST_MS);
        i64::try_from(burst.max(MINUTE_MS)).unwrap_or(i64::MAX)
    }

    /// Returns the earliest time at which `some` may be taken: `now_ms`, or later.
    pub(super) fn free_at(&mut self, now_ms: u64, some: u64) -> u64 {
        let capacity = self.capacity();
        let since = self.at_ms.replace(now_ms);
        let filled = since.map_or(capacity, |since| {
            let elapsed = now_ms.saturating_sub(since).saturating_mul(self.per_minute);
            self.level.saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX))
        });
        self.level = filled.min(capacity);
        // A request larger than the bucket would never pass: it needs a full bucket, and leaves a
        // debt that is filled first.
        let need = i64::try_from(some.saturating_mul(MINUTE_MS)).unwrap_or(i64::MAX).min(capacity);
        let lacks = need.saturating_sub(self.level);
        match u64::try_from(lacks) {
            Ok(lacks @ 1..) => now_ms.saturating_add(lacks.div_ceil(self.per_minute.max(1))),
            _ => now_ms,
        }
    }

    /// Takes `some`.
    pub(super) fn take(&mut self, some: u64) {
        let some = i64::try_from(some.saturating_mul(MINUTE_MS)).unwrap_or(i64::MAX);
        self.level = self.level.saturating_sub(some);
    }

    /// Returns `some` that was taken and not used.
    pub(super) fn give_back(&mut self, some: u64) {
        let some = i64::try_from(some.saturating_mul(MINUTE_MS)).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(some).min(self.capacity());
    }
}

/// Concurrency limit: halved by a 429, raised by one after [`GOOD_RUN`] replies.
#[derive(Clone, Debug)]
pub(super) struct Concurrency {
    most: u32,
    now: u32,
    under_way: u32,
    good: u32,
}

impl Concurrency {
    pub(super) fn new(most: u32) -> Self {
        Self { most, now: most, under_way: 0, good: 0 }
    }

    /// Changes the maximum, and forgets what the judge's 429s made of the old one.
    pub(super) fn change(&mut self, most: u32) {
        if self.most != most {
            (self.most, self.now, self.good) = (most, most, 0);
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.under_way < self.now
    }

    pub(super) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// Notes the end of a request; `is_good` is `None` if it says nothing about the load.
    pub(super) fn end(&mut self, is_good: Option<bool>) {
        self.under_way = self.under_way.saturating_sub(1);
        match is_good {
            Some(true) => {
                self.good += 1;
                if self.good >= GOOD_RUN {
                    self.good = 0;
                    self.now = (self.now + 1).min(self.most);
                }
            }
            Some(false) => {
                self.good = 0;
                self.now = (self.now / 2).max(1);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_let_a_burst_through_then_an_even_flow() {
        let mut bucket = RateBucket::new(60);
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
        let mut bucket = RateBucket::new(600);
        assert_eq!(bucket.free_at(0, 1_000), 0);
        bucket.take(1_000);
        assert_eq!(bucket.free_at(0, 1), 90_100);
        bucket.give_back(500);
        assert_eq!(bucket.free_at(0, 1), 40_100);
    }

    #[test]
    fn concurrency_is_halved_and_grows_back() {
        let mut requests = Concurrency::new(4);
        requests.begin();
        requests.begin();
        requests.end(Some(false));
        assert_eq!((requests.now, requests.has_room()), (2, true));
        requests.end(Some(false));
        requests.end(Some(false));
        assert_eq!(requests.now, 1);
        (0..GOOD_RUN * 5).for_each(|_| requests.end(Some(true)));
        assert_eq!(requests.now, 4);
    }
}
