//! Circuit breaker of an exporter: requests wait while their backend accepts none.
//!
//! A permanent refusal closes the circuit, since the backend answered. Waits grow by the back-off
//! of `retry_on_failure`, and respect the backend's requested wait.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use spanscore_net::backoff::{chance, millis};
use spanscore_net::circuit::{Circuit, CircuitRules, CircuitState};
use spanscore_net::client::retry::{RetrySettings, heeded};

/// Consecutive failures that open the circuit; with single failures the other requests go on.
const FAILURES_MAX: u32 = 5;

/// Circuit breaker of a backend, with its waiting requests.
pub(crate) struct CircuitGate {
    /// Reference time of the circuit.
    born: Instant,
    inner: Mutex<GateState>,
    changed: Notify,
}

struct GateState {
    circuit: Circuit,
    last_taken: Instant,
}

impl CircuitGate {
    /// Creates a closed circuit; waits follow the settings, without a time limit.
    pub(super) fn new(retries: &RetrySettings) -> Self {
        let rules = CircuitRules { row: FAILURES_MAX, window: None, waits: retries.backoff() };
        let born = Instant::now();
        let inner = GateState { circuit: Circuit::new(rules), last_taken: born };
        Self { born, inner: Mutex::new(inner), changed: Notify::new() }
    }

    /// Returns the number of its state in metrics.
    pub(crate) fn state_number(&self) -> u64 {
        match self.inner.lock().circuit.state() {
            CircuitState::Closed => 0,
            CircuitState::HalfOpen => 1,
            CircuitState::Open { .. } => 2,
        }
    }

    /// Returns the time since the backend last accepted a request, or since the start.
    pub(crate) fn since_taken(&self) -> Duration {
        self.inner.lock().last_taken.elapsed()
    }

    /// Returns true if the circuit is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.inner.lock().circuit.state() == CircuitState::Closed
    }

    /// Waits until a request is admitted, normally or as the probe.
    pub(super) async fn enter(&self) -> Pass<'_> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let state = {
                let circuit = &mut self.inner.lock().circuit;
                let state = circuit.state();
                if state.admits(self.now_ms()) {
                    circuit.begin();
                    return Pass { gate: self, is_probe: state != CircuitState::Closed };
                }
                state
            };
            match state {
                CircuitState::Open { until_ms } => tokio::select! {
                    () = changed => {}
                    () = sleep_until(self.born + Duration::from_millis(until_ms)) => {}
                },
                _ => changed.await,
            }
        }
    }

    /// Admits a request in any state, for a sender that does not wait.
    pub(super) fn pass_anyway(&self) -> Pass<'_> {
        Pass { gate: self, is_probe: false }
    }

    /// Changes the circuit, and wakes the waiting requests.
    fn change(&self, change: impl FnOnce(&mut GateState)) {
        change(&mut self.inner.lock());
        self.changed.notify_waiters();
    }

    fn now_ms(&self) -> u64 {
        millis(self.born.elapsed())
    }
}

/// Permit to send one request. Dropping a probe's permit lets the next request probe.
pub(super) struct Pass<'a> {
    gate: &'a CircuitGate,
    is_probe: bool,
}

impl Pass<'_> {
    /// Reports acceptance, which closes the circuit.
    pub(super) fn taken(self) {
        self.gate.inner.lock().last_taken = Instant::now();
        self.answered();
    }

    /// Reports a permanent refusal, which closes the circuit, since the backend answered.
    pub(super) fn answered(mut self) {
        self.is_probe = false;
        self.gate.change(|state| state.circuit.close());
    }

    /// Reports a failure; `after` is the wait that the backend requests.
    pub(super) fn failed(mut self, after: Option<Duration>) {
        let is_probe = std::mem::take(&mut self.is_probe);
        let now_ms = self.gate.now_ms();
        self.gate.change(|state| {
            state.circuit.fail(now_ms, is_probe, chance(), heeded(after));
        });
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            self.gate.change(|state| state.circuit.abandon());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuit() -> CircuitGate {
        CircuitGate::new(&RetrySettings::default())
    }

    async fn open(circuit: &CircuitGate) {
        for _ in 0..FAILURES_MAX {
            circuit.enter().await.failed(None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn circuit_opens_after_failures_one_after_another() {
        let circuit = circuit();
        for _ in 0..FAILURES_MAX - 1 {
            circuit.enter().await.failed(None);
        }
        circuit.enter().await.taken();
        circuit.enter().await.failed(None);
        assert!(circuit.is_closed());
        open(&circuit).await;
        assert_eq!(circuit.state_number(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn open_circuit_lets_one_probe_pass_at_a_time() {
        let circuit = circuit();
        open(&circuit).await;
        let started = Instant::now();
        let probe = circuit.enter().await;
        assert!(started.elapsed() >= Duration::from_millis(500), "{:?}", started.elapsed());
        assert_eq!(circuit.state_number(), 1);
        let second = tokio::time::timeout(Duration::from_secs(60), circuit.enter()).await;
        assert!(second.is_err());
        probe.failed(Some(Duration::from_secs(20)));
        let started = Instant::now();
        // After a dropped probe the next one may try at once.
        drop(circuit.enter().await);
        assert!(started.elapsed() >= Duration::from_secs(20));
        circuit.enter().await.taken();
        assert!(circuit.is_closed());
        assert_eq!(circuit.inner.lock().last_taken, Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn answer_lets_all_pass_that_wait() {
        let circuit = circuit();
        open(&circuit).await;
        let waiting = async { tokio::join!(circuit.enter(), circuit.enter()) };
        let probe = circuit.enter().await;
        let answer = async { probe.answered() };
        let ((one, other), ()) = tokio::join!(waiting, answer);
        assert!(!one.is_probe && !other.is_probe);
    }
}
