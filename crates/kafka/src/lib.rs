//! Client of Kafka: its settings, and with the feature `client` the client itself, on librdkafka.
//!
//! Every build reads and checks the settings, so that a config means the same everywhere; a build
//! without the feature says which package has it ([`NOT_BUILT_IN`]).

#[cfg(feature = "client")]
mod client;
mod consumer;
mod settings;

#[cfg(feature = "client")]
pub use client::client_config;
pub use consumer::settings::{InitialOffset, KafkaReceiverSettings, RecordEncoding, TopicSettings};
pub use consumer::{
    FetchedRequest, KafkaReceiver, KafkaStartError, RecordClaims, RecordSink, SIGNAL_HEADER,
    Untaken,
};
pub use settings::{ClusterSettings, SaslMechanism, SaslSettings, SignInSettings};

/// True if this build holds the client.
pub const IS_BUILT_IN: bool = cfg!(feature = "client");

/// Remedy for a config that needs Kafka, in a build without it.
pub const NOT_BUILT_IN: &str = "this build has no Kafka: the packages for x86_64 Linux have it, \
                                and so has one made with `--features kafka`";
