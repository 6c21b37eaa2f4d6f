//! The queue before one backend: bounded by bytes, emptied by several consumers.
//!
//! A request waits as a [`ForwardParcel`]. Where there is a log, one that finds no room keeps only
//! its place there, in the [`Tail`]; until that has gone, every other does so too, so they stay in
//! order. A parcel is settled once, with what became of it; one that is dropped before settles
//! itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::books::ForwardBooks;
use super::passed::{LogPlace, PassedOn};
use super::select::WantedTraces;
use super::send::ForwardSender;
use super::tail::{Tail, TailEntry};
use crate::counters::Loss;
use spanscore_base::model::{Claim, MemoryQuota};
use spanscore_base::otlp::{ContentCoding, Signal};

/// Bytes that a waiting request takes beside its body.
pub(super) const PARCEL_BYTES: usize = 256;

/// Failures one after another from which on a backend counts as away.
const FAILURES_MAX: u32 = 5;
/// Interval of checks for a backend that is away, while the process ends.
const AWAY_LOOK: Duration = Duration::from_millis(100);

/// The memory of one forward: its own limit, and the share of all forwards.
#[derive(Debug)]
pub(super) struct ForwardMemory {
    pub(super) books: Arc<ForwardBooks>,
    pub(super) share: Arc<MemoryQuota>,
    /// Cancelled, the queue takes nothing more and is emptied.
    pub(super) closing: CancellationToken,
    /// The config has it no more: what it does not send is left to nobody.
    is_removed: AtomicBool,
    /// Tries that failed since the backend last answered.
    failures: AtomicU32,
}

impl ForwardMemory {
    /// Nothing held yet; its own limit is that of the books.
    pub(super) fn new(books: Arc<ForwardBooks>, share: Arc<MemoryQuota>) -> Self {
        let closing = CancellationToken::new();
        let is_removed = AtomicBool::new(false);
        Self { books, share, closing, is_removed, failures: AtomicU32::new(0) }
    }

    /// Most bytes of this forward.
    pub(super) fn bytes_max(&self) -> usize {
        self.books.bytes_max.load(Ordering::Relaxed)
    }

    /// Holds no more than so much from now on.
    pub(super) fn set_bytes_max(&self, bytes_max: usize) {
        self.books.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// The config has it no more.
    pub(super) fn remove(&self) {
        self.is_removed.store(true, Ordering::Release);
    }

    /// Returns true if the forward is no longer in the config.
    pub(super) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    /// The backend took a request, or refused it for good.
    pub(super) fn answered(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// The backend did not answer, or said that it cannot take a request now.
    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the process ends and there is nobody to wait for.
    async fn is_in_vain(&self) {
        self.closing.cancelled().await;
        while self.is_removed() || self.failures.load(Ordering::Relaxed) < FAILURES_MAX {
            sleep(AWAY_LOOK).await;
        }
    }

    /// Takes so many bytes, if there is room.
    pub(super) fn room(self: &Arc<Self>, bytes: usize) -> Option<Arc<BodyRoom>> {
        let own = &self.books.bytes;
        let held = own.load(Ordering::Relaxed);
        // Several may take at once and go beyond it together, within the share.
        let fits = held.checked_add(bytes).is_some_and(|sum| sum <= self.bytes_max());
        let taken = fits && self.share.try_take_for(own, bytes);
        taken.then(|| Arc::new(BodyRoom { memory: Arc::clone(self), bytes }))
    }

    /// The same, of the part that bodies may have where the rest is kept for places in the log.
    fn room_beside_places(self: &Arc<Self>, bytes: usize) -> Option<Arc<BodyRoom>> {
        let most = self.bytes_max().min(self.share.largest());
        let held = self.books.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        if held <= most / 4 * 3 { self.room(bytes) } else { None }
    }

    /// Takes so many bytes, whether there is room or not.
    pub(super) fn room_beyond(self: &Arc<Self>, bytes: usize) -> Arc<BodyRoom> {
        self.share.take(bytes);
        self.books.bytes.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(BodyRoom { memory: Arc::clone(self), bytes })
    }
}

/// Room that something takes of the memory of a forward.
#[derive(Debug)]
pub(super) struct BodyRoom {
    memory: Arc<ForwardMemory>,
    bytes: usize,
}

impl Drop for BodyRoom {
    fn drop(&mut self) {
        let ForwardMemory { share, books, .. } = &*self.memory;
        share.give_back_for(&books.bytes, self.bytes);
    }
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) enum Load {
    /// In memory.
    Held(HeldBody),
    /// So many bytes in the log; the room is that of its place, where that has one of its own.
    InLog { bytes: usize, _room: Option<Arc<BodyRoom>> },
}

/// A body in memory.
#[derive(Clone, Debug)]
pub(super) struct HeldBody {
    pub(super) bytes: Bytes,
    pub(super) coding: Option<ContentCoding>,
    pub(super) is_json: bool,
    pub(super) _room: Arc<BodyRoom>,
}

/// A body that is to be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptBody<'a> {
    pub(super) bytes: &'a Bytes,
    pub(super) coding: Option<ContentCoding>,
    pub(super) is_json: bool,
    /// True if it is part of a larger buffer, which would live as long: then it is copied.
    pub(super) is_shared: bool,
}

impl KeptBody<'_> {
    fn held(&self, _room: Arc<BodyRoom>) -> HeldBody {
        let Self { bytes, coding, is_json, is_shared } = *self;
        let bytes = if is_shared { Bytes::copy_from_slice(bytes) } else { bytes.clone() };
        HeldBody { bytes, coding, is_json, _room }
    }
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct ForwardParcel {
    pub(super) signal: Signal,
    pub(super) items: u64,
    pub(super) load: Load,
    pub(super) place: Option<LogPlace>,
    /// The traces of it that are sent; all of it where this is `None`.
    pub(super) wanted: Option<WantedTraces>,
    memory: Arc<ForwardMemory>,
    is_settled: bool,
}

impl ForwardParcel {
    /// Counts that it arrived, but for what the backend did not take.
    pub(super) fn sent(mut self, rejected: u64) {
        let rejected = rejected.min(self.items);
        self.is_settled = true;
        self.memory.books.dequeued(self.signal, self.items);
        self.memory.books.sent(self.signal, self.items - rejected);
        if rejected > 0 {
            self.memory.books.lost(self.signal, Loss::RejectedPartly, 0, rejected);
        }
    }

    /// Lets go of the body in memory, not of its room: what is sent stands for it.
    pub(super) fn unload(&mut self) {
        if let Load::Held(held) = &mut self.load {
            held.bytes = Bytes::new();
        }
    }

    /// Counts that it is lost.
    pub(super) fn lost(mut self, reason: Loss) {
        self.settle_lost(reason);
    }

    fn settle_lost(&mut self, reason: Loss) {
        self.is_settled = true;
        self.memory.books.dequeued(self.signal, self.items);
        self.memory.books.lost(self.signal, reason, 1, self.items);
    }
}

impl Drop for ForwardParcel {
    fn drop(&mut self) {
        if matches!(self.load, Load::InLog { .. }) {
            self.memory.books.in_log(self.signal, false);
        }
        if self.is_settled {
            return;
        }
        let is_closing = self.memory.closing.is_cancelled();
        match (&self.place, is_closing) {
            _ if is_closing && self.memory.is_removed() => {
                self.settle_lost(Loss::Removed);
            }
            // It stays in the log, for the next process, and counts as queued.
            (Some(place), true) => place.leave(),
            (None, true) => self.settle_lost(Loss::ShutdownDeadline),
            (_, false) => self.settle_lost(Loss::Fault),
        }
    }
}

/// The offering end.
pub(super) struct ForwardQueue {
    sender: mpsc::UnboundedSender<ForwardParcel>,
    pub(super) memory: Arc<ForwardMemory>,
    has_log: bool,
    tail: Tail,
    tail_grew: Notify,
    passed: Arc<PassedOn>,
    consumers: AtomicUsize,
    consumers_changed: Notify,
    pub(super) given_up: CancellationToken,
}

impl ForwardQueue {
    /// Starts what empties the queue. Must be called in a Tokio runtime.
    pub(super) fn start(
        memory: Arc<ForwardMemory>,
        consumers: usize,
        sender: Arc<ForwardSender>,
        passed: &Arc<PassedOn>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let (parcels, receiver) = mpsc::unbounded_channel();
        let queue = Arc::new(Self {
            sender: parcels,
            memory,
            has_log: sender.has_log(),
            tail: Tail::default(),
            tail_grew: Notify::new(),
            passed: Arc::clone(passed),
            consumers: AtomicUsize::new(consumers),
            consumers_changed: Notify::new(),
            given_up: CancellationToken::new(),
        });
        let closing = queue.memory.closing.clone();
        let given_up = queue.given_up.clone();
        let emptying = Emptying { receiver, queue: Arc::clone(&queue), closing };
        (queue, tokio::spawn(emptying.run(sender, given_up)))
    }

    /// Has so many requests on their way at once from now on.
    pub(super) fn set_consumers(&self, consumers: usize) {
        self.consumers.store(consumers, Ordering::Relaxed);
        self.consumers_changed.notify_one();
    }

    /// Counts what is in the log alone as lost: the queue of a forward that was removed and has
    /// ended.
    pub(super) fn lose_logged(&self) {
        while let Some(parcel) = self.pop_logged() {
            parcel.lost(Loss::Removed);
        }
    }

    /// The accounts.
    pub(super) fn books(&self) -> &Arc<ForwardBooks> {
        &self.memory.books
    }

    /// Keeps a body in memory, or its place in the log; `None` where there is room for neither.
    /// `more`: what is kept beside the body.
    pub(super) fn keep(&self, body: &KeptBody<'_>, has_place: bool, more: usize) -> Option<Load> {
        let beside = PARCEL_BYTES + more;
        let bytes = body.bytes.len();
        if let Some(room) = self.memory.room(bytes + beside) {
            return Some(Load::Held(body.held(room)));
        }
        let room = (has_place && self.has_log).then(|| self.memory.room(beside)).flatten()?;
        Some(Load::InLog { bytes, _room: Some(room) })
    }

    /// Returns true if there is a log that requests are read from again.
    pub(super) fn has_log(&self) -> bool {
        self.has_log
    }

    /// Takes a request behind all others: in memory, where nothing waits in the log alone and there
    /// is room, else as a place in the log. `false` where there is no room for that.
    pub(super) fn push_logged(
        &self,
        signal: Signal,
        items: u64,
        body: &KeptBody<'_>,
        claim: &Claim,
    ) -> bool {
        let position = claim.position();
        if self.tail.is_empty()
            && let Some(room) = self.memory.room_beside_places(body.bytes.len() + PARCEL_BYTES)
        {
            let place = self.passed.place(position, claim.clone());
            self.push(signal, items, Load::Held(body.held(room)), Some(place), None);
            return true;
        }
        let bytes = u32::try_from(body.bytes.len()).unwrap_or(u32::MAX);
        let entry = TailEntry { position, items, bytes, signal };
        if !self.tail.push(entry, claim, &self.memory) {
            self.passed.done(position);
            return false;
        }
        self.books().enqueued(signal, items);
        self.books().in_log(signal, true);
        self.tail_grew.notify_one();
        true
    }

    /// The first request of those that are in the log alone.
    fn pop_logged(&self) -> Option<ForwardParcel> {
        let (TailEntry { position, items, bytes, signal }, claim) = self.tail.pop()?;
        let place = Some(self.passed.place(position, claim));
        let load = Load::InLog { bytes: bytes as usize, _room: None };
        Some(self.parcel(signal, items, load, place, None))
    }

    fn parcel(
        &self,
        signal: Signal,
        items: u64,
        load: Load,
        place: Option<LogPlace>,
        wanted: Option<WantedTraces>,
    ) -> ForwardParcel {
        let memory = Arc::clone(&self.memory);
        let is_settled = false;
        ForwardParcel { signal, items, load, place, wanted, memory, is_settled }
    }

    /// Takes a request that is kept.
    pub(super) fn push(
        &self,
        signal: Signal,
        items: u64,
        load: Load,
        place: Option<LogPlace>,
        wanted: Option<WantedTraces>,
    ) {
        self.books().enqueued(signal, items);
        if matches!(load, Load::InLog { .. }) {
            self.books().in_log(signal, true);
        }
        let parcel = self.parcel(signal, items, load, place, wanted);
        // A parcel that nobody takes any more settles itself.
        let _ = self.sender.send(parcel);
    }

    /// Counts what finds no room, and says so now and then.
    pub(super) fn drop_items(&self, signal: Signal, reason: Loss, items: u64) {
        self.books().lost(signal, reason, 1, items);
        if reason != Loss::ShuttingDown && self.books().full.may_log() {
            tracing::warn!(forward = %self.books().name, bytes_max = self.memory.bytes_max(),
                "a forward has no room, what was received is not passed on");
        }
    }
}

/// The emptying end.
struct Emptying {
    receiver: mpsc::UnboundedReceiver<ForwardParcel>,
    queue: Arc<ForwardQueue>,
    closing: CancellationToken,
}

impl Emptying {
    /// Sends until the queue is closed and empty, or given up; with a log no longer than there is
    /// a backend, once the process ends.
    async fn run(mut self, sender: Arc<ForwardSender>, given_up: CancellationToken) {
        let mut sending = JoinSet::new();
        let queue = Arc::clone(&self.queue);
        tokio::select! {
            () = self.send_all(sender, &mut sending) => {}
            () = given_up.cancelled() => sending.shutdown().await,
            () = queue.memory.is_in_vain(), if queue.has_log() => sending.shutdown().await,
        }
    }

    async fn send_all(&mut self, sender: Arc<ForwardSender>, sending: &mut JoinSet<()>) {
        while let Some(parcel) = self.next().await {
            self.wait_for_consumer(sending).await;
            let sender = Arc::clone(&sender);
            sending.spawn(async move { sender.deliver(parcel).await });
        }
        while sending.join_next().await.is_some() {}
    }

    /// Waits until one more may be on its way.
    async fn wait_for_consumer(&self, sending: &mut JoinSet<()>) {
        while sending.try_join_next().is_some() {}
        while sending.len() >= self.queue.consumers.load(Ordering::Relaxed) {
            tokio::select! {
                _ = sending.join_next() => {}
                () = self.queue.consumers_changed.notified() => {}
            }
        }
    }

    /// The next parcel; `None` once the queue is closed and empty.
    async fn next(&mut self) -> Option<ForwardParcel> {
        loop {
            if let Ok(parcel) = self.receiver.try_recv() {
                return Some(parcel);
            }
            if let Some(parcel) = self.queue.pop_logged() {
                return Some(parcel);
            }
            tokio::select! {
                biased;
                parcel = self.receiver.recv() => return parcel,
                () = self.queue.tail_grew.notified() => {}
                () = self.closing.cancelled() => break,
            }
        }
        self.receiver.close();
        self.receiver.recv().await
    }
}
