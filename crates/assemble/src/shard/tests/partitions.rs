use super::*;
use spanscore_base::model::{Claims, Source};

/// Adds records of a partition; returns the traces made due by a limit.
fn add_of(shard: &mut Shard, source: &Arc<Source>, now_ms: u64, records: &[(u8, u16, u16)]) {
    let mut due = Vec::new();
    let claims = Claims::from(source.claim(now_ms, 0));
    shard.add(&SpanBatch { claims, ..batch(records) }, now_ms, &mut due);
    assert!(due.is_empty());
}

#[test]
fn traces_of_a_revoked_partition_go_unjudged_and_others_stay() {
    let [mine, theirs]: [Arc<Source>; 2] = Default::default();
    let mut shard = shard(|_, _| {});
    add_of(&mut shard, &theirs, 0, &[(1, 1, ROOT), (1, 2, TOOL)]);
    add_of(&mut shard, &mine, 1, &[(2, 1, ROOT)]);
    // A trace of both partitions is judged with this process's part of it.
    add_of(&mut shard, &mine, 2, &[(3, 1, ROOT)]);
    add_of(&mut shard, &theirs, 3, &[(3, 2, TOOL)]);
    add(&mut shard, 4, &[(4, 1, ROOT)]);
    theirs.retire();
    assert_eq!(shard.drop_revoked(5), 1);
    assert_eq!((shard.open_spans(), shard.take_counts().spans.revoked), (4, 2));
    let traces: Vec<_> = tick(&mut shard, 5_000).iter().map(|it| (it.0, it.3)).collect();
    assert_eq!(traces, [(2, 1), (3, 2), (4, 1)]);
}

#[test]
fn returned_partition_repeats_no_verdict_and_revises_earlier_ones() {
    let mut shard = shard(|_, _| {});
    for (round, revision) in [(0, Some(0)), (1, None), (2, Some(1))] {
        let source: Arc<Source> = Arc::default();
        let now_ms = round * 5_000;
        let spans = [(1, 1, ROOT), (1, 2, TOOL), (1, 3, TOOL)];
        add_of(&mut shard, &source, now_ms, &spans[..2 + usize::from(round == 2)]);
        let judged = tick(&mut shard, now_ms + 4_000);
        assert_eq!(judged.first().map(|it| it.2), revision, "{round}");
        source.retire();
        assert_eq!((shard.drop_revoked(now_ms + 4_000), source.lowest()), (1, None));
    }
}

#[test]
fn partition_that_comes_back_before_its_traces_went_is_held_anew() {
    let [before, after]: [Arc<Source>; 2] = Default::default();
    let mut shard = shard(|_, _| {});
    let spans = [(1, 1, ROOT), (1, 2, TOOL)];
    for (now_ms, span) in (0..).zip(&spans) {
        add_of(&mut shard, &before, now_ms, std::slice::from_ref(span));
    }
    before.retire();
    for (now_ms, span) in (2..).zip(&spans) {
        add_of(&mut shard, &after, now_ms, std::slice::from_ref(span));
    }
    assert_eq!((shard.drop_revoked(4), after.claim_count()), (0, 2));
    assert_eq!(tick(&mut shard, 5_000).len(), 1);
}

#[test]
fn endless_trace_holds_its_partition_back_no_longer_than_its_age_allows() {
    let source: Arc<Source> = Arc::default();
    let mut shard = shard(|_, _| {});
    let mut held = Vec::new();
    for step in 0..40 {
        let now_ms = step * 5_000;
        add_of(&mut shard, &source, now_ms, &[(1, step as u16 + 1, TOOL)]);
        tick(&mut shard, now_ms);
        let holding = shard.release_aged(now_ms, None);
        held.push(holding.map(|it| it.age_ms / 1000));
    }
    assert_eq!(held[20], Some(100));
    assert!(held[22..].iter().all(Option::is_none), "{held:?}");
    assert_eq!(source.lowest(), None);
}
