//! Tests of ticks with a bounded number of due traces.

use super::*;

#[test]
fn traces_beyond_a_slice_stay_open_until_the_next_tick() {
    let mut shard = shard(|_, _| {});
    let some = |shard: &mut Shard, now_ms| {
        let mut due = Vec::new();
        shard.tick_some(now_ms, 2, &mut due);
        judged(shard, due)
    };
    add(&mut shard, 0, &[(1, 1, ROOT), (2, 2, ROOT), (3, 3, ROOT)]);
    let ended = |trace, spans| (trace, Completion::RootEnded, 0, spans);
    assert_eq!(some(&mut shard, 1_000), [ended(1, 1), ended(2, 1)]);
    assert_eq!(shard.behind(), 1);
    assert_eq!(add(&mut shard, 1_010, &[(3, 4, TOOL)]), NONE, "it is open, and not revised");
    assert_eq!(some(&mut shard, 1_050), NONE);
    assert_eq!(shard.behind(), 0);
    assert_eq!(some(&mut shard, 2_050), [ended(3, 2)]);
}

#[test]
fn trace_of_a_held_sender_waits_for_its_requests_until_its_age() {
    let mut shard = shard(|traces, _| traces.age_max = HumanDuration::from_secs(60));
    let at = |shard: &mut Shard, now_ms, is_held: bool| {
        let mut due = Vec::new();
        shard.tick_unless(now_ms, 10, |_| is_held, &mut due);
        judged(shard, due)
    };
    add(&mut shard, 0, &[(1, 1, ROOT), (2, 2, ROOT)]);
    assert_eq!(at(&mut shard, 5_000, true), NONE);
    assert_eq!(at(&mut shard, 5_900, false), NONE, "its requests have time to be added");
    assert_eq!(add(&mut shard, 5_950, &[(1, 3, TOOL)]), NONE);
    let ended = |trace, spans| (trace, Completion::RootEnded, 0, spans);
    assert_eq!(at(&mut shard, 7_500, false), [ended(1, 2), ended(2, 1)]);
    add(&mut shard, 10_000, &[(3, 4, TOOL)]);
    let of_age: Vec<_> = (11..=80).flat_map(|it| at(&mut shard, it * 1_000, true)).collect();
    assert_eq!(of_age, [(3, Completion::Idle, 0, 1)]);
}
