//! Memory reserved for evaluations in a queue, with the receipts that wait for them.
//!
//! A reservation is settled once, with the outcome of its evaluations; dropping it settles it too.
//! So each evaluation is counted once, as sent, lost or left to the next process, and its bytes are
//! released once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Delivery;
use crate::counters::{Counters, Loss};
use spanscore_base::model::{MemoryQuota, Receipt};

/// Content of a queue: evaluations, and bytes within the quota of all queues.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: AtomicUsize,
    evaluations: AtomicU64,
    pub(super) share: Arc<MemoryQuota>,
    /// Log bytes claimed by receipts of its evaluations; a record counts once per receipt.
    claimed: AtomicU64,
    /// Receipts of evaluations left to the next process, whose claims must outlast this one.
    kept: Mutex<Vec<Receipt>>,
}

impl Held {
    pub(super) fn new(share: Arc<MemoryQuota>) -> Self {
        let bytes = AtomicUsize::new(0);
        let evaluations = AtomicU64::new(0);
        let claimed = AtomicU64::new(0);
        Self { bytes, evaluations, share, claimed, kept: Mutex::default() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn evaluations(&self) -> u64 {
        self.evaluations.load(Ordering::Relaxed)
    }

    /// Returns the log bytes claimed for its evaluations.
    pub(crate) fn claimed(&self) -> u64 {
        self.claimed.load(Ordering::Relaxed)
    }

    /// Leaves a receipt's evaluations to the next process: the log keeps their source until then.
    pub(super) fn leave(&self, receipt: &Receipt) {
        receipt.leave();
        self.kept.lock().push(receipt.clone());
    }

    /// Returns true if the queue's limit, or the rest of the quota, is at least half used.
    pub(super) fn is_filling(&self, bytes_max: usize) -> bool {
        self.bytes() >= (bytes_max / 2).min(self.share.left())
    }

    /// Reserves bytes if they fit.
    fn take(&self, bytes: usize, bytes_max: usize) -> bool {
        // Several shards may offer at once and exceed the limit together, within the quota.
        let fits = self.bytes().checked_add(bytes).is_some_and(|sum| sum <= bytes_max);
        fits && self.share.try_take_for(&self.bytes, bytes)
    }
}

/// State shared by both sides of a queue.
pub(super) struct QueueShared {
    pub(super) held: Arc<Held>,
    pub(super) counters: Counters,
    pub(super) closing: CancellationToken,
    /// Cancelled at the end of the process, before `closing`.
    pub(super) ending: CancellationToken,
    /// Cancelled at the end of the shutdown timeout.
    pub(super) given_up: CancellationToken,
    /// Cancelled when another queue replaces it.
    pub(super) succeeded: CancellationToken,
    /// True if its exporter left the config: no later process delivers its evaluations.
    pub(super) is_removed: AtomicBool,
    /// Evaluations lost before the end of their delivery.
    pub(super) dropped: AtomicU64,
    /// Evaluations left to the next process.
    pub(super) left: AtomicU64,
    /// Notified when the queue is half full.
    pub(super) pressure: Notify,
}

impl QueueShared {
    /// Counts evaluations left to the next process.
    pub(super) fn leave(&self, evaluations: u64) {
        self.counters.metrics.left.add(evaluations);
        self.left.fetch_add(evaluations, Ordering::Relaxed);
    }
}

/// Memory reserved for evaluations in a queue, until their outcome is known.
pub(super) struct Room {
    shared: Arc<QueueShared>,
    bytes: usize,
    evaluations: u64,
    /// Receipts, each with the number of its evaluations here.
    receipts: Vec<(Receipt, u64)>,
}

impl Room {
    /// Reserves memory for evaluations, if it fits.
    pub(super) fn take(
        shared: &Arc<QueueShared>,
        bytes: usize,
        evaluations: u64,
        max: usize,
    ) -> Option<Self> {
        let is_taken = shared.held.take(bytes, max);
        is_taken.then(|| {
            shared.held.evaluations.fetch_add(evaluations, Ordering::Relaxed);
            Self { shared: Arc::clone(shared), bytes, evaluations, receipts: Vec::new() }
        })
    }

    /// Adds a receipt that waits for all present evaluations.
    pub(super) fn keep(&mut self, receipt: Receipt) {
        let claimed = receipt.claims().record_bytes();
        self.shared.held.claimed.fetch_add(claimed, Ordering::Relaxed);
        self.receipts.push((receipt, self.evaluations));
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Merges another reservation.
    pub(super) fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
        self.evaluations += std::mem::take(&mut other.evaluations);
        self.receipts.append(&mut other.receipts);
    }

    /// Moves it to the replacement of its queue; both share the same byte count.
    pub(super) fn move_to(&mut self, shared: &Arc<QueueShared>) {
        self.shared = Arc::clone(shared);
    }

    /// Removes evaluations that are now stored elsewhere.
    pub(super) fn moved(&mut self, evaluations: u64) {
        self.evaluations -= evaluations;
        self.shared.held.evaluations.fetch_sub(evaluations, Ordering::Relaxed);
    }

    /// Counts the outcome of the evaluations, and releases their bytes and receipts.
    pub(super) fn settle(mut self, delivery: &Delivery) {
        self.empty();
        self.release_receipts();
        self.shared.counters.settle(delivery);
    }

    /// Releases the bytes without an outcome; returns the number of evaluations and their receipt,
    /// as for any entry still queued.
    pub(super) fn give_back(mut self) -> (u64, Option<Receipt>) {
        let receipt = self.receipts.first().map(|(receipt, _)| receipt.clone());
        let evaluations = self.empty();
        self.release_receipts();
        (evaluations, receipt)
    }

    /// Releases the receipts.
    fn release_receipts(&mut self) {
        for (receipt, _) in self.receipts.drain(..) {
            let claimed = receipt.claims().record_bytes();
            self.shared.held.claimed.fetch_sub(claimed, Ordering::Relaxed);
        }
    }

    /// Empties it; returns the number of its evaluations.
    fn empty(&mut self) -> u64 {
        let evaluations = std::mem::take(&mut self.evaluations);
        self.shared.held.evaluations.fetch_sub(evaluations, Ordering::Relaxed);
        evaluations
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let evaluations = self.empty();
        let shared = &self.shared;
        shared.held.share.give_back_for(&shared.held.bytes, self.bytes);
        if evaluations == 0 {
            return self.release_receipts();
        }
        if shared.is_removed.load(Ordering::Relaxed) {
            // Its receipts end as if delivered, since no process will deliver it.
            shared.counters.lost(Loss::Removed, evaluations);
            shared.dropped.fetch_add(evaluations, Ordering::Relaxed);
            return self.release_receipts();
        }
        // Evaluations that were moved away no longer count.
        let waiting: u64 = self.receipts.iter().map(|(_, waiting)| waiting).sum();
        let left = waiting.min(evaluations);
        for (receipt, _) in &self.receipts {
            shared.held.leave(receipt);
        }
        shared.leave(left);
        let lost = evaluations - left;
        if lost > 0 {
            let in_time = !shared.closing.is_cancelled();
            let reason = if in_time { Loss::Fault } else { Loss::ShutdownDeadline };
            shared.counters.lost(reason, lost);
            shared.dropped.fetch_add(lost, Ordering::Relaxed);
        }
    }
}
