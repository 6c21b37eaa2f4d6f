//! Running producer on librdkafka.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use rdkafka::producer::future_producer::DeliveryFuture;
use tokio::time::{Instant, sleep};

use super::reach::{self, ProducerClient, Shared};
use super::{
    BrokerState, MESSAGE_HEAD_BYTES, Message, ProduceError, ProducerSettings, ProducerStartError,
};
use crate::client_config;
use crate::settings::ClusterSettings;

/// Interval of retries without room in the client's queue.
const ROOM_LOOK: Duration = Duration::from_millis(10);
/// Broker limit on the messages of a partition in one batch.
const TOPIC_LIMIT: &str = "`max.message.bytes` of the topic";
/// Longest wait before the client reconnects to a broker.
const RECONNECT_MAX: Duration = Duration::from_secs(1);

/// Idempotent producer for one topic. On drop it gives up waiting messages; a separate thread ends
/// the client, which may take a while.
pub struct RunningProducer {
    /// Dropped before `_end`, so that this never waits for the client's end.
    pub(super) shared: Arc<Shared>,
    settings: ProducerSettings,
    timeout: Duration,
    _end: ProbeEnd,
}

/// Guard that ends the probe on drop.
struct ProbeEnd {
    is_closing: Arc<AtomicBool>,
    wake: SyncSender<()>,
}

impl Drop for ProbeEnd {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::Release);
        // A woken probe sees it anyway.
        let _ = self.wake.try_send(());
    }
}

impl std::fmt::Debug for RunningProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("topic", &self.shared.topic).finish_non_exhaustive()
    }
}

impl RunningProducer {
    /// Starts a producer; the brokers need not be reachable. A message without acknowledgement
    /// after `timeout` counts as failed.
    ///
    /// # Errors
    /// The client refuses its settings, or the system a thread.
    pub fn start(
        cluster: &ClusterSettings,
        settings: &ProducerSettings,
        topic: &str,
        timeout: Duration,
    ) -> Result<Self, ProducerStartError> {
        let config = producer_config(cluster, settings, timeout);
        let (wake, woken) = sync_channel(1);
        let end = ProbeEnd { is_closing: Arc::default(), wake: wake.clone() };
        let alone = alone_config(&config, settings);
        let shared = Shared::new([config, alone], topic, cluster.auth.sasl.as_ref(), wake)?;
        let shared = Arc::new(shared);
        let of_probe = Arc::clone(&shared);
        let is_closing = Arc::clone(&end.is_closing);
        std::thread::Builder::new()
            .name("kafka-probe".to_owned())
            .spawn(move || reach::run(&of_probe, &is_closing, &woken))
            .map_err(|error| ProducerStartError::Thread(error.to_string()))?;
        Ok(Self { shared, settings: settings.clone(), timeout, _end: end })
    }

    /// Returns the state of the brokers.
    pub fn state(&self) -> BrokerState {
        self.shared.state.borrow().clone()
    }

    /// Sends messages together, in order, and returns each outcome after the brokers have answered.
    /// A message dropped or given up while it waits may still be written.
    ///
    /// The brokers' limit applies to all messages in one batch. Those refused as too large are sent
    /// once more, each alone, so that the last answer applies to the message itself.
    pub async fn send_all(&self, messages: &[Message]) -> Vec<Result<(), ProduceError>> {
        let all: Vec<_> = messages.iter().collect();
        let mut outcomes = self.send_with(&self.shared.client(), &all).await;
        let too_large = |outcome: &Result<(), ProduceError>| {
            matches!(outcome, Err(ProduceError::TooLarge { limit: TOPIC_LIMIT, .. }))
        };
        let places = 0..outcomes.len();
        let places: Vec<_> = places.filter(|place| too_large(&outcomes[*place])).collect();
        if places.is_empty() {
            return outcomes;
        }
        let alone: Vec<_> = places.iter().map(|place| &messages[*place]).collect();
        let answers = match self.shared.alone_client() {
            Ok(client) => self.send_with(&client, &alone).await,
            Err(error) => vec![Err(ProduceError::Away(error.to_string())); alone.len()],
        };
        for (place, answer) in places.into_iter().zip(answers) {
            outcomes[place] = answer;
        }
        outcomes
    }

    /// Sends messages by a client; returns each outcome.
    async fn send_with(
        &self,
        client: &ProducerClient,
        messages: &[&Message],
    ) -> Vec<Result<(), ProduceError>> {
        let deadline = Instant::now() + self.timeout;
        let mut deliveries = Vec::with_capacity(messages.len());
        for message in messages {
            deliveries.push(self.enqueue(client, message, deadline).await);
        }
        let mut outcomes = Vec::with_capacity(messages.len());
        for (delivery, message) in deliveries.into_iter().zip(messages) {
            outcomes.push(match delivery {
                Ok(delivery) => self.delivered(delivery, message.payload.len()).await,
                Err(error) => Err(error),
            });
        }
        outcomes
    }

    /// Waits for the brokers' answer to a message of this size.
    async fn delivered(&self, delivery: DeliveryFuture, bytes: usize) -> Result<(), ProduceError> {
        tokio::select! {
            biased;
            delivered = delivery => match delivered {
                Ok(Ok(_)) => Ok(()),
                Ok(Err((error, _))) => Err(self.failure(&error, bytes)),
                Err(_) => Err(ProduceError::Away("the client has ended".to_owned())),
            },
            why = self.away() => Err(ProduceError::Away(why)),
        }
    }

    /// Queues a message in a client, waiting for room.
    async fn enqueue(
        &self,
        client: &ProducerClient,
        message: &Message,
        deadline: Instant,
    ) -> Result<DeliveryFuture, ProduceError> {
        if let BrokerState::Away { why } = self.state() {
            return Err(ProduceError::Away(why));
        }
        let bytes = message.payload.len();
        if bytes > self.settings.max_message_bytes {
            return Err(ProduceError::TooLarge { bytes, limit: "`producer.max_message_bytes`" });
        }
        loop {
            match client.send_result(self.record(message)) {
                Ok(delivery) => return Ok(delivery),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {}
                Err((error, _)) => return Err(self.failure(&error, bytes)),
            }
            if Instant::now() >= deadline {
                return Err(ProduceError::QueueFull);
            }
            tokio::select! {
                () = sleep(ROOM_LOOK) => {}
                why = self.away() => return Err(ProduceError::Away(why)),
            }
        }
    }

    fn record<'a>(&'a self, message: &'a Message) -> FutureRecord<'a, [u8], [u8]> {
        let record = FutureRecord::to(&self.shared.topic)
            .key(message.key.as_ref())
            .payload(message.payload.as_ref());
        if message.headers.is_empty() {
            return record;
        }
        let headers = OwnedHeaders::new_with_capacity(message.headers.len());
        let add = |headers: OwnedHeaders, (key, value): &(&str, String)| {
            headers.insert(Header { key, value: Some(value) })
        };
        record.headers(message.headers.iter().fold(headers, add))
    }

    /// Waits until the brokers are known to be unavailable; returns the reason.
    async fn away(&self) -> String {
        let mut states = self.shared.state.subscribe();
        loop {
            if let BrokerState::Away { why } = &*states.borrow_and_update() {
                return why.clone();
            }
            if states.changed().await.is_err() {
                return "the client has ended".to_owned();
            }
        }
    }

    /// Converts an error of the client, and triggers the probe if it may concern all messages.
    fn failure(&self, error: &KafkaError, bytes: usize) -> ProduceError {
        use RDKafkaErrorCode as Code;
        let code = error.rdkafka_error_code();
        match code {
            Some(Code::MessageSizeTooLarge) => ProduceError::TooLarge { bytes, limit: TOPIC_LIMIT },
            Some(
                Code::InvalidMessage
                | Code::InvalidRecord
                | Code::PolicyViolation
                | Code::InvalidTimestamp
                | Code::InvalidArgument
                | Code::UnsupportedForMessageFormat,
            ) => ProduceError::Refused(error.to_string()),
            _ => {
                self.shared.probe();
                ProduceError::Away(error.to_string())
            }
        }
    }
}

fn producer_config(
    cluster: &ClusterSettings,
    settings: &ProducerSettings,
    timeout: Duration,
) -> ClientConfig {
    let mut config = client_config(cluster);
    let timeout_ms = timeout.as_millis().max(10);
    // The client counts key, header and framing, too.
    let message_bytes = settings.max_message_bytes + MESSAGE_HEAD_BYTES;
    for (name, value) in [
        ("enable.idempotence", "true".to_owned()),
        ("message.max.bytes", message_bytes.to_string()),
        ("message.timeout.ms", timeout_ms.to_string()),
        ("socket.timeout.ms", timeout_ms.clamp(1000, 60_000).to_string()),
        ("linger.ms", settings.linger.as_ms().to_string()),
        ("compression.type", <&str>::from(settings.compression).to_owned()),
        ("partitioner", <&str>::from(settings.partitioner).to_owned()),
        ("queue.buffering.max.messages", settings.queued_messages_max().to_string()),
        ("queue.buffering.max.kbytes", (u64::from(settings.queue_mib) << 10).to_string()),
        ("reconnect.backoff.max.ms", RECONNECT_MAX.as_millis().to_string()),
    ] {
        config.set(name, value);
    }
    config
}

/// Returns the config of a client that sends each message alone and once; senders do the retries.
fn alone_config(config: &ClientConfig, settings: &ProducerSettings) -> ClientConfig {
    let mut config = config.clone();
    let queue_kib = settings.alone_bytes() / 1024;
    for (name, value) in [
        ("batch.num.messages", "1".to_owned()),
        ("linger.ms", "0".to_owned()),
        ("enable.idempotence", "false".to_owned()),
        ("message.send.max.retries", "0".to_owned()),
        ("queue.buffering.max.messages", queue_kib.to_string()),
        ("queue.buffering.max.kbytes", queue_kib.to_string()),
    ] {
        config.set(name, value);
    }
    config
}
