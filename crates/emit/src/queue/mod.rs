//! The queue of one exporter: bounded by bytes, emptied in batches by several consumers.
//!
//! The pipeline calls [`Queue::offer`], which never waits: what does not fit is dropped and
//! counted, of whoever has most waiting. One task gathers batches and hands each to a consumer;
//! bytes count as held until their delivery has ended, so a dead backend holds at most the
//! capacity.
//!
//! If an exporter must deliver and the process has a log, loads beyond half of the queue
//! go to its [`Overflow`] on disk. What finds no room there either is left to the next process,
//! which makes it again of what the log keeps.
//!
//! Evaluations travel with the [`Room`] they take, and with the [`Receipt`] that waits
//! for them where their exporter must deliver: it is let go once they have arrived or are on disk,
//! or were given up and counted. What the end of the process interrupts is left to the next one.

mod drain;
mod handover;
mod limits;
mod line;
mod overflow;
mod room;
mod size;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use handover::{Predecessor, Successor};
pub(crate) use limits::{OVERFLOW_MIB, QueueLimits, QueueSettings, check_overflow};
pub(crate) use line::{LineReader, SenderLine, lacking};
pub(crate) use overflow::{Overflow, OverflowLimits, Parcel};
pub(crate) use room::Held;
pub(crate) use size::{size_of_evaluation, size_of_evaluations};

use super::counters::{Instruments, LogLimiter, Loss};
use drain::{Drain, Payload};
use handover::SuccessorSlot;
use room::{QueueShared, Room};
use spanscore_base::model::{DisplacedItem, Evaluation, MemoryQuota, Receipt, Sender};
use spanscore_base::panics::Panicked;

/// Evaluations on their way, in the order offered.
pub(crate) type EvaluationBatch = Vec<Arc<[Evaluation]>>;

/// Sink of batches: a console, a file, a backend.
pub(crate) trait Deliver: Send + Sync + 'static {
    /// Delivers one batch, trying again as the settings say. Dropping the future gives up.
    fn deliver(&self, batch: EvaluationBatch) -> impl Future<Output = Delivery> + Send;

    /// Returns true if its backend has taken nothing for some time, so that waiting for it is in
    /// vain.
    fn is_away(&self) -> bool {
        false
    }

    /// A batch as it is kept on disk while the queue has no room for it; nothing where the end
    /// cannot deliver parcels.
    ///
    /// # Errors
    /// Encoding it panicked.
    fn pack(
        &self,
        _batch: &EvaluationBatch,
    ) -> impl Future<Output = Result<Vec<Parcel>, Panicked>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Delivers a parcel that was kept.
    fn deliver_parcel(&self, parcel: Parcel) -> impl Future<Output = Delivery> + Send {
        let lost = vec![(Loss::Fault, parcel.count.into())];
        async { Delivery { sent: 0, lost } }
    }
}

/// Outcome of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Evaluations that arrived.
    pub(crate) sent: u64,
    /// Evaluations that did not.
    pub(crate) lost: Vec<(Loss, u64)>,
}

/// Returns the number of evaluations of a batch.
pub(crate) fn count_of(batch: &EvaluationBatch) -> u64 {
    batch.iter().map(|part| part.len() as u64).sum()
}

impl Delivery {
    /// Of so many evaluations whose encoding panicked.
    pub(crate) fn broken(evaluations: u64) -> Self {
        tracing::error!(evaluations, "encoding evaluations panicked; they are lost");
        Self { sent: 0, lost: vec![(Loss::Fault, evaluations)] }
    }

    /// Adds what became of another batch.
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

/// Evaluations that a queue still held when it was given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Abandoned {
    /// Lost, and counted so.
    pub(crate) lost: u64,
    /// Left to the next process.
    pub(crate) left: u64,
}

/// The offering end of a queue.
pub(crate) struct Queue {
    name: Arc<str>,
    waiting: Arc<SenderLine<QueueEntry>>,
    shared: Arc<QueueShared>,
    bytes_max: usize,
    capacity: usize,
    must_deliver: bool,
    overflow: Option<Arc<Overflow>>,
    successor: Arc<SuccessorSlot>,
    full: LogLimiter,
}

impl Queue {
    /// Starts the task that empties the queue into `end`, and into the overflow where that is too
    /// slow; behind another queue, once that has handed over. Must be called in a Tokio runtime.
    pub(crate) fn start(
        name: &str,
        mut limits: QueueLimits,
        share: Arc<MemoryQuota>,
        instruments: &Instruments,
        (overflow, before): (Option<Arc<Overflow>>, Option<Predecessor>),
        end: impl Deliver,
    ) -> (Self, JoinHandle<()>) {
        let (waiting, entries) = SenderLine::new();
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

    /// Shows what it holds, in place of what a queue of the same exporter showed.
    pub(crate) fn show(&self, instruments: &Instruments) {
        let queue = (Arc::clone(&self.shared.held), self.capacity);
        instruments.gauges.queues.watch(&self.name, queue);
        let overflow = self.overflow.as_ref().map(Arc::downgrade);
        instruments.gauges.overflows.watch(&self.name, overflow);
    }

    /// Takes evaluations; where there is no room, those of whoever has most waiting are dropped and
    /// counted. Never waits. Where the exporter must deliver, the receipt waits with them.
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
            return self.come_too_late(count, receipt);
        }
        let sender = evaluations.first().map(|first| first.target.sender).unwrap_or_default();
        let Some(mut room) = self.make_room(sender, bytes, count) else {
            return self.lose(Loss::QueueFull, count, receipt);
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
            self.come_too_late(count, receipt);
        }
    }

    /// Takes room for evaluations of a sender, if need be from those that hold more.
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
                self.lose(Loss::Displaced, count, receipt.as_ref());
            }
            take()
        })
    }

    /// Returns true while it must deliver and half of its room is taken: more should not be read.
    pub(crate) fn is_behind(&self) -> bool {
        self.must_deliver && self.shared.held.is_filling(self.bytes_max)
    }

    /// Leaves evaluations to the next process where the log keeps what they are made of, else
    /// counts them as lost: a partition would have to be held back for them without end.
    fn lose(&self, reason: Loss, count: u64, receipt: Option<&Receipt>) {
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

    /// Counts evaluations that are offered while the queue ends.
    fn come_too_late(&self, count: u64, receipt: Option<&Receipt>) {
        match receipt {
            Some(receipt) => {
                self.shared.held.leave(receipt);
                self.shared.leave(count);
            }
            None => self.shared.counters.lost(Loss::ShuttingDown, count),
        }
    }

    /// Cancelled, it lets the queue take nothing more and deliver what it holds without waiting.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.shared.closing.clone()
    }

    /// Lets the queue end as the process does: what it holds need not wait for a backend that is
    /// away, where the next process has it.
    pub(crate) fn end_with_process(&self) {
        self.shared.ending.cancel();
        self.shared.closing.cancel();
    }

    /// Returns the two ends between this queue and one that is to take its place.
    pub(crate) fn predecessor(&self) -> (Predecessor, Successor) {
        Predecessor::behind(Some(Arc::clone(&self.shared.held)))
    }

    /// Hands over to the queue that takes its place: what waits at once, what is on its way once it
    /// has not arrived in some time. Nothing may be offered any more.
    pub(crate) fn hand_over(&self, to: Successor) {
        self.successor.name(to);
        self.shared.succeeded.cancel();
    }

    /// Says that its exporter is in the config no more: what is given up is then lost.
    pub(crate) fn remove(&self) {
        self.shared.is_removed.store(true, Ordering::Relaxed);
    }

    /// Returns true if another queue takes its place.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.shared.succeeded.is_cancelled()
    }

    /// Lets the task drop what it holds and end at once.
    pub(crate) fn give_up(&self) {
        self.shared.closing.cancel();
        self.shared.given_up.cancel();
    }

    /// Returns its overflow on disk.
    pub(crate) fn overflow(&self) -> Option<&Arc<Overflow>> {
        self.overflow.as_ref()
    }

    /// Lets the task drop what it holds and end at once; says what became of that.
    pub(crate) async fn abandon(&self, task: &mut JoinHandle<()>) -> Abandoned {
        self.give_up();
        // Entries of a task that panicked are dropped and counted all the same.
        let _ = task.await;
        Abandoned { lost: self.dropped(), left: self.left() }
    }

    /// Evaluations that were dropped with what held them, and that nothing keeps.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Evaluations that were left to the next process.
    pub(crate) fn left(&self) -> u64 {
        self.shared.left.load(Ordering::Relaxed)
    }

    /// Evaluations that wait on disk.
    pub(crate) fn overflown(&self) -> u64 {
        self.overflow.as_ref().map_or(0, |overflow| overflow.evaluations())
    }

    /// The exporter's name.
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
