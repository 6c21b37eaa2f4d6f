//! The queue of one exporter: bounded by bytes, emptied in batches by several consumers.
//!
//! The pipeline calls [`Queue::offer`], which never waits: what does not fit is dropped and
//! counted. One task gathers batches and hands each to a consumer; bytes count as held until their
//! delivery has ended, so a dead backend holds at most the capacity.
//!
//! Evaluations travel with the [`Room`] they take. It is settled once, with what became of them;
//! where a task is stopped before, or panics, it settles itself by being dropped. So each
//! evaluation is counted once, as sent or as lost, and its bytes are given back once.

mod limits;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

pub(crate) use limits::{QueueLimits, QueueSettings};

use super::counters::{Counters, Instruments, Loss, Seldom};
use crate::model::{Evaluation, Share};
use crate::panics::{Panicked, caught_future};

/// Evaluations on their way, in the order offered.
pub(crate) type EvaluationBatch = Vec<Arc<[Evaluation]>>;

/// Where batches end: a console, a file, a backend.
pub(crate) trait Deliver: Send + Sync + 'static {
    /// Delivers one batch, trying again as the settings say. Dropping the future gives up.
    fn deliver(&self, batch: EvaluationBatch) -> impl Future<Output = Delivery> + Send;
}

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Evaluations that arrived.
    pub(crate) sent: u64,
    /// Evaluations that did not.
    pub(crate) lost: Vec<(Loss, u64)>,
}

/// What a queue holds now, of the share that all queues have together.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: AtomicUsize,
    share: Arc<Share>,
}

impl Held {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes so many bytes if they fit.
    fn take(&self, bytes: usize, bytes_max: usize) -> bool {
        // Several shards may offer at once and go beyond it together, within the share.
        let fits = self.bytes().checked_add(bytes).is_some_and(|sum| sum <= bytes_max);
        fits && self.share.try_take_for(&self.bytes, bytes)
    }
}

/// What the ends of a queue share.
struct QueueShared {
    held: Arc<Held>,
    counters: Counters,
    closing: CancellationToken,
    /// Cancelled when the time for shutting down has run out.
    given_up: CancellationToken,
    /// Evaluations that were dropped before their delivery had ended.
    dropped: AtomicU64,
}

/// The room that evaluations take in a queue, until it is known what became of them.
struct Room {
    shared: Arc<QueueShared>,
    bytes: usize,
    evaluations: u64,
}

impl Room {
    /// Room for evaluations, if there is as much.
    fn take(shared: &Arc<QueueShared>, bytes: usize, evaluations: u64, max: usize) -> Option<Self> {
        let is_taken = shared.held.take(bytes, max);
        is_taken.then(|| Self { shared: Arc::clone(shared), bytes, evaluations })
    }

    /// Takes over the room of others.
    fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
        self.evaluations += std::mem::take(&mut other.evaluations);
    }

    /// Counts what became of the evaluations, and gives their bytes back.
    fn settle(mut self, delivery: Delivery) {
        self.evaluations = 0;
        self.shared.counters.sent(delivery.sent);
        for (reason, lost) in delivery.lost {
            self.shared.counters.lost(reason, lost);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.held.share.give_back_for(&shared.held.bytes, self.bytes);
        if self.evaluations > 0 {
            let in_time = !shared.closing.is_cancelled();
            let reason = if in_time { Loss::Fault } else { Loss::ShutdownDeadline };
            shared.counters.lost(reason, self.evaluations);
            shared.dropped.fetch_add(self.evaluations, Ordering::Relaxed);
        }
    }
}

struct QueueEntry {
    evaluations: Arc<[Evaluation]>,
    room: Room,
}

/// The offering end of a queue.
pub(crate) struct Queue {
    name: Arc<str>,
    sender: mpsc::UnboundedSender<QueueEntry>,
    shared: Arc<QueueShared>,
    bytes_max: usize,
    full: Seldom,
}

impl Queue {
    /// Starts the task that empties the queue into `end`. Must be called in a Tokio runtime.
    pub(crate) fn start(
        name: &str,
        limits: QueueLimits,
        share: Arc<Share>,
        instruments: &Instruments,
        end: impl Deliver,
    ) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(QueueShared {
            held: Arc::new(Held { bytes: AtomicUsize::new(0), share: Arc::clone(&share) }),
            counters: instruments.of(name),
            closing: CancellationToken::new(),
            given_up: CancellationToken::new(),
            dropped: AtomicU64::new(0),
        });
        let capacity = limits.bytes_max.min(share.largest());
        instruments.watch(name, shared.held.clone(), capacity);
        let drain = Drain { receiver, limits, closing: shared.closing.clone() };
        let task = tokio::spawn(drain.run(Arc::new(end), shared.given_up.clone()));
        let (name, full) = (Arc::from(name), Seldom::new());
        let bytes_max = limits.bytes_max;
        (Self { name, sender, shared, bytes_max, full }, task)
    }

    /// Takes evaluations, or drops and counts them where there is no room. Never waits.
    pub(crate) fn offer(&self, evaluations: &Arc<[Evaluation]>, bytes: usize) {
        let (shared, count) = (&self.shared, evaluations.len() as u64);
        if shared.closing.is_cancelled() {
            return shared.counters.lost(Loss::ShuttingDown, count);
        }
        let Some(room) = Room::take(shared, bytes, count, self.bytes_max) else {
            shared.counters.lost(Loss::QueueFull, count);
            if self.full.may_log() {
                tracing::warn!(exporter = %self.name, bytes_max = self.bytes_max,
                    "the exporter's queue is full, evaluations are dropped");
            }
            return;
        };
        let entry = QueueEntry { evaluations: evaluations.clone(), room };
        if let Err(mpsc::error::SendError(QueueEntry { room, .. })) = self.sender.send(entry) {
            room.settle(Delivery { sent: 0, lost: vec![(Loss::ShuttingDown, count)] });
        }
    }

    /// Cancelled, it lets the queue take nothing more and deliver what it holds without waiting.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.shared.closing.clone()
    }

    /// Lets the task drop what it holds and end at once; returns how many evaluations were lost by
    /// that, each counted as lost.
    pub(crate) async fn abandon(&self, task: &mut JoinHandle<()>) -> u64 {
        self.shared.closing.cancel();
        self.shared.given_up.cancel();
        // Where the task panicked, what it held is dropped and counted all the same.
        let _ = task.await;
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// The exporter's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// What became of a batch with so many evaluations. A panic loses this batch, not the room that it
/// took.
async fn delivered(delivering: impl Future<Output = Delivery>, count: u64) -> Delivery {
    caught_future(delivering).await.unwrap_or_else(|Panicked| {
        tracing::error!(evaluations = count, "delivering evaluations panicked; they are lost");
        Delivery { sent: 0, lost: vec![(Loss::Fault, count)] }
    })
}

/// The emptying end of a queue.
struct Drain {
    receiver: mpsc::UnboundedReceiver<QueueEntry>,
    limits: QueueLimits,
    closing: CancellationToken,
}

impl Drain {
    /// Empties the queue until it is closed and empty, or given up. Ends only when every delivery
    /// has ended, so nothing is settled behind its back.
    async fn run(mut self, end: Arc<impl Deliver>, given_up: CancellationToken) {
        let mut deliveries = JoinSet::new();
        tokio::select! {
            () = self.deliver_all(end, &mut deliveries) => {}
            () = given_up.cancelled() => deliveries.shutdown().await,
        }
    }

    async fn deliver_all(&mut self, end: Arc<impl Deliver>, deliveries: &mut JoinSet<()>) {
        let permits = Arc::new(Semaphore::new(self.limits.consumers));
        while let Some((batch, room)) = self.gather().await {
            let Ok(permit) = permits.clone().acquire_owned().await else { break };
            while deliveries.try_join_next().is_some() {}
            let end = end.clone();
            deliveries.spawn(async move {
                let delivery = delivered(end.deliver(batch), room.evaluations).await;
                room.settle(delivery);
                drop(permit);
            });
        }
        while deliveries.join_next().await.is_some() {}
    }

    /// The next batch with its room; `None` once the queue is closed and empty.
    async fn gather(&mut self) -> Option<(EvaluationBatch, Room)> {
        let QueueEntry { evaluations, mut room } = self.next(None).await?;
        // A timeout beyond the end of time is none.
        let deadline = Instant::now().checked_add(self.limits.flush_timeout);
        let mut count = evaluations.len();
        let mut batch = vec![evaluations];
        while count < self.limits.batch_count && room.bytes < self.limits.batch_bytes {
            let Some(entry) = self.next(deadline).await else { break };
            count += entry.evaluations.len();
            batch.push(entry.evaluations);
            room.join(entry.room);
        }
        Some((batch, room))
    }

    /// The next entry; `None` at the deadline, or once the queue is closed and empty.
    async fn next(&mut self, deadline: Option<Instant>) -> Option<QueueEntry> {
        if let Ok(entry) = self.receiver.try_recv() {
            return Some(entry);
        }
        if self.closing.is_cancelled() {
            self.receiver.close();
            return self.receiver.recv().await;
        }
        let (receiver, closing) = (&mut self.receiver, &self.closing);
        let wait = async {
            tokio::select! {
                entry = receiver.recv() => entry,
                () = closing.cancelled() => {
                    receiver.close();
                    receiver.recv().await
                }
            }
        };
        match deadline {
            Some(deadline) => timeout_at(deadline, wait).await.ok().flatten(),
            None => wait.await,
        }
    }
}

/// Bytes that evaluations of some traces hold in memory, with each resource once.
pub(crate) fn size_of_evaluations(evaluations: &[Evaluation]) -> usize {
    let own: usize = evaluations.iter().map(size_of_evaluation).sum();
    let resources =
        evaluations.chunk_by(|a, b| Arc::ptr_eq(&a.target.resource, &b.target.resource));
    let first = resources.filter_map(|run| run.first());
    own + first.map(|evaluation| evaluation.target.resource.bytes()).sum::<usize>()
}

/// Bytes that an evaluation holds in memory, about; what many share is not counted.
pub(crate) fn size_of_evaluation(evaluation: &Evaluation) -> usize {
    use crate::model::Outcome;
    let texts = match &evaluation.outcome {
        Outcome::Scored(score) => score.explanation.bytes() + size_of_value(&score.details),
        Outcome::NotEvaluable { explanation, .. } => explanation.len(),
        Outcome::Failed { error, .. } => error.len(),
    };
    let target = &*evaluation.target;
    size_of::<Evaluation>()
        + texts
        + size_of_val(target)
        + target.session_id.as_ref().map_or(0, |id| id.len())
        + target.agent_name.as_ref().map_or(0, |name| name.len())
}

fn size_of_value(value: &crate::value::Value<'_>) -> usize {
    use crate::value::{Number, Value};
    size_of::<Value<'_>>()
        + match value {
            Value::String(text) => text.len(),
            Value::Number(Number::Big(digits)) => digits.len(),
            Value::List(items) => items.iter().map(size_of_value).sum(),
            Value::Map(map) => {
                map.iter().map(|(key, item)| 24 + key.len() + size_of_value(item)).sum()
            }
            _ => 0,
        }
}

#[cfg(test)]
mod tests;
