//! Judgements of forgotten traces, so that later parts revise them. A run may pause for longer than
//! a trace is remembered (a slow model, a person's approval), or the trace may be evicted before.
//!
//! Entries are small, so that hours of them fit. Eviction takes the oldest of the peer with most
//! entries, so a flood displaces itself.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use spanscore_base::model::TraceId;

/// Time for which a judgement is known, seconds.
const KNOWN_SECS: u32 = 6 * 60 * 60;
/// Number of entries allowed under any limit.
const COUNT_MIN: usize = 64;
/// Inverse of their share of the byte limit of traces.
const BYTES_SHARE: usize = 16;
/// Bytes of an entry in the table, at 7/16 to 7/8 occupancy.
const ENTRY_BYTES: usize = size_of::<ForgottenTrace>() + 12;
/// Bytes of a peer: its list, and its entries by key and by size.
const PEER_BYTES: usize = 160;
/// Entries allocated together: a doubling vector would waste as many again.
const CHUNK: usize = 256;
const NONE: u32 = u32::MAX;

const _: () = assert!(ENTRY_BYTES <= 64, "hours of judged traces must fit");

/// Forgotten trace.
#[derive(Clone, Copy, Default)]
struct ForgottenTrace {
    /// Hash of its id: two of a million collide once in ten million cases.
    id: [u32; 2],
    /// Digest of its last judgement.
    digest: [u32; 4],
    /// Number of its judgements.
    count: u32,
    peer: u32,
    /// Second of its removal.
    at_s: u32,
    /// Entries of its peer before and after it.
    before: u32,
    after: u32,
}

/// Entries of one peer, oldest first.
#[derive(Clone, Copy)]
struct PeerList {
    first: u32,
    last: u32,
    count: usize,
}

/// Number of judgements and last digest, by trace.
#[derive(Default)]
pub(super) struct ForgottenTraces {
    hasher: DefaultHashBuilder,
    chunks: Vec<Box<[ForgottenTrace]>>,
    free: Vec<u32>,
    places: HashTable<u32>,
    by_peer: HashMap<u32, PeerList>,
    /// Peers by the number of their traces.
    sizes: BTreeSet<(usize, u32)>,
    count_max: usize,
    /// Number evicted by others of their peer since the last call.
    lost: u64,
}

impl ForgottenTraces {
    /// Returns a store for this many traces, within its share of the bytes.
    pub(super) fn new(count_max: usize, bytes_max: usize) -> Self {
        let mut own = Self::default();
        own.limit(count_max, bytes_max);
        own
    }

    /// Changes the limits; traces beyond them are removed.
    pub(super) fn limit(&mut self, count_max: usize, bytes_max: usize) {
        self.count_max = count_max.min(bytes_max / BYTES_SHARE / ENTRY_BYTES).max(COUNT_MIN);
        self.make_room();
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.places.len() * ENTRY_BYTES + self.by_peer.len() * PEER_BYTES
    }

    /// Returns the number of early removals since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Records the judgements of a peer's trace.
    pub(super) fn add(
        &mut self,
        trace_id: TraceId,
        peer: u32,
        (count, digest): (u32, u128),
        now_ms: u64,
    ) {
        self.take(trace_id, now_ms);
        let hash = self.hasher.hash_one(trace_id);
        let at_s = seconds(now_ms);
        self.expire(peer, at_s);
        let id = halves(hash);
        let digest = quarters(digest);
        let entry = ForgottenTrace { id, digest, count, peer, at_s, before: NONE, after: NONE };
        let at = self.put(entry);
        let Self { places, chunks, .. } = self;
        places.insert_unique(hash, at, |at| whole(entry_at(chunks, *at).id));
        self.append(peer, at);
        self.make_room();
    }

    /// Removes the oldest entries of the largest peers until the limit holds.
    fn make_room(&mut self) {
        while self.places.len() > self.count_max
            && let Some(&(_, largest)) = self.sizes.last()
            && let Some(list) = self.by_peer.get(&largest)
        {
            self.remove(list.first);
            self.lost += 1;
        }
    }

    /// Takes the judgements of a trace with a new part.
    pub(super) fn take(&mut self, trace_id: TraceId, now_ms: u64) -> Option<(u32, u128)> {
        if self.places.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(trace_id);
        let at = *self.places.find(hash, |at| whole(entry_at(&self.chunks, *at).id) == hash)?;
        let ForgottenTrace { count, digest, at_s, .. } = entry_at(&self.chunks, at);
        self.remove(at);
        let is_known = seconds(now_ms).saturating_sub(at_s) <= KNOWN_SECS;
        is_known.then(|| (count, joined(digest)))
    }

    /// Removes a peer's expired entries.
    fn expire(&mut self, peer: u32, now_s: u32) {
        while let Some(list) = self.by_peer.get(&peer) {
            let first = list.first;
            if now_s.saturating_sub(entry_at(&self.chunks, first).at_s) <= KNOWN_SECS {
                return;
            }
            self.remove(first);
        }
    }

    /// Stores an entry; returns its index.
    fn put(&mut self, entry: ForgottenTrace) -> u32 {
        if self.free.is_empty() {
            let first = (self.chunks.len() * CHUNK) as u32;
            self.chunks.push(vec![ForgottenTrace::default(); CHUNK].into());
            self.free.extend((first..first + CHUNK as u32).rev());
        }
        let at = self.free.pop().unwrap_or(NONE);
        self.change_entry(at, |stored| *stored = entry);
        at
    }

    /// Appends an entry to its peer's list.
    fn append(&mut self, peer: u32, at: u32) {
        let list = self.by_peer.get(&peer).copied();
        let PeerList { first, last, count } =
            list.unwrap_or(PeerList { first: at, last: NONE, count: 0 });
        self.change_entry(at, |entry| entry.before = last);
        self.change_entry(last, |entry| entry.after = at);
        self.set_list(peer, PeerList { first, last: at, count: count + 1 }, count);
    }

    fn remove(&mut self, at: u32) {
        let ForgottenTrace { id, peer, before, after, .. } = entry_at(&self.chunks, at);
        let hash = whole(id);
        if let Ok(found) = self.places.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        self.change_entry(before, |entry| entry.after = after);
        self.change_entry(after, |entry| entry.before = before);
        if let Some(&list) = self.by_peer.get(&peer) {
            let first = if list.first == at { after } else { list.first };
            let last = if list.last == at { before } else { list.last };
            self.set_list(peer, PeerList { first, last, count: list.count - 1 }, list.count);
        }
        self.free.push(at);
        if self.places.is_empty() {
            self.chunks.clear();
            self.free.clear();
        }
    }

    fn set_list(&mut self, peer: u32, list: PeerList, before: usize) {
        self.sizes.remove(&(before, peer));
        if list.count == 0 {
            self.by_peer.remove(&peer);
        } else {
            self.sizes.insert((list.count, peer));
            self.by_peer.insert(peer, list);
        }
    }

    fn change_entry(&mut self, at: u32, change: impl FnOnce(&mut ForgottenTrace)) {
        let chunk = self.chunks.get_mut(at as usize / CHUNK);
        if let Some(entry) = chunk.and_then(|chunk| chunk.get_mut(at as usize % CHUNK)) {
            change(entry);
        }
    }
}

fn entry_at(chunks: &[Box<[ForgottenTrace]>], at: u32) -> ForgottenTrace {
    let chunk = chunks.get(at as usize / CHUNK);
    chunk.and_then(|chunk| chunk.get(at as usize % CHUNK)).copied().unwrap_or_default()
}

fn seconds(ms: u64) -> u32 {
    (ms / 1000) as u32
}

fn halves(hash: u64) -> [u32; 2] {
    [(hash >> 32) as u32, hash as u32]
}

fn whole([high, low]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn quarters(digest: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (digest >> shift) as u32)
}

fn joined(digest: [u32; 4]) -> u128 {
    digest.iter().fold(0, |all, part| all << 32 | u128::from(*part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> TraceId {
        TraceId(u128::from(number).to_be_bytes())
    }

    #[test]
    fn flood_of_a_peer_takes_the_place_of_itself_and_what_came_back_holds_none() {
        let digest = u128::MAX - 6;
        let mut forgotten_traces = ForgottenTraces::new(0, 0);
        for number in 0..20 {
            forgotten_traces.add(id(number), 1, (number, digest), 0);
        }
        for number in 1000..3000 {
            forgotten_traces.add(id(number), 2, (1, digest), 0);
            // A trace that returns and is removed again is known by its last removal.
            assert_eq!(forgotten_traces.take(id(19), 0), Some((19, digest)));
            forgotten_traces.add(id(19), 1, (19, digest), 0);
        }
        let sizes: usize = forgotten_traces.sizes.iter().map(|(size, _)| size).sum();
        let listed: usize = forgotten_traces.by_peer.values().map(|list| list.count).sum();
        assert_eq!(
            (forgotten_traces.places.len(), sizes, listed),
            (COUNT_MIN, COUNT_MIN, COUNT_MIN)
        );
        assert_eq!(forgotten_traces.take_lost(), 2000 - (COUNT_MIN as u64 - 20));
        for number in (0..20).chain(2956..3000) {
            assert!(forgotten_traces.take(id(number), 0).is_some(), "{number}");
        }
        assert_eq!((forgotten_traces.take(id(2955), 0), forgotten_traces.bytes()), (None, 0));
    }

    #[test]
    fn lower_limit_takes_the_oldest_at_once_and_a_higher_one_makes_room() {
        let mut forgotten_traces = ForgottenTraces::new(100, 1 << 30);
        (0..100).for_each(|number| forgotten_traces.add(id(number), 1, (1, 7), 0));
        forgotten_traces.limit(80, 1 << 30);
        assert_eq!((forgotten_traces.places.len(), forgotten_traces.take_lost()), (80, 20));
        assert_eq!(forgotten_traces.take(id(19), 0), None);
        forgotten_traces.limit(200, 1 << 30);
        (100..200).for_each(|number| forgotten_traces.add(id(number), 1, (1, 7), 0));
        assert_eq!((forgotten_traces.places.len(), forgotten_traces.take_lost()), (180, 0));
    }

    #[test]
    fn judged_trace_is_known_for_six_hours() {
        let mut forgotten_traces = ForgottenTraces::new(1000, 1 << 30);
        let hours = |hours: u64| hours * 60 * 60 * 1000;
        forgotten_traces.add(id(1), 1, (1, 7), 0);
        forgotten_traces.add(id(2), 1, (1, 7), 0);
        forgotten_traces.add(id(3), 1, (2, 8), hours(2));
        assert_eq!(forgotten_traces.take(id(1), hours(5)), Some((1, 7)));
        assert_eq!(forgotten_traces.take(id(3), hours(7)), Some((2, 8)));
        assert_eq!(forgotten_traces.take(id(2), hours(7)), None);
        forgotten_traces.add(id(4), 1, (1, 7), 0);
        forgotten_traces.add(id(5), 1, (1, 7), hours(8));
        assert_eq!(
            (forgotten_traces.places.len(), forgotten_traces.take(id(4), hours(8))),
            (1, None)
        );
    }
}
