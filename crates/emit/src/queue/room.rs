//! The room that evaluations take in a queue, with the receipts that wait for them.
//!
//! A room is settled once, with what became of its evaluations; where a task is stopped before, it
//! settles itself by being dropped. So each evaluation is counted once, as sent, as lost or as left
//! to the next process, and its bytes are given back once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Delivery;
use crate::counters::{Counters, Loss};
use spanscore_base::model::{MemoryQuota, Receipt};

/// Contents of a queue: bytes, of the share that all queues have together, and evaluations.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: AtomicUsize,
    evaluations: AtomicU64,
    pub(super) share: Arc<MemoryQuota>,
    /// Bytes of the log that receipts of its evaluations claim; a record counts for each.
    claimed: AtomicU64,
    /// Receipts of what is left to the next process, with their claims, while this one goes on.
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

    /// Returns the bytes of the log that its evaluations claim.
    pub(crate) fn claimed(&self) -> u64 {
        self.claimed.load(Ordering::Relaxed)
    }

    /// Leaves what a receipt waits for to the next process: the log keeps it until then.
    pub(super) fn leave(&self, receipt: &Receipt) {
        receipt.leave();
        self.kept.lock().push(receipt.clone());
    }

    /// Returns true if half of the room is taken, of this queue's limit or of the rest of the
    /// share.
    pub(super) fn is_filling(&self, bytes_max: usize) -> bool {
        self.bytes() >= (bytes_max / 2).min(self.share.left())
    }

    /// Takes so many bytes if they fit.
    fn take(&self, bytes: usize, bytes_max: usize) -> bool {
        // Several shards may offer at once and go beyond it together, within the share.
        let fits = self.bytes().checked_add(bytes).is_some_and(|sum| sum <= bytes_max);
        fits && self.share.try_take_for(&self.bytes, bytes)
    }
}

/// State that the ends of a queue share.
pub(super) struct QueueShared {
    pub(super) held: Arc<Held>,
    pub(super) counters: Counters,
    pub(super) closing: CancellationToken,
    /// Cancelled when the process ends, before `closing`.
    pub(super) ending: CancellationToken,
    /// Cancelled when the time for shutting down has run out.
    pub(super) given_up: CancellationToken,
    /// Cancelled when another queue takes its place.
    pub(super) succeeded: CancellationToken,
    /// True if its exporter is no longer in the config: nobody delivers what it gives up.
    pub(super) is_removed: AtomicBool,
    /// Evaluations that were lost before their delivery had ended.
    pub(super) dropped: AtomicU64,
    /// Evaluations that were left to the next process.
    pub(super) left: AtomicU64,
    /// Told when the queue is filling.
    pub(super) pressure: Notify,
}

impl QueueShared {
    /// Counts evaluations that nobody delivers any more in this process; the next one will.
    pub(super) fn leave(&self, evaluations: u64) {
        self.counters.metrics.left.add(evaluations);
        self.left.fetch_add(evaluations, Ordering::Relaxed);
    }
}

/// The room that evaluations take in a queue, until it is known what became of them.
pub(super) struct Room {
    shared: Arc<QueueShared>,
    bytes: usize,
    evaluations: u64,
    /// Receipts that wait for some of the evaluations, each with the number of those.
    receipts: Vec<(Receipt, u64)>,
}

impl Room {
    /// Room for evaluations, if there is as much.
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

    /// Lets a receipt wait for all evaluations that are in it now.
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

    /// Takes over the room of others.
    pub(super) fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
        self.evaluations += std::mem::take(&mut other.evaluations);
        self.receipts.append(&mut other.receipts);
    }

    /// Moves it to the queue that takes the place of its own; both hold the same bytes.
    pub(super) fn move_to(&mut self, shared: &Arc<QueueShared>) {
        self.shared = Arc::clone(shared);
    }

    /// Notes that some of the evaluations are kept elsewhere.
    pub(super) fn moved(&mut self, evaluations: u64) {
        self.evaluations -= evaluations;
        self.shared.held.evaluations.fetch_sub(evaluations, Ordering::Relaxed);
    }

    /// Counts what became of the evaluations, gives their bytes back and lets go of the receipts.
    pub(super) fn settle(mut self, delivery: &Delivery) {
        self.empty();
        self.let_go();
        self.shared.counters.settle(delivery);
    }

    /// Gives the bytes back before anything became of the evaluations, with their number and the
    /// receipt that waits for them: of one offer, as all that wait in line are.
    pub(super) fn give_back(mut self) -> (u64, Option<Receipt>) {
        let receipt = self.receipts.first().map(|(receipt, _)| receipt.clone());
        let evaluations = self.empty();
        self.let_go();
        (evaluations, receipt)
    }

    /// Lets go of the receipts.
    fn let_go(&mut self) {
        for (receipt, _) in self.receipts.drain(..) {
            let claimed = receipt.claims().record_bytes();
            self.shared.held.claimed.fetch_sub(claimed, Ordering::Relaxed);
        }
    }

    /// Notes that it holds no evaluations any more; how many they were.
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
            return self.let_go();
        }
        if shared.is_removed.load(Ordering::Relaxed) {
            // Its receipts go as if it had arrived: no process will deliver it.
            shared.counters.lost(Loss::Removed, evaluations);
            shared.dropped.fetch_add(evaluations, Ordering::Relaxed);
            return self.let_go();
        }
        // Evaluations that were moved away are not among them any more.
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
