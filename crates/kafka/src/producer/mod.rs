//! Producer: sends messages to one topic, and reports each after the brokers' acknowledgement.
//!
//! A send never blocks a thread. It waits for room while the client's queue is full, then for the
//! acknowledgement up to a timeout. It fails at once while the brokers are known to be unavailable.

#[cfg(not(feature = "client"))]
mod absent;
#[cfg(feature = "client")]
mod client_context;
#[cfg(feature = "client")]
mod reach;
#[cfg(feature = "client")]
mod running;
mod settings;

use bytes::Bytes;

use spanscore_base::model::TraceId;

#[cfg(not(feature = "client"))]
pub use absent::AbsentProducer as Producer;
#[cfg(feature = "client")]
pub use running::RunningProducer as Producer;
pub use settings::{
    MESSAGE_HEAD_BYTES, Partitioner, ProducerCompression, ProducerSettings, check_topic,
};

/// Message to the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Key, whose hash determines the partition.
    pub key: Bytes,
    /// Headers: name and value of each.
    pub headers: Vec<(&'static str, String)>,
    /// Content.
    pub payload: Bytes,
}

/// Returns the key of a trace: its id in hexadecimal, as the OpenTelemetry Collector writes it.
pub fn key_of(trace_id: TraceId) -> Bytes {
    trace_id.to_string().into()
}

/// Reason that the brokers have not accepted a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProduceError {
    /// It exceeds the size limit of the producer or the brokers.
    #[error("a message of {bytes} bytes is over the limit: {limit}")]
    TooLarge {
        /// Bytes of its payload.
        bytes: usize,
        /// Exceeded limit.
        limit: &'static str,
    },
    /// The client's queue was full for the whole timeout.
    #[error("messages that wait for the brokers fill `queue_mib`")]
    QueueFull,
    /// The brokers are unreachable, late, or accept nothing now.
    #[error("the brokers take no messages: {0}")]
    Away(String),
    /// The brokers refuse it for good.
    #[error("the brokers refuse the message: {0}")]
    Refused(String),
}

impl ProduceError {
    /// Returns true if a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::QueueFull | Self::Away(_))
    }
}

/// Start-up error of a producer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerStartError {
    /// This build has no client.
    #[error("{}", crate::NOT_BUILT_IN)]
    NotBuiltIn,
    /// The client refuses its settings, such as an unreadable certificate.
    #[error("cannot make a client of Kafka: {0}")]
    Client(String),
    /// The system refused a thread.
    #[error("cannot start a thread for the client of Kafka: {0}")]
    Thread(String),
}

/// State of the brokers as known to the producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BrokerState {
    /// Nothing is known yet.
    #[default]
    Unknown,
    /// The topic exists.
    Here {
        /// Number of its partitions.
        partitions: usize,
    },
    /// They are unreachable, or the topic is unusable.
    Away {
        /// Reason.
        why: String,
    },
}

#[cfg(test)]
mod tests;
