//! Probe of the brokers: a thread that queries the topic, and replaces the client after a fatal
//! error.
//!
//! It queries at an interval, and at once after an error of the client or an overdue message. While
//! the brokers are unavailable it queries more often, and senders are refused without waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rdkafka::ClientConfig;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::{FutureProducer, Producer as _, PurgeConfig};
use tokio::sync::watch;

use super::client_context::ProducerCallbacks;
use super::{BrokerState, ProducerStartError};
use crate::settings::SaslSettings;

/// Longest wait for the answer to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of probes while the brokers are available.
const LOOK: Duration = Duration::from_secs(15);
/// Interval of probes while they are unavailable.
const LOOK_AWAY: Duration = Duration::from_millis(500);
/// Shortest interval of probes, even if woken more often.
const LOOK_LEAST: Duration = Duration::from_millis(50);

/// Client of librdkafka with our callbacks.
pub(super) type ProducerClient = FutureProducer<ProducerCallbacks>;

/// Parts shared by senders and the probe.
pub(super) struct Shared {
    pub(super) topic: String,
    config: ClientConfig,
    alone_config: ClientConfig,
    sasl: Option<SaslSettings>,
    client: RwLock<ProducerClient>,
    /// Client that sends each message alone, after its first use.
    alone: Mutex<Option<ProducerClient>>,
    pub(super) state: watch::Sender<BrokerState>,
    wake: SyncSender<()>,
}

impl Shared {
    /// Creates the client without connecting. The second config is for the client that sends each
    /// message alone.
    pub(super) fn new(
        [config, alone_config]: [ClientConfig; 2],
        topic: &str,
        sasl: Option<&SaslSettings>,
        wake: SyncSender<()>,
    ) -> Result<Self, ProducerStartError> {
        let client = client(&config, topic, sasl, &wake)?;
        Ok(Self {
            topic: topic.to_owned(),
            config,
            alone_config,
            sasl: sasl.cloned(),
            client: RwLock::new(client),
            alone: Mutex::new(None),
            state: watch::Sender::new(BrokerState::Unknown),
            wake,
        })
    }

    /// Returns the current client.
    pub(super) fn client(&self) -> ProducerClient {
        self.client.read().clone()
    }

    /// Returns the client that sends each message alone, created at first use.
    pub(super) fn alone_client(&self) -> Result<ProducerClient, ProducerStartError> {
        let mut alone = self.alone.lock();
        if let Some(client) = &*alone {
            return Ok(client.clone());
        }
        let client = client(&self.alone_config, &self.topic, self.sasl.as_ref(), &self.wake)?;
        Ok(alone.insert(client).clone())
    }

    /// Triggers a probe at once.
    pub(super) fn probe(&self) {
        // A woken probe queries anyway.
        let _ = self.wake.try_send(());
    }

    /// Queries the topic once.
    fn look(&self) -> BrokerState {
        let client = self.client();
        if let Some((code, why)) = client.client().fatal_error() {
            tracing::warn!(topic = %self.topic, ?code, why, "the client of Kafka is made anew");
            match self::client(&self.config, &self.topic, self.sasl.as_ref(), &self.wake) {
                Ok(anew) => {
                    *self.client.write() = anew;
                }
                Err(error) => return BrokerState::Away { why: error.to_string() },
            }
        }
        let client = self.client();
        let metadata = match client.client().fetch_metadata(Some(&self.topic), PROBE_TIMEOUT) {
            Ok(metadata) => metadata,
            Err(error) => return BrokerState::Away { why: error.to_string() },
        };
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.topic);
        let Some(topic) = topic else {
            return BrokerState::Away { why: format!("there is no topic `{}`", self.topic) };
        };
        match topic.error() {
            Some(error) => {
                let why = RDKafkaErrorCode::from(error).to_string();
                BrokerState::Away { why: format!("topic `{}`: {why}", self.topic) }
            }
            None => BrokerState::Here { partitions: topic.partitions().len() },
        }
    }

    /// Records the state, and reports a change. While the brokers are unavailable all waiting
    /// messages are given up, since their senders are refused.
    fn note(&self, now: BrokerState) {
        let before = self.state.send_replace(now.clone());
        match (&before, &now) {
            (BrokerState::Here { .. } | BrokerState::Unknown, BrokerState::Away { why }) => {
                tracing::warn!(topic = %self.topic, why, "the brokers take no messages");
            }
            (BrokerState::Away { .. }, BrokerState::Here { partitions }) => {
                tracing::info!(topic = %self.topic, partitions, "the brokers take messages again");
            }
            _ => {}
        }
        if matches!(now, BrokerState::Away { .. }) {
            self.client().purge(PurgeConfig::default().queue());
            let alone = self.alone.lock();
            if let Some(client) = &*alone {
                client.purge(PurgeConfig::default().queue());
            }
        }
    }
}

/// Runs the probe until the producer is dropped.
pub(super) fn run(shared: &Shared, is_closing: &AtomicBool, woken: &Receiver<()>) {
    while !is_closing.load(Ordering::Acquire) {
        let state = shared.look();
        let is_here = matches!(state, BrokerState::Here { .. });
        shared.note(state);
        std::thread::sleep(LOOK_LEAST);
        // It cannot be disconnected: `shared` holds the other end.
        let _ = woken.recv_timeout(if is_here { LOOK } else { LOOK_AWAY });
    }
}

fn client(
    config: &ClientConfig,
    topic: &str,
    sasl: Option<&SaslSettings>,
    wake: &SyncSender<()>,
) -> Result<ProducerClient, ProducerStartError> {
    let callbacks =
        ProducerCallbacks { topic: topic.to_owned(), sasl: sasl.cloned(), wake: wake.clone() };
    let client = config.create_with_context(callbacks);
    client.map_err(|error| ProducerStartError::Client(error.to_string()))
}
