//! How fast a judge may be asked: two buckets that fill evenly, and requests under way at once.

/// A bucket holds what comes in so many milliseconds.
const BURST_MS: u64 = 10_000;
const MINUTE_MS: u64 = 60_000;
/// Good answers in a row after which one more request may be under way.
const GOOD_RUN: u32 = 20;

/// A bucket that fills evenly.
#[derive(Clone, Debug)]
pub(super) struct RateBucket {
    per_minute: u64,
    /// In thousandths of a minute's part: level times [`MINUTE_MS`].
    level: i64,
    at_ms: Option<u64>,
}

impl RateBucket {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute: u64::from(per_minute), level: 0, at_ms: None }
    }

    /// Fills so fast from now on, and holds as much of what it had as it has room for.
    pub(super) fn change(&mut self, per_minute: u32) {
        self.per_minute = u64::from(per_minute);
        self.level = self.level.min(self.capacity());
    }

    fn capacity(&self) -> i64 {
        let burst = self.per_minute.saturating_mul(BURST_MS);
        i64::try_from(burst.max(MINUTE_MS)).unwrap_or(i64::MAX)
    }

    /// When so much may be taken: a time that has come, or that will.
    pub(super) fn free_at(&mut self, now_ms: u64, some: u64) -> u64 {
        let capacity = self.capacity();
        let since = self.at_ms.replace(now_ms);
        let filled = since.map_or(capacity, |since| {
            let elapsed = now_ms.saturating_sub(since).saturating_mul(self.per_minute);
            self.level.saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX))
        });
        self.level = filled.min(capacity);
        // What is more than the bucket holds is let through once it is full, and paid off after.
        let need = i64::try_from(some.saturating_mul(MINUTE_MS)).unwrap_or(i64::MAX).min(capacity);
        let lacks = need.saturating_sub(self.level);
        match u64::try_from(lacks) {
            Ok(lacks @ 1..) => now_ms.saturating_add(lacks.div_ceil(self.per_minute.max(1))),
            _ => now_ms,
        }
    }

    /// Takes so much.
    pub(super) fn take(&mut self, some: u64) {
        let some = i64::try_from(some.saturating_mul(MINUTE_MS)).unwrap_or(i64::MAX);
        self.level = self.level.saturating_sub(some);
    }

    /// Gives back what was taken and not needed.
    pub(super) fn give_back(&mut self, some: u64) {
        let some = i64::try_from(some.saturating_mul(MINUTE_MS)).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(some).min(self.capacity());
    }
}

/// Requests under way: halved when the judge says that it is too much, grown slowly after.
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

    /// Lets so many be under way from now on, whatever the judge said of the number before.
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

    /// One has ended; `is_good` is `None` where that says nothing of the load.
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
