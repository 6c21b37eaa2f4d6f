//! Traces queued for their sessions: their bytes, by sender.

use std::sync::Arc;

use parking_lot::Mutex;

use super::QUEUED_TRACES_MAX;
use spanscore_base::model::{MemoryQuota, Sender, SenderShares};

/// Inverse of the share of the sessions' memory for queued traces.
const WAY_PARTS: usize = 4;

/// Account of queued traces, which use the sessions' free memory within each sender's share.
pub(crate) struct QueuedTraces {
    memory: Arc<MemoryQuota>,
    by_sender: Mutex<SenderShares>,
}

impl QueuedTraces {
    /// Creates an empty account within the memory of sessions.
    pub(crate) fn new(memory: Arc<MemoryQuota>) -> Self {
        Self { memory, by_sender: Mutex::default() }
    }

    /// Takes the bytes of a trace; returns the charge. A minimum charge makes bytes run out before
    /// places in the queue. `None` without room.
    pub(super) fn take(&self, sender: Sender, bytes: usize) -> Option<usize> {
        let bytes = bytes.max(self.memory.limit() / WAY_PARTS / QUEUED_TRACES_MAX);
        self.by_sender.lock().take(&self.memory, sender, bytes).then_some(bytes)
    }

    /// Releases a charge.
    pub(super) fn give_back(&self, sender: Sender, bytes: usize) {
        self.by_sender.lock().give_back(&self.memory, sender, bytes);
    }
}
