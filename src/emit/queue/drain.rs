//! The emptying end of a queue: gathers batches, and hands each to a consumer.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::room::Room;
use super::{Deliver, Delivery, EvaluationBatch, QueueEntry, QueueLimits};
use crate::emit::counters::Loss;
use crate::panics::{Panicked, caught_future};

/// What became of a batch with so many evaluations. A panic loses this batch, not the room that it
/// took.
async fn delivered(delivering: impl Future<Output = Delivery>, count: u64) -> Delivery {
    caught_future(delivering).await.unwrap_or_else(|Panicked| {
        tracing::error!(evaluations = count, "delivering evaluations panicked; they are lost");
        Delivery { sent: 0, lost: vec![(Loss::Fault, count)] }
    })
}

/// The emptying end of a queue.
pub(super) struct Drain {
    pub(super) receiver: mpsc::UnboundedReceiver<QueueEntry>,
    pub(super) limits: QueueLimits,
    pub(super) closing: CancellationToken,
}

impl Drain {
    /// Empties the queue until it is closed and empty, or given up. Ends only when every delivery
    /// has ended, so nothing is settled behind its back.
    pub(super) async fn run(mut self, end: Arc<impl Deliver>, given_up: CancellationToken) {
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
                let delivery = delivered(end.deliver(batch), room.evaluations()).await;
                room.settle(&delivery);
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
        while count < self.limits.batch_count && room.bytes() < self.limits.batch_bytes {
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
