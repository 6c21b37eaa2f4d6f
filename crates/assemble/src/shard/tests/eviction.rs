use super::*;
use spanscore_base::model::Sender;

/// Adds records of a sender.
fn add_of(
    shard: &mut Shard,
    sender: u32,
    now_ms: u64,
    records: &[(u8, u16, u16)],
) -> Vec<(Judged, bool)> {
    let mut due = Vec::new();
    let sender = Sender { peer: sender, ..Sender::default() };
    shard.add(&SpanBatch { sender, ..batch(records) }, now_ms, &mut due);
    let partial: Vec<_> = due.iter().map(|due| due.is_partial).collect();
    judged(shard, due).into_iter().zip(partial).collect()
}

fn small() -> Shard {
    shard(|_, limits| limits.open_traces_max = 4)
}

#[test]
fn beyond_the_limit_the_newest_of_whoever_holds_most_is_judged_and_is_partial() {
    let mut shard = small();
    assert_eq!(add_of(&mut shard, 1, 0, &[(1, 1, TOOL)]), []);
    assert_eq!(add_of(&mut shard, 2, 1, &[(2, 1, TOOL), (3, 1, TOOL), (4, 1, TOOL)]), []);
    let evicted = |trace| vec![((trace, Completion::Evicted, 0, 1), true)];
    assert_eq!(add_of(&mut shard, 1, 2, &[(5, 1, TOOL)]), evicted(4));
    assert_eq!(add_of(&mut shard, 2, 3, &[(6, 1, TOOL)]), evicted(6));
    assert_eq!((shard.take_counts().evicted_by_count, shard.open_count()), (2, 4));
}

#[test]
fn traces_without_an_agent_go_before_those_with_one() {
    let mut shard = small();
    add_of(&mut shard, 1, 0, &[(1, 1, PLAIN), (2, 1, TOOL), (3, 1, PLAIN), (4, 1, TOOL)]);
    assert_eq!(add_of(&mut shard, 1, 1, &[(1, 2, TOOL), (5, 1, TOOL)]), []);
    let open: Vec<_> = shard.traces().map(|trace| trace.trace_id.0[0]).collect();
    assert_eq!((open.contains(&3), shard.open_count()), (false, 4), "{open:?}: forgotten");
    assert_eq!(add_of(&mut shard, 1, 2, &[(3, 2, TOOL)]).len(), 1, "it came again, as the newest");
}

#[test]
fn traces_hold_no_more_than_the_limit_whoever_of_them_has_to_go() {
    let mut shard = small();
    let kinds = [PLAIN, TOOL];
    let many: Vec<_> =
        (0..40).map(|trace| (trace, 1, kinds[usize::from(trace % 3 == 0)])).collect();
    add_of(&mut shard, 1, 0, &many);
    assert_eq!((shard.open_count(), shard.trace_count()), (4, 14), "agents are remembered");
    add_of(&mut shard, 1, 1, &[]);
    assert_eq!((shard.open_count(), shard.trace_count()), (4, 4));
}

#[test]
fn flood_takes_the_place_of_itself_and_running_agents_of_others_stay() {
    for plain in [true, false] {
        let mut shard = shard(|_, limits| limits.open_traces_max = 20);
        let agents: Vec<_> = (0..5).map(|trace| (trace, 1, TOOL)).collect();
        add_of(&mut shard, 1, 0, &agents);
        for now_ms in 1..200 {
            let flags = if plain { PLAIN } else { TOOL };
            let flood: Vec<_> = (0..100).map(|trace| (10 + trace, now_ms as u16, flags)).collect();
            add_of(&mut shard, 2, now_ms, &flood);
        }
        let roots: Vec<_> = (0..5).map(|trace| (trace, 2, ROOT)).collect();
        add_of(&mut shard, 1, 300, &roots);
        let done = tick(&mut shard, 1_300);
        let agents = (0..5).map(|trace| (trace, Completion::RootEnded, 0, 2));
        assert_eq!(
            done.into_iter().filter(|it| it.0 < 10).collect::<Vec<_>>(),
            agents.collect::<Vec<_>>()
        );
    }
}

#[test]
fn later_part_of_a_trace_that_went_revises_it_and_is_partial() {
    let mut shard = small();
    let four = [(1, 1, TOOL), (2, 1, TOOL), (3, 1, TOOL), (4, 1, TOOL)];
    add_of(&mut shard, 1, 0, &four);
    assert_eq!(add_of(&mut shard, 1, 1, &[(5, 1, TOOL)])[0].0.0, 5);
    add_of(&mut shard, 1, 2, &[(1, 2, ROOT)]);
    assert_eq!(tick(&mut shard, 1_100).len(), 1);
    let mut due = Vec::new();
    add_of(&mut shard, 1, 1_300, &[(5, 2, ROOT)]);
    shard.tick(2_300, &mut due);
    let due = due.iter().find(|due| shard.trace(due.handle).unwrap().trace_id.0[0] == 5);
    let due = due.expect("its later part is judged");
    assert_eq!((due.revision, due.revised.is_some(), due.is_partial), (1, true, true));
}
