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
    /// Address of the backend. gRPC: `http://host:4317` (plain), `https://host:4317` (TLS) or
    /// `host:4317` (TLS unless `tls.insecure`). HTTP: the base address, such as `http://host:4318`;
    /// `/v1/logs`, `/v1/traces` and `/v1/metrics` are appended to its path.
    pub(crate) endpoint: Address,
    /// Headers (gRPC: metadata) of every request, such as an authorization; never logged.
    pub(crate) headers: BTreeMap<String, Secret>,
    /// Compression of requests.
    #[default(Compression::Gzip)]
    pub(crate) compression: Compression,
    /// Longest wait for the answer to one request.
    #[default(HumanDuration::from_secs(10))]
    pub(crate) timeout: HumanDuration,
    /// TLS to the backend.
    pub(crate) tls: TlsSettings,
    /// Forms in which an evaluation leaves.
    #[schemars(length(min = 1))]
    #[default(vec![EvaluationForm::Event, EvaluationForm::Span, EvaluationForm::Metric])]
    pub(crate) forms: Vec<EvaluationForm>,
    /// Placement of the span of an evaluation.
    pub(crate) placement: Placement,
    /// Content that leaves the process in details and explanations, of all that may quote arguments
    /// and results: `none`, `redacted` (without the personal data and credentials that are found in
    /// it), or `full`. With `none`, the default, explanations name tools, counts, rules and
    /// settings, and of arguments those names that stand in criteria, schemas or settings.
    #[serde(alias = "include_content")]
    #[default(ShownContent::None)]
    pub(crate) content: ShownContent,
    /// Time between two reports of the metrics.
    #[default(HumanDuration::from_secs(10))]
    pub(crate) metrics_interval: HumanDuration,
    /// Most combinations of service (name, namespace, version), evaluator and agent that have
    /// metric series each; those beyond are counted together under `otel.metric.overflow`.
    /// One sender alone has at most four fifths of them, or four.
    #[default = 1000]
    pub(crate) series_max: usize,
    /// Time without an evaluation after which a series is dropped; `0` keeps it for ever.
    #[default(SERIES_IDLE)]
    pub(crate) series_idle: HumanDuration,
    /// True to keep an evaluation in the log of the process (`data_dir`), if it has one, until the
    /// backend has taken it: it is tried for ever unless `retry_on_failure.max_elapsed_time` says
    /// otherwise, and what the end of the process interrupts is sent by the next one.
    #[default = true]
    pub(crate) must_deliver: bool,
    /// Queue for evaluations that wait while the backend is slow or away.
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

/// Form in which an evaluation leaves.
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

/// Placement of the span of an evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Placement {
    /// In the judged trace, as a child of the judged span.
    #[default]
    Child,
    /// In a new trace with one link to the judged span, and OpenInference
    /// `evaluations.0.evaluation.*` attributes.
    Linked,
}
