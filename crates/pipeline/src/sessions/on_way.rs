//! Traces on their way to their sessions: their bytes, by sender.

use std::sync::Arc;

use parking_lot::Mutex;

use super::QUEUED_TRACES_MAX;
use spanscore_base::model::{MemoryQuota, Sender, SenderShares};

/// Inverse of the part of the memory of sessions that is for traces on their way.
const WAY_PARTS: usize = 4;

/// Account of traces on their way, which take the memory that sessions leave free: each sender no
/// more than its part.
pub(crate) struct OnWay {
    memory: Arc<MemoryQuota>,
    by_sender: Mutex<SenderShares>,
}

impl OnWay {
    /// Creates an empty account within the memory of sessions.
    pub(crate) fn new(memory: Arc<MemoryQuota>) -> Self {
        Self { memory, by_sender: Mutex::default() }
    }

    /// Takes the bytes of a trace; returns what is charged, so much at least that bytes run out
    /// before places in the queue do. `None` if there is no room.
    pub(super) fn take(&self, sender: Sender, bytes: usize) -> Option<usize> {
        let bytes = bytes.max(self.memory.limit() / WAY_PARTS / QUEUED_TRACES_MAX);
        self.by_sender.lock().take(&self.memory, sender, bytes).then_some(bytes)
    }

    /// Gives back what was charged.
    pub(super) fn give_back(&self, sender: Sender, bytes: usize) {
        self.by_sender.lock().give_back(&self.memory, sender, bytes);
    }
}
