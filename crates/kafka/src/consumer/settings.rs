//! Receiver settings, named as in the OpenTelemetry Collector.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use crate::settings::{ClusterSettings, SignInSettings};
use spanscore_base::settings::tls::TlsSettings;
use spanscore_base::settings::{HumanDuration, SettingsError, above_zero};

/// Reads spans and log records from Kafka topics. Each record is an OTLP request with the trace id
/// as its key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaReceiverSettings {
    /// Addresses of brokers, as `host:port`. The client learns the other brokers of the cluster
    /// from them. Default `localhost:9092`.
    #[default(ClusterSettings::default().brokers)]
    pub brokers: Vec<String>,
    /// Client name in the logs and quotas of the brokers. Default `spanscore`.
    #[default(ClusterSettings::default().client_id)]
    pub client_id: String,
    /// TLS of connections to the brokers. Without this section connections use plain text.
    pub tls: Option<TlsSettings>,
    /// Authentication at the brokers.
    pub auth: SignInSettings,
    /// Topics of spans. A topic that is also in `logs` contains both signals; the header
    /// `spanscore-signal` tells them apart.
    #[default(TopicSettings { topics: vec!["otlp_spans".to_owned()] })]
    pub traces: TopicSettings,
    /// Topics of log records.
    #[default(TopicSettings { topics: vec!["otlp_logs".to_owned()] })]
    pub logs: TopicSettings,
    /// Encoding of the records: `otlp_proto` (default) or `otlp_json`.
    pub encoding: RecordEncoding,
    /// Consumer group. All processes that share the topics need the same one. Default `spanscore`.
    #[default = "spanscore"]
    pub group_id: String,
    /// Static name of this process in its group, such as the pod name in a stateful set. After a
    /// restart, its partitions wait `session_timeout` for it.
    pub group_instance_id: Option<String>,
    /// Start position in a partition without a position of the group: `latest` (default) or
    /// `earliest`.
    pub initial_offset: InitialOffset,
    /// Time without a heartbeat after which the group gives the partitions of this process to
    /// others. Default `10s`.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_secs(10))]
    pub session_timeout: HumanDuration,
    /// Interval between heartbeats, at most a third of `session_timeout`. Default `3s`.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_secs(3))]
    pub heartbeat_interval: HumanDuration,
}

/// Topics of one signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicSettings {
    /// Names of the topics. An empty list turns the signal off. Default: `otlp_spans` for `traces`,
    /// `otlp_logs` for `logs`.
    pub topics: Vec<String>,
}

/// Encoding of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordEncoding {
    /// OTLP in protobuf.
    #[default]
    OtlpProto,
    /// OTLP in JSON.
    OtlpJson,
}

/// Start position in a partition without a position of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InitialOffset {
    /// The end: only new records.
    #[default]
    Latest,
    /// The oldest record.
    Earliest,
}

impl KafkaReceiverSettings {
    /// Returns the connection.
    pub fn cluster(&self) -> ClusterSettings {
        let Self { brokers, client_id, tls, auth, .. } = self.clone();
        ClusterSettings { brokers, client_id, tls, auth }
    }

    /// Returns the distinct topics.
    pub fn topics(&self) -> Vec<&str> {
        let named = self.traces.topics.iter().chain(&self.logs.topics).map(String::as_str);
        let mut topics: Vec<&str> = named.collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    /// Checks the settings without opening anything; the error comes with its key.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        self.cluster().check()?;
        if self.topics().is_empty() {
            let error = SettingsError::new("neither `traces` nor `logs` names a topic");
            return Err((
                "traces",
                error.with_help("name one, as in `traces: {topics: [otlp_spans]}`"),
            ));
        }
        if let Some(pattern) = self.topics().into_iter().find(|it| it.starts_with('^')) {
            let is_of_logs = self.logs.topics.iter().any(|it| it == pattern);
            let error = SettingsError::new(format!("`{pattern}` is a pattern, not a topic"));
            let key = if is_of_logs { "logs" } else { "traces" };
            return Err((key, error.with_help("name each topic")));
        }
        if self.group_id.is_empty() {
            let error = SettingsError::new("`group_id` is empty");
            return Err((
                "group_id",
                error.with_help("leave it out for `spanscore`, or name the group"),
            ));
        }
        if self.heartbeat_interval.0 * 3 > self.session_timeout.0 {
            let error = SettingsError::new("`session_timeout` is less than three heartbeats");
            return Err((
                "session_timeout",
                error.with_help("raise it, or lower `heartbeat_interval`"),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        type Change = fn(&mut KafkaReceiverSettings);
        let cases: [(Change, Option<&str>); 7] = [
            (|_| {}, None),
            (|it| it.logs.topics.clear(), None),
            (|it| it.brokers.clear(), Some("`brokers` is empty")),
            (
                |it| [&mut it.traces, &mut it.logs].into_iter().for_each(|it| it.topics.clear()),
                Some("neither `traces` nor `logs` names a topic"),
            ),
            (
                |it| it.traces.topics = vec!["^otlp.*".to_owned()],
                Some("`^otlp.*` is a pattern, not a topic"),
            ),
            (|it| it.group_id.clear(), Some("`group_id` is empty")),
            (
                |it| it.session_timeout = HumanDuration::from_secs(8),
                Some("`session_timeout` is less than three heartbeats"),
            ),
        ];
        for (change, mistake) in cases {
            let mut settings = KafkaReceiverSettings::default();
            change(&mut settings);
            let checked = settings.check().map_err(|(_, error)| error.message);
            assert_eq!(checked.err().as_deref(), mistake);
        }
    }

    #[test]
    fn topic_of_both_signals_is_read_once() {
        let both = TopicSettings { topics: vec!["b".to_owned(), "a".to_owned()] };
        let settings = KafkaReceiverSettings {
            traces: both.clone(),
            logs: both,
            ..KafkaReceiverSettings::default()
        };
        assert_eq!(settings.topics(), ["a", "b"]);
    }
}
