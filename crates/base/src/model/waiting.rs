//! Bounded occupancy of a queue: a count and bytes, with a limit each, and shares of the senders.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memory::MemoryQuota;
use super::{Sender, SenderShares};

/// Occupancy of a queue now, and its limits.
#[derive(Debug)]
pub struct WaitingRoom {
    count: Arc<MemoryQuota>,
    bytes: Arc<MemoryQuota>,
    by_sender: Mutex<WaitingShares>,
}

/// Count and bytes of the places of senders.
#[derive(Debug, Default)]
struct WaitingShares {
    count: SenderShares,
    bytes: SenderShares,
}

impl WaitingRoom {
    /// Returns an empty queue's occupancy with these limits.
    pub fn new(count_max: usize, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            count: MemoryQuota::new("waiting count", count_max),
            bytes: MemoryQuota::new("waiting bytes", bytes_max),
            by_sender: Mutex::default(),
        })
    }

    /// Changes the limits; what waits already stays.
    pub fn resize(&self, count_max: usize, bytes_max: usize) {
        self.count.resize(count_max);
        self.bytes.resize(bytes_max);
    }

    /// Takes a place for a sender; `None` if there is no room, or the sender has its part already
    /// ([`SenderShares::has_room`]).
    pub fn enter(self: &Arc<Self>, sender: Sender, bytes: usize) -> Option<WaitingPlace> {
        let mut shares = self.lock();
        let fits = shares.count.has_room(&self.count, sender, 1)
            && shares.bytes.take(&self.bytes, sender, bytes);
        fits.then(|| {
            self.count.take(1);
            shares.count.add(sender, 1);
            WaitingPlace { room: Arc::clone(self), sender, bytes }
        })
    }

    fn lock(&self) -> MutexGuard<'_, WaitingShares> {
        self.by_sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns count and bytes of the occupied places.
    pub fn now(&self) -> (usize, usize) {
        (self.count.held(), self.bytes.held())
    }
}

/// Place in a queue, given back on drop.
#[derive(Debug)]
pub struct WaitingPlace {
    room: Arc<WaitingRoom>,
    sender: Sender,
    bytes: usize,
}

impl WaitingPlace {
    /// Returns the sender that has it.
    pub fn sender(&self) -> Sender {
        self.sender
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut shares = self.room.lock();
        shares.count.give_back(&self.room.count, self.sender, 1);
        shares.bytes.give_back(&self.room.bytes, self.sender, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(peer: u32) -> Sender {
        Sender { peer, ..Sender::default() }
    }

    #[test]
    fn places_are_limited_and_given_back() {
        let room = WaitingRoom::new(2, 10);
        let one = room.enter(sender(1), 6);
        assert!(one.is_some() && room.enter(sender(2), 6).is_none(), "too many bytes");
        let two = room.enter(sender(2), 4);
        assert!(two.is_some() && room.enter(sender(3), 0).is_none(), "too many");
        room.resize(3, 10);
        assert!(room.enter(sender(3), 0).is_some(), "one more may wait now");
        drop((one, two));
        assert_eq!(room.now(), (0, 0));
    }

    #[test]
    fn peer_that_fills_the_queue_leaves_room_for_others() {
        for (bytes, expected) in [(1, 80), (100, 8)] {
            let room = WaitingRoom::new(100, 1000);
            let connections = (1..=200).map(|connection| Sender { connection, ..sender(1) });
            let flood: Vec<_> = connections.filter_map(|it| room.enter(it, bytes)).collect();
            assert_eq!(flood.len(), expected);
            let others: Vec<_> = (2..).map_while(|it| room.enter(sender(it), bytes)).collect();
            assert_eq!(others.len(), expected / 4);
        }
    }
}
