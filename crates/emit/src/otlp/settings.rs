//! Settings of the OTLP exporters: destination, forms and retries.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use crate::content::ShownContent;
use crate::queue::QueueSettings;
use crate::scores::SERIES_IDLE;
use spanscore_base::settings::{Address, HumanDuration, Secret, SettingsError};
use spanscore_net::client::Connection;
use spanscore_net::client::retry::RetrySettings;
use spanscore_net::client::{Compression, Protocol, TlsSettings};

/// Sends evaluations to an OTLP backend.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OtlpExporterSettings {
    /// Address of the backend. With gRPC: `http://host:4317` (plain text), `https://host:4317`
    /// (TLS), or `host:4317` (TLS unless `tls.insecure`). With HTTP: the base address, such as
    /// `http://host:4318`, to which `/v1/logs`, `/v1/traces` and `/v1/metrics` are appended.
    pub(crate) endpoint: Address,
    /// Headers of each request (gRPC: metadata), such as an authorization. Logs never show the
    /// values.
    pub(crate) headers: BTreeMap<String, Secret>,
    /// Compression of requests: `gzip` (default), `zstd` or `none`.
    #[default(Compression::Gzip)]
    pub(crate) compression: Compression,
    /// Time limit of one request. Default `10s`.
    #[default(HumanDuration::from_secs(10))]
    pub(crate) timeout: HumanDuration,
    /// TLS of connections to the backend.
    pub(crate) tls: TlsSettings,
    /// OTLP signals that carry an evaluation: `event` (log event), `span`, `metric`. Default: all
    /// three.
    #[schemars(length(min = 1))]
    #[default(vec![EvaluationForm::Event, EvaluationForm::Span, EvaluationForm::Metric])]
    pub(crate) forms: Vec<EvaluationForm>,
    /// Place of an evaluation's span: `child` (default) or `linked`.
    pub(crate) placement: Placement,
    /// Content in details and explanations that may quote arguments and results: `none` (default),
    /// `redacted` (without the personal data and credentials that are found) or `full`. With
    /// `none`, explanations name tools, counts, rules and settings, and only those arguments whose
    /// names are in criteria, schemas or settings. `include_content` is another name of this
    /// setting.
    #[serde(alias = "include_content")]
    #[default(ShownContent::None)]
    pub(crate) content: ShownContent,
    /// Interval between exports of the metrics. Default `10s`.
    #[default(HumanDuration::from_secs(10))]
    pub(crate) metrics_interval: HumanDuration,
    /// Limit on the combinations of service (name, namespace, version), evaluator and agent with
    /// metric series. Further ones share a series with `otel.metric.overflow`. One sender may use
    /// at most four fifths of the limit, or four. Default 1000.
    #[default = 1000]
    pub(crate) series_max: usize,
    /// Time without an evaluation after which a series is dropped. `0` keeps series forever.
    /// Default `1h`.
    #[default(SERIES_IDLE)]
    pub(crate) series_idle: HumanDuration,
    /// Keeps an evaluation in the log below `data_dir`, if the process has one, until the backend
    /// acknowledges it. Retries then have no time limit unless `retry_on_failure.max_elapsed_time`
    /// sets one, and the next process sends what a restart interrupts. Default `true`.
    #[default = true]
    pub(crate) must_deliver: bool,
    /// Queue of evaluations for the backend.
    pub(crate) sending_queue: QueueSettings,
    /// Retries of failed requests.
    pub(crate) retry_on_failure: RetrySettings,
}

impl OtlpExporterSettings {
    /// Checks the settings; an error comes with the key that it is about.
    pub(super) fn check(&self, protocol: Protocol) -> Result<(), (&'static str, SettingsError)> {
        let error = |key, text: &str| Err((key, SettingsError::new(text)));
        self.connection(protocol).check()?;
        if self.forms.is_empty() {
            return error("forms", "`forms` names no form: write event, span or metric");
        }
        if self.metrics_interval.0.is_zero() {
            return error("metrics_interval", "`metrics_interval` must be longer than zero");
        }
        self.sending_queue.check()?;
        self.retry_on_failure.check()
    }

    pub(super) fn connection(&self, protocol: Protocol) -> Connection<'_> {
        let Self { endpoint, headers, tls, .. } = self;
        let compression = self.compression;
        let timeout = self.timeout;
        Connection { protocol, endpoint, headers, compression, timeout, tls }
    }

    /// Returns true if evaluations are sent in this form.
    pub(crate) fn has(&self, form: EvaluationForm) -> bool {
        self.forms.contains(&form)
    }
}

/// OTLP signal that carries an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EvaluationForm {
    /// Log event `gen_ai.evaluation.result` on the judged trace and span.
    Event,
    /// Span `evaluate {name}`.
    Span,
    /// Metrics `spanscore.evaluation.score` and `spanscore.evaluation.count`.
    Metric,
}

/// Place of an evaluation's span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Placement {
    /// In the judged trace, as a child of the judged span.
    #[default]
    Child,
    /// In a new trace, with a link to the judged span and OpenInference attributes
    /// `evaluations.0.evaluation.*`.
    Linked,
}
