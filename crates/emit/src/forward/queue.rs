//! Queue before one backend: bounded by bytes, drained by several consumers, fair to senders.
//!
//! A request waits as a [`ForwardParcel`]. With a log, a request beyond the memory limit keeps only
//! its log position, as a [`LoggedRequest`], in the same fair queue, so requests of a connection
//! stay in order. Without memory for the position, the newest requests of the largest sender make
//! room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::counters::ForwardCounters;
use super::memory::{BodyRoom, ForwardMemory};
use super::parcel::{ForwardParcel, KeptBody, Load, PARCEL_BYTES};
use super::places::{ChunkClaims, LoggedRequest};
use super::progress::{ForwardProgress, LogPlace};
use super::select::WantedTraces;
use super::send::ForwardSender;
use crate::counters::Loss;
use crate::queue::{FairChannel, FairReceiver, lacking};
use spanscore_base::model::{Claim, DisplacedItem, FairQueue, Sender};
use spanscore_base::otlp::Signal;

/// Memory of a request of which only the log position is kept: in the fair queue, which grows by
/// doubling, and among the pending positions.
const PLACE_BYTES: usize = 2 * FairQueue::<ForwardEntry>::ITEM_BYTES + 64;

/// Queued request.
enum ForwardEntry {
    /// With its body in memory.
    Parcel(Box<ForwardParcel>),
    /// With its log position only.
    Logged(LoggedRequest),
}

impl ForwardEntry {
    /// Returns the memory of its body or position.
    fn room(&self) -> Option<&Arc<BodyRoom>> {
        match self {
            Self::Parcel(parcel) => parcel.load.room(),
            Self::Logged(_) => None,
        }
    }

    fn keeps_place(&self) -> bool {
        match self {
            Self::Parcel(parcel) => parcel.place.is_some() && parcel.can_leave_body(),
            Self::Logged(_) => false,
        }
    }
}

/// Returns the bytes that removed entries free together. Parts of one request share memory, which
/// the last of them frees.
fn freed(gone: &[DisplacedItem<ForwardEntry>]) -> usize {
    let mut found: HashMap<_, usize> = HashMap::new();
    let mut bytes = 0;
    for DisplacedItem { content, .. } in gone {
        let Some(room) = content.room() else {
            bytes += PLACE_BYTES;
            continue;
        };
        let parts = found.entry(Arc::as_ptr(room)).or_default();
        *parts += 1;
        if *parts == Arc::strong_count(room) {
            let stays = if content.keeps_place() { PLACE_BYTES } else { 0 };
            bytes += room.bytes.saturating_sub(stays);
        }
    }
    bytes
}

/// Producer side of the queue.
pub(super) struct ForwardQueue {
    waiting: Arc<FairChannel<ForwardEntry>>,
    pub(super) memory: Arc<ForwardMemory>,
    has_log: bool,
    claims: ChunkClaims,
    progress: Arc<ForwardProgress>,
    consumers: AtomicUsize,
    consumers_changed: Notify,
    pub(super) given_up: CancellationToken,
}

impl ForwardQueue {
    /// Starts the queue's task. Must be called in a Tokio runtime.
    pub(super) fn start(
        memory: Arc<ForwardMemory>,
        consumers: usize,
        sender: Arc<ForwardSender>,
        progress: &Arc<ForwardProgress>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let (waiting, entries) = FairChannel::new();
        let queue = Arc::new(Self {
            waiting,
            memory,
            has_log: sender.has_log(),
            claims: ChunkClaims::default(),
            progress: Arc::clone(progress),
            consumers: AtomicUsize::new(consumers),
            consumers_changed: Notify::new(),
            given_up: CancellationToken::new(),
        });
        let emptying = ForwardDrain { entries, queue: Arc::clone(&queue) };
        (queue, tokio::spawn(emptying.run(sender)))
    }

    /// Sets the limit on concurrent requests.
    pub(super) fn set_consumers(&self, consumers: usize) {
        self.consumers.store(consumers, Ordering::Relaxed);
        self.consumers_changed.notify_one();
    }

    /// Returns the forward's counters.
    pub(super) fn counters(&self) -> &Arc<ForwardCounters> {
        &self.memory.counters
    }

    /// Returns true if there is a log to read requests from.
    pub(super) fn has_log(&self) -> bool {
        self.has_log
    }

    /// Reserves memory for a sender's body until judgement, or for its log position; `None` without
    /// memory for either. `more` is the memory needed beside the body.
    pub(super) fn hold(
        &self,
        sender: Sender,
        body: &KeptBody<'_>,
        has_place: bool,
        more: usize,
    ) -> Option<Load> {
        let beside = PARCEL_BYTES + more;
        let bytes = body.bytes.len();
        let is_logged = has_place && self.has_log;
        if let Some(room) = self.memory.room_of(sender, bytes + beside, is_logged) {
            return Some(Load::Held(body.held(room)));
        }
        let room = is_logged.then(|| self.memory.room_of(sender, beside, false)).flatten()?;
        Some(Load::InLog { bytes, room: Some(room) })
    }

    /// Enqueues a sender's request: in memory, or with a claim as a log position if its body does
    /// not fit. A request that fits neither way is dropped and counted.
    pub(super) fn offer(
        &self,
        sender: Sender,
        (signal, items): (Signal, u64),
        body: &KeptBody<'_>,
        claim: Option<&Claim>,
    ) {
        let bytes = body.bytes.len() + PARCEL_BYTES;
        if let Some(claim) = claim {
            return self.offer_logged(sender, (signal, items), body, claim);
        }
        let room = self.memory.room(bytes).or_else(|| {
            let left = self.memory.share.left();
            let lacking = lacking(self.memory.held(), bytes, self.memory.bytes_max(), left);
            self.make_room((sender, bytes), lacking);
            self.memory.room(bytes)
        });
        match room {
            Some(room) => {
                let load = Load::Held(body.held(room));
                self.push((sender, body.bytes.len()), (signal, items), load, None, None);
            }
            None => self.drop_items(signal, Loss::QueueFull, items),
        }
    }

    fn offer_logged(
        &self,
        sender: Sender,
        (signal, items): (Signal, u64),
        body: &KeptBody<'_>,
        claim: &Claim,
    ) {
        let position = claim.position();
        let cost = body.bytes.len() + PARCEL_BYTES;
        if let Some(room) = self.memory.room_beside_places(cost) {
            let place = self.progress.place(position, claim.clone());
            let load = Load::Held(body.held(room));
            let of = (sender, body.bytes.len());
            return self.push(of, (signal, items), load, Some(place), None);
        }
        if !self.memory.take(PLACE_BYTES) {
            if !self.make_room((sender, cost), PLACE_BYTES) {
                self.progress.done(position);
                return self.drop_items(signal, Loss::QueueFull, items);
            }
            // The entries that made room freed as much, though the forward may exceed its limit.
            self.memory.take_beyond(PLACE_BYTES);
        }
        self.counters().enqueued(signal, items);
        self.counters().in_log(signal, true);
        let bytes = u32::try_from(body.bytes.len()).unwrap_or(u32::MAX);
        let chunk = self.claims.add(claim);
        let logged = LoggedRequest { position, items, bytes, chunk, signal };
        self.put(sender, cost, ForwardEntry::Logged(logged));
    }

    /// Displaces requests of larger senders for a sender's request. Those with a log position stay
    /// in the log; those that are only there already are lost.
    fn make_room(&self, of: (Sender, usize), lacking: usize) -> bool {
        let mut lost = Vec::new();
        let is_made = self.waiting.displace(of, lacking, freed, |entry| {
            let stays = self.in_log_alone(entry);
            stays.map_err(|parcel| lost.push(parcel)).ok().map(ForwardEntry::Logged)
        });
        for parcel in lost {
            self.log_full();
            parcel.lost(Loss::Displaced);
        }
        is_made
    }

    /// Drops the body of a waiting entry and returns its log position, or its parcel if it has
    /// none.
    fn in_log_alone(&self, entry: ForwardEntry) -> Result<LoggedRequest, ForwardParcel> {
        let mut parcel = match entry {
            ForwardEntry::Parcel(parcel) => *parcel,
            logged => return Err(self.parcel_of(logged)),
        };
        let leaves_body = parcel.can_leave_body();
        let place = parcel.place.take_if(|_| leaves_body);
        let Some((position, claim)) = place.and_then(LogPlace::into_claim) else {
            return Err(parcel);
        };
        self.memory.take_beyond(PLACE_BYTES);
        let bytes = u32::try_from(parcel.load.bytes()).unwrap_or(u32::MAX);
        let logged = LoggedRequest {
            position,
            items: parcel.items,
            bytes,
            chunk: self.claims.add(&claim),
            signal: parcel.signal,
        };
        parcel.discard();
        self.counters().in_log(logged.signal, true);
        Ok(logged)
    }

    /// Enqueues a request whose body is reserved already, with its charged bytes.
    pub(super) fn push(
        &self,
        (sender, bytes): (Sender, usize),
        (signal, items): (Signal, u64),
        load: Load,
        place: Option<LogPlace>,
        wanted: Option<WantedTraces>,
    ) {
        self.counters().enqueued(signal, items);
        if matches!(load, Load::InLog { .. }) {
            self.counters().in_log(signal, true);
        }
        let cost = bytes + PARCEL_BYTES;
        let parcel = self.parcel((signal, items), load, place, wanted);
        self.put(sender, cost, ForwardEntry::Parcel(Box::new(parcel)));
    }

    fn put(&self, sender: Sender, cost: usize, entry: ForwardEntry) {
        if let Err(entry) = self.waiting.put(sender, cost, entry) {
            // A parcel without a receiver counts its loss when dropped.
            drop(self.parcel_of(entry));
        }
    }

    /// Returns the parcel of an entry that has left the queue.
    fn parcel_of(&self, entry: ForwardEntry) -> ForwardParcel {
        let logged = match entry {
            ForwardEntry::Parcel(parcel) => return *parcel,
            ForwardEntry::Logged(logged) => logged,
        };
        self.memory.give_back(PLACE_BYTES);
        let LoggedRequest { position, items, bytes, chunk, signal } = logged;
        let claim = self.claims.remove(chunk);
        let place = claim.map(|claim| self.progress.place(position, claim));
        let load = Load::InLog { bytes: bytes as usize, room: None };
        self.parcel((signal, items), load, place, None)
    }

    fn parcel(
        &self,
        (signal, items): (Signal, u64),
        load: Load,
        place: Option<LogPlace>,
        wanted: Option<WantedTraces>,
    ) -> ForwardParcel {
        let memory = Arc::clone(&self.memory);
        let is_settled = false;
        ForwardParcel { signal, items, load, place, wanted, memory, is_settled }
    }

    /// Counts items without memory, and logs that at intervals.
    pub(super) fn drop_items(&self, signal: Signal, reason: Loss, items: u64) {
        self.counters().lost(signal, reason, 1, items);
        if reason != Loss::ShuttingDown {
            self.log_full();
        }
    }

    fn log_full(&self) {
        if self.counters().full.may_log() {
            tracing::warn!(forward = %self.counters().name, bytes_max = self.memory.bytes_max(),
                "a forward has no room, what was received is not passed on; more of it waits \
                 with a higher sending_queue.queue_size and limits.forward_mib");
        }
    }
}

/// Consumer side of the queue.
struct ForwardDrain {
    entries: FairReceiver<ForwardEntry>,
    queue: Arc<ForwardQueue>,
}

impl ForwardDrain {
    /// Sends until the queue is closed and empty, or given up. During shutdown with a log, it stops
    /// when the backend is away.
    async fn run(mut self, sender: Arc<ForwardSender>) {
        let mut sending = JoinSet::new();
        let queue = Arc::clone(&self.queue);
        tokio::select! {
            () = self.send_all(sender, &mut sending) => {}
            () = queue.given_up.cancelled() => sending.shutdown().await,
            () = queue.memory.until_unreachable(), if queue.has_log => sending.shutdown().await,
        }
    }

    async fn send_all(&mut self, sender: Arc<ForwardSender>, sending: &mut JoinSet<()>) {
        while let Some(entry) = self.next().await {
            let parcel = self.queue.parcel_of(entry);
            self.wait_for_consumer(sending).await;
            let sender = Arc::clone(&sender);
            sending.spawn(async move { sender.deliver(parcel).await });
        }
        while sending.join_next().await.is_some() {}
    }

    /// Waits until another request may be sent.
    async fn wait_for_consumer(&self, sending: &mut JoinSet<()>) {
        while sending.try_join_next().is_some() {}
        while sending.len() >= self.queue.consumers.load(Ordering::Relaxed) {
            tokio::select! {
                _ = sending.join_next() => {}
                () = self.queue.consumers_changed.notified() => {}
            }
        }
    }

    /// Returns the next request; `None` once the queue is closed and empty.
    async fn next(&mut self) -> Option<ForwardEntry> {
        tokio::select! {
            biased;
            entry = self.entries.next() => return entry,
            () = self.queue.memory.closing.cancelled() => {}
        }
        self.entries.close();
        self.entries.take()
    }
}

impl Drop for ForwardDrain {
    /// Settles the queued requests, even after a panic of the task.
    fn drop(&mut self) {
        self.entries.close();
        let memory = &self.queue.memory;
        let leaves = memory.closing.is_cancelled() && !memory.is_removed();
        while let Some(entry) = self.entries.take() {
            // Requests left in the log for the next process keep their claims, and count as queued.
            if !(leaves && matches!(entry, ForwardEntry::Logged(_))) {
                drop(self.queue.parcel_of(entry));
            }
        }
    }
}
