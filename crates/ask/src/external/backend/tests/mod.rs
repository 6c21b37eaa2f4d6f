//! Tests of the scheduler with scripted evaluators, on a fake clock.

mod harness;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use self::harness::{ExternalHarness, answer, asked, described, gone};
use crate::external::transport::ExternalFault;
use crate::scheduler::SilentEnd;

/// Deadline in milliseconds, and true if tasks wait for an unavailable evaluator.
const LIVE: (u64, bool) = (300_000, true);
const RECORDED: (u64, bool) = (u64::MAX, false);

#[test]
fn a_task_waits_until_its_evaluator_is_described_and_is_told_once() {
    let mut harness = ExternalHarness::new(LIVE);
    harness.arrive(asked(1, 0));
    assert_eq!((harness.poll(), harness.describes), (0, 1));
    assert_eq!(harness.poll(), 0, "it is being asked");
    harness.core.described(harness.now_ms, 0, described());
    assert_eq!(harness.poll(), 1);
    harness.answer_all(|request| Ok(answer(request, 1.0)));
    assert_eq!(harness.outcomes(), BTreeMap::from([("scored", 1)]));
    assert_eq!(harness.room.now(), (0, 0));
    assert_ne!(harness.emitted[0].id, asked(1, 0).evaluation.id, "the version belongs to it");
}

#[test]
fn task_for_an_evaluator_never_reached_ends_within_ten_seconds() {
    let mut harness = ExternalHarness::new(LIVE);
    harness.arrive(asked(1, 0));
    harness.run(9_900, |_| described_never(), |_| unreachable!("nothing is sent"));
    assert!(harness.emitted.is_empty());
    harness.run(200, |_| described_never(), |_| unreachable!("nothing is sent"));
    assert_eq!(harness.outcomes(), BTreeMap::from([("evaluator_unavailable", 1)]));
    let mut harness = ExternalHarness::new(RECORDED);
    harness.arrive(asked(1, 0));
    harness.run(3_000, |_| described_never(), |_| unreachable!("nothing is sent"));
    assert_eq!(harness.outcomes(), BTreeMap::from([("evaluator_unavailable", 1)]));
    assert_eq!(harness.describes, 3);
}

#[test]
fn tasks_that_came_one_after_another_are_each_given_up_in_time() {
    let mut harness = ExternalHarness::new(LIVE);
    for n in 0..100 {
        harness.arrive(asked(n, 0));
        harness.run(50, |_| described_never(), |_| unreachable!("nothing is sent"));
    }
    harness.run(10_000, |_| described_never(), |_| unreachable!("nothing is sent"));
    let given_up = harness.outcomes()["evaluator_unavailable"];
    assert!(given_up >= 98, "{given_up}: but for those of the last look");
    harness.run(100, |_| described_never(), |_| unreachable!("nothing is sent"));
    assert_eq!(harness.outcomes()["evaluator_unavailable"], 100);
}

#[test]
fn replaced_tasks_leave_the_queue() {
    let mut harness = ExternalHarness::new(LIVE);
    harness.arrive(asked(1, 0));
    for revision in 0..500 {
        harness.arrive(asked(2, revision));
        harness.poll();
    }
    assert_eq!(harness.ends.len(), 499);
    assert!(harness.core.queue(0).len() < 100);
}

fn described_never() -> Result<crate::external::transport::Description, ExternalFault> {
    Err(gone())
}

#[test]
fn task_waits_for_a_lost_evaluator_until_its_deadline() {
    let mut harness = ExternalHarness::new(LIVE);
    harness.arrive(asked(1, 0));
    harness.run(100, |_| described(), |request| Ok(answer(request, 1.0)));
    harness.arrive(asked(2, 0));
    harness.run(299_000, |_| Err(gone()), |_| Err(gone()));
    assert_eq!(harness.emitted.len(), 1, "the second still waits");
    assert!(harness.describes < 60, "{} looks in five minutes", harness.describes);
    harness.run(2_000, |_| Err(gone()), |_| Err(gone()));
    assert_eq!(harness.outcomes()["evaluator_unavailable"], 1);
    let mut harness = ExternalHarness::new(LIVE);
    harness.arrive(asked(1, 0));
    harness.run(100, |_| described(), |_| Err(gone()));
    harness.run(200_000, |_| Err(gone()), |_| Err(gone()));
    harness.run(11_000, |_| described(), |request| Ok(answer(request, 0.5)));
    assert_eq!(harness.outcomes(), BTreeMap::from([("scored", 1)]));
}

#[test]
fn a_revision_takes_the_place_of_what_waits_and_silences_what_is_under_way() {
    let mut harness = ExternalHarness::new(LIVE);
    harness.arrive(asked(1, 0));
    harness.arrive(asked(1, 1));
    harness.poll();
    harness.core.described(harness.now_ms, 0, described());
    assert_eq!(harness.poll(), 1);
    harness.arrive(asked(1, 2));
    harness.run(100, |_| described(), |request| Ok(answer(request, 1.0)));
    assert_eq!(harness.emitted.len(), 1);
    let told = &harness.emitted[0];
    assert_eq!((told.revision, told.revises), (0, None), "nobody saw the others");
    let of = |end| harness.ends.iter().filter(|known| **known == end).count();
    assert_eq!((of(SilentEnd::Replaced), of(SilentEnd::Superseded)), (1, 1));
}

#[test]
fn what_fails_by_a_code_that_may_pass_is_tried_three_times_with_the_wait_that_is_asked_for() {
    let mut harness = ExternalHarness::new(LIVE);
    harness.arrive(asked(1, 0));
    let after = Some(Duration::from_secs(7));
    let busy = || ExternalFault::Retryable {
        after,
        error_type: "external_overloaded",
        error: String::new(),
    };
    harness.run(6_900, |_| described(), |_| Err(busy()));
    assert_eq!(harness.sent, 1);
    harness.run(60_000, |_| described(), |_| Err(busy()));
    assert_eq!(harness.sent, 3);
    assert_eq!(harness.outcomes(), BTreeMap::from([("external_overloaded", 1)]));
}

#[test]
fn shutdown_leaves_unanswered_tasks_to_the_log() {
    for (leaves, expected) in [(true, None), (false, Some("shutdown"))] {
        let mut harness = ExternalHarness::new(LIVE);
        harness.arrive(asked(1, 0));
        harness.poll();
        harness.core.close(harness.now_ms, leaves);
        let actions = harness.core.abandon();
        harness.take(actions);
        assert_eq!(harness.outcomes().keys().next().copied(), expected);
        let left = harness.ends.contains(&SilentEnd::Left);
        assert_eq!((left, harness.room.now()), (leaves, (0, 0)));
    }
}

proptest! {
    /// Whatever evaluators do, each target has one result for its last revision, and nothing stays.
    #[test]
    fn each_target_gets_one_outcome(
        arrivals in prop::collection::vec((0..12u64, 0..3_000u64), 1..40),
        script in prop::collection::vec(0..6u8, 40),
    ) {
        let mut harness = ExternalHarness::new(LIVE);
        let mut revisions = BTreeMap::<u64, u32>::new();
        let mut step = 0;
        let mut next = move || {
            step += 1;
            script[step % script.len()]
        };
        for (target, wait) in arrivals {
            let revision = revisions.entry(target).and_modify(|it| *it += 1).or_default();
            harness.arrive(asked(target, *revision));
            harness.run(wait, |_| described(), |request| match next() {
                0 => Err(gone()),
                1 => Err(ExternalFault::Retryable {
                    after: None,
                    error_type: "external_timeout",
                    error: String::new(),
                }),
                2 => Err(ExternalFault::Final("x", String::new())),
                _ => Ok(answer(request, 0.5)),
            });
        }
        harness.run(400_000, |_| described(), |request| Ok(answer(request, 1.0)));
        prop_assert_eq!(harness.room.now(), (0, 0));
        prop_assert!(harness.core.is_empty());
        let mut told = BTreeMap::<[u8; 16], usize>::new();
        harness.emitted.iter().for_each(|it| *told.entry(it.target.trace_id.0).or_default() += 1);
        prop_assert_eq!(told.len(), revisions.len());
        let out = harness.emitted.len() + harness.ends.iter().filter(|end| {
            matches!(end, SilentEnd::Replaced | SilentEnd::Superseded)
        }).count();
        prop_assert_eq!(out, harness.arrived);
    }
}
