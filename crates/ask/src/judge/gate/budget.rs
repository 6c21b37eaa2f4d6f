//! Spending budget of a judge over rolling windows of an hour and a day: cost is reserved before a
//! request and settled after it.
//!
//! Spending is summed by the minute, and counts for an hour and a day after the end of its minute.
//! So the spending of any hour exceeds its budget only by requests in flight that cost more than
//! their reservation.
//!
//! With an even pace a token bucket precedes the windows: an hour's budget is its rate, five
//! minutes of that its size. Without it a burst would spend the hour's budget in its first minutes,
//! and later traces would not be evaluated at all.

use std::collections::VecDeque;

use super::GateBlock;
use super::shares::{BudgetWindow, ShareHolder, SpendShares};
use spanscore_base::model::Sender;

const MINUTE_MS: u64 = 60_000;
const HOUR_MINUTES: u64 = 60;
const DAY_MINUTES: u64 = 24 * HOUR_MINUTES;
/// Inverse of the pace bucket's share of the hour's budget: a twelfth, five minutes.
const AHEAD_PARTS: u64 = 12;

/// Room of a budget for a request, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::judge) enum BudgetRoom {
    /// The budget is spent.
    Spent,
    /// The rest is for other senders.
    OthersShare,
    /// Requests in flight have reserved it: their settlement may free it.
    Reserved,
    /// The settlement of requests in flight may free the share of this holder.
    ShareReserved(ShareHolder),
    /// There is room.
    Free,
}

impl BudgetRoom {
    /// Returns the reason that a request is not admitted, if any.
    pub(in crate::judge) fn block(self) -> Option<GateBlock> {
        match self {
            Self::Spent => Some(GateBlock::Budget),
            Self::OthersShare => Some(GateBlock::OthersShare),
            Self::Reserved => Some(GateBlock::Reserved),
            Self::ShareReserved(holder) => Some(GateBlock::ShareReserved(holder)),
            Self::Free => None,
        }
    }
}

/// Requested amount of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::judge) struct BudgetRequest {
    /// Worst case of the request.
    pub(in crate::judge) amount: u64,
    /// Part of that for an answer of the configured maximum length.
    pub(in crate::judge) answer: u64,
    /// Sender.
    pub(in crate::judge) sender: Sender,
}

/// Room for a request in the windows and the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BudgetFit {
    TooMuch,
    BeyondPace(ShareHolder),
    BeyondShare(ShareHolder),
    Fits,
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
    /// Level of the pace bucket, and the time of its last refill. Negative after a request beyond
    /// its reservation.
    ready: f64,
    ready_ms: Option<u64>,
    shares: SpendShares,
}

impl SpendMeter {
    /// Returns an unused meter; `None` is no limit.
    pub(in crate::judge) fn new(
        per_hour: Option<u64>,
        per_day: Option<u64>,
        is_even: bool,
    ) -> Self {
        Self { per_hour, per_day, is_even, ..Self::default() }
    }

    /// Takes the limits of `other`; spending and reservations stay.
    pub(in crate::judge) fn change(&mut self, other: Self) {
        let is_paced_alike = (self.per_hour, self.is_even) == (other.per_hour, other.is_even);
        (self.per_hour, self.per_day, self.is_even) =
            (other.per_hour, other.per_day, other.is_even);
        if !is_paced_alike {
            self.ready_ms = None;
        }
    }

    /// Continues with an earlier process's spending and its last reservations.
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

    /// Returns the room for a request, in both windows and in the pace.
    pub(in crate::judge) fn room(&mut self, now_ms: u64, request: &BudgetRequest) -> BudgetRoom {
        if !self.is_limited() {
            return BudgetRoom::Free;
        }
        self.refill(now_ms, request.amount);
        let now = self.fit(now_ms, request, true);
        if now == BudgetFit::Fits {
            return BudgetRoom::Free;
        }
        let settled = if self.reserved > 0 { self.fit(now_ms, request, false) } else { now };
        match (now, settled) {
            (BudgetFit::BeyondShare(holder) | BudgetFit::BeyondPace(holder), BudgetFit::Fits) => {
                BudgetRoom::ShareReserved(holder)
            }
            (_, BudgetFit::Fits) => BudgetRoom::Reserved,
            (_, BudgetFit::BeyondShare(_)) => BudgetRoom::OthersShare,
            (_, BudgetFit::TooMuch | BudgetFit::BeyondPace(_)) => BudgetRoom::Spent,
        }
    }

    /// Returns the fit of a request beside those in flight, or as if these were free.
    fn fit(&self, now_ms: u64, request: &BudgetRequest, is_open: bool) -> BudgetFit {
        let reserved = if is_open { self.reserved } else { 0 };
        let (hour, day) = self.sums(now_ms);
        let windows = [(self.per_hour, hour, HOUR_MINUTES), (self.per_day, day, DAY_MINUTES)];
        let mut fit = BudgetFit::Fits;
        for (limit, spent, minutes) in windows {
            let Some(limit) = limit else { continue };
            let all = spent.saturating_add(reserved).saturating_add(request.amount);
            let Some(left) = limit.checked_sub(all) else { return BudgetFit::TooMuch };
            let window = BudgetWindow { minutes, limit, left };
            if let Some(holder) = self.shares.exceeded(now_ms, window, request, is_open) {
                fit = fit.min(BudgetFit::BeyondShare(holder));
            }
        }
        // The unused part of reservations returns to the pace bucket, too.
        let ready = self.ready + (self.reserved - reserved) as f64;
        fit.min(self.fit_of_pace(now_ms, request, ready, is_open))
    }

    /// Returns the fit of a request in the pace, whose bucket has so much ready: who has little
    /// goes ahead of a pace that others have used up, as far as it is again.
    fn fit_of_pace(
        &self,
        now_ms: u64,
        request: &BudgetRequest,
        ready: f64,
        is_open: bool,
    ) -> BudgetFit {
        let Some(hour) = self.pace() else { return BudgetFit::Fits };
        let after = ready - request.amount as f64;
        let at_once = hour / AHEAD_PARTS;
        if after >= 0.0 {
            return BudgetFit::Fits;
        }
        if after < -(at_once as f64) {
            return BudgetFit::TooMuch;
        }
        let exceeded = self.shares.exceeded_part(now_ms, at_once, request, is_open);
        exceeded.map_or(BudgetFit::Fits, BudgetFit::BeyondPace)
    }

    /// Returns the reservations of requests in flight.
    pub(in crate::judge) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns the last day's spending, and the reserved amount.
    pub(in crate::judge) fn booked(&self, now_ms: u64) -> (u64, u64) {
        (self.sums(now_ms).1, self.reserved)
    }

    /// Reserves the requested amount.
    pub(in crate::judge) fn reserve(&mut self, sender: Sender, some: u64) {
        self.reserved = self.reserved.saturating_add(some);
        self.ready -= some as f64;
        if self.is_limited() {
            self.shares.reserve(sender, some);
        }
    }

    /// Releases a reservation and books the actual spending.
    pub(in crate::judge) fn settle(
        &mut self,
        now_ms: u64,
        sender: Sender,
        reserved: u64,
        spent: u64,
    ) {
        self.reserved = self.reserved.saturating_sub(reserved);
        self.ready += reserved as f64 - spent as f64;
        let is_limited = self.is_limited();
        self.shares.settle(now_ms, sender, reserved, if is_limited { spent } else { 0 });
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

    fn is_limited(&self) -> bool {
        self.per_hour.is_some() || self.per_day.is_some()
    }

    fn pace(&self) -> Option<u64> {
        self.per_hour.filter(|_| self.is_even)
    }

    /// Refills the pace bucket for the time since the last call.
    ///
    /// It always has room for one request, since one larger than five minutes' worth would never
    /// pass otherwise.
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

    fn of(peer: u32) -> Sender {
        Sender { peer, connection: 1, ..Sender::default() }
    }

    fn of_nobody(amount: u64) -> BudgetRequest {
        BudgetRequest { amount, ..BudgetRequest::default() }
    }

    proptest! {
        /// Random requests at random times: no hour or day exceeds its budget.
        #[test]
        fn hourly_budget_is_never_exceeded(
            steps in prop::collection::vec(
                (0..200_000u64, 1..400u64, 0..=100u64, 0..4u32), 1..400),
            is_even: bool,
        ) {
            let mut meter = SpendMeter::new(Some(1_000), Some(5_000), is_even);
            let mut now_ms = 1_000_000_000u64;
            let mut all = Vec::new();
            for (wait, reserve, percent, peer) in steps {
                now_ms += wait;
                let request = BudgetRequest { amount: reserve, answer: 1, sender: of(peer) };
                if meter.room(now_ms, &request) != BudgetRoom::Free {
                    continue;
                }
                meter.reserve(of(peer), reserve);
                let spent = reserve * percent / 100;
                meter.settle(now_ms, of(peer), reserve, spent);
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
            if meter.room(now_ms, &of_nobody(10)) == BudgetRoom::Free {
                meter.reserve(Sender::default(), 10);
                meter.settle(now_ms, Sender::default(), 10, 10);
                by_quarter[(second / 900) as usize] += 10;
            }
        }
        assert_eq!(by_quarter.iter().sum::<u64>(), 1_200, "{by_quarter:?}");
        assert!(by_quarter.iter().all(|quarter| (190..=400).contains(quarter)), "{by_quarter:?}");
    }

    #[test]
    fn what_an_earlier_process_spent_counts() {
        let mut meter = SpendMeter::new(Some(100), None, false);
        meter.reserve(Sender::default(), 90);
        meter.settle(MINUTE_MS * 1_000, Sender::default(), 90, 90);
        let mut next = SpendMeter::new(Some(100), None, false);
        next.restore(meter.spent_since(0), 0, MINUTE_MS * 1_001);
        assert_eq!(next.room(MINUTE_MS * 1_059, &of_nobody(20)), BudgetRoom::Spent);
        assert_eq!(next.room(MINUTE_MS * 1_062, &of_nobody(20)), BudgetRoom::Free);
        let mut killed = SpendMeter::new(Some(100), None, false);
        killed.restore(vec![(1_000, 50)], 40, MINUTE_MS * 1_030);
        assert_eq!(killed.room(MINUTE_MS * 1_031, &of_nobody(20)), BudgetRoom::Spent);
        assert_eq!(killed.room(MINUTE_MS * 1_062, &of_nobody(60)), BudgetRoom::Free);
        assert_eq!(
            killed.room(MINUTE_MS * 1_062, &of_nobody(70)),
            BudgetRoom::Spent,
            "until its own hour"
        );
    }

    #[test]
    fn what_open_requests_may_give_back_is_not_spent() {
        let mut meter = SpendMeter::new(Some(100), None, false);
        meter.reserve(Sender::default(), 60);
        assert_eq!(meter.room(0, &of_nobody(60)), BudgetRoom::Reserved);
        assert_eq!(meter.room(0, &of_nobody(101)), BudgetRoom::Spent, "it would never fit");
        meter.settle(0, Sender::default(), 60, 10);
        assert_eq!(meter.room(0, &of_nobody(60)), BudgetRoom::Free);
        meter.reserve(Sender::default(), 60);
        meter.settle(0, Sender::default(), 60, 60);
        assert_eq!(meter.room(0, &of_nobody(60)), BudgetRoom::Spent);
    }
}
