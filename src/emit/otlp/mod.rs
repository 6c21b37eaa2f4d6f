//! The OTLP exporters: evaluations as log events, spans and metrics, over gRPC or HTTP.
//!
//! Requests are built and encoded once, then sent until they are taken, refused for good, or the
//! time for trying is over. What a backend rejects of a request it took is counted.

mod convert;
mod report;
mod settings;

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::counters::{Loss, Seldom};
use super::queue::{Deliver, Delivery, EvaluationBatch, size_of_evaluation};
use super::scores::Grouping;
use super::settings::{Exporter, ExporterKind};
use super::{ExporterStartError, Starting};
use crate::client::retry::{AttemptError, GivenUp, RetrySettings, retry};
use crate::client::{Client, Protocol, SendError, Taken};
use crate::model::Evaluation;
use crate::otlp::Signal;
use crate::settings::{Node, SettingsError};
use convert::Options;
pub(super) use settings::Secret;
use settings::{EvaluationForm, OtlpExporterSettings};

/// Bytes that the names of its attributes add to an encoded evaluation, about.
const NAMES_BYTES: usize = 1024;

/// `otlp_grpc`.
pub(crate) static GRPC: ExporterKind = ExporterKind {
    name: "otlp_grpc",
    aliases: &["otlp"],
    about: "Sends evaluations as OTLP log events, spans and metrics over gRPC.",
    single: false,
    schema: || schemars::schema_for!(OtlpExporterSettings),
    read: |node| Ok(Arc::new(Otlp::read(Protocol::Grpc, node)?)),
};

/// `otlp_http`.
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
        settings.check(protocol).map_err(|(key, error)| match node.get(key) {
            Some(value) => error.at(value.place),
            None => error,
        })?;
        Ok(Self { protocol, settings })
    }
}

impl Exporter for Otlp {
    fn start(&self, starting: &mut Starting<'_>) -> Result<(), ExporterStartError> {
        let settings = &self.settings;
        let backend = Backend::new(starting.name(), self.protocol, settings).map_err(|error| {
            ExporterStartError::Client { exporter: starting.name().to_owned(), error }
        })?;
        let backend = Arc::new(backend);
        starting.show(settings.include_content, true);
        if settings.has(EvaluationForm::Metric) {
            let scores =
                starting.scores(Grouping::Version, settings.series_max, settings.series_idle);
            let (closing, task) =
                report::start(backend.clone(), scores, settings.metrics_interval.0);
            starting.task(closing, task);
        }
        if settings.has(EvaluationForm::Event) || settings.has(EvaluationForm::Span) {
            starting.queue((&settings.sending_queue).into(), BackendSender::new(backend, settings));
        }
        Ok(())
    }

    fn queue_bytes(&self) -> Option<usize> {
        let queue = &self.settings.sending_queue;
        queue.queue_size.filter(|_| queue.enabled)
    }
}

/// One OTLP backend.
pub(crate) struct Backend {
    name: Arc<str>,
    client: Client,
    endpoint: String,
    is_http: bool,
    retry: RetrySettings,
    trouble: Seldom,
    losses: Seldom,
    partly: Seldom,
}

impl Backend {
    /// Prepares a client without connecting. The error says what is wrong with the settings.
    pub(crate) fn new(
        name: &str,
        protocol: Protocol,
        settings: &OtlpExporterSettings,
    ) -> Result<Self, String> {
        let client = settings.client(protocol).map_err(|error| error.to_string())?;
        let client = Client::new(&client)?;
        Ok(Self {
            name: name.into(),
            client,
            endpoint: settings.endpoint.trim_end_matches('/').to_owned(),
            is_http: protocol != Protocol::Grpc,
            retry: settings.retry_on_failure.clone(),
            trouble: Seldom::new(),
            losses: Seldom::new(),
            partly: Seldom::new(),
        })
    }

    /// Sends one encoded request until it is taken or given up; how many items were rejected.
    async fn send(
        &self,
        signal: Signal,
        request: Vec<u8>,
        retries: &RetrySettings,
    ) -> Result<u64, GivenUp> {
        let body = self.client.prepare(request);
        let attempt = || self.attempt(signal, body.clone());
        let failed = |error: &str, wait| {
            if self.trouble.may_log() {
                tracing::warn!(exporter = %self.name, error, ?wait,
                    "failed to export evaluations, trying again");
            }
        };
        let sent = retry(retries, attempt, failed).await;
        if let Err(GivenUp::Refused(error) | GivenUp::Exhausted(error)) = &sent
            && self.losses.may_log()
        {
            let (signal, help) = (self.signal(signal), self.help(signal, &sent));
            tracing::warn!(exporter = %self.name, signal, error, help,
                "failed to export evaluations, gave up");
        }
        sent
    }

    /// A signal with where it goes.
    fn signal(&self, signal: Signal) -> String {
        let (word, path) = match signal {
            Signal::Traces => ("spans", "/v1/traces"),
            Signal::Logs => ("events", "/v1/logs"),
            Signal::Metrics => ("metrics", "/v1/metrics"),
        };
        let path = if self.is_http { path } else { "" };
        format!("{word} to {}{path}", self.endpoint)
    }

    /// What helps where a signal is refused.
    fn help<T>(&self, signal: Signal, sent: &Result<T, GivenUp>) -> &'static str {
        match (sent, signal) {
            (Err(GivenUp::Exhausted(_)), _) => "`retry_on_failure` says how long it is tried",
            (_, Signal::Logs) => "leave `event` out of `forms` if the backend takes no logs",
            (_, Signal::Traces) => "leave `span` out of `forms` if the backend takes no traces",
            (_, Signal::Metrics) => "leave `metric` out of `forms` if the backend takes no metrics",
        }
    }

    /// Sends a prepared request once; how many items were rejected.
    async fn attempt(&self, signal: Signal, body: Bytes) -> Result<u64, AttemptError> {
        let Taken { rejected, message } = match self.client.send(signal, body).await {
            Ok(taken) => taken,
            // An answer that cannot be read says nothing of what was rejected.
            Err(SendError::Unreadable(_)) => Taken::default(),
            Err(SendError::Refused(error)) => return Err(AttemptError::Permanent(error)),
            Err(SendError::Retryable { after, error }) => {
                return Err(AttemptError::Retryable { after, error });
            }
            Err(SendError::Unreachable(error)) => {
                return Err(AttemptError::Retryable { after: None, error });
            }
        };
        if (rejected > 0 || !message.is_empty()) && self.partly.may_log() {
            tracing::warn!(exporter = %self.name, rejected, message,
                "the backend took a request only in part, or with a warning");
        }
        Ok(rejected)
    }
}

/// The end of an OTLP exporter's queue.
pub(crate) struct BackendSender {
    backend: Arc<Backend>,
    options: Options,
    event: bool,
    span: bool,
    count_max: usize,
    bytes_max: usize,
}

/// Some evaluations, encoded in each form that is sent.
struct EncodedRequests {
    count: u64,
    events: Option<Vec<u8>>,
    spans: Option<Vec<u8>>,
}

impl BackendSender {
    pub(crate) fn new(backend: Arc<Backend>, settings: &OtlpExporterSettings) -> Self {
        let options = Options { placement: settings.placement, content: settings.include_content };
        let batch = &settings.sending_queue.batch;
        let (event, span) =
            (settings.has(EvaluationForm::Event), settings.has(EvaluationForm::Span));
        let (count_max, bytes_max) = (batch.max_size, batch.max_bytes);
        Self { backend, options, event, span, count_max, bytes_max }
    }

    /// The batch in parts that each fit one request.
    fn requests(&self, batch: &EvaluationBatch) -> Vec<EncodedRequests> {
        let all: Vec<&Evaluation> = batch.iter().flat_map(|part| part.iter()).collect();
        let mut requests = Vec::new();
        let mut rest = all.as_slice();
        while !rest.is_empty() {
            let (part, after) = rest.split_at(self.request_len(rest));
            let events = self.event.then(|| convert::events(part, self.options).encode_to_vec());
            let spans = self.span.then(|| convert::spans(part, self.options).encode_to_vec());
            requests.push(EncodedRequests { count: part.len() as u64, events, spans });
            rest = after;
        }
        requests
    }

    /// How many evaluations fit one request; at least one.
    fn request_len(&self, evaluations: &[&Evaluation]) -> usize {
        let (mut bytes, mut resource) = (0, None);
        let fit = evaluations.iter().take(self.count_max).take_while(|evaluation| {
            bytes += size_of_evaluation(evaluation) + NAMES_BYTES;
            if resource.replace(&evaluation.target.resource) != Some(&evaluation.target.resource) {
                bytes += evaluation.target.resource.encoded.len();
            }
            bytes <= self.bytes_max
        });
        fit.count().max(1)
    }

    async fn send(&self, signal: Signal, request: Option<Vec<u8>>) -> Result<u64, GivenUp> {
        match request {
            Some(request) => self.backend.send(signal, request, &self.backend.retry).await,
            None => Ok(0),
        }
    }
}

impl Deliver for BackendSender {
    async fn deliver(&self, batch: EvaluationBatch) -> Delivery {
        let mut delivery = Delivery::default();
        let requests = self.requests(&batch);
        drop(batch);
        for EncodedRequests { count, events, spans } in requests {
            let (events, spans) =
                tokio::join!(self.send(Signal::Logs, events), self.send(Signal::Traces, spans));
            account(&mut delivery, count, [events, spans]);
        }
        delivery
    }
}

/// An evaluation counts as sent when it arrived in all its forms.
fn account(delivery: &mut Delivery, count: u64, forms: [Result<u64, GivenUp>; 2]) {
    let lost = forms.into_iter().map(|form| match form {
        Ok(rejected) => (Loss::RejectedPartly, rejected.min(count)),
        Err(GivenUp::Refused(_)) => (Loss::Refused, count),
        Err(GivenUp::Exhausted(_)) => (Loss::RetriesExhausted, count),
    });
    let worst = lost.max_by_key(|(_, lost)| *lost).filter(|(_, lost)| *lost > 0);
    delivery.sent += count - worst.map_or(0, |(_, lost)| lost);
    delivery.lost.extend(worst);
}
