use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Returns the single connection of a peer.
fn of(peer: u32) -> Sender {
    Sender { peer, ..Sender::default() }
}

fn taken<T>(queue: &mut FairQueue<T>) -> Vec<T> {
    std::iter::from_fn(|| queue.take()).collect()
}

fn assert_forgotten<T>(queue: &FairQueue<T>) {
    assert!(queue.is_empty() && queue.peers.is_empty());
    assert!(queue.turns.is_empty() && queue.ends.is_none());
}

#[test]
fn item_that_is_held_keeps_its_place_and_others_go_on() {
    let mut queue = FairQueue::default();
    (0..3).for_each(|number| queue.put(of(1), 10, (1, number)));
    (0..2).for_each(|number| queue.put(of(2), 100, (2, number)));
    assert_eq!(queue.take_unless(|item| item.0 == 1), Some((2, 0)));
    assert_eq!(queue.take_unless(|_| true), None);
    assert_eq!(taken(&mut queue), [(1, 0), (1, 1), (1, 2), (2, 1)]);
}

#[test]
fn held_connections_are_asked_about_once_however_much_they_have_waiting() {
    let mut queue = FairQueue::default();
    let held =
        |number: u32| Sender { peer: number % 10, connection: (number % 100) as u16 + 1, ..of(0) };
    (0..4_000).for_each(|number| queue.put(held(number), 10, (true, number)));
    (0..1_000).for_each(|number| queue.put(of(100 + number), 10_000, (false, number)));
    let asked = Cell::new(0);
    let is_held = |item: &(bool, u32)| {
        asked.set(asked.get() + 1);
        item.0
    };
    for number in 0..10 {
        assert_eq!(queue.take_unless(is_held), Some((false, number)));
    }
    assert_eq!(asked.take(), 10 * (100 + 1), "of 4,000 and 1,000");
    assert_eq!(queue.take_unless(|_| true), None);
    let order = taken(&mut queue);
    assert!(order[..4_000].iter().enumerate().all(|(at, item)| *item == (true, at as u32)));
    assert_forgotten(&queue);
}

#[test]
fn line_whose_every_item_made_room_is_forgotten() {
    let mut queue = FairQueue::default();
    queue.put(of(0), 21, ());
    assert_eq!(queue.displace(of(1), 1, 2).len(), 1);
    assert_forgotten(&queue);
}

#[test]
fn item_that_comes_back_is_the_first_and_those_of_its_sender_keep_their_places() {
    let mut queue = FairQueue::default();
    (0..3).for_each(|number| queue.put(of(1), 10, (1, number)));
    queue.put(of(2), 10, (2, 0));
    let back = [queue.take(), queue.take()].map(Option::unwrap);
    back.iter().rev().for_each(|item| queue.put_first(*item));
    assert_eq!((queue.peek(), queue.len(), queue.iter().count()), (Some(&(1, 0)), 4, 4));
    queue.put(of(2), 10, (2, 1));
    assert_eq!(taken(&mut queue), [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]);
    assert_forgotten(&queue);
}

#[test]
fn sender_with_little_waits_for_one_request_of_a_flood_and_not_for_all() {
    // From another address, and over another connection of the same address.
    for quiet in [of(2), Sender { connection: 1, ..of(1) }] {
        let mut queue = FairQueue::default();
        (0..50).for_each(|number| queue.put(of(1), 400_000, ("flood", number)));
        assert_eq!(queue.take(), Some(("flood", 0)));
        (0..3).for_each(|number| queue.put(quiet, 2_000, ("quiet", number)));
        let order = taken(&mut queue);
        assert_eq!(order[..3], [("quiet", 0), ("quiet", 1), ("quiet", 2)]);
        assert_eq!(order[3..], (1..50).map(|number| ("flood", number)).collect::<Vec<_>>());
        assert_forgotten(&queue);
    }
}

#[test]
fn many_connections_of_a_peer_are_served_as_much_as_one_of_another() {
    let mut queue = FairQueue::default();
    for number in 0..600_u16 {
        queue.put(Sender { connection: number % 200, ..of(1) }, 10, (1, number % 200));
    }
    (0..200).for_each(|_| queue.put(of(2), 10, (2, 0)));
    let order: Vec<_> = (0..200).filter_map(|_| queue.take()).collect();
    let of_flood: Vec<_> = order.iter().filter(|(peer, _)| *peer == 1).collect();
    assert_eq!(of_flood.len(), 100);
    assert!(of_flood.iter().map(|(_, connection)| *connection).eq(0..100), "in turns");
    let one = Sender { connection: 300, ..of(2) };
    assert!(queue.displace(one, 10, 4_000).is_empty(), "that is more than it has behind");
    let displaced = queue.displace(one, 10, 3_990);
    assert_eq!((displaced.len(), queue.queued_costs(of(2))), (399, (1_000, 1_010)));
    assert!(displaced.iter().all(|it| it.content.0 == 1 && it.sender.peer == 1 && it.cost == 10));
}

#[test]
fn room_for_who_has_little_is_made_from_who_has_most_the_newest_first() {
    let of_one = |connection| Sender { connection, ..of(9) };
    for [flood, busy, other] in [[1, 2, 3].map(of), [1, 2, 3].map(of_one)] {
        let mut queue = FairQueue::default();
        (0..6).for_each(|number| queue.put(flood, 100, ("flood", number)));
        (0..3).for_each(|number| queue.put(busy, 100, ("busy", number)));
        assert_eq!((queue.queued_costs(flood), queue.queued_costs(busy)), ((600, 600), (300, 600)));
        assert!(queue.displace(flood, 1, 1).is_empty(), "it has most itself");
        assert!(queue.displace(other, 100, 800).is_empty(), "nothing goes for nothing");
        let displaced = queue.displace(other, 100, 650);
        let order = ["flood", "flood", "flood", "busy", "flood", "busy", "flood"];
        assert_eq!(displaced.iter().map(|it| it.content.0).collect::<Vec<_>>(), order);
        assert!(queue.displace(other, 100, 1).is_empty(), "no more than it would have");
        assert_eq!(taken(&mut queue), [("flood", 0), ("busy", 0)]);
        assert_forgotten(&queue);
    }
}

#[test]
fn items_that_are_kept_keep_their_places_and_the_rest_is_forgotten() {
    let mut queue = FairQueue::default();
    (0..3).for_each(|number| queue.put(of(1), 100, number));
    (3..6).for_each(|number| queue.put(of(2), 200, number));
    queue.retain(|number| [1, 2].contains(number));
    assert_eq!(
        (queue.len(), queue.queued_costs(of(1)), queue.queued_costs(of(2)).0),
        (2, (200, 200), 0)
    );
    assert_eq!(taken(&mut queue), [1, 2]);
    assert_forgotten(&queue);
}

#[test]
fn connection_whose_items_all_go_unserved_waits_for_none_of_them() {
    let [first, second] = [1, 2].map(|connection| Sender { connection, ..of(1) });
    let mut queue = FairQueue::default();
    for number in 0..100 {
        queue.put(first, 1, ("first", number));
        queue.put(second, 1, ("second", number));
    }
    queue.retain(|(name, _)| *name == "second");
    queue.put(first, 1, ("first", 100));
    let order = taken(&mut queue);
    assert!(order[..2].contains(&("first", 100)), "{:?}", &order[..3]);
}

/// Asserts the invariants of a queue after random steps.
fn assert_consistent(queue: &FairQueue<u64>, expected: &BTreeSet<u64>) {
    assert_eq!(queue.iter().copied().collect::<BTreeSet<_>>(), *expected);
    assert_eq!((queue.len(), queue.peek().is_some()), (expected.len(), !expected.is_empty()));
    for (number, peer) in &queue.peers {
        assert!(peer.items.iter().is_sorted_by_key(|(place, _)| *place));
        assert_eq!(peer.iter().map(|(_, item)| item.cost).sum::<u64>(), peer.cost);
        assert_eq!(Some(peer.turn), peer.next_turn());
        let end = (peer.end(), *number);
        assert!(queue.ends.as_ref().is_none_or(|ends| ends.contains(&end)));
    }
    assert!(queue.ends.as_ref().is_none_or(|ends| ends.len() == queue.peers.len()));
    assert!(queue.turns.len() <= 2 * queue.peers.len() + STALE_MAX + 1);
}

proptest! {
    #[test]
    fn nothing_is_lost_or_served_twice_whatever_is_asked(
        steps in vec((0..8_u8, 0..3_u32, 0..3_u16, 1..50_usize), 0..200)
    ) {
        let mut queue = FairQueue::default();
        let mut expected = BTreeSet::new();
        for ((step, peer, connection, cost), number) in steps.into_iter().zip(0..) {
            let sender = Sender { peer, connection, ..Sender::default() };
            let displaced = match step {
                0 => queue.take().into_iter().collect(),
                1 => queue.take_unless(|item| item % 3 == 0).into_iter().collect(),
                2 => {
                    let displaced = queue.displace(sender, cost, 2 * cost);
                    displaced.into_iter().map(|it| it.content).collect()
                }
                3 if number % 4 == 0 => {
                    queue.retain(|item| item % 5 > 0);
                    expected.iter().copied().filter(|item| item % 5 == 0).collect()
                }
                _ => {
                    queue.put(sender, cost, number);
                    expected.insert(number);
                    Vec::new()
                }
            };
            for item in displaced {
                prop_assert!(expected.remove(&item));
            }
            assert_consistent(&queue, &expected);
        }
        prop_assert_eq!(taken(&mut queue).len(), expected.len());
        assert_forgotten(&queue);
    }
}

#[test]
fn senders_of_equal_requests_take_turns_however_many_each_has() {
    let mut queue = FairQueue::default();
    for (sender, count) in [(1, 4), (2, 2), (3, 1)] {
        (0..count).for_each(|_| queue.put(of(sender), 10, sender));
    }
    assert_eq!(taken(&mut queue), [1, 2, 3, 1, 2, 1, 1]);
}

#[test]
fn flood_of_new_senders_does_not_pass_who_waits_with_little() {
    let mut queue = FairQueue::default();
    let mut order = Vec::new();
    for number in 0..10 {
        queue.put(of(100 + number), 400_000, "flood");
        queue.put(of(2), 2_000, "quiet");
        if number % 3 == 2 {
            order.extend(queue.take());
        }
    }
    order.extend(taken(&mut queue));
    let quiet = order.iter().take_while(|name| **name == "quiet").count();
    assert_eq!((quiet, order.len()), (10, 20));
}

#[test]
fn large_request_is_passed_by_as_many_bytes_as_it_has_and_no_more() {
    let mut queue = FairQueue::default();
    queue.put(of(1), 10_000, "large");
    let mut passed = 0;
    loop {
        queue.put(of(2 + passed), 1_000, "small");
        match queue.take() {
            Some("small") => passed += 1,
            _ => break,
        }
    }
    assert_eq!(passed, 9);
}

#[test]
fn idle_sender_gains_no_credit() {
    let mut queue = FairQueue::default();
    (0..6).for_each(|_| queue.put(of(1), 10, 1));
    assert_eq!([1; 4].map(|_| queue.take()), [Some(1); 4]);
    (0..3).for_each(|_| queue.put(of(2), 10, 2));
    assert_eq!(taken(&mut queue), [1, 2, 1, 2, 2]);
}

proptest! {
    /// Random senders and sizes: each sender's items keep their order, none is lost, and of two
    /// waiting senders neither is ahead by more than one request of each.
    #[test]
    fn senders_are_served_fairly_and_each_in_its_own_order(
        asks in vec((0..4_u32, 1..1_000_usize), 1..120),
    ) {
        let mut queue = FairQueue::default();
        for (number, (sender, cost)) in asks.iter().enumerate() {
            queue.put(of(*sender), *cost, number);
        }
        let order = taken(&mut queue);
        prop_assert_eq!(order.len(), asks.len());
        let mut left = [0; 4];
        asks.iter().for_each(|(sender, _)| left[*sender as usize] += 1);
        let mut given = [0; 4];
        let mut last = [None; 4];
        for number in order {
            let sender = asks[number].0 as usize;
            let cost = asks[number].1;
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
