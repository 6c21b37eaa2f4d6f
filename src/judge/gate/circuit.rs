//! When a judge is not asked for a while: after faults in a row, after many of them, or where its
//! key or its money is the matter.

use std::collections::VecDeque;

/// Faults in a row that open it.
const ROW: u32 = 5;
/// Answers that are looked at together; half of them faults open it.
const LAST: usize = 20;
/// How old they may be.
const LAST_MS: u64 = 60_000;
/// The first wait; each further one is twice as long.
const WAIT_MS: u64 = 30_000;
/// The longest.
const WAIT_MAX_MS: u64 = 600_000;
/// The wait where a person has to do something.
const LOCKED_MS: u64 = 300_000;

/// Whether a judge may be asked.
#[derive(Clone, Debug, Default)]
pub(super) struct JudgeCircuit {
    row: u32,
    last: VecDeque<(u64, bool)>,
    open_until_ms: Option<u64>,
    wait_ms: u64,
    is_probing: bool,
    is_locked: bool,
}

/// What a circuit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JudgeCircuitState {
    /// Ask.
    Closed,
    /// Ask once, to see.
    Probe,
    /// Not before this time, if it is known: a probe may be under way.
    Open {
        /// When.
        until_ms: Option<u64>,
        /// A person has to do something.
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

    /// A request is under way; one at a time while it is open.
    pub(super) fn begin(&mut self) {
        self.is_probing = self.open_until_ms.is_some();
    }

    /// A request got an answer.
    pub(super) fn succeeded(&mut self, now_ms: u64) {
        self.note(now_ms, false);
        self.row = 0;
        if self.is_probing {
            *self = Self::default();
        }
    }

    /// A request met a fault of the judge.
    pub(super) fn failed(&mut self, now_ms: u64) {
        self.note(now_ms, true);
        self.row += 1;
        let faults = self.last.iter().filter(|(_, is_fault)| *is_fault).count();
        let is_many = self.last.len() == LAST && faults * 2 >= LAST;
        if self.is_probing || (self.open_until_ms.is_none() && (self.row >= ROW || is_many)) {
            self.open(now_ms, WAIT_MS, false);
        }
    }

    /// A request ended in a way that says nothing of the judge's health.
    pub(super) fn ended(&mut self) {
        self.is_probing = false;
    }

    /// The key is wrong, or there is no money.
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
