//! Memory for reading traces: what a trace becomes while it is judged is larger than what is kept
//! of it, by a factor that its sender chooses.
//!
//! A large trace takes from `limits.judging_mib` before it is read, and waits for those of other
//! shards where they have it. A small one takes so little that nobody counts it.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{Share, TraceSpans};

/// Facts of a trace up to which nothing is taken.
const SMALL_BYTES: usize = 128 << 10;
/// Bytes for each byte of the facts: copies of texts, and what evaluators make of them.
const BYTES_PER_BYTE: usize = 6;
/// Bytes for each value of a list, a map or a printed object.
const BYTES_PER_VALUE: usize = 64;
/// How often a trace that waits for others looks again.
const LOOK: Duration = Duration::from_millis(1);

/// The memory that reading some traces takes, until dropped.
pub(super) struct ReadingMemory(Option<(Arc<Share>, usize)>);

impl Drop for ReadingMemory {
    fn drop(&mut self) {
        if let Some((share, bytes)) = &self.0 {
            share.give_back(*bytes);
        }
    }
}

/// Takes memory for reading some traces together; `None` where they alone may take more than there
/// is. Holds up this thread, while others have it; `waits` is called while it does.
pub(super) fn reserve<'a>(
    share: &Arc<Share>,
    traces: impl Iterator<Item = &'a TraceSpans> + Clone,
    waits: impl Fn(),
) -> Option<ReadingMemory> {
    if traces.clone().map(|trace| trace.arena.len()).sum::<usize>() <= SMALL_BYTES {
        return Some(ReadingMemory(None));
    }
    let bytes = traces.map(reading_bytes).sum();
    if bytes > share.limit() {
        return None;
    }
    while !share.try_take(bytes) {
        waits();
        std::thread::sleep(LOOK);
    }
    Some(ReadingMemory(Some((Arc::clone(share), bytes))))
}

/// Bytes that reading a trace takes, at most.
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
        let share = Share::new("judging", 100 << 20);
        let small = trace(SMALL_BYTES);
        let large = trace(1 << 20);
        let _small = reserve(&share, [&small].into_iter(), || {}).expect("room");
        assert_eq!(share.held(), 0);
        let held = reserve(&share, [&large].into_iter(), || {}).expect("room");
        assert_eq!(share.held(), (BYTES_PER_BYTE + BYTES_PER_VALUE) << 20);
        drop(held);
        assert_eq!(share.held(), 0);
        assert!(reserve(&share, [&large, &large].into_iter(), || {}).is_none());
    }

    #[test]
    fn large_traces_wait_for_each_other() {
        let share = Share::new("judging", 100 << 20);
        let held = std::cell::Cell::new(reserve(&share, [&trace(1 << 20)].into_iter(), || {}));
        let other = reserve(&share, [&trace(1 << 20)].into_iter(), || drop(held.take()));
        assert!(other.is_some());
    }
}
