//! Consumer side of a queue: gathers batches, and hands each to a consumer.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::fair_channel::FairReceiver;
use super::handover::{HANDOVER_WAIT, HandedOver, SuccessorSlot};
use super::room::{QueueShared, Room};
use super::{Deliver, Delivery, EvaluationBatch, Overflow, Parcel, QueueEntry, QueueLimits};
use crate::counters::Loss;
use spanscore_base::panics::{Panicked, caught_future};

/// Interval of checks for a backend that is away, during shutdown.
const AWAY_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Wait before retrying an overflow that is full, or cannot be written.
const OVERFLOW_RETRY: Duration = Duration::from_secs(1);

/// Returns the outcome of a batch. A panic loses this batch, but not its reserved memory.
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

/// Delivers the overflow parcel by parcel, each with a consumer's permit, until the queue closes or
/// is replaced. Undelivered parcels stay for the replacement, or for the next process.
async fn empty_overflow(
    overflow: Arc<Overflow>,
    shared: Arc<QueueShared>,
    end: Arc<impl Deliver>,
    permits: Arc<Semaphore>,
    recalled: CancellationToken,
) {
    let found = Arc::clone(&overflow);
    // Only the end of the runtime aborts it.
    let recovered = tokio::task::spawn_blocking(move || found.recover()).await.unwrap_or(0);
    shared.counters.metrics.recovered.add(recovered);
    let deliver_all = async {
        loop {
            let entry = tokio::select! {
                biased;
                () = shared.succeeded.cancelled() => return,
                entry = overflow.first() => entry,
            };
            let _permit = permit(&permits).await;
            let count = u64::from(entry.count);
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
        () = recalled.cancelled() => {}
    }
}

/// Waits until shutdown has begun and waiting for the backend is useless.
async fn until_unreachable(shared: &QueueShared, end: &impl Deliver) {
    shared.ending.cancelled().await;
    while !end.is_away() {
        sleep(AWAY_CHECK_INTERVAL).await;
    }
}

/// Waits until no delivery is in flight.
async fn all_ended(deliveries: &mut Deliveries) {
    while deliveries.join_next().await.is_some() {}
}

/// Acquires a consumer's permit. Nothing closes the semaphore.
async fn permit(permits: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    match permits.clone().acquire_owned().await {
        Ok(permit) => permit,
        Err(_) => pending().await,
    }
}

/// Consumer side of a queue.
pub(super) struct Drain {
    entries: FairReceiver<QueueEntry>,
    limits: QueueLimits,
    shared: Arc<QueueShared>,
    overflow: Option<Arc<Overflow>>,
    /// Entries handed over by the replaced queue, later those for the replacement.
    handed_over: HandedOver,
    /// Cancels deliveries in flight, whose entries go to the replacement.
    recalled: CancellationToken,
}

/// Deliveries in flight. A cancelled one returns its entry.
type Deliveries = JoinSet<Option<QueueEntry>>;

/// Content of a queue entry, as input of a consumer.
#[derive(Clone)]
pub(super) enum Payload {
    Batch(EvaluationBatch),
    /// The encoded rest that the overflow has not taken.
    Parcels(VecDeque<Parcel>),
}

impl Payload {
    fn count(&self) -> usize {
        match self {
            Self::Batch(batch) => batch.iter().map(|part| part.len()).sum(),
            Self::Parcels(parcels) => parcels.iter().map(|parcel| parcel.count as usize).sum(),
        }
    }
}

/// Next step of a batch.
enum NextStep {
    /// A consumer delivers it.
    Deliver(Payload, OwnedSemaphorePermit),
    /// It is on disk.
    Kept,
    /// It could not be encoded.
    Broken,
    /// The replacement delivers it.
    HandOver(Payload),
}

impl Drain {
    pub(super) fn new(
        entries: FairReceiver<QueueEntry>,
        limits: QueueLimits,
        shared: Arc<QueueShared>,
        overflow: Option<Arc<Overflow>>,
    ) -> Self {
        let handed_over = HandedOver::new();
        let recalled = CancellationToken::new();
        Self { entries, limits, shared, overflow, handed_over, recalled }
    }

    /// Drains the queue until it is closed and empty, given up, or replaced. Entries of a replaced
    /// queue come first. Returns only after the last delivery, so that nothing is settled
    /// concurrently.
    pub(super) async fn run(
        mut self,
        end: Arc<impl Deliver>,
        before: Option<oneshot::Receiver<HandedOver>>,
        successor: Arc<SuccessorSlot>,
    ) {
        let mut deliveries = JoinSet::new();
        let shared = Arc::clone(&self.shared);
        // Its evaluations are then in the log, or in the overflow.
        let is_kept = self.limits.must_deliver && self.overflow.is_some();
        let asked = Arc::clone(&end);
        tokio::select! {
            () = self.deliver_all(end, before, &mut deliveries) => successor.give(self.handed_over),
            () = shared.given_up.cancelled() => deliveries.shutdown().await,
            () = until_unreachable(&shared, &*asked), if is_kept => deliveries.shutdown().await,
        }
    }

    async fn deliver_all(
        &mut self,
        end: Arc<impl Deliver>,
        before: Option<oneshot::Receiver<HandedOver>>,
        deliveries: &mut Deliveries,
    ) {
        if let Some(before) = before {
            // A predecessor that ended without a handover has counted its entries.
            self.handed_over = before.await.unwrap_or_default();
            self.handed_over.iter_mut().for_each(|entry| entry.room.move_to(&self.shared));
        }
        let permits = Arc::new(Semaphore::new(self.limits.consumers));
        if let Some(overflow) = self.overflow.clone() {
            let shared = Arc::clone(&self.shared);
            let recalled = self.recalled.clone();
            let end = end.clone();
            let permits = permits.clone();
            deliveries.spawn(async move {
                empty_overflow(overflow, shared, end, permits, recalled).await;
                None
            });
        }
        while let Some(QueueEntry { payload, mut room }) = self.gather().await {
            match self.turn(&permits, &*end, payload, &mut room).await {
                NextStep::Deliver(payload, permit) => {
                    while deliveries.try_join_next().is_some() {}
                    self.spawn(deliveries, end.clone(), QueueEntry { payload, room }, permit);
                }
                NextStep::Kept => room.settle(&Delivery::default()),
                NextStep::Broken => {
                    let broken = Delivery::broken(room.evaluations());
                    room.settle(&broken);
                }
                NextStep::HandOver(payload) => {
                    self.handed_over.push_front(QueueEntry { payload, room })
                }
            }
        }
        self.finish(deliveries).await;
    }

    /// Spawns the delivery of a batch, which may be cancelled.
    fn spawn(
        &self,
        deliveries: &mut Deliveries,
        end: Arc<impl Deliver>,
        QueueEntry { payload, room }: QueueEntry,
        permit: OwnedSemaphorePermit,
    ) {
        let recalled = self.recalled.clone();
        let again = payload.clone();
        let shared = Arc::clone(&self.shared);
        deliveries.spawn(async move {
            let _permit = permit;
            let began = Instant::now();
            let delivering = async {
                match payload {
                    Payload::Batch(batch) => {
                        delivered(end.deliver(batch), room.evaluations()).await
                    }
                    Payload::Parcels(parcels) => deliver_parcels(&*end, parcels).await,
                }
            };
            let delivery = tokio::select! {
                biased;
                delivery = delivering => delivery,
                () = recalled.cancelled() => {
                    return Some(QueueEntry { payload: again, room });
                }
            };
            shared.counters.metrics.delivery_time.record(began.elapsed().as_secs_f64());
            room.settle(&delivery);
            None
        });
    }

    /// Waits for deliveries in flight; before a replacement, only for a limited time.
    async fn finish(&mut self, deliveries: &mut Deliveries) {
        tokio::select! {
            () = all_ended(deliveries) => {}
            () = self.shared.succeeded.cancelled() => {}
        }
        if !self.shared.succeeded.is_cancelled() {
            return;
        }
        // Entries that have not arrived by then are taken back.
        let _ = timeout(HANDOVER_WAIT, all_ended(deliveries)).await;
        self.recalled.cancel();
        let mut back = HandedOver::new();
        while let Some(ended) = deliveries.join_next().await {
            back.extend(ended.ok().flatten());
        }
        back.append(&mut self.handed_over);
        self.handed_over = back;
        self.entries.close();
        while let Some(entry) = self.entries.take() {
            self.handed_over.push_back(entry);
        }
    }

    /// Waits for a free consumer; if the queue fills meanwhile, moves the batch to the overflow.
    async fn turn(
        &self,
        permits: &Arc<Semaphore>,
        end: &impl Deliver,
        payload: Payload,
        room: &mut Room,
    ) -> NextStep {
        let succeeded = &self.shared.succeeded;
        let (overflow, batch) = match (&self.overflow, payload) {
            (Some(overflow), Payload::Batch(batch)) => (overflow, batch),
            (_, payload) => {
                return tokio::select! {
                    biased;
                    () = succeeded.cancelled() => NextStep::HandOver(payload),
                    permit = permit(permits) => NextStep::Deliver(payload, permit),
                };
            }
        };
        let waits = tokio::select! {
            biased;
            () = succeeded.cancelled() => return NextStep::HandOver(Payload::Batch(batch)),
            waited = self.permit_before_filling(permits) => waited,
        };
        if let Some(permit) = waits {
            return NextStep::Deliver(Payload::Batch(batch), permit);
        }
        let packed = caught_future(end.pack(&batch)).await;
        let Ok(parcels) = packed.flatten() else { return NextStep::Broken };
        drop(batch);
        self.keep(overflow, parcels.into(), permits, room).await
    }

    /// Acquires a permit; `None` if the queue fills first.
    async fn permit_before_filling(
        &self,
        permits: &Arc<Semaphore>,
    ) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(permit) = permits.clone().try_acquire_owned() {
                return Some(permit);
            }
            // Entries held at the end are delivered, or left to the next process.
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

    /// Moves parcels to the overflow; if that is full, waits for a consumer or for space.
    async fn keep(
        &self,
        overflow: &Overflow,
        mut parcels: VecDeque<Parcel>,
        permits: &Arc<Semaphore>,
        room: &mut Room,
    ) -> NextStep {
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
            let Some(error) = full else { return NextStep::Kept };
            self.shared.counters.log_overflow_error(&error);
            let succeeded = &self.shared.succeeded;
            tokio::select! {
                () = succeeded.cancelled() => return NextStep::HandOver(Payload::Parcels(parcels)),
                permit = permit(permits) => {
                    return NextStep::Deliver(Payload::Parcels(parcels), permit);
                }
                () = sleep(OVERFLOW_RETRY) => {}
            }
        }
    }

    /// Gathers the next batch with its reserved memory; `None` once the queue is closed and empty,
    /// or replaced.
    async fn gather(&mut self) -> Option<QueueEntry> {
        let mut entry = self.next(None).await?;
        // A timeout beyond the range of time means none.
        let deadline = Instant::now().checked_add(self.limits.flush_timeout);
        let mut count = entry.payload.count();
        while count < self.limits.batch_count && entry.room.bytes() < self.limits.batch_bytes {
            let Payload::Batch(batch) = &mut entry.payload else { break };
            let Some(next) = self.next(deadline).await else { break };
            let size = next.payload.count();
            match next.payload {
                Payload::Batch(more) => batch.extend(more),
                payload => {
                    self.handed_over.push_front(QueueEntry { payload, room: next.room });
                    break;
                }
            }
            count += size;
            entry.room.join(next.room);
        }
        Some(entry)
    }

    /// Returns the next entry; `None` at the deadline, or once the queue is closed and empty or
    /// replaced.
    async fn next(&mut self, deadline: Option<Instant>) -> Option<QueueEntry> {
        if self.shared.succeeded.is_cancelled() {
            return None;
        }
        if let Some(entry) = self.handed_over.pop_front() {
            return Some(entry);
        }
        if let Some(entry) = self.entries.take() {
            return Some(entry);
        }
        if self.shared.closing.is_cancelled() {
            self.entries.close();
            return self.entries.take();
        }
        let entries = &mut self.entries;
        let closing = &self.shared.closing;
        let succeeded = &self.shared.succeeded;
        let wait = async {
            tokio::select! {
                biased;
                () = succeeded.cancelled() => None,
                entry = entries.next() => entry,
                () = closing.cancelled() => {
                    entries.close();
                    entries.take()
                }
            }
        };
        match deadline {
            Some(deadline) => timeout_at(deadline, wait).await.ok().flatten(),
            None => wait.await,
        }
    }
}
