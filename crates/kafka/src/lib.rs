//! Kafka client: its settings, and with the feature `client` the client itself, on librdkafka.
//!
//! Every build reads and checks the settings, so that a config has the same meaning everywhere. A
//! build without the feature names the package with it ([`NOT_BUILT_IN`]).

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

/// Start-up error, with its remedy, of a build without Kafka whose config needs it.
pub const NOT_BUILT_IN: &str = "this build has no Kafka: the packages for x86_64 Linux have it, \
                                and so has one made with `--features kafka`";

/// Returns [`NOT_BUILT_IN`] in a build without the client. For checks it is a warning, since the
/// config may run elsewhere.
pub fn missing_client() -> Option<&'static str> {
    (!cfg!(feature = "client")).then_some(NOT_BUILT_IN)
}

/// Header of an OTLP message with its signal, `traces` or `logs`, so that one topic can hold both.
pub const SIGNAL_HEADER: &str = "spanscore-signal";

/// Header of a message with its client group: eight bytes in hexadecimal. Traces of different
/// groups are never merged. Without it the default group applies.
pub const GROUP_HEADER: &str = "spanscore-group";
