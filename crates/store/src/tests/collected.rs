//! Tests of evaluations of other processes beside own ones.

use std::time::Duration;

use spanscore_base::model::Sender;

use super::*;
use crate::CollectedEvents;
use crate::queue::{StoreQueue, StoreWork};

/// Incoming verdict: number of its id, score, revised id, and the client, if another process
/// judged.
type Coming = (u8, f64, Option<u8>, Option<&'static str>);

fn bring(store: &Store, (id, score, revises, client): Coming) {
    let given = evaluation(1, id, scored(score), revises);
    match client {
        None => store.evaluations([given].into()),
        Some(client) => {
            let events = CollectedEvents { evaluations: vec![given], malformed: 0 };
            assert_eq!(store.collect(events, &client.into()), 0);
        }
    }
}

/// Stores verdicts on one trace in this order, and again after a restart. Expects these stored ones
/// by score: score, client, and true for a current one.
fn check(coming: &[Coming], expected: &[(f64, Option<&str>, bool)]) {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let store = start(folder.path());
        coming.iter().for_each(|coming| bring(&store, *coming));
        store.close();
        let stored = reader(folder.path()).trajectory(&trace_id(1).to_string()).unwrap();
        let rows = stored.evaluations.iter();
        let mut shown: Vec<_> =
            rows.map(|it| (it.score.unwrap(), it.client.as_deref(), it.current)).collect();
        shown.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(shown, expected, "{coming:?}");
        let sums = reader(folder.path()).groups(&StoreFilter::default(), &[]).unwrap();
        let current = expected.iter().filter(|(_, _, is_current)| *is_current).count();
        assert_eq!(sums.first().map_or(0, |all| all.count()), current as i64, "{coming:?}");
    }
}

#[test]
fn collected_verdict_counts_only_where_this_process_gave_none_by_that_evaluator() {
    let a = Some("a");
    check(&[(1, 0.1, None, a)], &[(0.1, a, true)]);
    check(&[(1, 0.1, None, a), (2, 0.9, None, None)], &[(0.1, a, false), (0.9, None, true)]);
    check(&[(2, 0.9, None, None), (1, 0.1, None, a)], &[(0.1, a, false), (0.9, None, true)]);
}

#[test]
fn collected_verdict_revises_other_collected_ones_alone() {
    let a = Some("a");
    check(&[(1, 0.1, None, a), (2, 0.2, Some(1), a)], &[(0.1, a, false), (0.2, a, true)]);
    check(&[(2, 0.2, Some(1), a), (1, 0.1, None, a)], &[(0.1, a, false), (0.2, a, true)]);
    check(&[(1, 0.9, None, None), (2, 0.2, Some(1), a)], &[(0.2, a, false), (0.9, None, true)]);
    check(&[(2, 0.2, Some(1), a), (1, 0.9, None, None)], &[(0.2, a, false), (0.9, None, true)]);
}

#[test]
fn own_verdict_takes_the_place_of_a_collected_one_with_its_id() {
    check(&[(1, 0.1, None, Some("a")), (1, 0.9, None, None)], &[(0.9, None, true)]);
    check(&[(1, 0.9, None, None), (1, 0.1, None, Some("a"))], &[(0.9, None, true)]);
    check(&[(1, 0.1, None, Some("a")), (1, 0.2, None, Some("b"))], &[(0.1, Some("a"), true)]);
}

#[test]
fn own_verdict_with_the_id_of_a_collected_one_by_another_evaluator_stands() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let given = |id: u8, name: &str| {
        let base = evaluation(1, id, scored(0.5), None);
        let digest = [name.len() as u8; 16];
        let info = EvaluatorInfo::clone(&base.evaluator);
        let info = EvaluatorInfo { name: name.to_owned(), digest, ..info };
        Evaluation { evaluator: Arc::new(info), ..base }
    };
    let events = CollectedEvents { evaluations: vec![given(1, "theirs")], malformed: 0 };
    assert_eq!(store.collect(events, &"a".into()), 0);
    for own in [given(1, "own"), given(2, "theirs")] {
        store.evaluations([own].into());
    }
    store.close();
    let stored = reader(folder.path()).trajectory(&trace_id(1).to_string()).unwrap();
    let mut shown: Vec<_> = stored
        .evaluations
        .iter()
        .map(|it| (&*it.evaluator, it.client.is_none(), it.current))
        .collect();
    shown.sort();
    assert_eq!(shown, [("own", true, true), ("theirs", true, true)]);
}

#[test]
fn collected_verdicts_beyond_a_limit_or_without_room_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let many = (0..1_001_u128).map(|number| Evaluation {
        id: EvaluationId(number.to_be_bytes()),
        ..evaluation(1, 0, scored(0.5), None)
    });
    let events = CollectedEvents { evaluations: many.collect(), malformed: 2 };
    assert_eq!(store.collect(events, &"a".into()), 0);
    store.close();
    assert!(!store.has_room_for(Default::default()));
    let late =
        CollectedEvents { evaluations: vec![evaluation(1, 9, scored(0.5), None)], malformed: 0 };
    assert_eq!(store.collect(late, &"a".into()), 1);
    let count = |count| store.view().counters().get(count);
    assert_eq!((count(StoreCount::Collected), count(StoreCount::CollectedBeyond)), (1_000, 1));
    assert_eq!(count(StoreCount::CollectedUnstored), 1);
    assert_eq!(count(StoreCount::CollectedMalformed), 2);
}

#[test]
fn client_that_fills_a_trace_leaves_others_their_own_number() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let many = (0..1_500_u128).map(|number| Evaluation {
        id: EvaluationId(number.to_be_bytes()),
        ..evaluation(1, 0, scored(0.5), None)
    });
    store.collect(CollectedEvents { evaluations: many.collect(), malformed: 0 }, &"a".into());
    let other = vec![evaluation(1, 250, scored(0.5), None)];
    store.collect(CollectedEvents { evaluations: other, malformed: 0 }, &"b".into());
    store.close();
    let count = |count| store.view().counters().get(count);
    assert_eq!((count(StoreCount::Collected), count(StoreCount::CollectedBeyond)), (1_001, 500));
}

#[test]
fn clients_fill_a_trace_up_to_a_limit_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    for client in 0..11_u128 {
        let many = (0..1_000_u128).map(|number| Evaluation {
            id: EvaluationId((client << 64 | number).to_be_bytes()),
            ..evaluation(1, 0, scored(0.5), None)
        });
        let events = CollectedEvents { evaluations: many.collect(), malformed: 0 };
        assert_eq!(store.collect(events, &format!("client {client}").into()), 0);
    }
    store.close();
    let count = |count| store.view().counters().get(count);
    assert_eq!((count(StoreCount::Collected), count(StoreCount::CollectedBeyond)), (10_000, 1_000));
}

#[test]
fn small_sender_is_stored_whole_beside_a_large_batch() {
    let queue = StoreQueue::new(StoreQueueLimits::of(4 << 20), Arc::default());
    let mut number = 0;
    while queue.has_room_for(Sender::default()) {
        number += 1;
        queue.put_collected(vec![evaluation(number, 1, scored(0.5), None)], "a".into(), 0);
    }
    let batch = queue.take(usize::MAX, Duration::ZERO, Duration::ZERO);
    let of_other = |peer: u32| {
        let given = evaluation(1, 1, scored(1.0), None);
        let sender = Sender { peer, connection: 1, ..Sender::default() };
        let target = Arc::new(Target { sender, ..Target::clone(&given.target) });
        queue.put_evaluations([Evaluation { target, ..given }].into(), 0);
    };
    of_other(2);
    let next = queue.take(1_000, Duration::ZERO, Duration::ZERO);
    assert!(matches!(next.work[..], [StoreWork::Evaluations { is_shed: false, .. }]));
    queue.done(batch);
}

#[test]
fn own_work_is_taken_row_by_row_beside_large_parts_of_others() {
    let queue = StoreQueue::new(StoreQueueLimits::of(64 << 20), Arc::default());
    let many = |count: usize| (0..count).map(|_| evaluation(1, 1, scored(0.5), None));
    for _ in 0..20 {
        assert_eq!(queue.put_collected(many(1_000).collect(), "a".into(), 0), 0);
    }
    (0..1_000).for_each(|_| queue.put_evaluations(many(5).collect(), 0));
    let is_own = |work: &StoreWork| matches!(work, StoreWork::Evaluations { .. });
    let mut own = 0;
    for _ in 0..10 {
        let batch = queue.take(1_000, Duration::ZERO, Duration::ZERO);
        own += batch.work.iter().filter(|work| is_own(work)).count();
        queue.done(batch);
    }
    assert!(own > 900, "{own} of 1,000 parts of its own beside at most ten of others");
}
