//! Settings of the `kafka` exporter, under the names of the OpenTelemetry Collector.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use crate::content::ShownContent;
use crate::queue::QueueSettings;
use spanscore_base::settings::tls::TlsSettings;
use spanscore_base::settings::{HumanDuration, SettingsError};
use spanscore_kafka::{ClusterSettings, ProducerSettings, SignInSettings, check_topic};
use spanscore_net::client::retry::RetrySettings;

/// Sends evaluations to a topic of Kafka, keyed by the trace's id.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KafkaExporterSettings {
    /// Addresses `host:port` of brokers; the others of the cluster are learnt from them.
    #[default(ClusterSettings::default().brokers)]
    pub(crate) brokers: Vec<String>,
    /// Name under which the brokers' logs and quotas show this client. Default `spanscore`.
    #[default(ClusterSettings::default().client_id)]
    pub(crate) client_id: String,
    /// TLS; without it the brokers are spoken to in the clear.
    pub(crate) tls: Option<TlsSettings>,
    /// Sign-in.
    pub(crate) auth: SignInSettings,
    /// Topic. Default `spanscore_evaluations`.
    #[default = "spanscore_evaluations"]
    pub(crate) topic: String,
    /// Form of a message: `otlp_proto` or `json`.
    pub(crate) encoding: KafkaEncoding,
    /// Messages and their limits.
    pub(crate) producer: ProducerSettings,
    /// Longest wait for the brokers' answer to one message.
    #[default(HumanDuration::from_secs(10))]
    pub(crate) timeout: HumanDuration,
    /// Content that leaves the process in details and explanations, of all that may quote arguments
    /// and results: `none`, `redacted` (without the personal data and credentials that are found in
    /// it), or `full`. With `none`, the default, explanations name tools, counts, rules and
    /// settings, and of arguments those names that stand in criteria, schemas or settings.
    #[serde(alias = "include_content")]
    #[default(ShownContent::None)]
    pub(crate) content: ShownContent,
    /// True to keep an evaluation in the log of the process (`data_dir`), if it has one, until the
    /// brokers have it: it is tried for ever unless `retry_on_failure.max_elapsed_time` says
    /// otherwise, and what the end of the process interrupts is sent by the next one.
    #[default = true]
    pub(crate) must_deliver: bool,
    /// Queue for evaluations that wait while the brokers are slow or away.
    pub(crate) sending_queue: QueueSettings,
    /// Retries of messages that the brokers did not take.
    pub(crate) retry_on_failure: RetrySettings,
}

impl KafkaExporterSettings {
    /// Checks the settings; an error comes with the key that it is about.
    pub(super) fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        check_topic(&self.cluster(), &self.topic, self.timeout, &self.producer)?;
        self.sending_queue.check()?;
        self.retry_on_failure.check()
    }

    /// Returns the connection settings of the cluster.
    pub(super) fn cluster(&self) -> ClusterSettings {
        let Self { brokers, client_id, tls, auth, .. } = self.clone();
        ClusterSettings { brokers, client_id, tls, auth }
    }
}

/// Form of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KafkaEncoding {
    /// OTLP logs in protobuf: events `gen_ai.evaluation.result`, those of one trace together.
    #[default]
    OtlpProto,
    /// One JSON object for each evaluation, with the keys of the `file` exporter.
    Json,
}
