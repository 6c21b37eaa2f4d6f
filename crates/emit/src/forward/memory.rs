//! The memory of one forward: its own limit, the share of all forwards, and parts of senders of
//! what is held until it is judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::books::ForwardBooks;
use spanscore_base::model::{MemoryQuota, Sender, SenderShares};

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
    /// Bytes of requests that were held until they are judged, by their senders.
    by_sender: Mutex<SenderShares>,
}

impl ForwardMemory {
    /// Nothing held yet; its own limit is that of the books.
    pub(super) fn new(books: Arc<ForwardBooks>, share: Arc<MemoryQuota>) -> Self {
        let closing = CancellationToken::new();
        let is_removed = AtomicBool::new(false);
        let failures = AtomicU32::new(0);
        Self { books, share, closing, is_removed, failures, by_sender: Mutex::default() }
    }

    /// Most bytes of this forward.
    pub(super) fn bytes_max(&self) -> usize {
        self.books.bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes that it holds.
    pub(super) fn held(&self) -> usize {
        self.books.bytes.load(Ordering::Relaxed)
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
    pub(super) async fn is_in_vain(&self) {
        self.closing.cancelled().await;
        while self.is_removed() || self.failures.load(Ordering::Relaxed) < FAILURES_MAX {
            sleep(AWAY_LOOK).await;
        }
    }

    /// Takes so many bytes, if there is room.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let own = &self.books.bytes;
        let held = own.load(Ordering::Relaxed);
        // Several may take at once and go beyond it together, within the share.
        let fits = held.checked_add(bytes).is_some_and(|sum| sum <= self.bytes_max());
        fits && self.share.try_take_for(own, bytes)
    }

    /// Gives back so many bytes.
    pub(super) fn give_back(&self, bytes: usize) {
        self.share.give_back_for(&self.books.bytes, bytes);
    }

    /// Takes room of so many bytes, if there is as much.
    pub(super) fn room(self: &Arc<Self>, bytes: usize) -> Option<Arc<BodyRoom>> {
        self.take(bytes).then(|| self.taken(bytes, None))
    }

    /// The same for what is held until it is judged: a sender has at most its
    /// [part](SenderShares::fits), of which a body leaves a quarter where it `spares` that for
    /// places in the log.
    pub(super) fn room_of(
        self: &Arc<Self>,
        sender: Sender,
        bytes: usize,
        spares: bool,
    ) -> Option<Arc<BodyRoom>> {
        let mut by_sender = self.by_sender.lock();
        let left = self.bytes_max().saturating_sub(self.held()).min(self.share.left());
        let (of_peer, _) = by_sender.held(sender);
        let spare = if spares { (of_peer + bytes) / 3 } else { 0 };
        let is_taken = by_sender.fits(left, sender, bytes + spare) && self.take(bytes);
        is_taken.then(|| {
            by_sender.add(sender, bytes);
            self.taken(bytes, Some(sender))
        })
    }

    /// Takes room of the part that bodies may have where the rest is kept for places in the log.
    pub(super) fn room_beside_places(self: &Arc<Self>, bytes: usize) -> Option<Arc<BodyRoom>> {
        let most = self.bytes_max().min(self.share.largest());
        let held = self.held().saturating_add(bytes);
        if held <= most / 4 * 3 { self.room(bytes) } else { None }
    }

    /// Takes so many bytes, whether there is room or not.
    pub(super) fn take_beyond(&self, bytes: usize) {
        self.share.take(bytes);
        self.books.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes room of so many bytes, whether there is as much or not.
    pub(super) fn room_beyond(self: &Arc<Self>, bytes: usize) -> Arc<BodyRoom> {
        self.take_beyond(bytes);
        self.taken(bytes, None)
    }

    fn taken(self: &Arc<Self>, bytes: usize, sender: Option<Sender>) -> Arc<BodyRoom> {
        Arc::new(BodyRoom { memory: Arc::clone(self), bytes, sender })
    }
}

/// Room that something takes of the memory of a forward.
#[derive(Debug)]
pub(super) struct BodyRoom {
    memory: Arc<ForwardMemory>,
    pub(super) bytes: usize,
    /// Sender that it counts for, where it is of its part.
    sender: Option<Sender>,
}

impl Drop for BodyRoom {
    fn drop(&mut self) {
        if let Some(sender) = self.sender {
            self.memory.by_sender.lock().remove(sender, self.bytes);
        }
        self.memory.give_back(self.bytes);
    }
}
