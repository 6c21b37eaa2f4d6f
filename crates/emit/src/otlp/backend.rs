//! OTLP backend: sends a request with retries until accepted, permanently refused, or out of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};

use super::circuit::{CircuitGate, Pass};
use super::settings::OtlpExporterSettings;
use crate::Starting;
use crate::counters::{LogLimiter, PartMetrics};
use spanscore_base::otlp::Signal;
use spanscore_base::settings::Address;
use spanscore_net::backoff::chance;
use spanscore_net::client::retry::{Retries, RetrySettings, retry};
use spanscore_net::client::{Client, ExportOutcome, Protocol, SendError};
use spanscore_net::metrics::{CounterBy, label};

/// One OTLP backend.
pub(super) struct Backend {
    pub(super) name: Arc<str>,
    pub(super) client: Client,
    endpoint: Address,
    is_http: bool,
    pub(super) retry: RetrySettings,
    circuit: Arc<CircuitGate>,
    /// True, by signal (logs, traces), if it refused all parts of a request, and has accepted none
    /// since.
    refuses_all: [AtomicBool; 2],
    /// Counter of parts of refused requests.
    pub(super) parts: CounterBy,
    pub(super) trouble: LogLimiter,
    losses: LogLimiter,
    partly: LogLimiter,
}

impl Backend {
    /// Builds a client without connecting. The error names the wrong setting.
    pub(super) fn new(
        starting: &mut Starting<'_>,
        protocol: Protocol,
        settings: &OtlpExporterSettings,
        retry: RetrySettings,
    ) -> Result<Self, String> {
        let client = settings.connection(protocol).open()?;
        let circuit = Arc::new(CircuitGate::new(&retry));
        let shown = Arc::clone(&circuit);
        let name = starting.name().to_owned();
        starting.when_taken(move |instruments| instruments.gauges.circuits.watch(&name, shown));
        let parts = PartMetrics::new(&starting.instruments().meter);
        let PartMetrics { parts } = parts.of(&[label("exporter", starting.name())]);
        Ok(Self {
            name: starting.name().into(),
            client,
            endpoint: settings.endpoint.trimmed(),
            is_http: protocol != Protocol::Grpc,
            retry,
            circuit,
            refuses_all: Default::default(),
            parts,
            trouble: LogLimiter::default(),
            losses: LogLimiter::default(),
            partly: LogLimiter::default(),
        })
    }

    /// Sends an encoded request until it is accepted or given up; returns the number of rejected
    /// items. Waits while the circuit is open.
    pub(super) async fn send(&self, signal: Signal, request: Vec<u8>) -> Result<u64, SendError> {
        let body = self.client.prepare(request);
        let mut retries = Retries::new(&self.retry);
        loop {
            let pass = self.pass(retries.deadline()).await?;
            let error = match self.attempt(signal, body.clone()).await {
                Ok(rejected) => {
                    pass.taken();
                    self.note_refuses_all(signal, false);
                    return Ok(rejected);
                }
                Err(error) if error.is_refusal() => {
                    pass.answered();
                    return Err(error);
                }
                Err(error) => error,
            };
            pass.failed(error.requested_wait());
            let Some(wait) = retries.next(error.requested_wait(), chance()) else {
                return Err(error);
            };
            self.log_failure(error.text(), wait);
            // The wait of an open circuit replaces this one.
            if self.circuit.is_closed() {
                sleep(wait).await;
            }
        }
    }

    /// Returns true after several consecutive failures.
    pub(super) fn is_away(&self) -> bool {
        !self.circuit.is_closed()
    }

    /// Waits until the circuit admits a request, or until a deadline.
    async fn pass(&self, deadline: Option<Instant>) -> Result<Pass<'_>, SendError> {
        // Without retries a request does not wait for the circuit either.
        if !self.retry.enabled {
            return Ok(self.circuit.pass_anyway());
        }
        let turn = self.circuit.enter();
        match deadline {
            None => Ok(turn.await),
            Some(deadline) => timeout_at(deadline, turn).await.map_err(|_| {
                SendError::Unreachable("the backend took no requests in all the time".to_owned())
            }),
        }
    }

    /// Sends an encoded request with these retries, bypassing the circuit.
    pub(super) async fn send_within(
        &self,
        signal: Signal,
        request: Vec<u8>,
        retries: &RetrySettings,
    ) -> Result<u64, SendError> {
        let body = self.client.prepare(request);
        let attempt = || self.attempt(signal, body.clone());
        let sent = retry(retries, attempt, |error, wait| self.log_failure(error, wait)).await;
        if let Err(error) = &sent {
            self.log_loss(signal, error);
        }
        sent
    }

    /// Returns true if it has refused all parts of a request, so that others need no split.
    pub(super) fn refuses_all(&self, signal: Signal) -> bool {
        self.refuses_all[place(signal)].load(Ordering::Relaxed)
    }

    /// Sets the refusal of all of a signal.
    pub(super) fn note_refuses_all(&self, signal: Signal, refuses_all: bool) {
        self.refuses_all[place(signal)].store(refuses_all, Ordering::Relaxed);
    }

    fn log_failure(&self, error: &str, wait: std::time::Duration) {
        if self.trouble.may_log() {
            tracing::warn!(exporter = %self.name, error, ?wait,
                "failed to export evaluations, trying again");
        }
    }

    /// Logs the loss of a request.
    pub(super) fn log_loss(&self, signal: Signal, error: &SendError) {
        if self.losses.may_log() {
            let help = self.help(signal, error);
            let signal = self.signal(signal);
            tracing::warn!(exporter = %self.name, signal, error = error.text(), help,
                "failed to export evaluations, gave up");
        }
    }

    /// Describes a signal with its destination.
    pub(super) fn signal(&self, signal: Signal) -> String {
        let (word, path) = match signal {
            Signal::Traces => ("spans", "/v1/traces"),
            Signal::Logs => ("events", "/v1/logs"),
            Signal::Metrics => ("metrics", "/v1/metrics"),
        };
        let path = if self.is_http { path } else { "" };
        format!("{word} to {}{path}", self.endpoint)
    }

    /// Returns advice for a refused signal.
    pub(super) fn help(&self, signal: Signal, error: &SendError) -> &'static str {
        match signal {
            _ if !error.is_refusal() => "`retry_on_failure` says how long it is tried",
            Signal::Logs => "leave `event` out of `forms` if the backend takes no logs",
            Signal::Traces => "leave `span` out of `forms` if the backend takes no traces",
            Signal::Metrics => "leave `metric` out of `forms` if the backend takes no metrics",
        }
    }

    /// Sends a prepared request once; returns the number of rejected items.
    pub(super) async fn attempt(&self, signal: Signal, body: Bytes) -> Result<u64, SendError> {
        let sent = self.client.send(signal, body).await;
        let ExportOutcome { rejected, message } = SendError::unless_unreadable(sent)?;
        if (rejected > 0 || !message.is_empty()) && self.partly.may_log() {
            tracing::warn!(exporter = %self.name, rejected, message,
                "the backend took a request only in part, or with a warning");
        }
        Ok(rejected)
    }
}

/// Returns the index of a signal in `refuses_all`.
fn place(signal: Signal) -> usize {
    usize::from(signal == Signal::Traces)
}
