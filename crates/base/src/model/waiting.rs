//! Bounded occupancy of a queue: a count and bytes, with a limit each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Occupancy of a queue now, and its limits.
#[derive(Debug)]
pub struct WaitingRoom {
    count: AtomicUsize,
    bytes: AtomicUsize,
    count_max: AtomicUsize,
    bytes_max: AtomicUsize,
}

impl WaitingRoom {
    /// Returns an empty queue's occupancy with these limits.
    pub fn new(count_max: usize, bytes_max: usize) -> Arc<Self> {
        let count = AtomicUsize::new(0);
        let bytes = AtomicUsize::new(0);
        Arc::new(Self { count, bytes, count_max: count_max.into(), bytes_max: bytes_max.into() })
    }

    /// Changes the limits; what waits already stays.
    pub fn resize(&self, count_max: usize, bytes_max: usize) {
        self.count_max.store(count_max, Ordering::Relaxed);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Takes a place; `None` if there is no room.
    pub fn enter(self: &Arc<Self>, bytes: usize) -> Option<WaitingPlace> {
        // Added first and compared then: two that enter at once see each other. A place that does
        // not fit gives back on drop.
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let place = WaitingPlace { room: Arc::clone(self), bytes };
        let fits = before < self.count_max.load(Ordering::Relaxed)
            && held.saturating_add(bytes) <= self.bytes_max.load(Ordering::Relaxed);
        fits.then_some(place)
    }

    /// Returns count and bytes of the occupied places.
    pub fn now(&self) -> (usize, usize) {
        (self.count.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Place in the queue, free again when this is dropped.
#[derive(Debug)]
pub struct WaitingPlace {
    room: Arc<WaitingRoom>,
    bytes: usize,
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.room.count.fetch_sub(1, Ordering::Relaxed);
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_given_back() {
        let room = WaitingRoom::new(2, 10);
        let one = room.enter(6);
        assert!(one.is_some() && room.enter(6).is_none(), "too many bytes");
        let two = room.enter(4);
        assert!(two.is_some() && room.enter(0).is_none(), "too many");
        room.resize(3, 10);
        assert!(room.enter(0).is_some(), "one more may wait now");
        drop((one, two));
        assert_eq!(room.now(), (0, 0));
    }
}
