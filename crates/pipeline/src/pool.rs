//! Pool of empty batches, with memory of the usual size that is mostly in the processor's cache.

use parking_lot::Mutex;

use spanscore_base::model::{SpanBatch, SpanRecord, TraceRun};

/// Limit of pooled batches.
const BATCHES_MAX: usize = 32;
/// Limit of a pooled batch's arena, bytes.
const ARENA_BYTES_MAX: usize = 1 << 20;
/// Limit of the pool, bytes.
const POOL_BYTES_MAX: usize = 4 << 20;
/// Limit of a pooled batch, records.
const SPANS_MAX: usize = 8192;
/// Largest capacity of a batch for a request: this many times its bytes, or [`ROOM_BYTES_MIN`].
///
/// Queues charge a batch by its capacity. A request of two kilobytes, in a batch that had held 400,
/// was charged and delayed as a large one.
const ROOM_TIMES: usize = 4;
const ROOM_BYTES_MIN: usize = 8 << 10;

/// Pool of empty batches, oldest first.
#[derive(Default)]
pub(super) struct BatchPool(Mutex<KeptBatches>);

#[derive(Default)]
struct KeptBatches {
    batches: Vec<SpanBatch>,
    bytes: usize,
}

impl BatchPool {
    /// Takes an empty batch for the extraction of this many bytes.
    pub(super) fn take(&self, bytes: usize) -> SpanBatch {
        let most = bytes.saturating_mul(ROOM_TIMES).max(ROOM_BYTES_MIN);
        let mut kept = self.0.lock();
        // Newest first: it is most likely still in the processor's cache.
        let fitting = kept.batches.iter().rposition(|batch| room_bytes(batch) <= most);
        let batch = fitting.map(|at| kept.batches.remove(at)).unwrap_or_default();
        kept.bytes -= room_bytes(&batch);
        batch
    }

    /// Returns a batch to the pool, unless it is too large. A full pool evicts its oldest, whose
    /// size may fit no current request.
    pub(super) fn give_back(&self, mut batch: SpanBatch) {
        if batch.arena.capacity() > ARENA_BYTES_MAX || batch.spans.capacity() > SPANS_MAX {
            return;
        }
        batch.clear();
        let mut kept = self.0.lock();
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

    /// Empties the pool.
    pub(super) fn clear(&self) {
        *self.0.lock() = KeptBatches::default();
    }
}

/// Returns the capacity of a batch, bytes.
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
        // Batches of large requests are evicted for one returned later.
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
        assert!(pool.0.lock().batches.is_empty());
        let large = || SpanBatch { arena: Vec::with_capacity(1 << 20), ..SpanBatch::default() };
        (0..100).for_each(|_| pool.give_back(large()));
        let held =
            |kept: parking_lot::MutexGuard<'_, KeptBatches>| (kept.batches.len(), kept.bytes);
        assert_eq!(held(pool.0.lock()), (4, POOL_BYTES_MAX));
        (0..8).for_each(|_| drop(pool.take(usize::MAX)));
        assert_eq!(pool.0.lock().bytes, 0);
        (0..100).for_each(|_| pool.give_back(SpanBatch::default()));
        assert_eq!(pool.0.lock().batches.len(), BATCHES_MAX);
        pool.clear();
        assert!(pool.0.lock().batches.is_empty());
    }
}
