//! Admission of requests to a judge: circuit breaker, concurrency, rates and budget, in this order.
//! Pure: `(state, question, now) -> answer`.
//!
//! The budget is asked last, as it ends an inquiry, where the others mostly make it wait.

mod budget;
mod concurrency;

use std::time::Duration;

use budget::BudgetRoom;
pub(in crate::judge) use budget::SpendMeter;
use concurrency::Concurrency;

use super::settings::{BudgetPace, JudgePrice, JudgeSettings};
use super::wire::{Fault, TokenUsage};
use spanscore_net::backoff::{Backoff, millis};
use spanscore_net::circuit::{Circuit, CircuitRules, CircuitState};
use spanscore_net::rate::TokenBucket;

/// Nano-dollars per dollar.
const NANO: f64 = 1e9;
const MINUTE_MS: u64 = 60_000;
/// Burst of a bucket: the inflow of this time, milliseconds.
const BURST_MS: u64 = 10_000;

/// Faults in a row, or in the last answers of a minute, that open the circuit.
const CIRCUIT: CircuitRules = CircuitRules {
    row: 5,
    window: Some((20, Duration::from_secs(60))),
    waits: Backoff::doubling(Duration::from_secs(30), Duration::from_secs(600)),
};
/// Wait after a refused key or an exhausted quota, which only a person can mend. Does not grow: it
/// bounds the delay after the mending.
const LOCKED: Duration = Duration::from_secs(300);

/// Tokens and nano-dollars reserved for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::judge) struct Reservation {
    tokens: u64,
    nano: u64,
}

/// Reason why a request is not admitted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::judge) enum GateBlock {
    /// Circuit breaker.
    Circuit {
        /// Time of the next probe, Unix milliseconds, if known.
        until_ms: Option<u64>,
        /// True if only a person can help: key or quota.
        is_locked: bool,
    },
    /// Concurrency limit: retry when a request has ended.
    Busy,
    /// Rate limit, ours or one that the judge demanded.
    Rate {
        /// Earliest time of a retry, Unix milliseconds.
        until_ms: u64,
    },
    /// Budget that open requests have reserved: retry when one has ended.
    Reserved,
    /// Budget that is spent: no use in waiting here.
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
    /// True if the circuit opened last by a refused key or an exhausted quota.
    is_locked: bool,
    concurrency: Concurrency,
    requests: TokenBucket,
    tokens: TokenBucket,
    /// End of the pause that a 429 asked for, Unix milliseconds.
    paused_until_ms: u64,
    /// Budget in money, nano-dollars.
    pub(in crate::judge) money: SpendMeter,
    pub(in crate::judge) spent_tokens: SpendMeter,
    price: Option<JudgePrice>,
}

impl JudgeGate {
    /// Creates a gate with nothing spent and nothing under way.
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
        }
    }

    /// Takes over new settings of the same judge. Spending and requests under way carry over; the
    /// circuit starts closed, as the change may be the repair.
    pub(in crate::judge) fn change(&mut self, judge: &JudgeSettings) {
        let new = Self::new(judge);
        self.circuit = new.circuit;
        self.price = new.price;
        self.concurrency.change(judge.limits.concurrency);
        self.requests.change(judge.limits.requests_per_minute.into());
        self.tokens.change(judge.limits.tokens_per_minute.into());
        self.money.change(new.money);
        self.spent_tokens.change(new.spent_tokens);
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

    /// Admits a request and reserves its worst case: `estimate` tokens in and out.
    ///
    /// # Errors
    /// The limit that is in the way.
    pub(in crate::judge) fn begin(
        &mut self,
        now_ms: u64,
        estimate: TokenUsage,
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
        let reservation = Reservation { tokens, nano: self.cost(estimate) };
        let money = self.money.room(now_ms, reservation.nano);
        match money.min(self.spent_tokens.room(now_ms, tokens)) {
            BudgetRoom::Spent => return Err(GateBlock::Budget),
            BudgetRoom::Reserved => return Err(GateBlock::Reserved),
            BudgetRoom::Free => {}
        }
        self.money.reserve(reservation.nano);
        self.spent_tokens.reserve(tokens);
        self.requests.take(1);
        self.tokens.take(tokens);
        self.concurrency.begin();
        self.circuit.begin();
        Ok(reservation)
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
            // Without a count the worst case is booked: a budget errs on the safe side.
            Ended::Replied(_) => (reservation.tokens, reservation.nano),
            Ended::Fault(fault) if fault.may_cost() => (reservation.tokens, reservation.nano),
            Ended::Fault(_) => (0, 0),
        };
        self.money.settle(now_ms, reservation.nano, nano);
        self.spent_tokens.settle(now_ms, reservation.tokens, tokens);
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
                // Any answer that comes while a probe is on its way counts as the probe's.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gate(more: serde_json::Value) -> JudgeGate {
        let mut settings = json!({"api": "openai", "model": "m",
            "price": {"input": 0.25, "cached_input": 0.03, "output": 2.0}});
        for (key, value) in more.as_object().expect("a map") {
            settings[key] = value.clone();
        }
        JudgeGate::new(&serde_json::from_value(settings).expect("settings"))
    }

    const ASKED: TokenUsage = TokenUsage { input: 1_000, cached: 0, output: 500 };

    #[test]
    fn usage_costs_what_the_prices_say() {
        let usage = TokenUsage { input: 1_000_000, cached: 500_000, output: 1_000_000 };
        // 0.125 for what is new, 0.015 for what was cached, 2 for the answer.
        assert_eq!(gate(json!({})).cost(usage), 2_140_000_000);
    }

    #[test]
    fn budgets_are_reserved_before_and_settled_after() {
        let mut gate = gate(json!({"budget": {"usd_per_hour": 0.0025, "pace": "any"}}));
        let reservation = gate.begin(0, ASKED).expect("there is room");
        assert_eq!(reservation.nano, 1_250_000);
        let second = gate.begin(0, ASKED).expect("there is room");
        assert_eq!(gate.begin(0, ASKED), Err(GateBlock::Reserved));
        let used = TokenUsage { output: 1, ..ASKED };
        assert_eq!(gate.end(0, reservation, Ended::Replied(used)), 252_000);
        assert_eq!(gate.begin(0, ASKED), Err(GateBlock::Reserved), "the other may cost less");
        gate.end(0, second, Ended::Replied(ASKED));
        assert_eq!(gate.begin(0, ASKED), Err(GateBlock::Budget), "less than a request is left");
    }

    #[test]
    fn unknown_cost_is_taken_as_reserved_and_what_was_not_sent_is_free() {
        let mut gate = gate(json!({}));
        let mut cost = |fault: Fault| {
            let reservation = gate.begin(0, ASKED).expect("there is room");
            gate.end(0, reservation, Ended::Fault(&fault))
        };
        assert_eq!(cost(Fault::Broken(String::new())), 1_250_000);
        assert_eq!(cost(Fault::Unreachable(String::new())), 0);
        assert_eq!(cost(Fault::Overflow), 0);
    }

    #[test]
    fn other_settings_keep_what_was_spent_and_what_is_under_way() {
        let of = |usd: f64, concurrency: u32| {
            json!({"budget": {"usd_per_hour": usd, "pace": "any"},
                "limits": {"concurrency": concurrency}})
        };
        let mut own = gate(of(0.0025, 1));
        let settings = |more: serde_json::Value| {
            let mut all = json!({"api": "openai", "model": "m",
                "price": {"input": 0.25, "cached_input": 0.03, "output": 2.0}});
            more.as_object().expect("a map").iter().for_each(|(k, v)| all[k] = v.clone());
            serde_json::from_value(all).expect("settings")
        };
        let first = own.begin(0, ASKED).expect("there is room");
        assert_eq!(own.begin(0, ASKED), Err(GateBlock::Busy));
        own.change(&settings(of(0.0025, 3)));
        let second = own.begin(0, ASKED).expect("one more may be under way");
        assert_eq!(own.begin(0, ASKED), Err(GateBlock::Reserved), "two are to be paid");
        own.change(&settings(of(0.005, 3)));
        assert!(own.begin(0, ASKED).is_ok());
        for reservation in [first, second] {
            own.end(0, reservation, Ended::Replied(ASKED));
        }
        own.change(&settings(of(0.0025, 3)));
        assert_eq!(own.begin(0, ASKED), Err(GateBlock::Budget), "what was spent is spent");
    }

    #[test]
    fn a_wrong_key_locks_the_judge_for_five_minutes() {
        let mut gate = gate(json!({}));
        let reservation = gate.begin(0, ASKED).expect("there is room");
        let locked = Fault::Locked("judge_key", String::new());
        gate.end(0, reservation, Ended::Fault(&locked));
        let block = GateBlock::Circuit { until_ms: Some(300_000), is_locked: true };
        assert_eq!((gate.begin(0, ASKED), gate.is_open(299_999)), (Err(block), false));
        assert!(gate.begin(300_000, ASKED).is_ok());
    }

    #[test]
    fn a_judge_that_says_wait_is_left_alone_for_so_long() {
        let mut gate = gate(json!({}));
        let reservation = gate.begin(0, ASKED).expect("there is room");
        let after = Some(Duration::from_secs(7));
        gate.end(0, reservation, Ended::Fault(&Fault::TooMany { after }));
        assert_eq!(gate.begin(10, ASKED), Err(GateBlock::Rate { until_ms: 7_000 }));
        assert!(gate.begin(7_000, ASKED).is_ok());
    }
}
