//! Spending budget of a judge over rolling windows of an hour and a day: cost is reserved before a
//! request and settled after it.
//!
//! Spending is summed by the minute, and counts for an hour and for a day after the end of its
//! minute. So the spending of any hour exceeds its budget at most by requests under way that cost
//! more than was reserved for them.
//!
//! With an even pace a token bucket stands before the windows: an hour's budget is its rate, five
//! minutes' worth its size. Without it a burst spends the hour in its first minutes, and traces of
//! the rest of the hour are not evaluated at all.

use std::collections::VecDeque;

const MINUTE_MS: u64 = 60_000;
const HOUR_MINUTES: u64 = 60;
const DAY_MINUTES: u64 = 24 * HOUR_MINUTES;
/// Size of the pace bucket, as a fraction of the hour's budget: a twelfth, five minutes' worth.
const AHEAD_PARTS: u64 = 12;

/// Room of a budget for a request, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::judge) enum BudgetRoom {
    /// It is spent.
    Spent,
    /// Open requests have reserved it: their settlement may free it.
    Reserved,
    /// There is room.
    Free,
}

/// Meter of one limited quantity: money in nano-dollars, or tokens.
#[derive(Clone, Debug, Default)]
pub(in crate::judge) struct SpendMeter {
    per_hour: Option<u64>,
    per_day: Option<u64>,
    is_even: bool,
    /// Spending by minute since 1970, ascending, none older than a day.
    spent: VecDeque<(u64, u64)>,
    reserved: u64,
    /// Level of the pace bucket, and the time of its last refill. Negative after a request that
    /// cost more than its reservation.
    ready: f64,
    ready_ms: Option<u64>,
}

impl SpendMeter {
    /// Creates a meter with nothing spent; `None` is no limit.
    pub(in crate::judge) fn new(
        per_hour: Option<u64>,
        per_day: Option<u64>,
        is_even: bool,
    ) -> Self {
        Self { per_hour, per_day, is_even, ..Self::default() }
    }

    /// Takes over the limits of `other`; spending and reservations stay.
    pub(in crate::judge) fn change(&mut self, other: Self) {
        let is_paced_alike = (self.per_hour, self.is_even) == (other.per_hour, other.is_even);
        (self.per_hour, self.per_day, self.is_even) =
            (other.per_hour, other.per_day, other.is_even);
        if !is_paced_alike {
            self.ready_ms = None;
        }
    }

    /// Continues with the spending of an earlier process, and with what it had reserved at its
    /// end.
    pub(in crate::judge) fn restore(&mut self, spent: Vec<(u64, u64)>, open: u64, now_ms: u64) {
        self.spent = spent.into();
        if open > 0 {
            self.spent.push_back((now_ms / MINUTE_MS, open));
        }
        self.spent.make_contiguous().sort_unstable();
        let over = self.spent.len().saturating_sub(DAY_MINUTES as usize + 1);
        self.spent.drain(..over);
    }

    /// Returns the spending by minute since 1970, from `minute` on.
    pub(in crate::judge) fn spent_since(&self, minute: u64) -> Vec<(u64, u64)> {
        let first = self.spent.partition_point(|(at, _)| *at < minute);
        self.spent.range(first..).copied().collect()
    }

    /// Sums the spending of the last hour and of the last day.
    pub(in crate::judge) fn sums(&self, now_ms: u64) -> (u64, u64) {
        let minute = now_ms / MINUTE_MS;
        let within = |minutes: u64| {
            let young = |(at, _): &&(u64, u64)| minute.saturating_sub(*at) <= minutes;
            self.spent.iter().filter(young).fold(0u64, |sum, (_, some)| sum.saturating_add(*some))
        };
        (within(HOUR_MINUTES), within(DAY_MINUTES))
    }

    /// Returns the room for `some`, in both windows and in the pace.
    pub(in crate::judge) fn room(&mut self, now_ms: u64, some: u64) -> BudgetRoom {
        self.refill(now_ms, some);
        let (hour, day) = self.sums(now_ms);
        let fits = |reserved: u64| {
            let within = |spent: u64, most: Option<u64>| {
                most.is_none_or(|most| spent.saturating_add(reserved).saturating_add(some) <= most)
            };
            // The unused part of open requests returns to the bucket of the pace, too.
            let returned = (self.reserved - reserved) as f64;
            let is_paced = self.pace().is_none_or(|_| self.ready + returned >= some as f64);
            within(hour, self.per_hour) && within(day, self.per_day) && is_paced
        };
        if fits(self.reserved) {
            BudgetRoom::Free
        } else if self.reserved > 0 && fits(0) {
            BudgetRoom::Reserved
        } else {
            BudgetRoom::Spent
        }
    }

    /// Returns the reservations of requests under way.
    pub(in crate::judge) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns the spending of the last day, and what is reserved.
    pub(in crate::judge) fn booked(&self, now_ms: u64) -> (u64, u64) {
        (self.sums(now_ms).1, self.reserved)
    }

    /// Reserves `some`.
    pub(in crate::judge) fn reserve(&mut self, some: u64) {
        self.reserved = self.reserved.saturating_add(some);
        self.ready -= some as f64;
    }

    /// Releases a reservation and books the actual spending.
    pub(in crate::judge) fn settle(&mut self, now_ms: u64, reserved: u64, spent: u64) {
        self.reserved = self.reserved.saturating_sub(reserved);
        self.ready += reserved as f64 - spent as f64;
        let minute = now_ms / MINUTE_MS;
        match self.spent.back_mut() {
            Some((last, sum)) if *last >= minute => *sum = sum.saturating_add(spent),
            _ if spent > 0 => self.spent.push_back((minute, spent)),
            _ => {}
        }
        let is_old = |at: u64| minute.saturating_sub(at) > DAY_MINUTES;
        while self.spent.front().is_some_and(|(at, _)| is_old(*at)) {
            self.spent.pop_front();
        }
    }

    fn pace(&self) -> Option<u64> {
        self.per_hour.filter(|_| self.is_even)
    }

    /// Refills the pace bucket for the time since the last call.
    ///
    /// It always has room for one request: one larger than five minutes' worth would never pass
    /// else.
    fn refill(&mut self, now_ms: u64, some: u64) {
        let Some(hour) = self.pace() else { return };
        let most = (hour / AHEAD_PARTS).max(some.min(hour)) as f64;
        let since = self.ready_ms.replace(now_ms);
        self.ready = match since {
            None => most,
            Some(since) => {
                let elapsed = now_ms.saturating_sub(since) as f64;
                (self.ready + elapsed * hour as f64 / (HOUR_MINUTES * MINUTE_MS) as f64).min(most)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Random requests at random times: no hour or day spends more than its budget.
        #[test]
        fn no_hour_costs_more_than_its_budget(
            steps in prop::collection::vec((0..200_000u64, 1..400u64, 0..=100u64), 1..400),
            is_even: bool,
        ) {
            let mut meter = SpendMeter::new(Some(1_000), Some(5_000), is_even);
            let mut now_ms = 1_000_000_000u64;
            let mut all = Vec::new();
            for (wait, reserve, percent) in steps {
                now_ms += wait;
                if meter.room(now_ms, reserve) != BudgetRoom::Free {
                    continue;
                }
                meter.reserve(reserve);
                let spent = reserve * percent / 100;
                meter.settle(now_ms, reserve, spent);
                all.push((now_ms, spent));
                let within = |ms: u64| -> u64 {
                    all.iter().filter(|(at, _)| now_ms - at < ms).map(|(_, spent)| spent).sum()
                };
                prop_assert!(within(60 * MINUTE_MS) <= 1_000);
                prop_assert!(within(DAY_MINUTES * MINUTE_MS) <= 5_000);
            }
            prop_assert_eq!(meter.reserved, 0);
        }
    }

    #[test]
    fn even_spending_spreads_the_hour() {
        let mut meter = SpendMeter::new(Some(1_200), None, true);
        let mut by_quarter = [0u64; 4];
        for second in 0..3_600u64 {
            let now_ms = second * 1_000;
            if meter.room(now_ms, 10) == BudgetRoom::Free {
                meter.reserve(10);
                meter.settle(now_ms, 10, 10);
                by_quarter[(second / 900) as usize] += 10;
            }
        }
        assert_eq!(by_quarter.iter().sum::<u64>(), 1_200, "{by_quarter:?}");
        assert!(by_quarter.iter().all(|quarter| (190..=400).contains(quarter)), "{by_quarter:?}");
    }

    #[test]
    fn what_an_earlier_process_spent_counts() {
        let mut meter = SpendMeter::new(Some(100), None, false);
        meter.reserve(90);
        meter.settle(MINUTE_MS * 1_000, 90, 90);
        let mut next = SpendMeter::new(Some(100), None, false);
        next.restore(meter.spent_since(0), 0, MINUTE_MS * 1_001);
        assert_eq!(next.room(MINUTE_MS * 1_059, 20), BudgetRoom::Spent);
        assert_eq!(next.room(MINUTE_MS * 1_062, 20), BudgetRoom::Free);
        let mut killed = SpendMeter::new(Some(100), None, false);
        killed.restore(vec![(1_000, 50)], 40, MINUTE_MS * 1_030);
        assert_eq!(killed.room(MINUTE_MS * 1_031, 20), BudgetRoom::Spent);
        assert_eq!(killed.room(MINUTE_MS * 1_062, 60), BudgetRoom::Free);
        assert_eq!(killed.room(MINUTE_MS * 1_062, 70), BudgetRoom::Spent, "until its own hour");
    }

    #[test]
    fn what_open_requests_may_give_back_is_not_spent() {
        let mut meter = SpendMeter::new(Some(100), None, false);
        meter.reserve(60);
        assert_eq!(meter.room(0, 60), BudgetRoom::Reserved);
        assert_eq!(meter.room(0, 101), BudgetRoom::Spent, "it would never fit");
        meter.settle(0, 60, 10);
        assert_eq!(meter.room(0, 60), BudgetRoom::Free);
        meter.reserve(60);
        meter.settle(0, 60, 60);
        assert_eq!(meter.room(0, 60), BudgetRoom::Spent);
    }
}
