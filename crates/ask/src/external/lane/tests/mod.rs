//! The core of the lane against evaluators that are scripted, on a clock that is told.

mod bench;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use self::bench::{ExternalBench, answer, asked, described, gone};
use super::core::{ExternalCount, ExternalPatience};
use crate::external::transport::ExternalFault;

const LIVE: ExternalPatience = ExternalPatience { deadline_ms: 300_000, waits: true };
const RECORDED: ExternalPatience = ExternalPatience { deadline_ms: u64::MAX, waits: false };

#[test]
fn a_task_waits_until_its_evaluator_is_described_and_is_told_once() {
    let mut bench = ExternalBench::new(LIVE);
    bench.arrive(asked(1, 0));
    assert_eq!((bench.poll(), bench.describes), (0, 1));
    assert_eq!(bench.poll(), 0, "it is being asked");
    bench.core.described(bench.now_ms, 0, described());
    assert_eq!(bench.poll(), 1);
    bench.answer_all(|request| Ok(answer(request, 1.0)));
    assert_eq!(bench.outcomes(), BTreeMap::from([("scored", 1)]));
    assert_eq!(bench.room.now(), (0, 0));
    assert_ne!(bench.emitted[0].id, asked(1, 0).evaluation.id, "the version belongs to it");
}

#[test]
fn nobody_waits_long_for_what_was_never_there() {
    let mut bench = ExternalBench::new(LIVE);
    bench.arrive(asked(1, 0));
    bench.run(9_900, |_| described_never(), |_| unreachable!("nothing is sent"));
    assert!(bench.emitted.is_empty());
    bench.run(200, |_| described_never(), |_| unreachable!("nothing is sent"));
    assert_eq!(bench.outcomes(), BTreeMap::from([("evaluator_unavailable", 1)]));
    let mut bench = ExternalBench::new(RECORDED);
    bench.arrive(asked(1, 0));
    bench.run(3_000, |_| described_never(), |_| unreachable!("nothing is sent"));
    assert_eq!(bench.outcomes(), BTreeMap::from([("evaluator_unavailable", 1)]));
    assert_eq!(bench.describes, 3);
}

fn described_never() -> Result<crate::external::transport::Description, ExternalFault> {
    Err(gone())
}

#[test]
fn what_went_away_is_waited_for_until_the_deadline() {
    let mut bench = ExternalBench::new(LIVE);
    bench.arrive(asked(1, 0));
    bench.run(100, |_| described(), |request| Ok(answer(request, 1.0)));
    bench.arrive(asked(2, 0));
    bench.run(299_000, |_| Err(gone()), |_| Err(gone()));
    assert_eq!(bench.emitted.len(), 1, "the second still waits");
    assert!(bench.describes < 60, "{} looks in five minutes", bench.describes);
    bench.run(2_000, |_| Err(gone()), |_| Err(gone()));
    assert_eq!(bench.outcomes()["evaluator_unavailable"], 1);
    let mut bench = ExternalBench::new(LIVE);
    bench.arrive(asked(1, 0));
    bench.run(100, |_| described(), |_| Err(gone()));
    bench.run(200_000, |_| Err(gone()), |_| Err(gone()));
    bench.run(11_000, |_| described(), |request| Ok(answer(request, 0.5)));
    assert_eq!(bench.outcomes(), BTreeMap::from([("scored", 1)]));
}

#[test]
fn a_revision_takes_the_place_of_what_waits_and_silences_what_is_under_way() {
    let mut bench = ExternalBench::new(LIVE);
    bench.arrive(asked(1, 0));
    bench.arrive(asked(1, 1));
    bench.poll();
    bench.core.described(bench.now_ms, 0, described());
    assert_eq!(bench.poll(), 1);
    bench.arrive(asked(1, 2));
    bench.run(100, |_| described(), |request| Ok(answer(request, 1.0)));
    assert_eq!(bench.emitted.len(), 1);
    let told = &bench.emitted[0];
    assert_eq!((told.revision, told.revises), (0, None), "nobody saw the others");
    let of = |count| bench.counts.iter().filter(|known| **known == count).count();
    assert_eq!((of(ExternalCount::Replaced), of(ExternalCount::Superseded)), (1, 1));
}

#[test]
fn what_fails_by_a_code_that_may_pass_is_tried_three_times_with_the_wait_that_is_asked_for() {
    let mut bench = ExternalBench::new(LIVE);
    bench.arrive(asked(1, 0));
    let after = Some(Duration::from_secs(7));
    let busy = || ExternalFault::Retryable {
        after,
        error_type: "external_overloaded",
        error: String::new(),
    };
    bench.run(6_900, |_| described(), |_| Err(busy()));
    assert_eq!(bench.sent, 1);
    bench.run(60_000, |_| described(), |_| Err(busy()));
    assert_eq!(bench.sent, 3);
    assert_eq!(bench.outcomes(), BTreeMap::from([("external_overloaded", 1)]));
}

#[test]
fn at_the_end_what_is_not_answered_is_left_where_there_is_a_log() {
    for (leaves, expected) in [(true, None), (false, Some("shutdown"))] {
        let mut bench = ExternalBench::new(LIVE);
        bench.arrive(asked(1, 0));
        bench.poll();
        bench.core.close(leaves);
        let actions = bench.core.abandon();
        bench.take(actions);
        assert_eq!(bench.outcomes().keys().next().copied(), expected);
        let left = bench.counts.contains(&ExternalCount::Left);
        assert_eq!((left, bench.room.now()), (leaves, (0, 0)));
    }
}

proptest! {
    /// Whatever evaluators do: each target is told of once for its last revision, nothing stays.
    #[test]
    fn every_target_is_told_of_once(
        arrivals in prop::collection::vec((0..12u64, 0..3_000u64), 1..40),
        script in prop::collection::vec(0..6u8, 40),
    ) {
        let mut bench = ExternalBench::new(LIVE);
        let mut revisions = BTreeMap::<u64, u32>::new();
        let mut step = 0;
        let mut next = move || {
            step += 1;
            script[step % script.len()]
        };
        for (target, wait) in arrivals {
            let revision = revisions.entry(target).and_modify(|it| *it += 1).or_default();
            bench.arrive(asked(target, *revision));
            bench.run(wait, |_| described(), |request| match next() {
                0 => Err(gone()),
                1 => Err(ExternalFault::Retryable {
                    after: None,
                    error_type: "external_timeout",
                    error: String::new(),
                }),
                2 => Err(ExternalFault::Final { error_type: "x", error: String::new() }),
                _ => Ok(answer(request, 0.5)),
            });
        }
        bench.run(400_000, |_| described(), |request| Ok(answer(request, 1.0)));
        prop_assert_eq!(bench.room.now(), (0, 0));
        prop_assert!(bench.core.is_empty());
        let mut told = BTreeMap::<[u8; 16], usize>::new();
        bench.emitted.iter().for_each(|it| *told.entry(it.target.trace_id.0).or_default() += 1);
        prop_assert_eq!(told.len(), revisions.len());
        let out = bench.emitted.len() + bench.counts.iter().filter(|count| {
            matches!(count, ExternalCount::Replaced | ExternalCount::Superseded)
        }).count();
        prop_assert_eq!(out, bench.arrived);
    }
}
