//! Producer of a build without Kafka, which never starts.

use std::convert::Infallible;
use std::time::Duration;

use super::{BrokerState, Message, ProduceError, ProducerSettings, ProducerStartError};
use crate::ClusterSettings;

/// Producer that is never constructed.
#[derive(Debug)]
pub struct AbsentProducer {
    never: Infallible,
}

impl AbsentProducer {
    /// Refuses to start.
    ///
    /// # Errors
    /// Always [`ProducerStartError::NotBuiltIn`].
    pub fn start(
        _cluster: &ClusterSettings,
        _settings: &ProducerSettings,
        _topic: &str,
        _timeout: Duration,
    ) -> Result<Self, ProducerStartError> {
        Err(ProducerStartError::NotBuiltIn)
    }

    /// Sends messages; see the build with Kafka.
    pub async fn send_all(&self, _messages: &[Message]) -> Vec<Result<(), ProduceError>> {
        match self.never {}
    }

    /// Returns the state of the brokers.
    pub fn state(&self) -> BrokerState {
        match self.never {}
    }
}
