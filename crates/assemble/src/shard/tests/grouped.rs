//! Tests of trace identity across groups.

use super::*;
use spanscore_base::model::{ClientGroup, Sender};

/// Returns the digests of traces with one id, of which each group sends a span over a connection, 0
/// for a topic.
fn digests(sent: &[(&str, u16, u16)]) -> Vec<[u8; 16]> {
    let mut shard = shard(|_, _| {});
    let mut due = Vec::new();
    for (group, connection, span) in sent {
        let mut batch = batch(&[(1, *span, ROOT)]);
        let of_group = Sender::of_group(ClientGroup::named(group));
        batch.sender = Sender { connection: *connection, ..of_group };
        shard.add(&batch, 0, &mut due);
    }
    shard.tick(1_000, &mut due);
    due.iter().map(|due| due.digest).collect()
}

#[test]
fn evaluations_of_groups_are_apart_where_both_may_be_known_or_one_is_elsewhere() {
    let alone = digests(&[("a", 7, 1)]);
    let both = digests(&[("a", 7, 1), ("b", 8, 1)]);
    assert_eq!(both[0], alone[0]);
    assert_ne!(both[1], both[0]);
    let topics = digests(&[("a", 0, 1), ("b", 0, 1)]);
    assert!(topics[0] != topics[1] && !topics.contains(&alone[0]));
    assert_eq!(digests(&[("b", 0, 1)])[0], topics[1]);
}

#[test]
fn judged_trace_keeps_its_identity_when_a_topic_repeats_it() {
    let mut shard = shard(|_, _| {});
    let mut seen = Vec::new();
    for connection in [7, 0] {
        let mut batch = batch(&[(1, 1, ROOT)]);
        batch.sender = Sender { connection, ..Sender::of_group(ClientGroup::named("a")) };
        let mut due = Vec::new();
        shard.add(&batch, 0, &mut due);
        shard.tick(1_000, &mut due);
        due.iter().for_each(|due| shard.done(due.handle));
        seen.push(due.len());
    }
    assert_eq!(seen, [1, 0]);
    let traces = shard.places.iter().filter_map(|place| place.trace.as_ref());
    let kept = traces.map(|trace| trace.judged() == Some((1, trace.digest)));
    assert!(kept.eq([true]));
}

#[test]
fn trace_has_the_same_identity_whichever_part_came_from_a_topic() {
    let orders = [
        [("a", 0, 1), ("a", 7, 2)],
        [("a", 7, 1), ("a", 0, 2)],
        [("a", 7, 2), ("a", 0, 1)],
        [("a", 0, 1), ("a", 0, 2)],
    ];
    let of_orders = orders.map(|order| digests(&order));
    assert!(of_orders.iter().all(|digests| *digests == of_orders[0]), "{of_orders:?}");
}
