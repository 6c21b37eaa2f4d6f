//! Memory quota for judging: a trace grows while it is read, by a factor under its sender's
//! control.
//!
//! A large trace takes from `limits.judging_mib` before it is read, and waits while other shards
//! hold it. Small ones are not counted.

use std::sync::Arc;
use std::time::Duration;

use spanscore_base::model::{MemoryQuota, TraceSpans};

/// Largest size of a trace's facts that needs no quota, bytes.
const SMALL_BYTES: usize = 128 << 10;
/// Quota for each byte of facts: copies of texts, and the work of evaluators.
const BYTES_PER_BYTE: usize = 6;
/// Quota for each value of a list, a map or a printed object.
const BYTES_PER_VALUE: usize = 64;
/// Polling interval while other shards hold the quota.
const LOOK: Duration = Duration::from_millis(1);

/// Quota for reading some traces, released on drop.
pub(super) struct ReadingMemory(Option<(Arc<MemoryQuota>, usize)>);

impl ReadingMemory {
    fn taken(share: &Arc<MemoryQuota>, bytes: usize) -> Self {
        Self((bytes > 0).then(|| (Arc::clone(share), bytes)))
    }
}

impl Drop for ReadingMemory {
    fn drop(&mut self) {
        if let Some((share, bytes)) = &self.0 {
            share.give_back(*bytes);
        }
    }
}

/// Takes the quota for reading some traces together, if possible without waiting.
pub(super) fn try_reserve<'a>(
    share: &Arc<MemoryQuota>,
    traces: impl Iterator<Item = &'a TraceSpans> + Clone,
) -> Option<ReadingMemory> {
    let bytes = bytes_needed(traces);
    (bytes == 0 || share.try_take(bytes)).then(|| ReadingMemory::taken(share, bytes))
}

/// Takes the quota for reading some traces together; `None` if they alone exceed the limit. Blocks
/// this thread while others hold it, and calls `waits` meanwhile.
pub(super) fn reserve<'a>(
    share: &Arc<MemoryQuota>,
    traces: impl Iterator<Item = &'a TraceSpans> + Clone,
    waits: impl Fn(),
) -> Option<ReadingMemory> {
    let bytes = bytes_needed(traces);
    while bytes <= share.limit() {
        if bytes == 0 || share.try_take(bytes) {
            return Some(ReadingMemory::taken(share, bytes));
        }
        waits();
        std::thread::sleep(LOOK);
    }
    None
}

/// Returns an upper bound for the bytes of reading some traces; 0 for small ones.
fn bytes_needed<'a>(traces: impl Iterator<Item = &'a TraceSpans> + Clone) -> usize {
    let is_small = traces.clone().map(|trace| trace.arena.len()).sum::<usize>() <= SMALL_BYTES;
    if is_small { 0 } else { traces.map(reading_bytes).sum() }
}

/// Returns an upper bound for the bytes of reading a trace.
fn reading_bytes(trace: &TraceSpans) -> usize {
    let signs = trace.signs();
    let values = signs.values + signs.fields;
    trace.arena.len() * BYTES_PER_BYTE + values * BYTES_PER_VALUE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(bytes: usize) -> TraceSpans {
        TraceSpans { arena: vec![b','; bytes], ..TraceSpans::default() }
    }

    #[test]
    fn small_traces_take_nothing_and_large_ones_what_their_values_need() {
        let share = MemoryQuota::new("judging", 100 << 20);
        let small = trace(SMALL_BYTES);
        let large = trace(1 << 20);
        let _small = reserve(&share, [&small].into_iter(), || {}).expect("room");
        assert_eq!(share.held(), 0);
        let held = reserve(&share, [&large].into_iter(), || {}).expect("room");
        assert_eq!(share.held(), (BYTES_PER_BYTE + BYTES_PER_VALUE) << 20);
        drop(held);
        assert_eq!(share.held(), 0);
        let most =
            std::iter::from_fn(|| try_reserve(&share, [&large].into_iter())).collect::<Vec<_>>();
        assert_eq!(most.len(), 100 / (BYTES_PER_BYTE + BYTES_PER_VALUE));
        assert!(try_reserve(&share, [&small].into_iter()).is_some());
        drop(most);
        assert!(reserve(&share, [&large, &large].into_iter(), || {}).is_none());
    }

    #[test]
    fn large_traces_wait_for_each_other() {
        let share = MemoryQuota::new("judging", 100 << 20);
        let held = std::cell::Cell::new(reserve(&share, [&trace(1 << 20)].into_iter(), || {}));
        let other = reserve(&share, [&trace(1 << 20)].into_iter(), || drop(held.take()));
        assert!(other.is_some());
    }
}
