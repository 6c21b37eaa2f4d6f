//! The `kafka` exporter: evaluations as messages to a topic, keyed by trace id.
//!
//! A batch becomes messages ([`messages`]), which are sent together and retried one by one
//! ([`sender`]) until they are accepted, permanently refused, or out of time.

mod messages;
mod sender;
mod settings;

use std::sync::Arc;

use super::settings::{Exporter, ExporterKind};
use super::{ExporterStartError, Starting};
use sender::KafkaSender;
use settings::KafkaExporterSettings;
use spanscore_base::settings::{Node, SettingsError};
use spanscore_kafka::Producer;

/// Kind `kafka`.
pub(crate) static KIND: ExporterKind = ExporterKind {
    name: "kafka",
    aliases: &[],
    about: "Sends evaluations to a Kafka topic, as OTLP or JSON, keyed by trace id.",
    single: false,
    schema: || schemars::schema_for!(KafkaExporterSettings),
    read: |node| Ok(Arc::new(read(node)?)),
};

fn read(node: &Node) -> Result<KafkaExporterSettings, SettingsError> {
    let settings: KafkaExporterSettings = node.read()?;
    settings.check().map_err(|(key, error)| error.at(node.place_of(key)))?;
    Ok(settings)
}

impl Exporter for KafkaExporterSettings {
    fn start(&self, starting: &mut Starting<'_>) -> Result<(), ExporterStartError> {
        let cluster = self.cluster();
        let producer = Producer::start(&cluster, &self.producer, &self.topic, self.timeout.0);
        let producer = producer.map_err(|error| starting.client_error(error))?;
        starting.show(self.content.is_shown(), true);
        let filter = starting.content_filter(self.content);
        let letters = starting.dead_letters();
        let retries = starting.retries(self.must_deliver, &self.retry_on_failure);
        let sender = KafkaSender::new(starting.name(), self, producer, filter, letters, retries);
        starting.sending_queue(self.must_deliver, &self.sending_queue, sender)
    }

    fn missing_part(&self) -> Option<&'static str> {
        spanscore_kafka::missing_client()
    }

    fn queue_bytes(&self) -> Option<usize> {
        let queue = &self.sending_queue;
        queue.queue_size.filter(|_| queue.enabled)
    }
}
