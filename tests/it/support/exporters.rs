//! Running exporters.

use std::path::Path;
use std::sync::Arc;

use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};
use spanscore_base::model::{Evaluation, Memory};
use spanscore_base::settings::Node;
use spanscore_base::value::json;
use spanscore_emit::{Exporters, Persistence, Undelivered, settings};
use spanscore_log::Durability;

use super::fake_backend::FakeBackend;
use super::patience::{PATIENCE, eventually, once};

/// Running exporters and what they tell of themselves.
pub(crate) struct Fixture {
    pub(crate) exporters: Exporters,
    pub(crate) registry: Registry,
    _provider: SdkMeterProvider,
}

impl Fixture {
    pub(crate) fn start(exporters: &str) -> Self {
        Self::start_in(None, exporters)
    }

    /// Starts them with a folder for what outlives them.
    pub(crate) fn start_in(data_dir: Option<&Path>, exporters: &str) -> Self {
        let node = Node::from_value(&json::parse(exporters).expect("JSON"));
        let settings = settings::read(&node).expect("settings");
        let registry = Registry::new();
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .expect("a reader");
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let persistence = data_dir.map(|data_dir| Persistence {
            data_dir: data_dir.to_owned(),
            durability: Durability::Os,
            log: None,
        });
        let exporters = Exporters::start(
            &settings,
            &Memory::default(),
            &provider.meter("spanscore"),
            &registry,
            persistence.as_ref(),
        );
        Self { exporters: exporters.expect("starts"), registry, _provider: provider }
    }

    pub(crate) fn offer(&self, evaluations: impl Into<Arc<[Evaluation]>>) {
        self.exporters.offer(evaluations, None);
    }

    pub(crate) async fn shutdown(&self) -> Vec<Undelivered> {
        self.exporters.shutdown(tokio::time::sleep(PATIENCE)).await
    }

    /// The value of a counter of evaluations of one exporter.
    pub(crate) fn counter(&self, name: &str, labels: &str) -> u64 {
        self.metric(&format!("{name}_evaluations_total"), labels)
    }

    /// The value of a metric of one exporter.
    pub(crate) fn metric(&self, name: &str, labels: &str) -> u64 {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).expect("text");
        let line = format!("spanscore_exporter_{name}{{{labels}}} ");
        let found = text.lines().find_map(|found| found.strip_prefix(&line));
        found.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{line}\n{text}"))
    }

    /// Asserts that what was offered is sent, lost, left or held, once nothing is on its way from
    /// one to another.
    pub(crate) async fn adds_up(&self) {
        let sums = || {
            let came =
                self.sum("offered_evaluations_total") + self.sum("recovered_evaluations_total");
            let held = self.sum("queued_evaluations") + self.sum("overflow_evaluations");
            let left = self.sum("left_evaluations_total");
            (came, self.sum("sent_evaluations_total") + self.lost() + left + held)
        };
        eventually(|| {
            let (came, went) = sums();
            once(came == went, || format!("{came} came, {went} went"))
        })
        .await;
    }

    /// The sum of a metric over all its labels.
    pub(crate) fn sum(&self, name: &str) -> u64 {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).expect("text");
        let name = format!("spanscore_exporter_{name}{{");
        let lines = text.lines().filter(|line| line.starts_with(&name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// All that was lost, for whatever reason, with what stands in the file of dead letters.
    pub(crate) fn lost(&self) -> u64 {
        self.sum("send_failed_evaluations_total") + self.sum("enqueue_failed_evaluations_total")
    }
}

/// The settings of one OTLP exporter with quick retries; `more` are further settings.
pub(crate) fn otlp(backend: &FakeBackend, kind: &str, more: &str) -> String {
    let base = if kind == "otlp_http" { "/base" } else { "" };
    let retry = r#"{"initial_interval": "10ms", "max_interval": "20ms"}"#;
    format!(
        r#"{{"{kind}": {{"endpoint": "http://{}{base}", "retry_on_failure": {retry} {more}}}}}"#,
        backend.address
    )
}

/// Both kinds of OTLP exporters.
pub(crate) const KINDS: [&str; 2] = ["otlp_grpc", "otlp_http"];

/// A backend for one of them.
pub(crate) async fn backend(kind: &str) -> FakeBackend {
    match kind {
        "otlp_grpc" => FakeBackend::grpc().await,
        _ => FakeBackend::http().await,
    }
}
