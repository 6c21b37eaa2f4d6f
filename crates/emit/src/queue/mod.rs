//! Queue of one exporter: bounded by bytes, drained in batches by several consumers.
//!
//! [`Queue::offer`], called by the pipeline, never waits: evaluations beyond the limit are dropped
//! and counted, the largest sender's first. One task gathers batches and hands each to a consumer.
//! Bytes count as held until the delivery has ended, so a dead backend holds at most the capacity.
//!
//! If an exporter must deliver and the process has a log, loads beyond half of the queue go to its
//! [`Overflow`] on disk. Evaluations beyond that are left to the next process, which recomputes
//! them from the log.
//!
//! Evaluations carry the [`Room`] reserved for them, and the [`Receipt`] that waits for them if
//! their exporter must deliver. It is released when they have arrived, are on disk, or were given
//! up and counted. Shutdown leaves the rest to the next process.

mod drain;
mod fair_channel;
mod handover;
mod limits;
mod overflow;
mod room;
mod size;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use fair_channel::{FairChannel, FairReceiver, lacking};
pub(crate) use handover::{Predecessor, Successor};
pub(crate) use limits::{OVERFLOW_MIB, QueueLimits, QueueSettings, check_overflow};
pub(crate) use overflow::{Overflow, OverflowLimits, Parcel};
pub(crate) use room::Held;
pub(crate) use size::{size_of_evaluation, size_of_evaluations};

use super::counters::{Instruments, LogLimiter, Loss};
use drain::{Drain, Payload};
use handover::SuccessorSlot;
use room::{QueueShared, Room};
use spanscore_base::model::{DisplacedItem, Evaluation, MemoryQuota, Receipt, Sender};
use spanscore_base::panics::Panicked;

/// Batch of evaluations, in the order offered.
pub(crate) type EvaluationBatch = Vec<Arc<[Evaluation]>>;

/// Destination of batches: a console, a file, a backend.
pub(crate) trait Deliver: Send + Sync + 'static {
    /// Delivers one batch, with retries by the settings. Dropping the future gives up.
    fn deliver(&self, batch: EvaluationBatch) -> impl Future<Output = Delivery> + Send;

    /// Returns true if its backend has accepted nothing for some time, so that waiting is useless.
    fn is_away(&self) -> bool {
        false
    }

    /// Encodes a batch for disk while the queue is full; empty if the destination cannot deliver
    /// parcels.
    ///
    /// # Errors
    /// A panic of the encoding.
    fn pack(
        &self,
        _batch: &EvaluationBatch,
    ) -> impl Future<Output = Result<Vec<Parcel>, Panicked>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Delivers a parcel from disk.
    fn deliver_parcel(&self, parcel: Parcel) -> impl Future<Output = Delivery> + Send {
        let lost = vec![(Loss::Fault, parcel.count.into())];
        async { Delivery { sent: 0, lost } }
    }
}

/// Destination of requests that are made of batches, and can wait on disk.
pub(crate) trait SendRequests: Send + Sync + 'static {
    /// Encoded evaluations.
    type Request: Send;

    /// Encodes a batch.
    ///
    /// # Errors
    /// A panic of the encoding.
    fn requests(
        &self,
        batch: &EvaluationBatch,
    ) -> impl Future<Output = Result<Vec<Self::Request>, Panicked>> + Send;

    /// Sends a request, with retries by the settings.
    fn send(&self, request: Self::Request) -> impl Future<Output = Delivery> + Send;

    /// Encodes a request for disk.
    fn into_parcel(request: Self::Request) -> Parcel;

    /// Decodes a request from disk; `None` if damaged.
    fn from_parcel(parcel: &Parcel) -> Option<Self::Request>;

    /// See [`Deliver::is_away`].
    fn is_unreachable(&self) -> bool {
        false
    }
}

impl<S: SendRequests> Deliver for S {
    async fn deliver(&self, batch: EvaluationBatch) -> Delivery {
        let Ok(requests) = self.requests(&batch).await else {
            return Delivery::broken(count_of(&batch));
        };
        drop(batch);
        let mut delivery = Delivery::default();
        for request in requests {
            delivery.add(self.send(request).await);
        }
        delivery
    }

    fn is_away(&self) -> bool {
        self.is_unreachable()
    }

    async fn pack(&self, batch: &EvaluationBatch) -> Result<Vec<Parcel>, Panicked> {
        Ok(self.requests(batch).await?.into_iter().map(S::into_parcel).collect())
    }

    async fn deliver_parcel(&self, parcel: Parcel) -> Delivery {
        match S::from_parcel(&parcel) {
            Some(request) => self.send(request).await,
            None => Delivery { sent: 0, lost: vec![(Loss::Io, parcel.count.into())] },
        }
    }
}

/// Outcome of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Evaluations that arrived.
    pub(crate) sent: u64,
    /// Evaluations that did not, by reason.
    pub(crate) lost: Vec<(Loss, u64)>,
}

/// Returns the number of evaluations of a batch.
pub(crate) fn count_of(batch: &EvaluationBatch) -> u64 {
    batch.iter().map(|part| part.len() as u64).sum()
}

impl Delivery {
    /// Returns the outcome of evaluations whose encoding panicked.
    pub(crate) fn broken(evaluations: u64) -> Self {
        tracing::error!(evaluations, "encoding evaluations panicked; they are lost");
        Self { sent: 0, lost: vec![(Loss::Fault, evaluations)] }
    }

    /// Adds the outcome of another batch.
    pub(crate) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        for (reason, lost) in other.lost {
            match self.lost.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, sum)) => *sum += lost,
                None => self.lost.push((reason, lost)),
            }
        }
    }
}

struct QueueEntry {
    payload: Payload,
    room: Room,
}

/// Evaluations still held by a queue when it was given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Abandoned {
    /// Lost, and counted.
    pub(crate) lost: u64,
    /// Left to the next process.
    pub(crate) left: u64,
}

/// Producer side of the queue.
pub(crate) struct Queue {
    name: Arc<str>,
    waiting: Arc<FairChannel<QueueEntry>>,
    shared: Arc<QueueShared>,
    bytes_max: usize,
    capacity: usize,
    must_deliver: bool,
    overflow: Option<Arc<Overflow>>,
    successor: Arc<SuccessorSlot>,
    full: LogLimiter,
}

impl Queue {
    /// Starts the task that drains the queue into `end`, and into the overflow if that is too slow;
    /// after a predecessor, once it has handed over. Must be called in a Tokio runtime.
    pub(crate) fn start(
        name: &str,
        mut limits: QueueLimits,
        share: Arc<MemoryQuota>,
        instruments: &Instruments,
        (overflow, before): (Option<Arc<Overflow>>, Option<Predecessor>),
        end: impl Deliver,
    ) -> (Self, JoinHandle<()>) {
        let (waiting, entries) = FairChannel::new();
        let capacity = limits.bytes_max.min(share.largest());
        if overflow.is_some() {
            limits.leave_room(capacity);
        }
        let (held, will) = before.map_or((None, None), Predecessor::into_parts);
        let shared = Arc::new(QueueShared {
            held: held.unwrap_or_else(|| Arc::new(Held::new(share))),
            counters: instruments.of(name),
            closing: CancellationToken::new(),
            ending: CancellationToken::new(),
            given_up: CancellationToken::new(),
            succeeded: CancellationToken::new(),
            is_removed: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            left: AtomicU64::new(0),
            pressure: Notify::new(),
        });
        let successor: Arc<SuccessorSlot> = Arc::default();
        let overflow_of_drain = overflow.clone();
        let successor_of_drain = Arc::clone(&successor);
        let drain = Drain::new(entries, limits, Arc::clone(&shared), overflow_of_drain);
        let task = tokio::spawn(drain.run(Arc::new(end), will, successor_of_drain));
        let bytes_max = limits.bytes_max;
        let must_deliver = limits.must_deliver;
        let name = Arc::from(name);
        let full = LogLimiter::default();
        let own = Self {
            name,
            waiting,
            shared,
            bytes_max,
            capacity,
            must_deliver,
            overflow,
            successor,
            full,
        };
        (own, task)
    }

    /// Shows its content in gauges, replacing those of the exporter's earlier queue.
    pub(crate) fn show(&self, instruments: &Instruments) {
        let queue = (Arc::clone(&self.shared.held), self.capacity);
        instruments.gauges.queues.watch(&self.name, queue);
        let overflow = self.overflow.as_ref().map(Arc::downgrade);
        instruments.gauges.overflows.watch(&self.name, overflow);
    }

    /// Offers evaluations; without room, those of the largest sender are dropped and counted. Never
    /// waits. If the exporter must deliver, the receipt waits with them.
    pub(crate) fn offer(
        &self,
        evaluations: &Arc<[Evaluation]>,
        bytes: usize,
        receipt: Option<&Receipt>,
    ) {
        let shared = &self.shared;
        let count = evaluations.len() as u64;
        let receipt = receipt.filter(|_| self.must_deliver);
        shared.counters.metrics.offered.add(count);
        if shared.closing.is_cancelled() {
            return self.refuse_late(count, receipt);
        }
        let sender = evaluations.first().map(|first| first.target.sender).unwrap_or_default();
        let Some(mut room) = self.make_room(sender, bytes, count) else {
            return self.leave_or_lose(Loss::QueueFull, count, receipt);
        };
        if let Some(receipt) = receipt {
            room.keep(receipt.clone());
        }
        if shared.held.is_filling(self.bytes_max) {
            shared.pressure.notify_one();
        }
        let entry = QueueEntry { payload: Payload::Batch(vec![evaluations.clone()]), room };
        if let Err(QueueEntry { room, .. }) = self.waiting.put(sender, bytes, entry) {
            room.settle(&Delivery::default());
            self.refuse_late(count, receipt);
        }
    }

    /// Reserves memory for a sender's evaluations, displacing larger senders if need be.
    fn make_room(&self, sender: Sender, bytes: usize, count: u64) -> Option<Room> {
        let take = || Room::take(&self.shared, bytes, count, self.bytes_max);
        take().or_else(|| {
            let held = &self.shared.held;
            let lacking = lacking(held.bytes(), bytes, self.bytes_max, held.share.left());
            let freed = |gone: &[DisplacedItem<_>]| gone.iter().map(|it| it.cost).sum();
            let mut gone = Vec::new();
            self.waiting.displace((sender, bytes), lacking, freed, |entry| {
                gone.push(entry);
                None
            });
            for QueueEntry { room, .. } in gone {
                let (count, receipt) = room.give_back();
                self.leave_or_lose(Loss::Displaced, count, receipt.as_ref());
            }
            take()
        })
    }

    /// Returns true if it must deliver and is half full: the pipeline should read no more.
    pub(crate) fn is_behind(&self) -> bool {
        self.must_deliver && self.shared.held.is_filling(self.bytes_max)
    }

    /// Leaves evaluations to the next process if the log keeps their source, else counts them as
    /// lost. Waiting for them would block a partition without end.
    fn leave_or_lose(&self, reason: Loss, count: u64, receipt: Option<&Receipt>) {
        let bytes_max = self.bytes_max;
        let Some(receipt) = receipt.filter(|receipt| receipt.claims().record_bytes() > 0) else {
            let is_last_resort = self.overflow.is_some() && receipt.is_some();
            let reason = if is_last_resort { Loss::OverflowFull } else { reason };
            self.shared.counters.lost(reason, count);
            if self.full.may_log() {
                tracing::warn!(exporter = %self.name, bytes_max,
                    "the exporter's queue is full, evaluations are dropped");
            }
            return;
        };
        self.shared.held.leave(receipt);
        self.shared.leave(count);
        if self.full.may_log() {
            tracing::error!(exporter = %self.name, bytes_max,
                "the exporter has no room in memory or on disk: evaluations stay in the log, and \
                 the next start delivers them");
        }
    }

    /// Counts evaluations offered during the shutdown of the queue.
    fn refuse_late(&self, count: u64, receipt: Option<&Receipt>) {
        match receipt {
            Some(receipt) => {
                self.shared.held.leave(receipt);
                self.shared.leave(count);
            }
            None => self.shared.counters.lost(Loss::ShuttingDown, count),
        }
    }

    /// Returns the token that closes the queue and makes it deliver without batching.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.shared.closing.clone()
    }

    /// Ends the queue with the process: evaluations that the next process has need not wait for a
    /// backend that is away.
    pub(crate) fn end_with_process(&self) {
        self.shared.ending.cancel();
        self.shared.closing.cancel();
    }

    /// Returns the two ends between this queue and its replacement.
    pub(crate) fn predecessor(&self) -> (Predecessor, Successor) {
        Predecessor::behind(Some(Arc::clone(&self.shared.held)))
    }

    /// Hands over to the replacement: queued entries at once, those in flight after a limited wait.
    /// No offer may follow.
    pub(crate) fn hand_over(&self, to: Successor) {
        self.successor.name(to);
        self.shared.succeeded.cancel();
    }

    /// Marks the exporter as removed from the config: evaluations given up are then lost.
    pub(crate) fn remove(&self) {
        self.shared.is_removed.store(true, Ordering::Relaxed);
    }

    /// Returns true if it is replaced.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.shared.succeeded.is_cancelled()
    }

    /// Makes the task drop its entries and end at once.
    pub(crate) fn give_up(&self) {
        self.shared.closing.cancel();
        self.shared.given_up.cancel();
    }

    /// Returns its overflow on disk.
    pub(crate) fn overflow(&self) -> Option<&Arc<Overflow>> {
        self.overflow.as_ref()
    }

    /// Makes the task drop its entries and end at once; returns their outcome.
    pub(crate) async fn abandon(&self, task: &mut JoinHandle<()>) -> Abandoned {
        self.give_up();
        // Entries of a panicked task are dropped and counted as well.
        let _ = task.await;
        Abandoned { lost: self.dropped(), left: self.left() }
    }

    /// Returns the dropped evaluations that nothing else keeps.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Returns the evaluations left to the next process.
    pub(crate) fn left(&self) -> u64 {
        self.shared.left.load(Ordering::Relaxed)
    }

    /// Returns the evaluations waiting on disk.
    pub(crate) fn overflown(&self) -> u64 {
        self.overflow.as_ref().map_or(0, |overflow| overflow.evaluations())
    }

    /// Returns the exporter's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.waiting.close();
    }
}

#[cfg(test)]
mod tests;
