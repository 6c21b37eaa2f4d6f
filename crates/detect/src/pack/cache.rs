//! Per-thread cache of scans: several evaluators of one text scan it once.
//!
//! Evaluators of one trajectory run in sequence on one thread. The key of a scan is its pack and
//! two seeded hashes of the text, 128 bits in all; the text is not stored. Bounded: [`SLOTS`] scans
//! per thread.

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use super::{Pack, Scan};

const SLOTS: usize = 16;

struct CacheSlot {
    pack: Weak<Pack>,
    key: (u64, u64, usize),
    scan: Arc<Scan>,
}

struct Cache {
    hashers: (hashbrown::DefaultHashBuilder, hashbrown::DefaultHashBuilder),
    slots: [Option<CacheSlot>; SLOTS],
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::new(Cache {
        hashers: Default::default(),
        slots: Default::default(),
    });
}

/// Returns the cached scan of `text` by `pack` on this thread, or makes one.
pub(super) fn get(pack: &Arc<Pack>, text: &str, make: impl FnOnce() -> Scan) -> Arc<Scan> {
    CACHE.with_borrow_mut(|cache| {
        let key = (cache.hashers.0.hash_one(text), cache.hashers.1.hash_one(text), text.len());
        let slot = &mut cache.slots[key.0 as usize % SLOTS];
        if let Some(found) = slot
            && found.key == key
            && std::ptr::eq(found.pack.as_ptr(), Arc::as_ptr(pack))
        {
            return Arc::clone(&found.scan);
        }
        let scan = Arc::new(make());
        if scan.cut {
            // Not cached, since a caller with more steps may finish it.
            return scan;
        }
        *slot = Some(CacheSlot { pack: Arc::downgrade(pack), key, scan: Arc::clone(&scan) });
        scan
    })
}
