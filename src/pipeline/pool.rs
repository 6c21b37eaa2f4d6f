//! Batches that have done their work, to be filled again: their memory is at its size, and most of
//! it is still in the processor's cache.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::SpanBatch;

/// Most batches that wait to be filled again.
const BATCHES_MAX: usize = 32;
/// Most bytes of facts in a batch that is kept.
const ARENA_BYTES_MAX: usize = 1 << 20;
/// Most records in a batch that is kept.
const SPANS_MAX: usize = 8192;

/// Empty batches.
#[derive(Default)]
pub(super) struct BatchPool(Mutex<Vec<SpanBatch>>);

impl BatchPool {
    /// An empty batch.
    pub(super) fn take(&self) -> SpanBatch {
        self.batches().pop().unwrap_or_default()
    }

    /// Keeps a batch that is not needed any more, unless there are enough or it is too large.
    pub(super) fn give_back(&self, mut batch: SpanBatch) {
        if batch.arena.capacity() > ARENA_BYTES_MAX || batch.spans.capacity() > SPANS_MAX {
            return;
        }
        batch.arena.clear();
        batch.spans.clear();
        batch.resources.clear();
        let mut batches = self.batches();
        if batches.len() < BATCHES_MAX {
            batches.push(batch);
        }
    }

    fn batches(&self) -> MutexGuard<'_, Vec<SpanBatch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_back_empty_with_their_room() {
        let pool = BatchPool::default();
        let mut batch = pool.take();
        batch.arena.extend_from_slice(b"facts");
        pool.give_back(batch);
        let again = pool.take();
        assert!(again.arena.is_empty() && again.arena.capacity() >= 5);
    }

    #[test]
    fn neither_large_batches_nor_many_are_kept() {
        let pool = BatchPool::default();
        pool.give_back(SpanBatch { arena: Vec::with_capacity(2 << 20), ..SpanBatch::default() });
        assert!(pool.batches().is_empty());
        (0..100).for_each(|_| pool.give_back(SpanBatch::default()));
        assert_eq!(pool.batches().len(), BATCHES_MAX);
    }
}
