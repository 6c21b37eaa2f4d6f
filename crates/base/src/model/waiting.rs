//! Bounded occupancy of a queue: a count and bytes, with a limit each, and shares of the senders.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::memory::MemoryQuota;

/// Accounts of senders; those that share one count as one.
const ACCOUNTS: usize = 256;

/// Count and bytes of the places of a sender.
#[derive(Debug, Default)]
struct Account {
    count: AtomicUsize,
    bytes: AtomicUsize,
}

/// Occupancy of a queue now, and its limits.
#[derive(Debug)]
pub struct WaitingRoom {
    count: Arc<MemoryQuota>,
    bytes: Arc<MemoryQuota>,
    by_sender: [Account; ACCOUNTS],
}

impl WaitingRoom {
    /// Returns an empty queue's occupancy with these limits.
    pub fn new(count_max: usize, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            count: MemoryQuota::new("waiting count", count_max),
            bytes: MemoryQuota::new("waiting bytes", bytes_max),
            by_sender: std::array::from_fn(|_| Account::default()),
        })
    }

    /// Changes the limits; what waits already stays.
    pub fn resize(&self, count_max: usize, bytes_max: usize) {
        self.count.resize(count_max);
        self.bytes.resize(bytes_max);
    }

    /// Takes a place for a sender, by its number; `None` if there is no room, or the sender has its
    /// part already ([`MemoryQuota::try_take_for`]).
    pub fn enter(self: &Arc<Self>, sender: usize, bytes: usize) -> Option<WaitingPlace> {
        let own = self.account(sender);
        if !self.count.try_take_for(&own.count, 1) {
            return None;
        }
        if !self.bytes.try_take_for(&own.bytes, bytes) {
            self.count.give_back_for(&own.count, 1);
            return None;
        }
        Some(WaitingPlace { room: Arc::clone(self), sender, bytes })
    }

    fn account(&self, sender: usize) -> &Account {
        &self.by_sender[sender % ACCOUNTS]
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
    sender: usize,
    bytes: usize,
}

impl WaitingPlace {
    /// Returns the number of the sender that has it.
    pub fn sender(&self) -> usize {
        self.sender
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let own = self.room.account(self.sender);
        self.room.count.give_back_for(&own.count, 1);
        self.room.bytes.give_back_for(&own.bytes, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sender_number;

    #[test]
    fn places_are_limited_and_given_back() {
        let room = WaitingRoom::new(2, 10);
        let one = room.enter(1, 6);
        assert!(one.is_some() && room.enter(2, 6).is_none(), "too many bytes");
        let two = room.enter(2, 4);
        assert!(two.is_some() && room.enter(3, 0).is_none(), "too many");
        room.resize(3, 10);
        assert!(room.enter(3, 0).is_some(), "one more may wait now");
        drop((one, two));
        assert_eq!(room.now(), (0, 0));
    }

    #[test]
    fn peers_have_accounts_of_their_own_whatever_their_connections_are() {
        for (one, other) in [((1, 0), (2, 0)), ((1, 7), (2, 7)), ((1, 7), (1, 8))] {
            let room = WaitingRoom::new(100, 1000);
            let enter = |sender| room.enter(sender_number(sender), 1);
            let flood: Vec<_> = std::iter::from_fn(|| enter(one)).collect();
            assert_eq!(flood.len(), 80);
            assert!(enter(one).is_none() && enter(other).is_some(), "{one:?}, {other:?}");
        }
    }

    #[test]
    fn sender_that_fills_the_queue_leaves_room_for_others() {
        for (bytes, expected) in [(1, 80), (100, 8)] {
            let room = WaitingRoom::new(100, 1000);
            let flood: Vec<_> = std::iter::from_fn(|| room.enter(1, bytes)).collect();
            assert_eq!(flood.len(), expected);
            let others: Vec<_> = (2..).map_while(|sender| room.enter(sender, bytes)).collect();
            assert_eq!(others.len(), expected / 4);
        }
    }
}
