//! Pool of lazy-DFA caches under one memory limit, which includes compiled expressions.
//!
//! A lazy DFA caches each state that a text reaches. There are hundreds of automata, and hostile
//! texts make some caches megabytes large. So all caches stay within the rest of one [share]. Each
//! automaton has a slot shared by all threads: a reader takes a cache, uses it alone, and returns
//! it. A text uses some fifty slots, so that may cost no more than the slot's lock: a taken cache
//! stays counted, and only its growth is charged to the share. If that does not fit, eviction
//! passes over the slots as a clock algorithm: a cache unused since the last pass is dropped, and
//! its states are computed again when needed.

use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use regex_automata::meta;

use crate::limits::RULES_BYTES_MAX;
use spanscore_base::model::MemoryQuota;

static SHARE: LazyLock<Arc<MemoryQuota>> =
    LazyLock::new(|| MemoryQuota::new("rules", RULES_BYTES_MAX));
static NOTES: LazyLock<Arc<DfaCachePool>> = LazyLock::new(|| DfaCachePool::new(share()));

/// Returns the memory share of the process for compiled expressions and their caches.
pub(crate) fn share() -> Arc<MemoryQuota> {
    Arc::clone(&SHARE)
}

/// Bytes of a compiled expression, counted until dropped.
pub(crate) struct CompiledBytes(usize);

impl CompiledBytes {
    pub(crate) fn new(bytes: usize) -> Self {
        SHARE.take(bytes);
        Self(bytes)
    }
}

impl Drop for CompiledBytes {
    fn drop(&mut self) {
        SHARE.give_back(self.0);
    }
}

/// Lazy-DFA cache of one automaton.
pub(crate) trait CountedCache {
    /// Returns its size in bytes.
    fn bytes(&self) -> usize;
}

impl CountedCache for meta::Cache {
    fn bytes(&self) -> usize {
        self.memory_usage()
    }
}

/// Pool of the unused caches of one automaton: several after concurrent use by several threads.
pub(crate) struct DfaCacheSlot<N: CountedCache + Send + 'static>(Arc<AutomatonPlace<N>>);

struct AutomatonPlace<N> {
    lying: Mutex<Vec<PooledCache<N>>>,
    all: Arc<DfaCachePool>,
}

struct PooledCache<N> {
    notes: Box<N>,
    bytes: usize,
    /// True if unused since the last pass of eviction.
    is_idle: bool,
}

/// Cache in use by a reader, with its counted bytes.
pub(crate) struct BorrowedCache<N> {
    pub(crate) notes: Box<N>,
    counted: usize,
}

impl<N: CountedCache + Send> DfaCacheSlot<N> {
    /// Adds an empty pool for another automaton.
    pub(crate) fn new() -> Self {
        Self::within(&NOTES)
    }

    fn within(all: &Arc<DfaCachePool>) -> Self {
        let place = Arc::new(AutomatonPlace { lying: Mutex::default(), all: Arc::clone(all) });
        all.enter(Arc::downgrade(&place) as Weak<dyn Forgetful + Send + Sync>);
        Self(place)
    }

    /// Takes a cache from the pool, or makes one.
    pub(crate) fn take(&self, new: impl FnOnce() -> N) -> BorrowedCache<N> {
        match self.0.lying.lock().pop() {
            Some(PooledCache { notes, bytes, .. }) => BorrowedCache { notes, counted: bytes },
            None => BorrowedCache { notes: Box::new(new()), counted: 0 },
        }
    }

    /// Returns a cache to the pool if the share has room for its growth, else drops it.
    pub(crate) fn keep(&self, BorrowedCache { notes, counted }: BorrowedCache<N>) {
        let bytes = notes.bytes();
        let all = &self.0.all;
        if all.makes_room(bytes.saturating_sub(counted)) {
            all.share.give_back(counted.saturating_sub(bytes));
            self.0.lying.lock().push(PooledCache { notes, bytes, is_idle: false });
        } else {
            all.share.give_back(counted);
            all.share.count_forgotten(1);
        }
    }
}

impl<N> Drop for AutomatonPlace<N> {
    fn drop(&mut self) {
        self.all.share.give_back(self.lying.lock().iter().map(|notes| notes.bytes).sum());
    }
}

/// Pool whose caches can be evicted.
trait Forgetful {
    /// Evicts idle caches, or all; marks the others as idle until their next use. Returns the
    /// number of evicted ones, and their bytes.
    fn forget(&self, all: bool) -> (usize, usize);
}

impl<N> Forgetful for AutomatonPlace<N> {
    fn forget(&self, all: bool) -> (usize, usize) {
        let mut lying = self.lying.lock();
        let is_idle =
            |notes: &mut PooledCache<N>| std::mem::replace(&mut notes.is_idle, true) || all;
        let forgotten: Vec<_> = lying.extract_if(.., is_idle).collect();
        drop(lying);
        (forgotten.len(), forgotten.iter().map(|notes| notes.bytes).sum())
    }
}

/// Pools of all automata within one share.
struct DfaCachePool {
    share: Arc<MemoryQuota>,
    places: Mutex<AutomatonPlaces>,
}

#[derive(Default)]
struct AutomatonPlaces {
    all: Vec<Weak<dyn Forgetful + Send + Sync>>,
    /// Index of the next pool for eviction: the clock's hand.
    next: usize,
    /// Number of pools that triggers the removal of dead ones: twice as many as were left last
    /// time, so that adding a pool has constant amortised cost.
    many: usize,
    /// Number of attempts refused without a pass: the last pass was in vain, and a pass per attempt
    /// would make each reader visit all pools.
    refused: usize,
}

impl DfaCachePool {
    fn new(share: Arc<MemoryQuota>) -> Arc<Self> {
        Arc::new(Self { share, places: Mutex::default() })
    }

    fn enter(&self, place: Weak<dyn Forgetful + Send + Sync>) {
        let mut places = self.places.lock();
        if places.all.len() >= places.many {
            places.all.retain(|place| place.strong_count() > 0);
            places.many = 64 + 2 * places.all.len();
        }
        places.all.push(place);
    }

    /// Reserves bytes of the share, evicting idle caches if need be; returns false if they do not
    /// suffice.
    fn makes_room(&self, bytes: usize) -> bool {
        if bytes == 0 || self.share.try_take(bytes) {
            return true;
        }
        let mut places = self.places.lock();
        if let Some(left) = places.refused.checked_sub(1) {
            places.refused = left;
            return false;
        }
        // Two passes: the first marks all caches as idle, the second evicts those unused meanwhile.
        for _ in 0..2 * places.all.len() {
            let next = places.next % places.all.len();
            places.next = next + 1;
            let Some(place) = places.all[next].upgrade() else { continue };
            let (forgotten, bytes_of_them) = place.forget(false);
            self.share.give_back(bytes_of_them);
            self.share.count_forgotten(forgotten);
            if forgotten > 0 && self.share.try_take(bytes) {
                return true;
            }
        }
        places.refused = places.all.len();
        false
    }

    /// Evicts all unused caches.
    fn forget(&self) {
        for place in self.places.lock().all.iter().filter_map(Weak::upgrade) {
            self.share.give_back(place.forget(true).1);
        }
    }
}

/// Evicts all caches, for an idle process.
pub(crate) fn forget() {
    NOTES.forget();
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Noted(usize);

    impl CountedCache for Noted {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    /// Returns pools within a share of this size.
    fn places(count: usize, bytes: usize) -> (Arc<MemoryQuota>, Vec<DfaCacheSlot<Noted>>) {
        let share = MemoryQuota::new("x", bytes);
        let all = DfaCachePool::new(Arc::clone(&share));
        (share, (0..count).map(|_| DfaCacheSlot::within(&all)).collect())
    }

    /// Uses a cache of a pool and grows it to at least this size; returns its earlier size.
    fn read(place: &DfaCacheSlot<Noted>, bytes: usize) -> usize {
        let mut taken = place.take(|| Noted(0));
        let before = taken.notes.0;
        taken.notes.0 = before.max(bytes);
        place.keep(taken);
        before
    }

    #[test]
    fn notes_stay_within_their_share_and_some_are_forgotten_for_others() {
        let (share, places) = places(4, 100);
        for (place, held) in places.iter().zip([30, 60, 90]) {
            assert_eq!((read(place, 30), share.held()), (0, held));
        }
        assert_eq!((read(&places[1], 40), share.held()), (30, 100), "what was added is counted");
        assert_eq!((read(&places[3], 30), share.held(), share.forgotten()), (0, 100, 1));
        assert_eq!([0, 1, 2, 3].map(|place| read(&places[place], 0)), [0, 40, 30, 30]);
        drop(places);
        assert_eq!(share.held(), 0, "gone with their automata");
    }

    #[test]
    fn several_read_with_one_automaton_at_once() {
        let (share, places) = places(1, 100);
        let mut one = places[0].take(|| Noted(0));
        let mut other = places[0].take(|| Noted(0));
        (one.notes.0, other.notes.0) = (10, 20);
        places[0].keep(one);
        places[0].keep(other);
        assert_eq!(share.held(), 30);
        let taken = [0, 0].map(|_| places[0].take(|| Noted(0)));
        assert_eq!((taken.each_ref().map(|taken| taken.notes.0), share.held()), ([20, 10], 30));
    }

    #[test]
    fn notes_that_are_read_with_outlive_those_that_are_not() {
        let (share, places) = places(80, 80);
        for place in &places[..8] {
            read(place, 10);
        }
        for place in &places[8..] {
            read(place, 10);
            for often in [3, 5] {
                assert_eq!(read(&places[often], 10), 10);
            }
        }
        assert_eq!((share.held(), share.forgotten()), (80, 72));
    }

    #[test]
    fn notes_that_never_fit_are_not_kept() {
        let (share, places) = places(1, 99);
        read(&places[0], 100);
        assert_eq!((read(&places[0], 0), share.held(), share.forgotten()), (0, 0, 1));
        read(&places[0], 60);
        read(&places[0], 100);
        assert_eq!((share.held(), share.forgotten()), (0, 2), "what was counted is given back");
    }

    #[test]
    fn places_of_automata_that_are_gone_are_taken_out() {
        let all = DfaCachePool::new(MemoryQuota::new("x", 100));
        for _ in 0..1_000 {
            DfaCacheSlot::<Noted>::within(&all);
        }
        assert!(all.places.lock().all.len() <= 64);
    }

    #[test]
    fn all_notes_are_forgotten_when_there_is_nothing_to_read() {
        let (share, places) = places(3, 100);
        places.iter().for_each(|place| {
            read(place, 10);
        });
        places[0].0.all.forget();
        assert_eq!((share.held(), share.forgotten(), read(&places[1], 0)), (0, 0, 0));
    }
}
