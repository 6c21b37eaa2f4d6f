//! Circuit breaker of a backend: one that is away gets probes, and not all requests that wait.
//!
//! ```text
//! closed --- FAILURES_MAX failures one after another ---> open --- the wait is over ---> half open
//!   ^                                                      ^                                 |
//!   '---- it answers ----------------------------------------------------------------------- +
//!                                                          '---- it fails -------------------'
//! ```
//!
//! Closed, every request passes. Open, none does. Half open, one is on its way as a probe. A
//! request that is refused for good was answered: the backend is there. Waits grow by the back-off
//! of `retry_on_failure`, and heed the wait that the backend asks for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use spanscore_base::settings::HumanDuration;
use spanscore_net::client::retry::{Backoff, RetrySettings, chance};

/// Failures one after another that open the circuit: if only some requests fail, the others go on.
const FAILURES_MAX: u32 = 5;

/// State of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CircuitState {
    Closed,
    HalfOpen,
    Open { until: Instant },
}

impl CircuitState {
    /// Returns the number for it in metrics.
    fn number(self) -> u64 {
        match self {
            Self::Closed => 0,
            Self::HalfOpen => 1,
            Self::Open { .. } => 2,
        }
    }
}

/// Circuit breaker: lets requests pass while their backend takes them.
pub(crate) struct Circuit {
    waits: RetrySettings,
    inner: Mutex<CircuitInner>,
    changed: Notify,
}

struct CircuitInner {
    state: CircuitState,
    /// Failures since the last answer.
    failures: u32,
    backoff: Backoff,
    last_taken: Instant,
}

impl Circuit {
    /// Returns a closed circuit; waits grow as the settings say, without end.
    pub(super) fn new(retries: &RetrySettings) -> Self {
        let waits = RetrySettings {
            enabled: true,
            max_elapsed_time: Some(HumanDuration::default()),
            ..retries.clone()
        };
        let inner = CircuitInner {
            state: CircuitState::Closed,
            failures: 0,
            backoff: Backoff::new(&waits),
            last_taken: Instant::now(),
        };
        Self { waits, inner: Mutex::new(inner), changed: Notify::new() }
    }

    /// Returns the number for its state in metrics.
    pub(crate) fn state_number(&self) -> u64 {
        self.lock().state.number()
    }

    /// Returns the time since the backend last took a request, or since the start.
    pub(crate) fn since_taken(&self) -> Duration {
        self.lock().last_taken.elapsed()
    }

    /// Returns true if all requests pass.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().state == CircuitState::Closed
    }

    /// Waits until a request may pass, as one of all or as the probe.
    pub(super) async fn enter(&self) -> Pass<'_> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let until = {
                let mut inner = self.lock();
                match inner.state {
                    CircuitState::Closed => return self.pass_anyway(),
                    CircuitState::Open { until } if until <= Instant::now() => {
                        inner.state = CircuitState::HalfOpen;
                        return Pass { circuit: self, is_probe: true };
                    }
                    CircuitState::Open { until } => Some(until),
                    CircuitState::HalfOpen => None,
                }
            };
            match until {
                Some(until) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(until) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Lets a request pass in any state, for a sender that does not wait.
    pub(super) fn pass_anyway(&self) -> Pass<'_> {
        Pass { circuit: self, is_probe: false }
    }

    fn close(&self, is_taken: bool) {
        let mut inner = self.lock();
        (inner.state, inner.failures) = (CircuitState::Closed, 0);
        inner.backoff = Backoff::new(&self.waits);
        if is_taken {
            inner.last_taken = Instant::now();
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    fn fail(&self, is_probe: bool, after: Option<Duration>) {
        let mut inner = self.lock();
        inner.failures = inner.failures.saturating_add(1);
        let opens = inner.state == CircuitState::Closed && inner.failures >= FAILURES_MAX;
        if !is_probe && !opens {
            return;
        }
        let wait = inner.backoff.next(after, chance()).unwrap_or_default();
        inner.state = CircuitState::Open { until: Instant::now() + wait };
        drop(inner);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, CircuitInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permit of a request to pass. A probe's permit that is dropped lets the next request probe.
pub(super) struct Pass<'a> {
    circuit: &'a Circuit,
    is_probe: bool,
}

impl Pass<'_> {
    /// Reports that the backend took the request: closes the circuit.
    pub(super) fn taken(mut self) {
        self.is_probe = false;
        self.circuit.close(true);
    }

    /// Reports that the backend refused the request for good: closes the circuit, since it
    /// answered.
    pub(super) fn answered(mut self) {
        self.is_probe = false;
        self.circuit.close(false);
    }

    /// Reports that the request failed; `after` is the wait that the backend asks for.
    pub(super) fn failed(mut self, after: Option<Duration>) {
        let is_probe = std::mem::take(&mut self.is_probe);
        self.circuit.fail(is_probe, after);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            self.circuit.lock().state = CircuitState::Open { until: Instant::now() };
            self.circuit.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuit() -> Circuit {
        Circuit::new(&RetrySettings::default())
    }

    async fn open(circuit: &Circuit) {
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
        assert_eq!(circuit.lock().state.number(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn open_circuit_lets_one_probe_pass_at_a_time() {
        let circuit = circuit();
        open(&circuit).await;
        let started = Instant::now();
        let probe = circuit.enter().await;
        assert!(started.elapsed() >= Duration::from_millis(500), "{:?}", started.elapsed());
        assert_eq!(circuit.lock().state.number(), 1);
        let second = tokio::time::timeout(Duration::from_secs(60), circuit.enter()).await;
        assert!(second.is_err());
        probe.failed(Some(Duration::from_secs(20)));
        let started = Instant::now();
        // A dropped probe lets the next one try at once.
        drop(circuit.enter().await);
        assert!(started.elapsed() >= Duration::from_secs(20));
        circuit.enter().await.taken();
        assert!(circuit.is_closed());
        assert_eq!(circuit.lock().last_taken, Instant::now());
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
