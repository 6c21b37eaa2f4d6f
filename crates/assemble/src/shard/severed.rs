//! Traces that went to make room before their time was over: later parts of them are revisions.
//!
//! Room is made from the peer with most of them, its oldest first, so that a flood of one peer
//! takes the place of itself.

use std::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;

use spanscore_base::model::TraceId;

/// Part of the limit on traces that may be known so.
const SHARE: usize = 8;
/// As many may be known so under any limit.
const COUNT_MIN: usize = 64;
/// Bytes of one: an entry of a table at 7 of 16 to 7 of 8 slots, and one of a queue that doubles.
const SEVERED_BYTES: usize = 160;
/// Bytes of a peer with any: its queue, and its entries by key and by size.
const PEER_BYTES: usize = 192;

/// A trace that went.
struct Severed {
    /// Digest of its last judgement.
    digest: u128,
    /// Number of its judgements.
    count: u32,
    peer: u32,
    /// Number among all that ever went.
    number: u64,
}

/// Number of judgements and digest of the last, by trace.
#[derive(Default)]
pub(super) struct SeveredTraces {
    judged: HashMap<TraceId, Severed>,
    /// Traces of each peer by their numbers, oldest first.
    by_peer: HashMap<u32, VecDeque<(u64, TraceId)>>,
    /// Peers by the number of their traces.
    sizes: BTreeSet<(usize, u32)>,
    next: u64,
    count_max: usize,
}

impl SeveredTraces {
    /// Returns a memory beside so many traces.
    pub(super) fn new(trace_count_max: usize) -> Self {
        Self { count_max: (trace_count_max / SHARE).max(COUNT_MIN), ..Self::default() }
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.judged.len() * SEVERED_BYTES + self.by_peer.len() * PEER_BYTES
    }

    /// Remembers the judgements of a trace of a peer.
    pub(super) fn add(&mut self, trace_id: TraceId, peer: u32, (count, digest): (u32, u128)) {
        self.take(trace_id);
        let number = self.next;
        self.next += 1;
        self.judged.insert(trace_id, Severed { digest, count, peer, number });
        self.change(peer, |queue| queue.push_back((number, trace_id)));
        if self.judged.len() > self.count_max
            && let Some(&(_, largest)) = self.sizes.last()
        {
            let oldest = self.change(largest, VecDeque::pop_front);
            oldest.map(|(_, trace_id)| self.judged.remove(&trace_id));
        }
    }

    /// Returns the judgements of a trace of which a later part came, once.
    pub(super) fn take(&mut self, trace_id: TraceId) -> Option<(u32, u128)> {
        if self.judged.is_empty() {
            return None;
        }
        let Severed { digest, count, peer, number } = self.judged.remove(&trace_id)?;
        self.change(peer, |queue| {
            let at = queue.partition_point(|(other, _)| *other < number);
            queue.remove(at)
        });
        Some((count, digest))
    }

    /// Changes the traces of a peer.
    fn change<T>(
        &mut self,
        peer: u32,
        change: impl FnOnce(&mut VecDeque<(u64, TraceId)>) -> T,
    ) -> T {
        let queue = self.by_peer.entry(peer).or_default();
        let before = queue.len();
        let changed = change(queue);
        let after = queue.len();
        self.sizes.remove(&(before, peer));
        if after == 0 {
            self.by_peer.remove(&peer);
        } else {
            self.sizes.insert((after, peer));
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> TraceId {
        TraceId(u128::from(number).to_be_bytes())
    }

    #[test]
    fn flood_of_a_peer_takes_the_place_of_itself_and_what_came_back_holds_none() {
        let mut severed = SeveredTraces::new(0);
        for number in 0..20 {
            severed.add(id(number), 1, (number, 7));
        }
        for number in 1000..3000 {
            severed.add(id(number), 2, (1, 7));
            // One that comes back and goes again is known by its last going.
            assert_eq!(severed.take(id(19)), Some((19, 7)));
            severed.add(id(19), 1, (19, 7));
        }
        let sizes: usize = severed.sizes.iter().map(|(size, _)| size).sum();
        let queued: usize = severed.by_peer.values().map(VecDeque::len).sum();
        assert_eq!((severed.judged.len(), sizes, queued), (COUNT_MIN, COUNT_MIN, COUNT_MIN));
        for number in (0..20).chain(2956..3000) {
            assert!(severed.take(id(number)).is_some(), "{number}");
        }
        assert_eq!((severed.take(id(2955)), severed.bytes()), (None, 0));
    }
}
