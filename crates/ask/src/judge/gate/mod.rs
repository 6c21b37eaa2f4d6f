//! Admission of requests to a judge: circuit breaker, concurrency, rates and budget, in this order.
//! Pure: `(state, question, now) -> answer`.
//!
//! The budget is last, since it ends an inquiry, while the others mostly delay it.

mod budget;
mod concurrency;
mod shares;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(in crate::judge) use budget::{BudgetRequest, BudgetRoom, SpendMeter};
use concurrency::Concurrency;
pub(in crate::judge) use shares::ShareHolder;

use super::settings::{BudgetPace, JudgePrice, JudgeSettings};
use super::wire::{Fault, TokenUsage};
use spanscore_base::model::Sender;
use spanscore_net::backoff::{Backoff, millis};
use spanscore_net::circuit::{Circuit, CircuitRules, CircuitState};
use spanscore_net::rate::TokenBucket;

/// Nano-dollars per dollar.
const NANO: f64 = 1e9;
const MINUTE_MS: u64 = 60_000;
/// Burst of a bucket: the refill of this time, milliseconds.
const BURST_MS: u64 = 10_000;

/// Faults that open the circuit: in a row, or half of the last answers within a minute.
const CIRCUIT: CircuitRules = CircuitRules {
    row: 5,
    window: Some((20, Duration::from_secs(60))),
    waits: Backoff::doubling(Duration::from_secs(30), Duration::from_secs(600)),
};
/// Wait after a refused key or an exhausted quota, which need a person. Constant, so that it bounds
/// the delay after the repair.
const LOCKED: Duration = Duration::from_secs(300);

/// Tokens and nano-dollars reserved for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::judge) struct Reservation {
    tokens: u64,
    nano: u64,
    sender: Sender,
}

/// Reason that a request is not admitted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::judge) enum GateBlock {
    /// Circuit breaker.
    Circuit {
        /// Time of the next probe, Unix milliseconds, if known.
        until_ms: Option<u64>,
        /// True if only a person can help: key or quota.
        is_locked: bool,
    },
    /// Concurrency limit: retry after the end of a request.
    Busy,
    /// Rate limit, ours or the judge's.
    Rate {
        /// Earliest time of a retry, Unix milliseconds.
        until_ms: u64,
    },
    /// Budget reserved by requests in flight: retry after the end of one.
    Reserved,
    /// Share of a holder reserved by its requests in flight: others need not wait.
    ShareReserved(ShareHolder),
    /// Rest of the budget, which is for other senders.
    OthersShare,
    /// Spent budget: no use in waiting.
    Budget,
}

/// Outcome of a request, for the gate.
#[derive(Clone, Copy, Debug)]
pub(in crate::judge) enum Ended<'a> {
    /// Reply, with its usage.
    Replied(TokenUsage),
    /// Fault.
    Fault(&'a Fault),
}

/// Admission state of one judge.
#[derive(Clone, Debug)]
pub(in crate::judge) struct JudgeGate {
    circuit: Circuit,
    /// True if the circuit was opened by a refused key or an exhausted quota.
    is_locked: bool,
    concurrency: Concurrency,
    requests: TokenBucket,
    tokens: TokenBucket,
    /// End of the pause requested by a 429, Unix milliseconds.
    paused_until_ms: u64,
    /// Budget in money, nano-dollars.
    pub(in crate::judge) money: SpendMeter,
    pub(in crate::judge) spent_tokens: SpendMeter,
    price: Option<JudgePrice>,
    /// Answer of the configured maximum length.
    answer: TokenUsage,
}

impl JudgeGate {
    /// Returns a gate without spending and requests.
    pub(in crate::judge) fn new(judge: &JudgeSettings) -> Self {
        let limits = judge.limits;
        let budget = judge.budget;
        let is_even = budget.pace == BudgetPace::Even;
        let nano = |usd: Option<f64>| usd.map(|usd| (usd * NANO) as u64);
        let hour = nano(budget.usd_per_hour);
        let day = nano(budget.usd_per_day);
        Self {
            circuit: Circuit::new(CIRCUIT),
            is_locked: false,
            concurrency: Concurrency::new(limits.concurrency),
            requests: per_minute(limits.requests_per_minute),
            tokens: per_minute(limits.tokens_per_minute),
            paused_until_ms: 0,
            money: SpendMeter::new(hour, day, is_even),
            spent_tokens: SpendMeter::new(budget.tokens_per_hour, budget.tokens_per_day, is_even),
            price: judge.price,
            answer: TokenUsage { output: judge.max_tokens.into(), ..TokenUsage::default() },
        }
    }

    /// Takes new settings of the same judge. Spending and requests in flight carry over; the
    /// circuit is closed, since the change may be the repair.
    pub(in crate::judge) fn change(&mut self, judge: &JudgeSettings) {
        let new = Self::new(judge);
        self.circuit = new.circuit;
        (self.price, self.answer) = (new.price, new.answer);
        self.concurrency.change(judge.limits.concurrency);
        self.requests.change(judge.limits.requests_per_minute.into());
        self.tokens.change(judge.limits.tokens_per_minute.into());
        self.money.change(new.money);
        self.spent_tokens.change(new.spent_tokens);
    }

    /// Takes the meters of a predecessor, with its own limits.
    pub(in crate::judge) fn take_over(&mut self, before: &mut Self) {
        self.swap_meters(before);
        self.money.change(std::mem::take(&mut before.money));
        self.spent_tokens.change(std::mem::take(&mut before.spent_tokens));
    }

    /// Exchanges spending and reservations, with their limits.
    pub(in crate::judge) fn swap_meters(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.money, &mut other.money);
        std::mem::swap(&mut self.spent_tokens, &mut other.spent_tokens);
    }

    /// Returns the cost of a usage, nano-dollars; 0 without a price.
    pub(in crate::judge) fn cost(&self, usage: TokenUsage) -> u64 {
        let Some(price) = self.price else { return 0 };
        let cached = usage.cached.min(usage.input);
        let whole = (usage.input - cached) as f64 * price.input
            + cached as f64 * price.cached_input.unwrap_or(price.input)
            + usage.output as f64 * price.output;
        // Dollars per million tokens are thousands of nano-dollars per token.
        (whole * 1_000.0).ceil() as u64
    }

    /// Returns true unless the circuit is open.
    pub(in crate::judge) fn is_open(&self, now_ms: u64) -> bool {
        self.circuit.state().admits(now_ms)
    }

    /// Admits a request of a sender and reserves its worst case: `estimate` tokens in and out.
    ///
    /// # Errors
    /// The blocking limit.
    pub(in crate::judge) fn begin(
        &mut self,
        now_ms: u64,
        estimate: TokenUsage,
        sender: Sender,
    ) -> Result<Reservation, GateBlock> {
        if !self.is_open(now_ms) {
            let until_ms = match self.circuit.state() {
                CircuitState::Open { until_ms } => Some(until_ms),
                _ => None,
            };
            return Err(GateBlock::Circuit { until_ms, is_locked: self.is_locked });
        }
        if !self.concurrency.has_room() {
            return Err(GateBlock::Busy);
        }
        let tokens = estimate.total();
        let free_at = self.requests.free_at(now_ms, 1).max(self.tokens.free_at(now_ms, tokens));
        let until_ms = free_at.max(self.paused_until_ms);
        if until_ms > now_ms {
            return Err(GateBlock::Rate { until_ms });
        }
        let reservation = Reservation { tokens, nano: self.cost(estimate), sender };
        if let Some(block) = self.budget_room(now_ms, reservation).block() {
            return Err(block);
        }
        self.money.reserve(sender, reservation.nano);
        self.spent_tokens.reserve(sender, tokens);
        self.requests.take(1);
        self.tokens.take(tokens);
        self.concurrency.begin();
        self.circuit.begin();
        Ok(reservation)
    }

    /// Returns the smaller room of the budgets in money and in tokens.
    fn budget_room(&mut self, now_ms: u64, reservation: Reservation) -> BudgetRoom {
        let Reservation { tokens, nano, sender } = reservation;
        let money = BudgetRequest { amount: nano, answer: self.cost(self.answer), sender };
        let tokens = BudgetRequest { amount: tokens, answer: self.answer.output, sender };
        self.money.room(now_ms, &money).min(self.spent_tokens.room(now_ms, &tokens))
    }

    /// Settles a finished request; returns its cost, nano-dollars.
    pub(in crate::judge) fn end(
        &mut self,
        now_ms: u64,
        reservation: Reservation,
        ended: Ended<'_>,
    ) -> u64 {
        let (tokens, nano) = match ended {
            Ended::Replied(usage) if usage.total() > 0 => (usage.total(), self.cost(usage)),
            // Without a count the worst case is booked, so that the budget holds.
            Ended::Replied(_) => (reservation.tokens, reservation.nano),
            Ended::Fault(fault) if fault.may_cost() => (reservation.tokens, reservation.nano),
            Ended::Fault(_) => (0, 0),
        };
        let sender = reservation.sender;
        self.money.settle(now_ms, sender, reservation.nano, nano);
        self.spent_tokens.settle(now_ms, sender, reservation.tokens, tokens);
        self.tokens.give_back(reservation.tokens.saturating_sub(tokens));
        match ended {
            Ended::Replied(_) => {
                self.concurrency.end(Some(true));
                self.circuit.succeed(now_ms);
            }
            Ended::Fault(fault) => self.met(now_ms, fault),
        }
        nano
    }

    fn met(&mut self, now_ms: u64, fault: &Fault) {
        let is_too_much = matches!(fault, Fault::TooMany { .. });
        self.concurrency.end(is_too_much.then_some(false));
        if is_too_much {
            let after = fault.after().unwrap_or(Duration::ZERO);
            self.paused_until_ms = self.paused_until_ms.max(now_ms.saturating_add(millis(after)));
        }
        match fault {
            Fault::Locked(..) => {
                self.circuit.lock(now_ms, LOCKED);
                self.is_locked = true;
            }
            _ if fault.is_sickness() => {
                // Any answer during a probe counts as the probe's.
                let is_probe = self.circuit.state() == CircuitState::HalfOpen;
                let opened = self.circuit.fail(now_ms, is_probe, 0.5, Duration::ZERO);
                self.is_locked &= !opened;
            }
            _ => self.circuit.abandon(),
        }
    }
}

fn per_minute(rate: u32) -> TokenBucket {
    TokenBucket::new(rate.into(), MINUTE_MS, BURST_MS)
}
