//! Circuit breaker: probes a failing backend instead of sending it all waiting requests.
//!
//! ```text
//! closed --- failures in a row, or many of the last ---> open --- the wait is over ---> half open
//!   ^                                                     ^                                 |
//!   '---- success ------------------------------------------------------------------------- +
//!                                                         '---- failure --------------------'
//! ```
//!
//! Two rules open it, since each misses failures that the other sees. The first detects a dead
//! backend after a few requests; the second detects one that fails every other time. While half
//! open, one request is sent as a probe, so a recovering backend does not receive the whole
//! backlog. Pure: `(state, event, now) -> state`; times are milliseconds since any fixed moment.

use std::collections::VecDeque;
use std::time::Duration;

use super::backoff::{Backoff, millis};

/// Rules for opening a circuit, and for the time that it stays open.
#[derive(Clone, Copy, Debug)]
pub struct CircuitRules {
    /// Failures in a row that open it.
    pub row: u32,
    /// Sliding window of a number of answers and a maximum age; it opens if half of them are
    /// failures.
    pub window: Option<(usize, Duration)>,
    /// Waits before a probe.
    pub waits: Backoff,
}

/// State of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// Requests pass.
    Closed,
    /// A probe is in flight; no other request passes.
    HalfOpen,
    /// No request passes until the end of the wait; the next one is a probe.
    Open {
        /// End of the wait, milliseconds.
        until_ms: u64,
    },
}

impl CircuitState {
    /// Returns true if a request may pass now.
    pub fn admits(self, now_ms: u64) -> bool {
        match self {
            Self::Closed => true,
            Self::HalfOpen => false,
            Self::Open { until_ms } => until_ms <= now_ms,
        }
    }
}

/// Circuit breaker of one backend.
#[derive(Clone, Debug)]
pub struct Circuit {
    rules: CircuitRules,
    state: CircuitState,
    /// Failures in a row.
    row: u32,
    /// Openings since it was closed.
    openings: u32,
    /// Answers in the window by time; true for a failure.
    recent: VecDeque<(u64, bool)>,
}

impl Circuit {
    /// Creates a closed circuit.
    pub fn new(rules: CircuitRules) -> Self {
        let state = CircuitState::Closed;
        Self { rules, state, row: 0, openings: 0, recent: VecDeque::new() }
    }

    /// Returns the state.
    pub fn state(&self) -> CircuitState {
        self.state
    }

    /// Notes that an admitted request is in flight; it is the probe unless the circuit is closed.
    pub fn begin(&mut self) {
        if self.state != CircuitState::Closed {
            self.state = CircuitState::HalfOpen;
        }
    }

    /// Notes an answer, which closes a half-open circuit.
    pub fn succeed(&mut self, now_ms: u64) {
        self.note(now_ms, false);
        self.row = 0;
        if self.state == CircuitState::HalfOpen {
            self.close();
        }
    }

    /// Notes a failure; returns true if the circuit opens, as it always does after a failed probe.
    /// `chance` is 0 to 1, `asked` the wait requested by the backend.
    pub fn fail(&mut self, now_ms: u64, is_probe: bool, chance: f64, asked: Duration) -> bool {
        self.note(now_ms, true);
        self.row = self.row.saturating_add(1);
        let is_worn = self.row >= self.rules.row || self.is_window_bad();
        let opens = is_probe || (self.state == CircuitState::Closed && is_worn);
        if opens {
            self.open(now_ms, self.rules.waits.wait(self.openings, chance).max(asked));
        }
        opens
    }

    /// Closes the circuit and forgets failures.
    pub fn close(&mut self) {
        *self = Self::new(self.rules);
    }

    /// Opens the circuit for a known wait; later waits are the longest.
    pub fn lock(&mut self, now_ms: u64, wait: Duration) {
        self.open(now_ms, wait);
        self.openings = u32::MAX;
    }

    /// Notes an end that says nothing about the backend: the next request may be the probe.
    pub fn abandon(&mut self) {
        if self.state == CircuitState::HalfOpen {
            self.state = CircuitState::Open { until_ms: 0 };
        }
    }

    fn open(&mut self, now_ms: u64, wait: Duration) {
        self.state = CircuitState::Open { until_ms: now_ms.saturating_add(millis(wait)) };
        self.openings = self.openings.saturating_add(1);
        self.row = 0;
        self.recent.clear();
    }

    fn is_window_bad(&self) -> bool {
        let failures = self.recent.iter().filter(|(_, is_failure)| *is_failure).count();
        let window = self.rules.window;
        window.is_some_and(|(len, _)| self.recent.len() == len && failures * 2 >= len)
    }

    fn note(&mut self, now_ms: u64, is_failure: bool) {
        let Some((len, age_max)) = self.rules.window else { return };
        self.recent.push_back((now_ms, is_failure));
        let is_old = |at_ms: u64| now_ms.saturating_sub(at_ms) > millis(age_max);
        while self.recent.len() > len || self.recent.front().is_some_and(|(at, _)| is_old(*at)) {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn circuit() -> Circuit {
        Circuit::new(CircuitRules {
            row: 5,
            window: Some((20, 60 * SECOND)),
            waits: Backoff::doubling(30 * SECOND, 600 * SECOND),
        })
    }

    fn fail(circuit: &mut Circuit, now_ms: u64) {
        let is_probe = circuit.state() == CircuitState::HalfOpen;
        circuit.fail(now_ms, is_probe, 0.5, Duration::ZERO);
    }

    fn open(until_ms: u64) -> CircuitState {
        CircuitState::Open { until_ms }
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_one_probe_closes_it() {
        let mut circuit = circuit();
        (0..4).for_each(|_| fail(&mut circuit, 0));
        circuit.succeed(0);
        (0..4).for_each(|_| fail(&mut circuit, 0));
        assert_eq!(circuit.state(), CircuitState::Closed);
        fail(&mut circuit, 0);
        assert_eq!(circuit.state(), open(30_000));
        let state = circuit.state();
        assert_eq!((state.admits(29_999), state.admits(30_000)), (false, true));
        circuit.begin();
        assert!(!circuit.state().admits(u64::MAX), "one probe at a time");
        fail(&mut circuit, 31_000);
        assert_eq!(circuit.state(), open(91_000), "twice as long");
        circuit.begin();
        circuit.abandon();
        assert!(circuit.state().admits(31_000), "it said nothing");
        circuit.begin();
        circuit.succeed(91_000);
        assert_eq!(circuit.state(), CircuitState::Closed);
    }

    #[test]
    fn half_of_the_last_open_it_and_waits_have_an_end() {
        let mut circuit = circuit();
        for at_ms in 0..20 {
            if at_ms % 2 == 0 {
                circuit.succeed(at_ms);
            } else {
                fail(&mut circuit, at_ms);
            }
        }
        assert_eq!(circuit.state(), open(30_019));
        for _ in 0..20 {
            circuit.begin();
            fail(&mut circuit, 0);
        }
        assert_eq!(circuit.state(), open(600_000));
    }

    #[test]
    fn locked_circuit_waits_longest_unless_a_retry_delay_is_longer() {
        let mut circuit = circuit();
        circuit.lock(0, 300 * SECOND);
        assert_eq!(circuit.state(), open(300_000));
        circuit.begin();
        fail(&mut circuit, 300_000);
        assert_eq!(circuit.state(), open(900_000));
        circuit.begin();
        assert!(circuit.fail(1_000, true, 0.5, 999 * SECOND));
        assert_eq!(circuit.state(), open(1_000_000));
    }
}
