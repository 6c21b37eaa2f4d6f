//! Circuit breaker of a judge: opens after faults in a row, after many among the last answers, or
//! when its key is refused or its money is gone.
//!
//! ```text
//! closed ── 5 faults in a row, or half of the last 20 answers within 60 s ──► open
//!    ▲                                                                         │ 30 s, doubled
//!    │                                                                         ▼ up to 10 min
//!    └── reply ◄──────────────── probe: one request at a time ────────────► fault: open again
//! ```
//!
//! Two rules open it, as each misses what the other sees: a dead judge is known after five
//! requests, one that fails every other time never fails five times in a row. While a probe is
//! under way the circuit reads as open, so that a judge that recovers is not met by the whole
//! backlog.

use std::collections::VecDeque;

/// Consecutive faults that open the circuit.
const ROW: u32 = 5;
/// Size of the sliding window, answers; half of them faults open the circuit.
const LAST: usize = 20;
/// Age limit of an answer in the window.
const LAST_MS: u64 = 60_000;
/// First back-off; doubles with each failed probe.
const WAIT_MS: u64 = 30_000;
/// Longest back-off.
const WAIT_MAX_MS: u64 = 600_000;
/// Wait after a refused key or an exhausted quota, which only a person can mend. Does not grow: it
/// bounds the delay after the mending.
const LOCKED_MS: u64 = 300_000;

/// State of the circuit breaker of one judge.
#[derive(Clone, Debug, Default)]
pub(super) struct JudgeCircuit {
    row: u32,
    last: VecDeque<(u64, bool)>,
    open_until_ms: Option<u64>,
    wait_ms: u64,
    is_probing: bool,
    is_locked: bool,
}

/// State of the circuit at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JudgeCircuitState {
    /// Requests pass.
    Closed,
    /// Half-open: one request may pass, as a probe.
    Probe,
    /// No request passes.
    Open {
        /// Time of the next probe, Unix milliseconds; `None` while a probe is under way.
        until_ms: Option<u64>,
        /// True after a refused key or an exhausted quota: a person has to act.
        is_locked: bool,
    },
}

impl JudgeCircuit {
    pub(super) fn state(&self, now_ms: u64) -> JudgeCircuitState {
        let is_locked = self.is_locked;
        match self.open_until_ms {
            None => JudgeCircuitState::Closed,
            Some(_) if self.is_probing => JudgeCircuitState::Open { until_ms: None, is_locked },
            Some(until) if now_ms >= until => JudgeCircuitState::Probe,
            Some(until) => JudgeCircuitState::Open { until_ms: Some(until), is_locked },
        }
    }

    /// Notes that a request was sent; it is the probe if the circuit is not closed.
    pub(super) fn begin(&mut self) {
        self.is_probing = self.open_until_ms.is_some();
    }

    /// Notes a reply; that of a probe closes the circuit.
    pub(super) fn succeeded(&mut self, now_ms: u64) {
        self.note(now_ms, false);
        self.row = 0;
        if self.is_probing {
            *self = Self::default();
        }
    }

    /// Notes a fault of the judge; that of a probe opens the circuit for twice as long.
    pub(super) fn failed(&mut self, now_ms: u64) {
        self.note(now_ms, true);
        self.row += 1;
        let faults = self.last.iter().filter(|(_, is_fault)| *is_fault).count();
        let is_many = self.last.len() == LAST && faults * 2 >= LAST;
        // While it is open, faults of earlier requests arrive: they tell nothing new.
        if self.is_probing || (self.open_until_ms.is_none() && (self.row >= ROW || is_many)) {
            self.open(now_ms, WAIT_MS, false);
        }
    }

    /// Notes an end that says nothing about the judge's health: another probe may be sent.
    pub(super) fn ended(&mut self) {
        self.is_probing = false;
    }

    /// Opens the circuit for five minutes: the key is refused, or the quota is exhausted.
    pub(super) fn locked(&mut self, now_ms: u64) {
        self.open(now_ms, LOCKED_MS, true);
    }

    fn open(&mut self, now_ms: u64, first_ms: u64, is_locked: bool) {
        self.wait_ms = match self.wait_ms {
            0 => first_ms,
            wait => (wait * 2).min(WAIT_MAX_MS),
        };
        if is_locked {
            self.wait_ms = LOCKED_MS;
        }
        self.open_until_ms = Some(now_ms.saturating_add(self.wait_ms));
        (self.is_probing, self.is_locked, self.row) = (false, is_locked, 0);
        self.last.clear();
    }

    fn note(&mut self, now_ms: u64, is_fault: bool) {
        self.last.push_back((now_ms, is_fault));
        let is_old = |at: u64| now_ms.saturating_sub(at) > LAST_MS;
        while self.last.len() > LAST || self.last.front().is_some_and(|(at, _)| is_old(*at)) {
            self.last.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(until_ms: u64) -> JudgeCircuitState {
        JudgeCircuitState::Open { until_ms: Some(until_ms), is_locked: false }
    }

    #[test]
    fn five_faults_open_it_and_one_probe_closes_it() {
        let mut circuit = JudgeCircuit::default();
        (0..4).for_each(|_| circuit.failed(0));
        circuit.succeeded(0);
        (0..4).for_each(|_| circuit.failed(0));
        assert_eq!(circuit.state(0), JudgeCircuitState::Closed);
        circuit.failed(0);
        assert_eq!(circuit.state(0), open(30_000));
        assert_eq!(circuit.state(30_000), JudgeCircuitState::Probe);
        circuit.begin();
        let probing = JudgeCircuitState::Open { until_ms: None, is_locked: false };
        assert_eq!(circuit.state(30_000), probing);
        circuit.failed(31_000);
        assert_eq!(circuit.state(31_000), open(91_000), "twice as long");
        circuit.begin();
        circuit.succeeded(91_000);
        assert_eq!(circuit.state(91_000), JudgeCircuitState::Closed);
    }

    #[test]
    fn half_of_the_last_open_it_and_waits_have_an_end() {
        let mut circuit = JudgeCircuit::default();
        for at in 0..20 {
            if at % 2 == 0 { circuit.succeeded(at) } else { circuit.failed(at) }
        }
        assert_eq!(circuit.state(20), open(30_019));
        for _ in 0..20 {
            circuit.begin();
            circuit.failed(0);
        }
        assert_eq!(circuit.state(0), open(600_000));
    }

    #[test]
    fn a_wrong_key_locks_it_for_five_minutes() {
        let mut circuit = JudgeCircuit::default();
        circuit.locked(0);
        let locked = JudgeCircuitState::Open { until_ms: Some(300_000), is_locked: true };
        assert_eq!(circuit.state(0), locked);
    }
}
