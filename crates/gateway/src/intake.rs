//! Intake of requests: split by trace, written to Kafka, and answered by the brokers'
//! acknowledgements.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::metrics::GatewayMetrics;
use super::settings::GatewayKafkaSettings;
use super::split::{CHUNK_BYTES, SplitRequest, TraceMessage};
use spanscore_base::model::{ClientGroup, MemoryQuota};
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::metrics::count_points;
use spanscore_base::panics::Panicked;
use spanscore_kafka::key_of;
use spanscore_kafka::{BrokerState, GROUP_HEADER, Message, ProduceError, Producer, SIGNAL_HEADER};
use spanscore_net::blocking::BlockingPool;
use spanscore_receive::{Accepted, ConnectionAccount, Intake, Lack, Received, Refused};

/// Retry delay for refused senders.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Size above which a request is split on a thread apart from the network's.
const LARGE_BYTES: usize = 256 << 10;

/// Intake of the receivers.
pub(crate) struct GatewayIntake {
    producer: Arc<Producer>,
    bytes_max: usize,
    /// Time limit for all messages of a request.
    timeout: Duration,
    quota: Arc<MemoryQuota>,
    metrics: GatewayMetrics,
    pool: BlockingPool,
}

/// Bytes of the quota, released on drop.
struct SplitRoom<'a> {
    quota: &'a MemoryQuota,
    bytes: usize,
}

impl Drop for SplitRoom<'_> {
    fn drop(&mut self) {
        self.quota.give_back(self.bytes);
    }
}

/// Outcome of a request so far.
#[derive(Default)]
struct Tally {
    written: u64,
    too_large: u64,
    refused: u64,
}

impl GatewayIntake {
    pub(crate) fn new(
        producer: Arc<Producer>,
        settings: &GatewayKafkaSettings,
        quota: Arc<MemoryQuota>,
        metrics: GatewayMetrics,
    ) -> Self {
        let bytes_max = settings.producer.max_message_bytes;
        let timeout = settings.timeout.0;
        Self { producer, bytes_max, timeout, quota, metrics, pool: BlockingPool::default() }
    }

    /// Takes room for a request of this size. The places of its items and the heads above them take
    /// about its size again. Messages of one chunk are copies, of which the last may exceed the
    /// chunk's limit.
    fn room(&self, bytes: usize) -> Result<SplitRoom<'_>, Refused> {
        let needed = 2 * bytes + CHUNK_BYTES + self.bytes_max;
        if needed > self.quota.limit() {
            let limit = self.quota.limit();
            let text = format!(
                "splitting it takes {needed} bytes, and `limits.memory_mib` leaves {limit} to that"
            );
            return Err(Refused::Malformed(text));
        }
        if !self.quota.try_take(needed) {
            return Err(self.not_written("memory_full", "no room to split the request"));
        }
        Ok(SplitRoom { quota: &self.quota, bytes: needed })
    }

    fn not_written(&self, reason: &'static str, why: &'static str) -> Refused {
        self.metrics.refused.add(reason, 1);
        Refused::Later { lack: Lack::Log(why), retry_after: RETRY_AFTER }
    }

    fn brokers_away(&self) -> Refused {
        self.metrics.refused.add("brokers_away", 1);
        let lack = Lack::Destination("the brokers take no messages");
        Refused::Later { lack, retry_after: RETRY_AFTER }
    }

    async fn split(&self, received: &Received) -> Result<SplitRequest, Refused> {
        let Received { signal, request, .. } = received;
        let signal = *signal;
        let split = if request.len() < LARGE_BYTES {
            SplitRequest::new(signal, request.clone())
        } else {
            let request = request.clone();
            let split = self.pool.run(move || SplitRequest::new(signal, request)).await;
            split.map_err(|Panicked| Refused::Malformed("it cannot be split".to_owned()))?
        };
        split.ok_or_else(|| Refused::Malformed("it is larger than 4 GiB".to_owned()))
    }

    /// Writes some messages; the items of those that are too large for the brokers are queued
    /// again.
    async fn write(
        &self,
        (signal, group): (Signal, ClientGroup),
        messages: Vec<TraceMessage>,
        split: &mut SplitRequest,
        tally: &mut Tally,
    ) -> Result<(), Refused> {
        let produced: Vec<_> =
            messages.iter().map(|message| produced(message, signal, group)).collect();
        let outcomes = self.producer.send_all(&produced).await;
        for (message, outcome) in messages.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => {
                    tally.written += message.items();
                    self.metrics.messages.add(signal.as_str(), 1);
                    self.metrics.items.add(signal.as_str(), message.items());
                }
                Err(ProduceError::TooLarge { .. }) => {
                    if !split.halve(&message) {
                        tally.too_large += 1;
                    }
                }
                Err(ProduceError::Refused(_)) => tally.refused += message.items(),
                Err(ProduceError::QueueFull) => {
                    let why = "the messages that wait for the brokers are too many";
                    return Err(self.not_written("producer_full", why));
                }
                Err(ProduceError::Away(_)) => return Err(self.brokers_away()),
            }
        }
        Ok(())
    }

    /// Writes all messages of a request, chunk by chunk, until the time limit.
    async fn write_all(
        &self,
        received: &Received,
        split: &mut SplitRequest,
    ) -> Result<Tally, Refused> {
        let mut tally = Tally::default();
        let origin = (received.signal, received.sender.group);
        let deadline = Instant::now() + self.timeout;
        loop {
            let chunk = split.next_chunk(self.bytes_max);
            if chunk.is_empty() {
                return Ok(tally);
            }
            if Instant::now() >= deadline {
                let why = "the brokers are too slow for all messages of the request";
                return Err(self.not_written("brokers_slow", why));
            }
            self.write(origin, chunk, split, &mut tally).await?;
        }
    }

    /// Counts the unwritten items, and reports the lost ones to the sender.
    fn answer(&self, signal: Signal, split: &SplitRequest, tally: &Tally) -> Accepted {
        let too_large = split.too_large + tally.too_large;
        let malformed = split.broken.map_or(0, |broken| broken.items);
        let is_log = signal == Signal::Logs;
        // Log records without a trace are usual and not reported.
        let skipped = if is_log { split.without_trace } else { 0 };
        let traceless = split.without_trace - skipped;
        self.metrics.skipped.add("log_without_trace_id", skipped);
        let mut message = String::new();
        let mut rejected = 0;
        for (reason, count, words) in [
            ("malformed", malformed, "in a part that cannot be read"),
            ("span_without_trace_id", traceless, "without a trace id of 16 bytes"),
            ("too_large", too_large, "larger than a message to the brokers may be"),
            ("multiplied", split.items_left(), "beyond the bytes that a request may become"),
            ("refused", tally.refused, "refused by the brokers"),
        ] {
            self.metrics.rejected.add(reason, count);
            rejected += count;
            if count > 0 {
                let separator = if message.is_empty() { "" } else { ", " };
                message += &format!("{separator}{count} {words}");
            }
        }
        Accepted { accepted: tally.written + skipped, rejected, message }
    }
}

/// Converts the message for the producer.
fn produced(message: &TraceMessage, signal: Signal, group: ClientGroup) -> Message {
    let mut headers = vec![(SIGNAL_HEADER, signal.as_str().to_owned())];
    if !group.is_everybody() {
        headers.push((GROUP_HEADER, group.to_hex()));
    }
    Message { key: key_of(message.trace_id), headers, payload: message.payload.clone() }
}

impl Intake for GatewayIntake {
    async fn accept_by(
        &self,
        received: Received,
        _sender: &Arc<ConnectionAccount>,
        _: Instant,
    ) -> Result<Accepted, Refused> {
        if received.signal == Signal::Metrics {
            let points = count_points(&received.request)
                .map_err(|broken| Refused::Malformed(broken.to_string()))?;
            self.metrics.skipped.add("metric", points);
            return Ok(Accepted { accepted: points, ..Accepted::default() });
        }
        if matches!(self.producer.state(), BrokerState::Away { .. }) {
            return Err(self.brokers_away());
        }
        let began = Instant::now();
        let _room = self.room(received.request.len())?;
        let mut split = self.split(&received).await?;
        let tally = self.write_all(&received, &mut split).await?;
        self.metrics.write_time.record(began.elapsed().as_secs_f64());
        Ok(self.answer(received.signal, &split, &tally))
    }
}
