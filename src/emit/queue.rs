//! The queue of one exporter: bounded by bytes, emptied in batches by several consumers.
//!
//! The pipeline calls [`Queue::offer`], which never waits: what does not fit is dropped and
//! counted. One task gathers batches and hands each to a consumer; bytes count as held until their
//! delivery has ended, so a dead backend holds at most the capacity.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Duration, Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::counters::{Counters, Instruments, Loss, Seldom};
use crate::model::Evaluation;

/// Evaluations on their way, in the order offered.
pub(crate) type Batch = Vec<Arc<[Evaluation]>>;

/// Where batches end: a console, a file, a backend.
pub(crate) trait Deliver: Send + Sync + 'static {
    /// Delivers one batch, trying again as the settings say. Dropping the future gives up.
    fn deliver(&self, batch: Batch) -> impl Future<Output = Delivery> + Send;
}

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Evaluations that arrived.
    pub(crate) sent: u64,
    /// Evaluations that did not.
    pub(crate) lost: Vec<(Loss, u64)>,
}

/// Limits of one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most bytes held.
    pub(crate) bytes_max: usize,
    /// Deliveries at once.
    pub(crate) consumers: usize,
    /// Longest wait for more evaluations before a batch goes.
    pub(crate) flush_timeout: Duration,
    /// Evaluations after which a batch goes.
    pub(crate) batch_count: usize,
    /// Bytes after which a batch goes.
    pub(crate) batch_bytes: usize,
}

/// What a queue holds now.
#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: AtomicUsize,
    evaluations: AtomicU64,
}

impl Held {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize, evaluations: u64, bytes_max: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > bytes_max {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.evaluations.fetch_add(evaluations, Ordering::Relaxed);
        true
    }

    fn give_back(&self, bytes: usize, evaluations: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.evaluations.fetch_sub(evaluations, Ordering::Relaxed);
    }
}

struct Entry {
    evaluations: Arc<[Evaluation]>,
    bytes: usize,
}

/// The offering end of a queue.
pub(crate) struct Queue {
    name: Arc<str>,
    sender: mpsc::UnboundedSender<Entry>,
    held: Arc<Held>,
    bytes_max: usize,
    counters: Counters,
    closing: CancellationToken,
    full: Seldom,
}

impl Queue {
    /// Starts the task that empties the queue into `end`. Must be called in a Tokio runtime.
    pub(crate) fn start(
        name: &str,
        limits: Limits,
        instruments: &Instruments,
        end: impl Deliver,
    ) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let held = Arc::new(Held::default());
        let closing = CancellationToken::new();
        let counters = instruments.of(name);
        instruments.watch(name, held.clone(), limits.bytes_max);
        let drain = Drain {
            receiver,
            limits,
            closing: closing.clone(),
            held: held.clone(),
            counters: counters.clone(),
        };
        let task = tokio::spawn(drain.run(Arc::new(end)));
        let (name, full) = (Arc::from(name), Seldom::new());
        let bytes_max = limits.bytes_max;
        (Self { name, sender, held, bytes_max, counters, closing, full }, task)
    }

    /// Takes evaluations, or drops and counts them where there is no room. Never waits.
    pub(crate) fn offer(&self, evaluations: &Arc<[Evaluation]>, bytes: usize) {
        let count = evaluations.len() as u64;
        if self.closing.is_cancelled() {
            return self.counters.lost(Loss::ShuttingDown, count);
        }
        if !self.held.take(bytes, count, self.bytes_max) {
            self.counters.lost(Loss::QueueFull, count);
            if self.full.may_log() {
                tracing::warn!(exporter = %self.name, bytes_max = self.bytes_max,
                    "the exporter's queue is full, evaluations are dropped");
            }
            return;
        }
        if self.sender.send(Entry { evaluations: evaluations.clone(), bytes }).is_err() {
            self.held.give_back(bytes, count);
            self.counters.lost(Loss::ShuttingDown, count);
        }
    }

    /// Cancelled, it lets the queue take nothing more and deliver what it holds without waiting.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Counts what is still held as lost, after the task has been stopped.
    pub(crate) fn abandon(&self) -> u64 {
        let left = self.held.evaluations.swap(0, Ordering::Relaxed);
        self.held.bytes.store(0, Ordering::Relaxed);
        self.counters.lost(Loss::ShutdownDeadline, left);
        left
    }

    /// The exporter's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// What became of a batch with so many evaluations. A panic loses this batch, not the room that it
/// took.
async fn delivered(delivering: impl Future<Output = Delivery>, count: u64) -> Delivery {
    let mut delivering = pin!(delivering);
    poll_fn(|context| {
        let poll = || delivering.as_mut().poll(context);
        catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|_| {
            tracing::error!(evaluations = count, "delivering evaluations panicked; they are lost");
            Poll::Ready(Delivery { sent: 0, lost: vec![(Loss::Fault, count)] })
        })
    })
    .await
}

/// The emptying end of a queue.
struct Drain {
    receiver: mpsc::UnboundedReceiver<Entry>,
    limits: Limits,
    closing: CancellationToken,
    held: Arc<Held>,
    counters: Counters,
}

impl Drain {
    async fn run(mut self, end: Arc<impl Deliver>) {
        let permits = Arc::new(Semaphore::new(self.limits.consumers));
        let mut deliveries = JoinSet::new();
        while let Some((batch, bytes)) = self.gather().await {
            let Ok(permit) = permits.clone().acquire_owned().await else { break };
            while deliveries.try_join_next().is_some() {}
            let (end, held, counters) = (end.clone(), self.held.clone(), self.counters.clone());
            deliveries.spawn(async move {
                let count = batch.iter().map(|evaluations| evaluations.len() as u64).sum();
                let delivery = delivered(end.deliver(batch), count).await;
                counters.sent(delivery.sent);
                for (reason, lost) in delivery.lost {
                    counters.lost(reason, lost);
                }
                held.give_back(bytes, count);
                drop(permit);
            });
        }
        while deliveries.join_next().await.is_some() {}
    }

    /// The next batch with its bytes; `None` once the queue is closed and empty.
    async fn gather(&mut self) -> Option<(Batch, usize)> {
        let first = self.next(None).await?;
        let deadline = Instant::now() + self.limits.flush_timeout;
        let (mut count, mut bytes) = (first.evaluations.len(), first.bytes);
        let mut batch = vec![first.evaluations];
        while count < self.limits.batch_count && bytes < self.limits.batch_bytes {
            let Some(entry) = self.next(Some(deadline)).await else { break };
            count += entry.evaluations.len();
            bytes += entry.bytes;
            batch.push(entry.evaluations);
        }
        Some((batch, bytes))
    }

    /// The next entry; `None` at the deadline, or once the queue is closed and empty.
    async fn next(&mut self, deadline: Option<Instant>) -> Option<Entry> {
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

/// Bytes that an evaluation holds in memory, about; what many share is not counted.
pub(crate) fn size_of_evaluation(evaluation: &Evaluation) -> usize {
    use crate::model::Outcome;
    let texts = match &evaluation.outcome {
        Outcome::Scored(score) => score.explanation.len() + size_of_value(&score.details),
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
