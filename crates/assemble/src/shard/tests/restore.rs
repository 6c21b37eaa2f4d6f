//! Tests of recovery of an earlier process's traces.

use hashbrown::HashMap;

use super::*;
use spanscore_base::model::{NoteCell, NoteKind};

/// Returns trace 1, due by its ended root, of a shard with these records.
fn said_of(records: &[(u8, u16, u16)]) -> Due {
    let mut shard = shard(|_, _| {});
    let mut due = Vec::new();
    shard.add(&batch(records), 0, &mut due);
    shard.tick(5_000, &mut due);
    due.remove(0)
}

fn prior(due: &Due, is_delivered: bool) -> HashMap<TraceId, PriorTrace> {
    let Due { revision, digest, revised, .. } = *due;
    let verdict = Some(PriorVerdict { revision, digest, revised, is_delivered });
    let notes = NoteCell::default();
    HashMap::from([(TraceId([1; 16]), PriorTrace { verdict, first: 0, notes })])
}

const WHOLE: [(u8, u16, u16); 2] = [(1, 1, ROOT), (1, 2, TOOL)];

#[test]
fn what_was_delivered_is_remembered_and_not_due_again() {
    let mut shard = shard(|_, _| {});
    shard.restore(prior(&said_of(&WHOLE), true), false);
    add(&mut shard, 0, &WHOLE);
    assert_eq!(tick(&mut shard, 2_000), NONE);
    shard.resume(3_000);
    assert_eq!(tick(&mut shard, 5_000), NONE);
    assert_eq!((shard.open_count(), shard.trace_count()), (0, 1), "late spans still revise it");
    add(&mut shard, 6_000, &[(1, 3, TOOL)]);
    assert_eq!(tick(&mut shard, 8_000), [(1, Completion::RootEnded, 1, 3)]);
}

#[test]
fn what_was_not_delivered_is_due_as_what_it_was() {
    let mut shard = shard(|_, _| {});
    let said = Due { revision: 3, revised: Some([9; 16]), ..said_of(&WHOLE) };
    shard.restore(prior(&said, false), false);
    add(&mut shard, 0, &WHOLE);
    let mut due = Vec::new();
    shard.tick(2_000, &mut due);
    let Due { revision, digest, revised, is_silent, .. } = due[0];
    assert_eq!((revision, digest, revised), (3, said.digest, Some([9; 16])));
    assert!(!is_silent);
}

#[test]
fn what_was_not_delivered_is_due_as_what_it_was_even_after_all_is_back() {
    let mut shard = shard(|_, _| {});
    let said = said_of(&WHOLE);
    shard.restore(prior(&said, false), false);
    add(&mut shard, 0, &WHOLE);
    shard.resume(60_000);
    let mut due = Vec::new();
    shard.tick(61_100, &mut due);
    assert_eq!((due[0].revision, due[0].digest), (0, said.digest));
}

#[test]
fn what_comes_after_all_is_back_revises_what_was_said_whether_it_was_delivered_or_not() {
    for is_delivered in [true, false] {
        let mut shard = shard(|_, _| {});
        let said = said_of(&WHOLE);
        shard.restore(prior(&said, is_delivered), false);
        add(&mut shard, 0, &WHOLE);
        shard.resume(60_000);
        add(&mut shard, 60_100, &[(1, 3, TOOL)]);
        let mut due = Vec::new();
        shard.tick(61_200, &mut due);
        assert_eq!((due[0].revision, due[0].revised), (1, Some(said.digest)));
    }
}

#[test]
fn delivered_trace_is_due_silently_for_its_session() {
    let mut shard = shard(|_, _| {});
    shard.restore(prior(&said_of(&WHOLE), true), true);
    add(&mut shard, 0, &WHOLE);
    let mut due = Vec::new();
    shard.tick(2_000, &mut due);
    assert!(due.len() == 1 && due[0].is_silent);
}

#[test]
fn unjudged_silent_trace_is_revised_like_a_delivered_one() {
    let said = said_of(&WHOLE);
    let check = |before: fn(&mut Shard, &Due), after: fn(&mut Shard, &Due, &mut Due)| {
        let mut shard = shard(|_, _| {});
        shard.restore(prior(&said, true), true);
        add(&mut shard, 0, &WHOLE);
        let mut due = Vec::new();
        shard.tick(2_000, &mut due);
        let silent = due.remove(0);
        shard.resume(3_000);
        before(&mut shard, &silent);
        shard.add(&batch(&[(1, 3, TOOL)]), 3_100, &mut due);
        shard.tick(6_000, &mut due);
        after(&mut shard, &silent, &mut due[0]);
        assert!(silent.is_silent && !due[0].is_silent);
        assert_eq!((due[0].revision, due[0].revised), (1, Some(said.digest)));
    };
    check(Shard::undo_judgement, |_, _, _| {});
    check(Shard::take_back, |_, _, _| {});
    check(|_, _| {}, Shard::join_due);
}

#[test]
fn less_evidence_than_before_gives_no_verdict() {
    let later = [(1, 1, ROOT), (1, 2, TOOL), (1, 3, TOOL)];
    let mut shard = shard(|_, _| {});
    shard.restore(prior(&said_of(&later), true), false);
    add(&mut shard, 0, &WHOLE);
    assert_eq!(tick(&mut shard, 2_000), NONE, "the third record comes later");
    add(&mut shard, 8_000, &[(1, 3, TOOL)]);
    assert_eq!(tick(&mut shard, 10_000), NONE, "this is what was said");
    shard.resume(11_000);
    assert_eq!(tick(&mut shard, 15_000), NONE);
}

#[test]
fn more_evidence_than_that_of_the_last_verdict_revises_it_once_all_is_back() {
    let mut shard = shard(|_, _| {});
    let said = said_of(&WHOLE);
    shard.restore(prior(&said, true), false);
    add(&mut shard, 0, &[(1, 1, ROOT), (1, 2, TOOL), (1, 3, TOOL)]);
    assert_eq!(tick(&mut shard, 2_000), NONE);
    shard.resume(50_000);
    assert_eq!(tick(&mut shard, 50_500), NONE, "its waits begin anew");
    let mut due = Vec::new();
    shard.tick(51_100, &mut due);
    assert_eq!((due[0].revision, due[0].revised), (1, Some(said.digest)));
}

#[test]
fn open_trace_waits_anew_for_senders_that_try_again() {
    let mut shard = shard(|_, _| {});
    shard.restore(HashMap::new(), false);
    add(&mut shard, 0, &[(1, 1, ROOT), (1, 2, TOOL)]);
    shard.resume(60_000);
    assert_eq!(tick(&mut shard, 60_500), NONE);
    assert_eq!(tick(&mut shard, 61_000), [(1, Completion::RootEnded, 0, 2)]);
}

#[test]
fn trace_claims_its_records_for_as_long_as_it_is_remembered() {
    let source = Arc::new(spanscore_base::model::Source::default());
    let mut shard = shard(|_, _| {});
    let mut add = |position, record| {
        let claims = source.claim(position, 1).into();
        shard.add(&SpanBatch { claims, ..batch(&[record]) }, 0, &mut Vec::new());
    };
    add(10, (1, 2, TOOL));
    add(20, (2, 2, TOOL));
    add(30, (1, 1, ROOT));
    add(40, (1, 1, ROOT));
    assert_eq!((source.lowest(), source.claim_count()), (Some(10), 3), "the last says nothing new");
    assert_eq!(tick(&mut shard, 1_000), [(1, Completion::RootEnded, 0, 2)]);
    assert_eq!(source.lowest(), Some(10), "a late span may revise it");
    tick(&mut shard, 21_500);
    assert_eq!(source.lowest(), Some(20), "it is forgotten");
}

#[test]
fn records_from_before_a_trace_was_forgotten_are_passed_over_and_keep_its_notes() {
    let source = Arc::new(spanscore_base::model::Source::default());
    let mut shard = shard(|_, _| {});
    let notes = NoteCell::default();
    notes.add(NoteKind::Judged, source.claim(15, 1).into());
    let forgotten = PriorTrace { verdict: None, first: 15, notes };
    shard.restore(HashMap::from([(TraceId([1; 16]), forgotten)]), false);
    let mut add = |position, records: &[_]| {
        let claims = source.claim(position, 1).into();
        shard.add(&SpanBatch { claims, ..batch(records) }, 0, &mut Vec::new());
    };
    add(10, &[(1, 1, ROOT), (2, 1, TOOL)]);
    add(20, &[(1, 3, ROOT)]);
    shard.resume(1_000);
    let held: Vec<_> = source.claimed_records().records.iter().map(|it| it.0).collect();
    assert_eq!(held, [10, 15, 20], "trace 2 holds the first record, and with it the note");
    assert_eq!(tick(&mut shard, 5_000), [(1, Completion::RootEnded, 0, 1)], "it began anew");
}
