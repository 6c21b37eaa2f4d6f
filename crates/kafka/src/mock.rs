//! Brokers in memory within this process, for tests of programs that use the client.

use rdkafka::error::KafkaError;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

/// One broker with some topics; it goes with this.
pub struct MockBroker(MockCluster<'static, DefaultProducerContext>);

impl MockBroker {
    /// Starts it with topics of so many partitions.
    ///
    /// # Errors
    /// The client cannot make it.
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
