//! Memory accounting of one forward: its limit, the quota of all forwards, and each sender's part
//! of the requests held until judgement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::counters::ForwardCounters;
use spanscore_base::model::{MemoryQuota, Sender, SenderShares};

/// Consecutive failures after which a backend counts as away.
const FAILURES_MAX: u32 = 5;
/// Interval of checks for a backend that is away, during shutdown.
const AWAY_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Memory accounting of one forward: its own limit, and the quota of all forwards.
#[derive(Debug)]
pub(super) struct ForwardMemory {
    pub(super) counters: Arc<ForwardCounters>,
    pub(super) share: Arc<MemoryQuota>,
    /// Cancelled to close the queue and drain it.
    pub(super) closing: CancellationToken,
    /// True if the config no longer has the forward: no later process sends its rest.
    is_removed: AtomicBool,
    /// Failed attempts since the backend last answered.
    failures: AtomicU32,
    /// Bytes of requests held until judgement, by sender.
    by_sender: Mutex<SenderShares>,
}

impl ForwardMemory {
    /// Returns an empty account with the limit in `counters`.
    pub(super) fn new(counters: Arc<ForwardCounters>, share: Arc<MemoryQuota>) -> Self {
        let closing = CancellationToken::new();
        let is_removed = AtomicBool::new(false);
        let failures = AtomicU32::new(0);
        Self { counters, share, closing, is_removed, failures, by_sender: Mutex::default() }
    }

    /// Returns the limit of this forward, bytes.
    pub(super) fn bytes_max(&self) -> usize {
        self.counters.bytes_max.load(Ordering::Relaxed)
    }

    /// Returns the bytes in use.
    pub(super) fn held(&self) -> usize {
        self.counters.bytes.load(Ordering::Relaxed)
    }

    /// Sets the limit, bytes.
    pub(super) fn set_bytes_max(&self, bytes_max: usize) {
        self.counters.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Marks the forward as removed from the config.
    pub(super) fn remove(&self) {
        self.is_removed.store(true, Ordering::Release);
    }

    /// Returns true if the forward is no longer in the config.
    pub(super) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    /// Resets the failures: the backend took a request, or refused it permanently.
    pub(super) fn answered(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// Counts a failure: the backend did not answer, or is temporarily unavailable.
    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the queue is closed and waiting for the backend is useless.
    pub(super) async fn until_unreachable(&self) {
        self.closing.cancelled().await;
        while self.is_removed() || self.failures.load(Ordering::Relaxed) < FAILURES_MAX {
            sleep(AWAY_CHECK_INTERVAL).await;
        }
    }

    /// Reserves bytes if they fit.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let own = &self.counters.bytes;
        let held = own.load(Ordering::Relaxed);
        // Several may reserve at once and exceed the limit together, within the quota.
        let fits = held.checked_add(bytes).is_some_and(|sum| sum <= self.bytes_max());
        fits && self.share.try_take_for(own, bytes)
    }

    /// Releases bytes.
    pub(super) fn give_back(&self, bytes: usize) {
        self.share.give_back_for(&self.counters.bytes, bytes);
    }

    /// Reserves memory if it fits.
    pub(super) fn room(self: &Arc<Self>, bytes: usize) -> Option<Arc<BodyRoom>> {
        self.take(bytes).then(|| self.taken(bytes, None))
    }

    /// Reserves memory for a request held until judgement. A sender has at most its
    /// [part](SenderShares::fits); with `spares` a body leaves a quarter of it for log positions.
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

    /// Reserves memory from the three quarters for bodies; the rest is for log positions.
    pub(super) fn room_beside_places(self: &Arc<Self>, bytes: usize) -> Option<Arc<BodyRoom>> {
        let most = self.bytes_max().min(self.share.largest());
        let held = self.held().saturating_add(bytes);
        if held <= most / 4 * 3 { self.room(bytes) } else { None }
    }

    /// Reserves bytes, beyond the limit if need be.
    pub(super) fn take_beyond(&self, bytes: usize) {
        self.share.take(bytes);
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reserves memory, beyond the limit if need be.
    pub(super) fn room_beyond(self: &Arc<Self>, bytes: usize) -> Arc<BodyRoom> {
        self.take_beyond(bytes);
        self.taken(bytes, None)
    }

    fn taken(self: &Arc<Self>, bytes: usize, sender: Option<Sender>) -> Arc<BodyRoom> {
        Arc::new(BodyRoom { memory: Arc::clone(self), bytes, sender })
    }
}

/// Reserved memory of a forward, released when dropped.
#[derive(Debug)]
pub(super) struct BodyRoom {
    memory: Arc<ForwardMemory>,
    pub(super) bytes: usize,
    /// Sender whose part it counts toward, if any.
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
