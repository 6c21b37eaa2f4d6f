//! In-process mock brokers, for tests of programs that use the client.

use rdkafka::error::KafkaError;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

/// Mock broker with some topics, stopped on drop.
pub struct MockBroker(MockCluster<'static, DefaultProducerContext>);

impl MockBroker {
    /// Starts it with topics and their partition counts.
    ///
    /// # Errors
    /// The client cannot create it.
    pub fn start(topics: &[(&str, i32)]) -> Result<Self, KafkaError> {
        let cluster = MockCluster::new(1)?;
        topics.iter().try_for_each(|(name, count)| cluster.create_topic(name, *count, 1))?;
        Ok(Self(cluster))
    }

    /// Returns its address, `host:port`.
    pub fn address(&self) -> String {
        self.0.bootstrap_servers()
    }
}
