//! Settings of the OTLP exporters: where to, in which forms, and how hard to try.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::client::{ClientSettings, Compression, Protocol, TlsSettings, check_endpoint, headers};
use crate::settings::{HumanDuration, SettingsError};

/// Sends evaluations to an OTLP backend.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpExporterSettings {
    /// Where to. gRPC: `http://host:4317` (plain), `https://host:4317` (TLS) or `host:4317` (TLS
    /// unless `tls.insecure`). HTTP: the base address, such as `http://host:4318`; `/v1/logs`,
    /// `/v1/traces` and `/v1/metrics` are appended to its path.
    pub endpoint: String,
    /// Headers (gRPC: metadata) of every request, such as an authorization; never logged.
    pub headers: BTreeMap<String, Secret>,
    /// Compression of requests.
    pub compression: Compression,
    /// Longest wait for the answer to one request.
    pub timeout: HumanDuration,
    /// TLS to the backend.
    pub tls: TlsSettings,
    /// The forms that an evaluation leaves in.
    #[schemars(length(min = 1))]
    pub forms: Vec<EvaluationForm>,
    /// Where the span of an evaluation stands.
    pub placement: Placement,
    /// Whether explanations and details, which may quote arguments and results, leave the
    /// process. Without it the explanation names only score, threshold and reason.
    pub include_content: bool,
    /// Time between two reports of the metrics.
    pub metrics_interval: HumanDuration,
    /// Most combinations of resource, evaluator and agent that have metric series of their own;
    /// those beyond are counted together under `otel.metric.overflow`.
    pub series_max: usize,
    /// What waits while the backend is slow or away.
    pub sending_queue: QueueSettings,
    /// How a failed request is tried again.
    pub retry_on_failure: RetrySettings,
}

impl Default for OtlpExporterSettings {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            headers: BTreeMap::new(),
            compression: Compression::Gzip,
            timeout: HumanDuration::from_secs(10),
            tls: TlsSettings::default(),
            forms: vec![EvaluationForm::Event, EvaluationForm::Span, EvaluationForm::Metric],
            placement: Placement::Child,
            include_content: false,
            metrics_interval: HumanDuration::from_secs(10),
            series_max: 1000,
            sending_queue: QueueSettings::default(),
            retry_on_failure: RetrySettings::default(),
        }
    }
}

impl OtlpExporterSettings {
    /// What is wrong, with the key it stands under.
    pub(super) fn check(&self, protocol: Protocol) -> Result<(), (&'static str, SettingsError)> {
        let error = |key, text: &str| Err((key, SettingsError::new(text)));
        check_endpoint(protocol, &self.endpoint, self.tls.insecure)
            .map_err(|wrong| ("endpoint", wrong))?;
        if self.forms.is_empty() {
            return error("forms", "`forms` names no form: write event, span or metric");
        }
        if self.timeout.0.is_zero() {
            return error("timeout", "`timeout` must be longer than zero");
        }
        if self.metrics_interval.0.is_zero() {
            return error("metrics_interval", "`metrics_interval` must be longer than zero");
        }
        self.client(protocol).map_err(|wrong| ("headers", wrong))?;
        if self.tls.cert_file.is_some() != self.tls.key_file.is_some() {
            return error("tls", "`cert_file` and `key_file` go together");
        }
        self.sending_queue.check().map_err(|text| ("sending_queue", SettingsError::new(text)))?;
        let text = self.retry_on_failure.check();
        text.map_err(|text| ("retry_on_failure", SettingsError::new(text)))
    }

    /// What a client of the backend needs to know; the error is one of the headers.
    pub(in crate::emit) fn client(
        &self,
        protocol: Protocol,
    ) -> Result<ClientSettings, SettingsError> {
        let pairs = self.headers.iter().map(|(name, value)| (name.as_str(), value.0.as_str()));
        Ok(ClientSettings {
            protocol,
            endpoint: self.endpoint.clone(),
            headers: headers(pairs)?,
            compression: self.compression,
            timeout: self.timeout.0,
            tls: self.tls.clone(),
        })
    }

    /// Whether evaluations leave in this form.
    pub fn has(&self, form: EvaluationForm) -> bool {
        self.forms.contains(&form)
    }
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A form that an evaluation leaves in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationForm {
    /// A log event `gen_ai.evaluation.result` on the judged trace and span.
    Event,
    /// A span `evaluate {name}`.
    Span,
    /// The metrics `spanscore.evaluation.score` and `spanscore.evaluation.count`.
    Metric,
}

/// Where the span of an evaluation stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// In the judged trace, as a child of the judged span.
    #[default]
    Child,
    /// In a trace of its own with one link to the judged span, and OpenInference
    /// `evaluations.0.evaluation.*` attributes.
    Linked,
}

/// The queue between the pipeline and a backend. The pipeline never waits for it: what does not
/// fit is dropped and counted.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSettings {
    /// Whether there is a queue. Without one, only what is being sent and what is being gathered
    /// for the next request is held, one batch for each consumer.
    pub enabled: bool,
    /// How many requests are on their way at once.
    #[schemars(range(min = 1, max = 1000))]
    pub num_consumers: usize,
    /// Most bytes held, waiting and on their way; as counted in memory, before encoding.
    pub queue_size: usize,
    /// What `queue_size` counts: `bytes`.
    pub sizer: Sizer,
    /// How evaluations are put together into requests.
    pub batch: BatchSettings,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            num_consumers: 10,
            queue_size: 64 << 20,
            sizer: Sizer::Bytes,
            batch: BatchSettings::default(),
        }
    }
}

impl QueueSettings {
    fn check(&self) -> Result<(), &'static str> {
        if !(1..=1000).contains(&self.num_consumers) {
            return Err("`num_consumers` must be 1 to 1000");
        }
        if self.queue_size == 0 || self.batch.max_size == 0 || self.batch.max_bytes == 0 {
            return Err("`queue_size`, `batch.max_size` and `batch.max_bytes` must be above zero");
        }
        Ok(())
    }
}

/// What the size of a queue counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sizer {
    /// Bytes: the only one that bounds memory.
    #[default]
    Bytes,
}

/// How evaluations are put together into requests.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BatchSettings {
    /// Longest wait for more before what there is is sent.
    pub flush_timeout: HumanDuration,
    /// Most evaluations in one request.
    pub max_size: usize,
    /// Most bytes in one request, estimated before compression; gRPC backends refuse messages over
    /// 4 MiB by default.
    pub max_bytes: usize,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self { flush_timeout: HumanDuration::from_millis(200), max_size: 8192, max_bytes: 2 << 20 }
    }
}

/// How a failed request is tried again: waits grow from `initial_interval` by `multiplier` up to
/// `max_interval`, each varied at random, and never shorter than the backend asks for.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySettings {
    /// Whether a failed request is tried again.
    pub enabled: bool,
    /// First wait.
    pub initial_interval: HumanDuration,
    /// Part of a wait by which it is varied at random, 0 to 1.
    pub randomization_factor: f64,
    /// Growth of the wait from try to try, at least 1.
    pub multiplier: f64,
    /// Longest wait.
    pub max_interval: HumanDuration,
    /// Time after which a request is given up and its evaluations are counted as failed; 0 never
    /// gives up.
    pub max_elapsed_time: HumanDuration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            enabled: true,
            initial_interval: HumanDuration::from_secs(1),
            randomization_factor: 0.5,
            multiplier: 1.5,
            max_interval: HumanDuration::from_secs(30),
            max_elapsed_time: HumanDuration::from_secs(300),
        }
    }
}

impl RetrySettings {
    fn check(&self) -> Result<(), &'static str> {
        if !(0.0..=1.0).contains(&self.randomization_factor) {
            return Err("`randomization_factor` must be 0 to 1");
        }
        if !(1.0..=100.0).contains(&self.multiplier) {
            return Err("`multiplier` must be 1 to 100");
        }
        if self.initial_interval.0.is_zero() || self.initial_interval > self.max_interval {
            return Err("`initial_interval` must be above zero and at most `max_interval`");
        }
        Ok(())
    }
}
