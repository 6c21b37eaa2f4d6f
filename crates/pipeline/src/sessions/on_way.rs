//! Traces on their way to their sessions: their bytes, by sender.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::QUEUED_TRACES_MAX;
use spanscore_base::model::{MemoryQuota, SenderKey, sender_number};

/// Counts of senders; those that share one count as one.
const SENDERS_MAX: usize = 256;

/// Inverse of the part of the memory of sessions that is for traces on their way.
const WAY_PARTS: usize = 4;

/// Account of traces on their way, which take the memory that sessions leave free: each sender no
/// more than its part.
pub(crate) struct OnWay {
    memory: Arc<MemoryQuota>,
    by_sender: [AtomicUsize; SENDERS_MAX],
}

impl OnWay {
    /// Creates an empty account within the memory of sessions.
    pub(crate) fn new(memory: Arc<MemoryQuota>) -> Self {
        Self { memory, by_sender: std::array::from_fn(|_| AtomicUsize::new(0)) }
    }

    /// Takes the bytes of a trace; returns what is charged, so much at least that bytes run out
    /// before places in the queue do. `None` if there is no room.
    pub(super) fn take(&self, sender: SenderKey, bytes: usize) -> Option<usize> {
        let bytes = bytes.max(self.memory.limit() / WAY_PARTS / QUEUED_TRACES_MAX);
        self.memory.try_take_for(self.count(sender), bytes).then_some(bytes)
    }

    /// Gives back what was charged.
    pub(super) fn give_back(&self, sender: SenderKey, bytes: usize) {
        self.memory.give_back_for(self.count(sender), bytes);
    }

    fn count(&self, sender: SenderKey) -> &AtomicUsize {
        &self.by_sender[sender_number(sender) % SENDERS_MAX]
    }
}
