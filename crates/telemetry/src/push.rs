//! Push of our own metrics over OTLP, beside the scrape endpoint.
//!
//! ```text
//! instruments ──► periodic reader (a thread of the SDK) ──► newest request ──► sender (a task)
//! ```
//!
//! Metrics are cumulative, so each request replaces an unsent one. Only the newest waits, and an
//! unavailable backend causes only a gap.

use std::time::Duration;

use bytes::Bytes;
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, Temporality};
use prost::Message;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::process;
use super::settings::MetricsOtlpSettings;
use spanscore_base::otlp::Signal;
use spanscore_base::settings::Address;
use spanscore_net::client::Client;
use spanscore_net::clock::now_ns;
use spanscore_net::metrics::CounterBy;

/// Time limit of the final report, so that a dead backend does not delay the end.
pub(super) const LAST_PUSH_TIME: Duration = Duration::from_secs(5);
/// Failed reports per log line about the backend.
const LOG_EVERY: u64 = 60;

/// Attribute that distinguishes the processes of one service.
const INSTANCE: &str = "service.instance.id";

/// Exporter for the SDK's reader that holds the newest request.
pub(super) struct NewestRequest {
    newest: watch::Sender<Bytes>,
    started_ns: u64,
    instance: String,
}

impl NewestRequest {
    fn encode(&self, metrics: &ResourceMetrics) -> Bytes {
        let mut request = ExportMetricsServiceRequest::from(metrics);
        let now_ns = now_ns();
        for of_resource in &mut request.resource_metrics {
            if let Some(resource) = &mut of_resource.resource {
                let instance = KeyValue::new(INSTANCE, self.instance.clone());
                resource.attributes.push((&instance).into());
            }
            if let Some(of_scope) = of_resource.scope_metrics.first_mut() {
                let own = process::metrics(self.started_ns, now_ns);
                of_scope.metrics.extend(own);
            }
        }
        request.encode_to_vec().into()
    }
}

impl PushMetricExporter for NewestRequest {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.newest.send_replace(self.encode(metrics));
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

/// Returns the reader of the instruments, and its requests.
pub(super) fn reader(
    settings: &MetricsOtlpSettings,
) -> (PeriodicReader<NewestRequest>, watch::Receiver<Bytes>) {
    let (newest, requests) = watch::channel(Bytes::new());
    let started_ns = now_ns();
    let instance = format!("{started_ns:x}-{}", std::process::id());
    let exporter = NewestRequest { newest, started_ns, instance };
    let reader = PeriodicReader::builder(exporter).with_interval(settings.interval.0).build();
    (reader, requests)
}

/// Task that sends the requests.
pub(super) struct Pushing {
    closing: CancellationToken,
    task: JoinHandle<()>,
}

impl Pushing {
    /// Starts the task on the current runtime.
    pub(super) fn start(
        client: Client,
        requests: watch::Receiver<Bytes>,
        meter: &Meter,
        endpoint: &Address,
    ) -> Self {
        let closing = CancellationToken::new();
        let declared = [
            "spanscore.telemetry.reports",
            "{report}",
            "Reports of our own metrics over OTLP, by outcome.",
        ];
        let outcomes = CounterBy::new(meter, declared, "outcome", ["sent", "failed"]).of(&[]);
        let to = (client, endpoint.clone());
        let task = tokio::spawn(run(to, requests, outcomes, closing.clone()));
        Self { closing, task }
    }

    /// Sends the newest request within [`LAST_PUSH_TIME`], and ends.
    pub(super) async fn finish(mut self) {
        self.closing.cancel();
        if tokio::time::timeout(LAST_PUSH_TIME, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the last report of our own metrics did not arrive in time");
        }
    }
}

async fn run(
    (client, endpoint): (Client, Address),
    mut requests: watch::Receiver<Bytes>,
    outcomes: CounterBy,
    closing: CancellationToken,
) {
    let mut failed = 0;
    loop {
        let is_last = tokio::select! {
            changed = requests.changed() => changed.is_err(),
            () = closing.cancelled() => true,
        };
        if is_last && !requests.has_changed().unwrap_or(false) {
            return;
        }
        let request = requests.borrow_and_update().clone();
        let body = client.prepare(request);
        match client.send(Signal::Metrics, body).await {
            Ok(_) => {
                failed = 0;
                outcomes.add("sent", 1);
            }
            Err(error) => {
                outcomes.add("failed", 1);
                if failed % LOG_EVERY == 0 {
                    let error = error.text();
                    tracing::warn!(%endpoint, error, "failed to report our own metrics");
                }
                failed += 1;
            }
        }
    }
}
