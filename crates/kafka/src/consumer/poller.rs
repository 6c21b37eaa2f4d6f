//! Poller: the thread that reads records, joins them to chunks and commits positions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::chunk::{Chunk, ChunkOrigin, RecordKey};
use super::group::GroupContext;
use super::headers;
use super::lane::SkipLog;
use super::metrics::Skip;
use super::ownership::Partition;
use super::settings::KafkaReceiverSettings;
use spanscore_base::model::MemoryQuota;
use spanscore_base::otlp::Signal;

/// Bytes of chunks at which partitions are paused.
const QUEUED_BYTES_MAX: usize = 16 << 20;
/// Bytes of chunks below which paused partitions resume.
const RESUME_BYTES: usize = QUEUED_BYTES_MAX / 4;
/// Limit on open chunks: each group of a partition has its own.
const FILLING_MAX: usize = 1024;
/// Bytes of open chunks at which all are handed over.
const FILLING_BYTES_MAX: usize = 4 << 20;
/// Longest wait for records.
const POLL_WAIT: Duration = Duration::from_millis(100);
/// Longest time for filling a chunk.
const FILL_TIME: Duration = Duration::from_millis(50);
/// Interval of commits.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of gauge updates.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of queued chunks, over all lanes.
pub(super) struct ChunkRoom {
    held: AtomicUsize,
    memory: Arc<MemoryQuota>,
}

impl ChunkRoom {
    pub(super) fn new(memory: &Arc<MemoryQuota>) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), memory: Arc::clone(memory) })
    }

    /// Counts bytes already held; pausing bounds them.
    fn take(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.memory.take(bytes);
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.memory.give_back_for(&self.held, bytes);
    }

    fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// Names of the topics, by signal.
struct Topics {
    traces: Vec<Arc<str>>,
    logs: Vec<Arc<str>>,
}

impl Topics {
    fn new(settings: &KafkaReceiverSettings) -> Self {
        let named = |topics: &[String]| topics.iter().map(|topic| topic.as_str().into()).collect();
        Self { traces: named(&settings.traces.topics), logs: named(&settings.logs.topics) }
    }

    /// Returns the partition of a record, sharing the topic's name.
    fn partition(&self, message: &BorrowedMessage<'_>) -> Partition {
        let mut known = self.traces.iter().chain(&self.logs);
        let topic = known.find(|topic| ***topic == *message.topic()).map(Arc::clone);
        let topic = topic.unwrap_or_else(|| message.topic().into());
        Partition { topic, number: message.partition() }
    }

    /// Returns the signal of a record, by its header or its topic.
    fn signal(&self, message: &BorrowedMessage<'_>) -> Option<Signal> {
        if let Some(name) = headers::signal_name(message) {
            let known = [Signal::Traces, Signal::Logs];
            return known.into_iter().find(|it| it.as_str().as_bytes() == name);
        }
        let is_of_traces = self.traces.iter().any(|topic| **topic == *message.topic());
        Some(if is_of_traces { Signal::Traces } else { Signal::Logs })
    }
}

/// Reader of the assigned partitions.
pub(super) struct Poller {
    consumer: Arc<BaseConsumer<GroupContext>>,
    topics: Topics,
    lanes: Vec<mpsc::UnboundedSender<Chunk>>,
    room: Arc<ChunkRoom>,
    filling: HashMap<ChunkOrigin, Chunk>,
    filling_since: Instant,
    /// Bytes of the open chunks.
    filling_bytes: usize,
    skips: Arc<SkipLog>,
    is_paused: bool,
    last_shown: Instant,
    stop: CancellationToken,
}

impl Poller {
    pub(super) fn new(
        consumer: Arc<BaseConsumer<GroupContext>>,
        settings: &KafkaReceiverSettings,
        (lanes, room): (Vec<mpsc::UnboundedSender<Chunk>>, Arc<ChunkRoom>),
        skips: Arc<SkipLog>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            consumer,
            topics: Topics::new(settings),
            lanes,
            room,
            filling: HashMap::new(),
            filling_since: Instant::now(),
            filling_bytes: 0,
            skips,
            is_paused: false,
            last_shown: Instant::now(),
            stop,
        }
    }

    /// Reads until stopped, then commits and leaves the group.
    pub(super) fn run(mut self) {
        let consumer = Arc::clone(&self.consumer);
        let context = consumer.context();
        std::thread::scope(|scope| {
            let (_reading, read) = std::sync::mpsc::channel::<()>();
            // Slow brokers delay no reading.
            scope.spawn(|| {
                let read = read;
                while read.recv_timeout(COMMIT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    context.commit(&consumer);
                }
            });
            while !self.stop.is_cancelled() && self.turn() {}
        });
        // Before any claim is dropped: an unclaimed record counts as finished.
        context.commit(&consumer);
        context.owned.lock().revoke_all();
        context.is_member.store(false, Ordering::Release);
        context.revoked.notify_one();
    }

    /// Reads one record, if available; false after a fatal error of the client.
    fn turn(&mut self) -> bool {
        let wait = if self.filling.is_empty() { POLL_WAIT } else { Duration::ZERO };
        let polled = match self.consumer.poll(wait) {
            None => None,
            Some(Ok(message)) => {
                let context = self.consumer.context();
                if self.filling.is_empty() {
                    self.filling_since = Instant::now();
                }
                let partition = self.topics.partition(&message);
                self.filling_bytes += message.payload_len();
                let place = (partition, self.topics.signal(&message));
                Some(take((context, &self.skips), place, &mut self.filling, &message))
            }
            Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
                self.consumer.context().fail(&error);
                return false;
            }
            Some(Err(error)) => {
                self.consumer.context().metrics.errors.add("other", 1);
                tracing::debug!(%error, "reading from Kafka met an error");
                None
            }
        };
        match polled {
            Some(is_full)
                if self.filling_since.elapsed() < FILL_TIME
                    && self.filling.len() < FILLING_MAX
                    && self.filling_bytes < FILLING_BYTES_MAX =>
            {
                if is_full {
                    self.send_if(Chunk::is_full);
                }
            }
            _ => {
                self.send_if(|_| true);
                self.filling_bytes = 0;
            }
        }
        self.pause_or_resume();
        if self.last_shown.elapsed() >= SHOW_INTERVAL {
            self.last_shown = Instant::now();
            self.show();
        }
        true
    }

    /// Hands over the chunks that are ready.
    fn send_if(&mut self, is_ready: impl Fn(&Chunk) -> bool) {
        for (_, chunk) in self.filling.extract_if(|_, chunk| is_ready(chunk)) {
            self.filling_bytes = self.filling_bytes.saturating_sub(chunk.bytes.len());
            self.room.take(chunk.held());
            // Chunks of a partition stay in order; both topics of a trace share its number.
            let number = usize::try_from(chunk.origin.partition.number).unwrap_or(0);
            if let Some(lane) = self.lanes.get(number % self.lanes.len().max(1)) {
                // Fails only after the lanes have ended, at shutdown.
                let _ = lane.send(chunk);
            }
        }
    }

    /// Pauses all partitions while too much is queued, and resumes them afterwards. This includes
    /// newly assigned ones, since the client remembers a partition's state.
    fn pause_or_resume(&mut self) {
        let context = Arc::clone(self.consumer.context());
        let held = self.room.held();
        let is_full = held > QUEUED_BYTES_MAX || self.is_paused && held > RESUME_BYTES;
        let is_changed = context.is_changed.swap(false, Ordering::AcqRel);
        if is_full == self.is_paused && !is_changed {
            return;
        }
        let mut list = TopicPartitionList::new();
        for partition in context.owned.lock().partitions() {
            let _ = list.add_partition_offset(&partition.topic, partition.number, Offset::Invalid);
        }
        let done = if is_full { self.consumer.pause(&list) } else { self.consumer.resume(&list) };
        if let Err(error) = done {
            tracing::debug!(%error, "partitions cannot be paused or go on");
        }
        if is_full && !self.is_paused {
            context.metrics.waits.add(1);
        }
        self.is_paused = is_full;
        let paused = if is_full { list.count() as u64 } else { 0 };
        context.metrics.paused.record(paused);
    }

    fn show(&self) {
        let context = self.consumer.context();
        let (lag, held_back) = context.owned.lock().behind();
        context.metrics.lag.record(lag);
        context.metrics.held_back.record(held_back);
        context.metrics.queued.record(self.room.held() as u64);
    }
}

/// Adds a record to the chunk of its origin; returns true if that is full.
fn take(
    (context, skips): (&GroupContext, &SkipLog),
    (partition, signal): (Partition, Option<Signal>),
    filling: &mut HashMap<ChunkOrigin, Chunk>,
    message: &BorrowedMessage<'_>,
) -> bool {
    let offset = message.offset();
    let mut owned = context.owned.lock();
    // Not for a revoked partition: its new owner reads this record.
    let Some(state) = owned.get_mut(&partition) else { return false };
    state.next = Some(offset + 1);
    state.end = state.end.max(offset + 1);
    if state.was_done(offset) {
        return false;
    }
    let skip = |reason, why| {
        skips.skip((&partition, offset), reason, why);
        false
    };
    let Some(payload) = message.payload().filter(|payload| !payload.is_empty()) else {
        return skip(Skip::Empty, "it holds nothing");
    };
    let Some(signal) = signal else {
        let why = "its header `spanscore-signal` is neither `traces` nor `logs`";
        return skip(Skip::UnknownSignal, why);
    };
    let Some(group) = headers::group(message) else {
        let why = "its header `spanscore-group` is not one of 16 hexadecimal digits";
        return skip(Skip::MalformedGroup, why);
    };
    let origin = ChunkOrigin { partition, signal, group };
    let chunk = match filling.entry(origin.clone()) {
        Entry::Occupied(known) => {
            let chunk = known.into_mut();
            // A chunk of an ended ownership is dropped: its records are read again.
            if chunk.source.is_retired() {
                *chunk = Chunk::new(origin, &state.source);
            }
            chunk
        }
        Entry::Vacant(new) => new.insert(Chunk::new(origin, &state.source)),
    };
    chunk.push(offset, RecordKey::of(message.key()), payload);
    chunk.is_full()
}
