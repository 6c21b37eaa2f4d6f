//! Bounded occupancy of a queue: count and bytes, each with a limit and with shares of the senders.

use std::sync::Arc;

use parking_lot::Mutex;

use super::memory::MemoryQuota;
use super::{Sender, SenderShares};

/// Occupancy of a queue and its limits.
#[derive(Debug)]
pub struct WaitingRoom {
    count: Arc<MemoryQuota>,
    bytes: Arc<MemoryQuota>,
    by_sender: Mutex<WaitingShares>,
}

/// Count and bytes held by senders.
#[derive(Debug, Default)]
struct WaitingShares {
    count: SenderShares,
    bytes: SenderShares,
}

impl WaitingRoom {
    /// Returns the occupancy of an empty queue with these limits.
    pub fn new(count_max: usize, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            count: MemoryQuota::new("waiting count", count_max),
            bytes: MemoryQuota::new("waiting bytes", bytes_max),
            by_sender: Mutex::default(),
        })
    }

    /// Changes the limits; queued items stay.
    pub fn resize(&self, count_max: usize, bytes_max: usize) {
        self.count.resize(count_max);
        self.bytes.resize(bytes_max);
    }

    /// Takes a place for a sender. Returns `None` without room, or if the sender has its share
    /// ([`SenderShares::has_room`]) and no other sender has more. If one has, the place exceeds the
    /// sender's share, and the largest holder makes room for it ([`WaitingPlace::displaces`]).
    pub fn enter(self: &Arc<Self>, sender: Sender, bytes: usize) -> Option<WaitingPlace> {
        let mut shares = self.by_sender.lock();
        let WaitingShares { count, bytes: of_bytes } = &mut *shares;
        let has_count = count.has_room(&self.count, sender, 1);
        let has_bytes = of_bytes.has_room(&self.bytes, sender, bytes);
        let may_enter = (has_count || count.richest(sender, 1).is_some())
            && (has_bytes || of_bytes.richest(sender, bytes).is_some());
        if !may_enter || !self.count.try_take(1) {
            return None;
        }
        if !self.bytes.try_take(bytes) {
            self.count.give_back(1);
            return None;
        }
        count.add(sender, 1);
        of_bytes.add(sender, bytes);
        let is_beyond = !has_count || !has_bytes;
        Some(WaitingPlace { room: Arc::clone(self), sender, bytes, is_beyond })
    }

    /// Returns count and bytes of the occupied places.
    pub fn now(&self) -> (usize, usize) {
        (self.count.held(), self.bytes.held())
    }
}

/// Place in a queue, released on drop.
#[derive(Debug)]
pub struct WaitingPlace {
    room: Arc<WaitingRoom>,
    sender: Sender,
    bytes: usize,
    is_beyond: bool,
}

impl WaitingPlace {
    /// Returns the largest holder while this place exceeds its sender's share.
    pub fn displaces(&self) -> Option<Sender> {
        if !self.is_beyond {
            return None;
        }
        let WaitingRoom { count, bytes, .. } = &*self.room;
        let mut shares = self.room.by_sender.lock();
        let WaitingShares { count: counts, bytes: of_bytes } = &mut *shares;
        let is_over = |shares: &SenderShares, quota| !shares.has_room(quota, self.sender, 0);
        let of_count = is_over(counts, count).then(|| counts.richest(self.sender, 0)).flatten();
        // No sender may have more places while one has more bytes.
        of_count.or_else(|| {
            is_over(of_bytes, bytes).then(|| of_bytes.richest(self.sender, 0)).flatten()
        })
    }

    /// Returns the sender that has it.
    pub fn sender(&self) -> Sender {
        self.sender
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut shares = self.room.by_sender.lock();
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
    fn smaller_holder_displaces_the_larger_one() {
        let room = WaitingRoom::new(100, 1000);
        // First one connection, then another of the same or another address.
        for second in [Sender { connection: 2, ..sender(1) }, sender(2)] {
            let first = Sender { connection: 1, ..sender(1) };
            let mut held: Vec<_> = (0..).map_while(|_| room.enter(first, 1)).collect();
            assert!(held.len() > 70 && room.enter(first, 1).is_none(), "it has most itself");
            let mut count = 0;
            while let Some(place) = room.enter(second, 1) {
                while place.displaces() == Some(first) {
                    held.remove(0);
                }
                held.push(place);
                count += 1;
            }
            let own = held.iter().filter(|place| place.sender() == first).count();
            assert!(own.abs_diff(count) <= 2 && own + count > 70, "{own} and {count}");
        }
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

    #[test]
    fn who_has_most_bytes_makes_room_where_nobody_has_more_in_number() {
        let room = WaitingRoom::new(1000, 1000);
        // One sender has more places, the other all of the bytes.
        let small: Vec<_> = (0..8).filter_map(|_| room.enter(sender(2), 0)).collect();
        let mut large: Vec<_> = (0..7).filter_map(|_| room.enter(sender(1), 100)).collect();
        assert_eq!((small.len(), large.len()), (8, 7));
        // Within its share of bytes no sender makes room for it; beyond it the largest holder does.
        let mut held = small;
        while let Some(place) = room.enter(sender(2), 100) {
            while place.displaces() == Some(sender(1)) {
                large.pop();
            }
            held.push(place);
        }
        let bytes: usize = held.iter().map(|place| place.bytes).sum();
        let of_large: usize = large.iter().map(|place| place.bytes).sum();
        assert!(bytes.abs_diff(of_large) <= 200 && bytes + of_large > 700, "{bytes}, {of_large}");
        drop((held, large));
        assert_eq!(room.now(), (0, 0));
    }
}
