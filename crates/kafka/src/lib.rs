//! Client of Kafka: its settings, and with the feature `client` the client itself, on librdkafka.
//!
//! Every build reads and checks the settings, so that a config means the same everywhere; a build
//! without the feature says which package has it ([`NOT_BUILT_IN`]).

#[cfg(feature = "client")]
mod client;
mod consumer;
#[cfg(feature = "client")]
mod mock;
mod producer;
mod settings;
#[cfg(feature = "client")]
mod token;

#[cfg(feature = "client")]
pub use client::client_config;
pub use consumer::settings::{InitialOffset, KafkaReceiverSettings, RecordEncoding, TopicSettings};
pub use consumer::{
    FetchedRequest, KafkaReceiver, KafkaStartError, RecordClaims, RecordSink, Untaken,
};
#[cfg(feature = "client")]
pub use mock::MockBroker;
pub use producer::{
    BrokerState, MESSAGE_HEAD_BYTES, Message, Partitioner, ProduceError, Producer,
    ProducerCompression, ProducerSettings, ProducerStartError, check_topic, key_of,
};
pub use settings::{ClusterSettings, SaslMechanism, SaslSettings, SignInSettings};

/// Fault of the start with a config that needs Kafka, in a build without it, with the remedy.
pub const NOT_BUILT_IN: &str = "this build has no Kafka: the packages for x86_64 Linux have it, \
                                and so has one made with `--features kafka`";

/// Returns [`NOT_BUILT_IN`] in a build without the client: a warning of checks, since a config may
/// be checked elsewhere than it runs.
pub fn missing_client() -> Option<&'static str> {
    (!cfg!(feature = "client")).then_some(NOT_BUILT_IN)
}

/// Header of a message that holds OTLP: the signal, `traces` or `logs`. So one topic holds both.
pub const SIGNAL_HEADER: &str = "spanscore-signal";

/// Header of a message from a client of a group of its own: the group's eight bytes in hexadecimal.
/// Traces of two groups are never one, whatever their ids. Without it the sender is everybody.
pub const GROUP_HEADER: &str = "spanscore-group";
