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

/// Bytes of chunks from which on partitions are paused.
const QUEUED_BYTES_MAX: usize = 16 << 20;
/// Bytes of chunks below which paused partitions go on.
const RESUME_BYTES: usize = QUEUED_BYTES_MAX / 4;
/// Most chunks that are filled at a time: each group of a partition has its own.
const FILLING_MAX: usize = 1024;
/// Bytes of chunks that are filled at a time, from which on all are handed over.
const FILLING_BYTES_MAX: usize = 4 << 20;
/// Longest wait for records.
const POLL_WAIT: Duration = Duration::from_millis(100);
/// Longest time for which a chunk is filled.
const FILL_TIME: Duration = Duration::from_millis(50);
/// Interval at which positions are committed.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which gauges are shown.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of chunks on their way, over all lanes.
pub(super) struct ChunkRoom {
    held: AtomicUsize,
    memory: Arc<MemoryQuota>,
}

impl ChunkRoom {
    pub(super) fn new(memory: &Arc<MemoryQuota>) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), memory: Arc::clone(memory) })
    }

    /// Counts bytes that are held already: pausing bounds them.
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

    /// Returns the partition of a record; its topic shares a known name.
    fn partition(&self, message: &BorrowedMessage<'_>) -> Partition {
        let mut known = self.traces.iter().chain(&self.logs);
        let topic = known.find(|topic| ***topic == *message.topic()).map(Arc::clone);
        let topic = topic.unwrap_or_else(|| message.topic().into());
        Partition { topic, number: message.partition() }
    }

    /// Returns the signal of a record: by its header, else by its topic.
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
    /// Bytes of the chunks that are filled.
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

    /// Reads until it is stopped; then commits, and leaves the group.
    pub(super) fn run(mut self) {
        let consumer = Arc::clone(&self.consumer);
        let context = consumer.context();
        std::thread::scope(|scope| {
            let (_reading, read) = std::sync::mpsc::channel::<()>();
            // Brokers that are slow to answer hold up no reading.
            scope.spawn(|| {
                let read = read;
                while read.recv_timeout(COMMIT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    context.commit(&consumer);
                }
            });
            while !self.stop.is_cancelled() && self.turn() {}
        });
        // Before any claim goes: a record that nobody claims is done.
        context.commit(&consumer);
        context.owned.lock().revoke_all();
        context.is_member.store(false, Ordering::Release);
        context.revoked.notify_one();
    }

    /// Reads one record, if one comes; false once the client has failed.
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
        self.hold_or_go_on();
        if self.last_shown.elapsed() >= SHOW_INTERVAL {
            self.last_shown = Instant::now();
            self.show();
        }
        true
    }

    /// Hands over the chunks for which this holds.
    fn send_if(&mut self, is_ready: impl Fn(&Chunk) -> bool) {
        for (_, chunk) in self.filling.extract_if(|_, chunk| is_ready(chunk)) {
            self.filling_bytes = self.filling_bytes.saturating_sub(chunk.bytes.len());
            self.room.take(chunk.held());
            // Chunks of a partition stay in order; both topics of a trace have its number.
            let number = usize::try_from(chunk.origin.partition.number).unwrap_or(0);
            if let Some(lane) = self.lanes.get(number % self.lanes.len().max(1)) {
                // Fails only once the lanes have ended, as the process does.
                let _ = lane.send(chunk);
            }
        }
    }

    /// Pauses all partitions while too much is on its way, and lets them go on then; those that
    /// were assigned since as well: the client remembers how a partition was when it went.
    fn hold_or_go_on(&mut self) {
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

/// Adds a record to the chunk of its origin; returns true if that is full now.
fn take(
    (context, skips): (&GroupContext, &SkipLog),
    (partition, signal): (Partition, Option<Signal>),
    filling: &mut HashMap<ChunkOrigin, Chunk>,
    message: &BorrowedMessage<'_>,
) -> bool {
    let offset = message.offset();
    let mut owned = context.owned.lock();
    // None of a partition that was revoked: whoever owns it reads this record.
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
            // That of an ownership that has ended goes: its records come again.
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
