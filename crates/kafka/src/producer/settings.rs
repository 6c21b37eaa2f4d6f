//! Producer settings shared by all its users.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;
use strum::IntoStaticStr;

use crate::settings::ClusterSettings;
use spanscore_base::settings::{HumanDuration, SettingsError};

/// Largest overhead of a message: its key and header.
pub const MESSAGE_HEAD_BYTES: usize = 128;
/// Bytes of `queue_mib` per waiting message, which limits the number of small messages.
const QUEUED_MESSAGE_BYTES: usize = 1024;
/// Client memory for a message beside its payload.
const CLIENT_MESSAGE_BYTES: usize = 512;

/// Kafka producer. All in-sync replicas acknowledge a message, and each message is written once.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct ProducerSettings {
    /// Limit on the size of one message, in bytes before compression, 1024 to 100000000. The limit
    /// of the brokers is `message.max.bytes`, that of a topic `max.message.bytes`. Default 1000000.
    #[schemars(range(min = 1024, max = 100_000_000))]
    #[default = 1_000_000]
    pub max_message_bytes: usize,
    /// Compression of batches: `lz4` (default), `zstd`, `gzip`, `snappy` or `none`.
    pub compression: ProducerCompression,
    /// Wait for further messages to the same partition. Default `5ms`.
    #[default(HumanDuration::from_millis(5))]
    pub linger: HumanDuration,
    /// Hash of the key, which decides the partition: `murmur2` (default) or `fnv1a`. All producers
    /// of a topic need the same one, else traces are split.
    pub partitioner: Partitioner,
    /// Limit on the messages that wait for the brokers, in mebibytes, 1 to 2047. At most 1024
    /// messages wait per mebibyte. Default 64.
    #[schemars(range(min = 1, max = 2047))]
    #[default = 64]
    pub queue_mib: u32,
}

/// Checks the settings shared by all writers of a topic; the error comes with its key.
///
/// # Errors
/// The first error.
pub fn check_topic(
    cluster: &ClusterSettings,
    topic: &str,
    timeout: HumanDuration,
    producer: &ProducerSettings,
) -> Result<(), (&'static str, SettingsError)> {
    cluster.check()?;
    let error = |key, text: &str| Err((key, SettingsError::new(text)));
    if topic.is_empty() {
        return error("topic", "`topic` is empty");
    }
    if timeout < HumanDuration::from_millis(10) {
        return error("timeout", "`timeout` must be at least 10ms");
    }
    producer.check().map_err(|(_, error)| ("producer", error))
}

impl ProducerSettings {
    /// Checks the settings; the error comes with its key.
    ///
    /// # Errors
    /// The first error.
    fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        let error = |key, text: &str| Err((key, SettingsError::new(text)));
        if !(1024..=100_000_000).contains(&self.max_message_bytes) {
            return error("max_message_bytes", "`max_message_bytes` must be 1024 to 100000000");
        }
        if !(1..=2047).contains(&self.queue_mib) {
            return error("queue_mib", "`queue_mib` must be 1 to 2047");
        }
        if self.queue_bytes() < self.max_message_bytes + MESSAGE_HEAD_BYTES {
            return error("queue_mib", "`queue_mib` must hold one message of `max_message_bytes`");
        }
        if self.linger > HumanDuration::from_secs(60) {
            return error("linger", "`linger` must be at most 60s");
        }
        Ok(())
    }

    /// Returns `queue_mib` in bytes.
    pub fn queue_bytes(&self) -> usize {
        (self.queue_mib as usize) << 20
    }

    /// Returns the limit on messages waiting for the brokers.
    pub(crate) fn queued_messages_max(&self) -> usize {
        self.queue_bytes() / QUEUED_MESSAGE_BYTES
    }

    /// Returns the queue size for messages sent alone: room for one of any size, in whole
    /// kibibytes.
    pub(crate) fn alone_bytes(&self) -> usize {
        (self.max_message_bytes + MESSAGE_HEAD_BYTES).next_multiple_of(QUEUED_MESSAGE_BYTES)
    }

    /// Returns the limit on memory of waiting messages, including their overhead.
    pub fn memory_bytes(&self) -> usize {
        let alone = self.alone_bytes();
        let messages = self.queued_messages_max() + alone / QUEUED_MESSAGE_BYTES;
        self.queue_bytes() + alone + messages * CLIENT_MESSAGE_BYTES
    }
}

/// Compression of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ProducerCompression {
    /// No compression.
    None,
    /// Gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    #[default]
    Lz4,
    /// Zstandard.
    Zstd,
}

/// Hash of a message's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Partitioner {
    /// The hash of Kafka's own clients.
    #[default]
    Murmur2,
    /// The hash of Sarama and the OpenTelemetry Collector.
    Fnv1a,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_cannot_work_are_refused() {
        let default = ProducerSettings::default();
        for (settings, expected) in [
            (default.clone(), None),
            (
                ProducerSettings { max_message_bytes: 0, ..default.clone() },
                Some("max_message_bytes"),
            ),
            (ProducerSettings { queue_mib: 0, ..default.clone() }, Some("queue_mib")),
            (
                ProducerSettings { queue_mib: 1, max_message_bytes: 1 << 20, ..default.clone() },
                Some("queue_mib"),
            ),
            (ProducerSettings { linger: HumanDuration::from_secs(61), ..default }, Some("linger")),
        ] {
            assert_eq!(settings.check().err().map(|(key, _)| key), expected, "{settings:?}");
        }
    }
}
