//! OTLP exporters: evaluations as log events, spans and metrics, over gRPC or HTTP.
//!
//! Requests are built and encoded once ([`sender`]), then sent until accepted, permanently refused,
//! or out of time ([`backend`]). While a backend accepts nothing only probes are sent (a circuit
//! breaker, [`circuit`]). A permanently refused request is bisected until each refused record is
//! alone ([`split`]). Records rejected in an accepted request are counted.

mod backend;
mod circuit;
pub(super) mod convert;
mod report;
mod sender;
mod settings;
pub(super) mod split;
#[cfg(test)]
pub(super) mod testing;

use std::sync::Arc;

use super::scores::Grouping;
use super::settings::{Exporter, ExporterKind};
use super::{ExporterStartError, Starting};
use backend::Backend;
pub(super) use circuit::CircuitGate;
use sender::BackendSender;
pub(super) use settings::Placement;
use settings::{EvaluationForm, OtlpExporterSettings};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_net::client::Protocol;

/// Kind `otlp_grpc`.
pub(crate) static GRPC: ExporterKind = ExporterKind {
    name: "otlp_grpc",
    aliases: &["otlp"],
    about: "Sends evaluations as OTLP log events, spans and metrics over gRPC.",
    single: false,
    schema: || schemars::schema_for!(OtlpExporterSettings),
    read: |node| Ok(Arc::new(Otlp::read(Protocol::Grpc, node)?)),
};

/// Kind `otlp_http`.
pub(crate) static HTTP: ExporterKind = ExporterKind {
    name: "otlp_http",
    aliases: &["otlphttp"],
    about: "Sends evaluations as OTLP log events, spans and metrics over HTTP.",
    single: false,
    schema: || schemars::schema_for!(OtlpExporterSettings),
    read: |node| Ok(Arc::new(Otlp::read(Protocol::HttpProtobuf, node)?)),
};

/// One configured OTLP exporter.
#[derive(Debug)]
struct Otlp {
    protocol: Protocol,
    settings: OtlpExporterSettings,
}

impl Otlp {
    fn read(protocol: Protocol, node: &Node) -> Result<Self, SettingsError> {
        let settings: OtlpExporterSettings = node.read()?;
        settings.check(protocol).map_err(|(key, error)| error.at(node.place_of(key)))?;
        Ok(Self { protocol, settings })
    }
}

impl Exporter for Otlp {
    fn start(&self, starting: &mut Starting<'_>) -> Result<(), ExporterStartError> {
        let settings = &self.settings;
        let retries = starting.retries(settings.must_deliver, &settings.retry_on_failure);
        let backend = Backend::new(starting, self.protocol, settings, retries);
        let backend = Arc::new(backend.map_err(|error| starting.client_error(error))?);
        starting.show(settings.content.is_shown(), true);
        if settings.has(EvaluationForm::Metric) {
            let scores =
                starting.scores(Grouping::Version, settings.series_max, settings.series_idle);
            let (closing, task) =
                report::start(backend.clone(), scores, settings.metrics_interval.0);
            starting.task(closing, task);
        }
        if settings.has(EvaluationForm::Event) || settings.has(EvaluationForm::Span) {
            let filter = starting.content_filter(settings.content);
            let letters = starting.dead_letters();
            let sender = BackendSender::new(backend, settings, filter, letters);
            starting.sending_queue(settings.must_deliver, &settings.sending_queue, sender)?;
        }
        Ok(())
    }

    fn queue_bytes(&self) -> Option<usize> {
        let queue = &self.settings.sending_queue;
        queue.queue_size.filter(|_| queue.enabled)
    }
}
