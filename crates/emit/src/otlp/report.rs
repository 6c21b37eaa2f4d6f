//! Periodic metric reports over OTLP: cumulative, each complete.
//!
//! A failed report needs no retry, since the next one repeats all of it. The last one, at shutdown,
//! is retried for up to [`LAST_REPORT_TIME`].

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::backend::Backend;
use super::convert;
use crate::scores::{Scores, now_ns};
use spanscore_base::otlp::Signal;
use spanscore_base::settings::HumanDuration;
use spanscore_net::client::retry::{RetrySettings, heeded};

/// Time limit of the last report's retries, so that a dead backend does not delay the shutdown.
const LAST_REPORT_TIME: HumanDuration = HumanDuration::from_secs(5);

/// Starts reporting; after the token's cancellation a last report ends the task.
pub(crate) fn start(
    backend: Arc<Backend>,
    scores: Arc<Scores>,
    interval: Duration,
) -> (CancellationToken, JoinHandle<()>) {
    let closing = CancellationToken::new();
    let report = |scores: &Scores| convert::metrics(scores, scores.start_ns, now_ns());
    let task = tokio::spawn(run(backend, scores, interval, closing.clone(), report));
    (closing, task)
}

async fn run(
    backend: Arc<Backend>,
    scores: Arc<Scores>,
    interval: Duration,
    closing: CancellationToken,
    report: impl Fn(&Scores) -> ExportMetricsServiceRequest,
) {
    let mut wait = interval;
    loop {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = closing.cancelled() => break,
        }
        wait = interval;
        let request = report(&scores);
        if request.resource_metrics.is_empty() {
            continue;
        }
        let body = backend.client.prepare(request.encode_to_vec());
        let attempt = tokio::select! {
            attempt = backend.attempt(Signal::Metrics, body) => attempt,
            () = closing.cancelled() => break,
        };
        let Err(failure) = attempt else { continue };
        let error = failure.text();
        if !failure.is_refusal() {
            wait = wait.max(heeded(failure.requested_wait()));
            tracing::debug!(exporter = %backend.name, error, "failed to report metrics");
        } else if backend.trouble.may_log() {
            let signal = backend.signal(Signal::Metrics);
            let help = backend.help(Signal::Metrics, &failure);
            tracing::warn!(exporter = %backend.name, signal, error, help,
                "the backend refuses our metrics");
        }
    }
    let request = report(&scores);
    if !request.resource_metrics.is_empty() {
        let retries =
            RetrySettings { max_elapsed_time: Some(LAST_REPORT_TIME), ..backend.retry.clone() };
        // A failure has been logged, and loses no evaluation.
        let _ = backend.send_within(Signal::Metrics, request.encode_to_vec(), &retries).await;
    }
}
