//! Batches that have done their work, to be filled again: their memory is at its size, and most of
//! it is still in the processor's cache.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::{SpanBatch, SpanRecord, TraceRun};

/// Most batches that wait to be filled again.
const BATCHES_MAX: usize = 32;
/// Most bytes of facts in a batch that is kept.
const ARENA_BYTES_MAX: usize = 1 << 20;
/// Most bytes of all that are kept.
const POOL_BYTES_MAX: usize = 4 << 20;
/// Most records in a batch that is kept.
const SPANS_MAX: usize = 8192;

/// Empty batches.
#[derive(Default)]
pub(super) struct BatchPool(Mutex<KeptBatches>);

#[derive(Default)]
struct KeptBatches {
    batches: Vec<SpanBatch>,
    bytes: usize,
}

impl BatchPool {
    /// An empty batch.
    pub(super) fn take(&self) -> SpanBatch {
        let mut kept = self.kept();
        let batch = kept.batches.pop().unwrap_or_default();
        kept.bytes -= room_bytes(&batch);
        batch
    }

    /// Keeps a batch that is not needed any more, unless there are enough or it is too large.
    pub(super) fn give_back(&self, mut batch: SpanBatch) {
        if batch.arena.capacity() > ARENA_BYTES_MAX || batch.spans.capacity() > SPANS_MAX {
            return;
        }
        batch.clear();
        let (mut kept, bytes) = (self.kept(), room_bytes(&batch));
        if kept.batches.len() < BATCHES_MAX && kept.bytes + bytes <= POOL_BYTES_MAX {
            kept.bytes += bytes;
            kept.batches.push(batch);
        }
    }

    /// Keeps none any longer.
    pub(super) fn clear(&self) {
        *self.kept() = KeptBatches::default();
    }

    fn kept(&self) -> MutexGuard<'_, KeptBatches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that an empty batch has room for.
fn room_bytes(batch: &SpanBatch) -> usize {
    batch.arena.capacity()
        + batch.spans.capacity() * size_of::<SpanRecord>()
        + batch.runs.capacity() * size_of::<TraceRun>()
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
        assert!(pool.kept().batches.is_empty());
        let large = || SpanBatch { arena: Vec::with_capacity(1 << 20), ..SpanBatch::default() };
        (0..100).for_each(|_| pool.give_back(large()));
        let held = |kept: MutexGuard<'_, KeptBatches>| (kept.batches.len(), kept.bytes);
        assert_eq!(held(pool.kept()), (4, POOL_BYTES_MAX));
        (0..8).for_each(|_| drop(pool.take()));
        assert_eq!(pool.kept().bytes, 0);
        (0..100).for_each(|_| pool.give_back(SpanBatch::default()));
        assert_eq!(pool.kept().batches.len(), BATCHES_MAX);
        pool.clear();
        assert!(pool.kept().batches.is_empty());
    }
}
