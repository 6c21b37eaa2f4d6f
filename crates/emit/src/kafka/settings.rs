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

/// Sends evaluations to a Kafka topic. The key of a message is the trace id.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KafkaExporterSettings {
    /// Addresses of brokers, as `host:port`. The client learns the other brokers of the cluster
    /// from them. Default `localhost:9092`.
    #[default(ClusterSettings::default().brokers)]
    pub(crate) brokers: Vec<String>,
    /// Client name in the logs and quotas of the brokers. Default `spanscore`.
    #[default(ClusterSettings::default().client_id)]
    pub(crate) client_id: String,
    /// TLS of connections to the brokers. Without this section connections use plain text.
    pub(crate) tls: Option<TlsSettings>,
    /// Authentication at the brokers.
    pub(crate) auth: SignInSettings,
    /// Name of the topic. Default `spanscore_evaluations`.
    #[default = "spanscore_evaluations"]
    pub(crate) topic: String,
    /// Format of a message: `otlp_proto` (default) or `json`.
    pub(crate) encoding: KafkaEncoding,
    /// Producer settings: message size, compression and partitioning.
    pub(crate) producer: ProducerSettings,
    /// Time limit for the brokers' acknowledgement of one message. Default `10s`.
    #[default(HumanDuration::from_secs(10))]
    pub(crate) timeout: HumanDuration,
    /// Content in details and explanations that may quote arguments and results: `none` (default),
    /// `redacted` (without the personal data and credentials that are found) or `full`. With
    /// `none`, explanations name tools, counts, rules and settings, and only those arguments whose
    /// names are in criteria, schemas or settings. `include_content` is another name of this
    /// setting.
    #[serde(alias = "include_content")]
    #[default(ShownContent::None)]
    pub(crate) content: ShownContent,
    /// Keeps an evaluation in the log below `data_dir`, if the process has one, until the brokers
    /// acknowledge it. Retries then have no time limit unless `retry_on_failure.max_elapsed_time`
    /// sets one, and the next process sends what a restart interrupts. Default `true`.
    #[default = true]
    pub(crate) must_deliver: bool,
    /// Queue of evaluations for the brokers.
    pub(crate) sending_queue: QueueSettings,
    /// Retries of messages that the brokers refused.
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

/// Format of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KafkaEncoding {
    /// OTLP logs in protobuf: events `gen_ai.evaluation.result`, one message for the evaluations of
    /// a trace.
    #[default]
    OtlpProto,
    /// One JSON object per evaluation, with the keys of the `file` exporter.
    Json,
}
