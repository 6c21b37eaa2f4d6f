//! Producer: messages to one topic, each answered once the brokers have it.
//!
//! A send never blocks a thread. It waits for room while the client's queue is full, for the
//! brokers' answer up to a timeout, and for nothing once they are known to be away.

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
    /// Key, whose hash names the partition.
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

/// Reason that the brokers have not taken a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProduceError {
    /// It is larger than the producer or the brokers let a message be.
    #[error("a message of {bytes} bytes is more than may be sent: {limit}")]
    TooLarge {
        /// Bytes of its payload.
        bytes: usize,
        /// Limit that it exceeds.
        limit: &'static str,
    },
    /// The client's queue was full for the whole timeout.
    #[error("the messages that wait for the brokers are `queue_mib` already")]
    QueueFull,
    /// The brokers cannot be reached, do not answer in time, or take nothing now.
    #[error("the brokers take no messages: {0}")]
    Away(String),
    /// The brokers refuse it for good.
    #[error("the brokers refuse the message: {0}")]
    Refused(String),
}

impl ProduceError {
    /// Returns true if another try may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::QueueFull | Self::Away(_))
    }
}

/// Reason that a producer cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerStartError {
    /// This build has no client.
    #[error("{}", crate::NOT_BUILT_IN)]
    NotBuiltIn,
    /// The client refuses its settings, such as a certificate that cannot be read.
    #[error("cannot make a client of Kafka: {0}")]
    Client(String),
    /// The system has no thread to give.
    #[error("cannot start a thread for the client of Kafka: {0}")]
    Thread(String),
}

/// State of the brokers as the producer sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BrokerState {
    /// Nothing is known yet.
    #[default]
    Unknown,
    /// The topic is there, with so many partitions.
    Here {
        /// Number of its partitions.
        partitions: usize,
    },
    /// They cannot be reached, or the topic cannot be used.
    Away {
        /// Reason.
        why: String,
    },
}

#[cfg(test)]
mod tests;
