//! How much waits on the lane: a count and bytes, with a limit each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::judge::settings::JudgingSettings;

/// What waits now.
#[derive(Debug)]
pub(in crate::judge) struct LaneLoad {
    inquiries: AtomicUsize,
    bytes: AtomicUsize,
    inquiries_max: AtomicUsize,
    bytes_max: AtomicUsize,
}

impl LaneLoad {
    /// Nothing waits, and no more than the limits may.
    pub(in crate::judge) fn limited(settings: &JudgingSettings) -> Arc<Self> {
        let bytes = (settings.waiting_mib as usize) << 20;
        Arc::new(Self::new(settings.waiting_max as usize, bytes))
    }

    /// Whoever hands over holds all of it anyway.
    pub(in crate::judge) fn unlimited() -> Arc<Self> {
        Arc::new(Self::new(usize::MAX, usize::MAX))
    }

    fn new(inquiries_max: usize, bytes_max: usize) -> Self {
        let (inquiries, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { inquiries, bytes, inquiries_max: inquiries_max.into(), bytes_max: bytes_max.into() }
    }

    /// No more than these limits may wait from now on; what waits already stays.
    pub(in crate::judge) fn resize(&self, settings: &JudgingSettings) {
        self.inquiries_max.store(settings.waiting_max as usize, Ordering::Relaxed);
        self.bytes_max.store((settings.waiting_mib as usize) << 20, Ordering::Relaxed);
    }

    /// A place for one more; `None` where there is no room.
    pub(in crate::judge) fn take(self: &Arc<Self>, bytes: usize) -> Option<LanePlace> {
        let before = self.inquiries.fetch_add(1, Ordering::Relaxed);
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let place = LanePlace { load: Arc::clone(self), bytes };
        let fits = before < self.inquiries_max.load(Ordering::Relaxed)
            && held.saturating_add(bytes) <= self.bytes_max.load(Ordering::Relaxed);
        fits.then_some(place)
    }

    /// Inquiries that wait, and their bytes.
    pub(in crate::judge) fn now(&self) -> (usize, usize) {
        (self.inquiries.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// A place on the lane, free again when this is dropped.
#[derive(Debug)]
pub(in crate::judge) struct LanePlace {
    load: Arc<LaneLoad>,
    bytes: usize,
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        self.load.inquiries.fetch_sub(1, Ordering::Relaxed);
        self.load.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_given_back() {
        let load = Arc::new(LaneLoad::new(2, 10));
        let one = load.take(6);
        assert!(one.is_some() && load.take(6).is_none(), "too many bytes");
        let two = load.take(4);
        assert!(two.is_some() && load.take(0).is_none(), "too many");
        drop((one, two));
        assert_eq!(load.now(), (0, 0));
    }
}
