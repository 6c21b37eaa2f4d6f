//! Tests of ticks: due traces, a few at a time.

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
