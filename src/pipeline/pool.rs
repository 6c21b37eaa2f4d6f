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
/// A batch may have so many times the room of the bytes that are extracted into it, or this much: a
/// batch counts with its room, so a small request in the batch of a large one would count as that.
const ROOM_TIMES: usize = 4;
const ROOM_BYTES_MIN: usize = 8 << 10;

/// Empty batches.
#[derive(Default)]
pub(super) struct BatchPool(Mutex<KeptBatches>);

#[derive(Default)]
struct KeptBatches {
    batches: Vec<SpanBatch>,
    bytes: usize,
}

impl BatchPool {
    /// An empty batch for what is extracted of so many bytes.
    pub(super) fn take(&self, bytes: usize) -> SpanBatch {
        let most = bytes.saturating_mul(ROOM_TIMES).max(ROOM_BYTES_MIN);
        let mut kept = self.kept();
        // The last one is most likely still in the processor's cache.
        let fitting = kept.batches.iter().rposition(|batch| room_bytes(batch) <= most);
        let batch = fitting.map(|at| kept.batches.remove(at)).unwrap_or_default();
        kept.bytes -= room_bytes(&batch);
        batch
    }

    /// Keeps a batch that is not needed any more, unless it is too large; where there are enough,
    /// in place of the oldest: of another size than what comes now, they may fit nothing.
    pub(super) fn give_back(&self, mut batch: SpanBatch) {
        if batch.arena.capacity() > ARENA_BYTES_MAX || batch.spans.capacity() > SPANS_MAX {
            return;
        }
        batch.clear();
        let mut kept = self.kept();
        let bytes = room_bytes(&batch);
        while kept.batches.len() >= BATCHES_MAX || kept.bytes + bytes > POOL_BYTES_MAX {
            if kept.batches.is_empty() {
                return;
            }
            let oldest = kept.batches.remove(0);
            kept.bytes -= room_bytes(&oldest);
        }
        kept.bytes += bytes;
        kept.batches.push(batch);
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
        let mut batch = pool.take(5);
        batch.arena.extend_from_slice(b"facts");
        pool.give_back(batch);
        let again = pool.take(5);
        assert!(again.arena.is_empty() && again.arena.capacity() >= 5);
    }

    #[test]
    fn small_request_is_not_given_the_room_of_a_large_one() {
        let pool = BatchPool::default();
        for bytes in [1_000, 400_000, 4_000] {
            pool.give_back(SpanBatch { arena: Vec::with_capacity(bytes), ..SpanBatch::default() });
        }
        let room = |bytes| pool.take(bytes).arena.capacity();
        assert_eq!([300, 300, 300, 150_000].map(room), [4_000, 1_000, 0, 400_000]);
        // Those of large ones make room for what comes now.
        (0..4).for_each(|_| {
            pool.give_back(SpanBatch { arena: Vec::with_capacity(1 << 20), ..SpanBatch::default() })
        });
        pool.give_back(SpanBatch { arena: Vec::with_capacity(2_000), ..SpanBatch::default() });
        assert_eq!(pool.take(300).arena.capacity(), 2_000);
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
        (0..8).for_each(|_| drop(pool.take(usize::MAX)));
        assert_eq!(pool.kept().bytes, 0);
        (0..100).for_each(|_| pool.give_back(SpanBatch::default()));
        assert_eq!(pool.kept().batches.len(), BATCHES_MAX);
        pool.clear();
        assert!(pool.kept().batches.is_empty());
    }
}
