//! Self-clocked fair queue: among senders the one goes first that was served least.
//!
//! The algorithm is Golestani's ("A self-clocked fair queueing scheme for broadband applications",
//! 1994). An item gets a finish tag: its cost past the tag of its sender's last one, or past the
//! virtual time, if that is later. The lowest tag is served first, and becomes the virtual time. A
//! sender without items here is forgotten, so nobody saves up credit.
//!
//! Finish tags are compared, not start tags, because of floods that open a connection for each
//! request: each of those is a new sender, and would start now, before the second request of a
//! sender that waits. Behind two connections of expensive traces 66 of 173 small requests came in
//! time by start tags, and all of them by finish tags.
//!
//! In a queue without room the item with the highest tag is the one to go: the last of whoever has
//! most waiting.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::span::fingerprint;

/// Peer and connection of a sender, for which shares are counted.
pub type SenderKey = (u32, u32);

/// Returns the number of a sender, every bit of which depends on both its peer and connection.
pub fn sender_number((peer, connection): SenderKey) -> usize {
    let both = u64::from(peer) << 32 | u64::from(connection);
    fingerprint(&both.to_be_bytes()) as usize
}

/// Self-clocked fair queue.
#[derive(Debug)]
pub struct FairLine<T> {
    /// Items by finish tag, then by arrival, with their senders.
    waiting: BTreeMap<(u64, i64), LineItem<T>>,
    senders: HashMap<usize, SenderInLine>,
    now: u64,
    came: i64,
}

/// Waiting item of a sender.
#[derive(Debug)]
struct LineItem<T> {
    sender: usize,
    cost: u64,
    what: T,
}

/// Waiting items of one sender with their cost, and the finish tag of its last.
#[derive(Debug, Default)]
struct SenderInLine {
    count: usize,
    cost: u64,
    end: u64,
}

impl<T> Default for FairLine<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), senders: HashMap::new(), now: 0, came: 0 }
    }
}

impl<T> FairLine<T> {
    /// Adds an item of a sender.
    pub fn put(&mut self, sender: usize, cost: usize, what: T) {
        let cost = cost as u64;
        let own = self.senders.entry(sender).or_default();
        own.end = own.end.max(self.now).saturating_add(cost);
        own.count += 1;
        own.cost = own.cost.saturating_add(cost);
        self.came += 1;
        self.waiting.insert((own.end, self.came), LineItem { sender, cost, what });
    }

    /// Adds an item of a sender in front of all others, as it was taken before.
    pub fn put_first(&mut self, sender: usize, what: T) {
        self.senders.entry(sender).or_default().count += 1;
        self.came += 1;
        self.waiting.insert((0, -self.came), LineItem { sender, cost: 0, what });
    }

    /// Takes the next item.
    pub fn take(&mut self) -> Option<T> {
        self.take_unless(|_| false)
    }

    /// Takes the next item that is not held; held ones keep their places.
    pub fn take_unless(&mut self, is_held: impl Fn(&T) -> bool) -> Option<T> {
        let mut items = self.waiting.iter();
        let place = *items.find(|(_, item)| !is_held(&item.what))?.0;
        // Past items that are held it stays where it was when they come.
        self.now = self.now.max(place.0);
        self.remove(place)
    }

    /// Returns the items in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.values().map(|item| &item.what)
    }

    /// Makes room for an item that a sender would put, if what may go and comes behind it has so
    /// much as is lacking: takes the last of whoever has most waiting. Else nothing is taken.
    pub fn displace(
        &mut self,
        (sender, cost): (usize, usize),
        lacking: usize,
        may_go: impl Fn(&T) -> bool,
    ) -> Vec<T> {
        let tag = self.now.saturating_add(self.backlog(sender)).saturating_add(cost as u64);
        let Some(first) = tag.checked_add(1) else { return Vec::new() };
        let behind = self.waiting.range((first, i64::MIN)..).rev();
        let mut found = 0;
        let mut places = Vec::new();
        for (place, item) in behind.filter(|(_, item)| may_go(&item.what)) {
            found += item.cost;
            places.push(*place);
            if found >= lacking as u64 {
                return places.into_iter().filter_map(|place| self.take_back(place)).collect();
            }
        }
        Vec::new()
    }

    /// Removes an item as if its sender had not put it, where it is the sender's last.
    fn take_back(&mut self, place: (u64, i64)) -> Option<T> {
        let LineItem { sender, cost, .. } = self.waiting.get(&place)?;
        if let Some(own) = self.senders.get_mut(sender).filter(|own| own.end == place.0) {
            own.end -= cost;
        }
        self.remove(place)
    }

    fn remove(&mut self, place: (u64, i64)) -> Option<T> {
        let LineItem { sender, cost, what } = self.waiting.remove(&place)?;
        let own = self.senders.get_mut(&sender)?;
        own.count -= 1;
        own.cost = own.cost.saturating_sub(cost);
        if own.count == 0 {
            self.senders.remove(&sender);
        }
        Some(what)
    }

    /// Removes all items but those to be kept, which keep their places.
    pub fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        let gone = self.waiting.iter().filter(|(_, item)| !is_kept(&item.what));
        let gone: Vec<_> = gone.map(|(place, _)| *place).collect();
        gone.into_iter().for_each(|place| drop(self.remove(place)));
    }

    /// Returns the cost of what a sender has waiting; nothing for what was put first.
    pub fn backlog(&self, sender: usize) -> u64 {
        self.senders.get(&sender).map_or(0, |own| own.cost)
    }

    /// Returns the cost of what the sender has waiting that is last, and so has most, about.
    pub fn backlog_max(&self) -> u64 {
        self.waiting.last_key_value().map_or(0, |(_, item)| self.backlog(item.sender))
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn item_that_is_held_keeps_its_place_and_others_go_on() {
        let mut line = FairLine::default();
        (0..3).for_each(|number| line.put(1, 10, (1, number)));
        (0..2).for_each(|number| line.put(2, 100, (2, number)));
        assert_eq!(line.take_unless(|item| item.0 == 1), Some((2, 0)));
        assert_eq!(line.take_unless(|_| true), None);
        assert_eq!(taken(&mut line), [(1, 0), (1, 1), (1, 2), (2, 1)]);
    }

    #[test]
    fn item_that_comes_back_is_the_first_and_those_of_its_sender_keep_their_places() {
        let mut line = FairLine::default();
        (0..3).for_each(|number| line.put(1, 10, (1, number)));
        line.put(2, 10, (2, 0));
        let back = [line.take(), line.take()].map(Option::unwrap);
        back.iter().rev().for_each(|item| line.put_first(item.0, *item));
        assert!(line.iter().eq(&[(1, 0), (2, 0), (1, 1), (1, 2)]));
        line.put(2, 10, (2, 1));
        assert_eq!(taken(&mut line), [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]);
        assert!(line.senders.is_empty());
    }

    fn taken<T>(line: &mut FairLine<T>) -> Vec<T> {
        std::iter::from_fn(|| line.take()).collect()
    }

    #[test]
    fn sender_with_little_waits_for_one_request_of_a_flood_and_not_for_all() {
        let mut line = FairLine::default();
        (0..50).for_each(|number| line.put(1, 400_000, ("flood", number)));
        assert_eq!(line.take(), Some(("flood", 0)));
        (0..3).for_each(|number| line.put(2, 2_000, ("quiet", number)));
        let order = taken(&mut line);
        assert_eq!(order[..3], [("quiet", 0), ("quiet", 1), ("quiet", 2)]);
        assert_eq!(order[3..], (1..50).map(|number| ("flood", number)).collect::<Vec<_>>());
        assert!(line.senders.is_empty());
    }

    #[test]
    fn room_for_who_has_little_is_made_from_who_has_most_the_newest_first() {
        let mut line = FairLine::default();
        (0..6).for_each(|number| line.put(1, 100, ("flood", number)));
        (0..3).for_each(|number| line.put(2, 100, ("busy", number)));
        assert_eq!((line.backlog(1), line.backlog(2), line.backlog_max()), (600, 300, 600));
        assert!(line.displace((1, 1), 1, |_| true).is_empty(), "it has most itself");
        assert!(line.displace((3, 100), 800, |_| true).is_empty(), "nothing goes for nothing");
        let gone = line.displace((3, 100), 650, |_| true);
        let order = ["flood", "flood", "flood", "busy", "flood", "busy", "flood"];
        assert_eq!(gone.iter().map(|(name, _)| *name).collect::<Vec<_>>(), order);
        assert!(line.displace((3, 100), 1, |_| true).is_empty(), "no more than it would have");
        assert_eq!(taken(&mut line), [("flood", 0), ("busy", 0)]);
        assert!(line.senders.is_empty());
    }

    #[test]
    fn item_that_may_not_go_stays_and_its_sender_keeps_its_order() {
        let mut line = FairLine::default();
        (0..4).for_each(|number| line.put(1, 100, number));
        assert_eq!(line.displace((2, 100), 100, |number| *number < 3), [2]);
        assert_eq!((line.backlog(1), line.backlog_max()), (300, 300), "without what went");
        line.put(1, 100, 4);
        assert_eq!(taken(&mut line), [0, 1, 3, 4]);
    }

    #[test]
    fn items_that_are_kept_keep_their_places_and_the_rest_is_forgotten() {
        let mut line = FairLine::default();
        (0..3).for_each(|number| line.put(1, 100, number));
        (3..6).for_each(|number| line.put(2, 200, number));
        line.retain(|number| [1, 2].contains(number));
        assert_eq!((line.len(), line.backlog(1), line.backlog(2)), (2, 200, 0));
        assert_eq!(taken(&mut line), [1, 2]);
        assert!(line.senders.is_empty());
    }

    #[test]
    fn senders_of_equal_requests_take_turns_however_many_each_has() {
        let mut line = FairLine::default();
        for (sender, count) in [(1, 4), (2, 2), (3, 1)] {
            (0..count).for_each(|_| line.put(sender, 10, sender));
        }
        assert_eq!(taken(&mut line), [1, 2, 3, 1, 2, 1, 1]);
    }

    #[test]
    fn flood_of_new_senders_does_not_pass_who_waits_with_little() {
        let mut line = FairLine::default();
        let mut order = Vec::new();
        for number in 0..10 {
            line.put(100 + number, 400_000, "flood");
            line.put(2, 2_000, "quiet");
            if number % 3 == 2 {
                order.extend(line.take());
            }
        }
        order.extend(taken(&mut line));
        let quiet = order.iter().take_while(|name| **name == "quiet").count();
        assert_eq!((quiet, order.len()), (10, 20));
    }

    #[test]
    fn large_request_is_passed_by_as_many_bytes_as_it_has_and_no_more() {
        let mut line = FairLine::default();
        line.put(1, 10_000, "large");
        let mut passed = 0;
        loop {
            line.put(2 + passed, 1_000, "small");
            match line.take() {
                Some("small") => passed += 1,
                _ => break,
            }
        }
        assert_eq!(passed, 9);
    }

    #[test]
    fn who_was_away_has_saved_up_nothing() {
        let mut line = FairLine::default();
        (0..6).for_each(|_| line.put(1, 10, 1));
        assert_eq!([1; 4].map(|_| line.take()), [Some(1); 4]);
        (0..3).for_each(|_| line.put(2, 10, 2));
        assert_eq!(taken(&mut line), [1, 2, 1, 2, 2]);
    }

    proptest! {
        /// Random senders and sizes: each sender's items keep their order, all come, and of two
        /// that wait neither is ahead of the other by more than one request of each.
        #[test]
        fn senders_are_served_fairly_and_each_in_its_own_order(
            asks in vec((0..4_usize, 1..1_000_usize), 1..120),
        ) {
            let mut line = FairLine::default();
            for (number, (sender, cost)) in asks.iter().enumerate() {
                line.put(*sender, *cost, number);
            }
            let order = taken(&mut line);
            prop_assert_eq!(order.len(), asks.len());
            let mut left = [0; 4];
            asks.iter().for_each(|(sender, _)| left[*sender] += 1);
            let mut given = [0; 4];
            let mut last = [None; 4];
            for number in order {
                let (sender, cost) = asks[number];
                prop_assert!(last[sender] < Some(number), "its own order");
                last[sender] = Some(number);
                let waits = |other: usize| left[other] > 0 && other != sender;
                for other in (0..4).filter(|other| waits(*other)) {
                    prop_assert!(given[sender] <= given[other] + 1_000, "fair");
                }
                given[sender] += cost;
                left[sender] -= 1;
            }
        }
    }
}
