//! The emptying end of a queue: gathers batches, and hands each to a consumer.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::room::{QueueShared, Room};
use super::{Deliver, Delivery, EvaluationBatch, Overflow, Parcel, QueueEntry, QueueLimits};
use crate::emit::counters::Loss;
use crate::panics::{Panicked, caught, caught_future};

/// Wait until an overflow that is full, or cannot be written, is tried again.
const KEEP_AGAIN: Duration = Duration::from_secs(1);

/// What became of a batch with so many evaluations. A panic loses this batch, not the room that it
/// took.
async fn delivered(delivering: impl Future<Output = Delivery>, count: u64) -> Delivery {
    caught_future(delivering).await.unwrap_or_else(|Panicked| {
        tracing::error!(evaluations = count, "delivering evaluations panicked; they are lost");
        Delivery { sent: 0, lost: vec![(Loss::Fault, count)] }
    })
}

/// Delivers parcels one after another.
async fn deliver_parcels(end: &impl Deliver, parcels: VecDeque<Parcel>) -> Delivery {
    let mut delivery = Delivery::default();
    for parcel in parcels {
        let count = parcel.count.into();
        delivery.add(delivered(end.deliver_parcel(parcel), count).await);
    }
    delivery
}

/// Delivers what is in the overflow, one parcel after another, each in the turn of a consumer; ends
/// when the queue closes. What is not delivered by then is there for the next process.
async fn empty_overflow(
    overflow: Arc<Overflow>,
    shared: Arc<QueueShared>,
    end: Arc<impl Deliver>,
    permits: Arc<Semaphore>,
) {
    let found = Arc::clone(&overflow);
    // Only a runtime that ends stops it.
    let recovered = tokio::task::spawn_blocking(move || found.recover()).await.unwrap_or(0);
    shared.counters.recovered(recovered);
    let deliver_all = async {
        loop {
            let entry = overflow.first().await;
            let (_permit, count) = (permit(&permits).await, u64::from(entry.count));
            let delivery = match overflow.read(entry).await {
                Ok(parcel) => delivered(end.deliver_parcel(parcel), count).await,
                Err(error) => {
                    tracing::error!(%error, evaluations = count,
                        "evaluations kept on disk cannot be read; they are lost");
                    Delivery { sent: 0, lost: vec![(Loss::Io, count)] }
                }
            };
            overflow.confirm();
            shared.counters.settle(&delivery);
        }
    };
    tokio::select! {
        () = deliver_all => {}
        () = shared.closing.cancelled() => {}
    }
}

/// A turn of a consumer. Nobody closes the semaphore.
async fn permit(permits: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    match permits.clone().acquire_owned().await {
        Ok(permit) => permit,
        Err(_) => pending().await,
    }
}

/// The emptying end of a queue.
pub(super) struct Drain {
    pub(super) receiver: mpsc::UnboundedReceiver<QueueEntry>,
    pub(super) limits: QueueLimits,
    pub(super) shared: Arc<QueueShared>,
    pub(super) overflow: Option<Arc<Overflow>>,
}

/// What a consumer is handed.
enum Cargo {
    Batch(EvaluationBatch),
    /// The same, encoded: what the overflow has not taken of it.
    Parcels(VecDeque<Parcel>),
}

/// What happens to a batch next.
enum Turn {
    /// A consumer delivers it.
    Deliver(Cargo, OwnedSemaphorePermit),
    /// It is on disk.
    Kept,
    /// It could not be encoded.
    Broken,
}

impl Drain {
    /// Empties the queue until it is closed and empty, or given up. Ends only when every delivery
    /// has ended, so nothing is settled behind its back.
    pub(super) async fn run(mut self, end: Arc<impl Deliver>) {
        let (mut deliveries, given_up) = (JoinSet::new(), self.shared.given_up.clone());
        tokio::select! {
            () = self.deliver_all(end, &mut deliveries) => {}
            () = given_up.cancelled() => deliveries.shutdown().await,
        }
    }

    async fn deliver_all(&mut self, end: Arc<impl Deliver>, deliveries: &mut JoinSet<()>) {
        let permits = Arc::new(Semaphore::new(self.limits.consumers));
        if let Some(overflow) = &self.overflow {
            let (overflow, shared) = (Arc::clone(overflow), Arc::clone(&self.shared));
            deliveries.spawn(empty_overflow(overflow, shared, end.clone(), permits.clone()));
        }
        while let Some((batch, mut room)) = self.gather().await {
            let (load, permit) = match self.turn(&permits, &*end, batch, &mut room).await {
                Turn::Deliver(load, permit) => (load, permit),
                Turn::Kept => {
                    room.settle(&Delivery::default());
                    continue;
                }
                Turn::Broken => {
                    let lost = vec![(Loss::Fault, room.evaluations())];
                    room.settle(&Delivery { sent: 0, lost });
                    continue;
                }
            };
            while deliveries.try_join_next().is_some() {}
            let end = end.clone();
            deliveries.spawn(async move {
                let delivery = match load {
                    Cargo::Batch(batch) => delivered(end.deliver(batch), room.evaluations()).await,
                    Cargo::Parcels(parcels) => deliver_parcels(&*end, parcels).await,
                };
                room.settle(&delivery);
                drop(permit);
            });
        }
        while deliveries.join_next().await.is_some() {}
    }

    /// Waits until a consumer is free for a batch; where the queue fills meanwhile, moves it to the
    /// overflow.
    async fn turn(
        &self,
        permits: &Arc<Semaphore>,
        end: &impl Deliver,
        batch: EvaluationBatch,
        room: &mut Room,
    ) -> Turn {
        let Some(overflow) = &self.overflow else {
            return Turn::Deliver(Cargo::Batch(batch), permit(permits).await);
        };
        if let Some(permit) = self.permit_before_filling(permits).await {
            return Turn::Deliver(Cargo::Batch(batch), permit);
        }
        let Ok(parcels) = caught(|| VecDeque::from(end.pack(&batch))) else {
            tracing::error!("encoding evaluations panicked; they are lost");
            return Turn::Broken;
        };
        drop(batch);
        self.keep(overflow, parcels, permits, room).await
    }

    /// A free consumer; `None` where the queue fills before there is one.
    async fn permit_before_filling(
        &self,
        permits: &Arc<Semaphore>,
    ) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(permit) = permits.clone().try_acquire_owned() {
                return Some(permit);
            }
            // What is held at the end is delivered, or left to the next process.
            if self.shared.closing.is_cancelled() {
                return Some(permit(permits).await);
            }
            if self.shared.held.is_filling(self.limits.bytes_max) {
                return None;
            }
            tokio::select! {
                permit = permit(permits) => return Some(permit),
                () = self.shared.pressure.notified() => {}
                () = self.shared.closing.cancelled() => {}
            }
        }
    }

    /// Moves parcels to the overflow; where that is full, waits for a consumer or for room.
    async fn keep(
        &self,
        overflow: &Overflow,
        mut parcels: VecDeque<Parcel>,
        permits: &Arc<Semaphore>,
        room: &mut Room,
    ) -> Turn {
        loop {
            let mut full = None;
            while let Some(parcel) = parcels.front().filter(|_| full.is_none()) {
                match overflow.put(parcel).await {
                    Ok(()) => {
                        room.moved(parcel.count.into());
                        parcels.pop_front();
                    }
                    Err(error) => full = Some(error),
                }
            }
            let Some(error) = full else { return Turn::Kept };
            self.shared.counters.tell_of_overflow(&error);
            tokio::select! {
                permit = permit(permits) => return Turn::Deliver(Cargo::Parcels(parcels), permit),
                () = sleep(KEEP_AGAIN) => {}
            }
        }
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
        if self.shared.closing.is_cancelled() {
            self.receiver.close();
            return self.receiver.recv().await;
        }
        let (receiver, closing) = (&mut self.receiver, &self.shared.closing);
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
