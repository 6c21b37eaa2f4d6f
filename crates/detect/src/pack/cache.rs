//! Per-thread cache of scans: several evaluators that look at one text scan it once.
//!
//! Evaluators of one trajectory run one after another on one thread. A scan is found again by its
//! pack and by two seeded hashes of the text, 128 bits in all; nothing of the text is stored.
//! Bounded: [`SLOTS`] scans a thread.

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

/// Returns the scan of `text` by `pack`, from this thread's cache or made now.
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
            // Not cached: a caller with more steps may come to the end.
            return scan;
        }
        *slot = Some(CacheSlot { pack: Arc::downgrade(pack), key, scan: Arc::clone(&scan) });
        scan
    })
}
