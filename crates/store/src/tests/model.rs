use hashbrown::HashMap;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::StoreCount;
use crate::query::StoredGroup;
use spanscore_base::model::Sender;

/// One message: trace, evaluation, score (none is not evaluable), revised evaluation.
type Step = (u64, u8, Option<u8>, Option<u8>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let score = proptest::option::weighted(0.9, 0_u8..=20);
    vec((0_u64..4, 1_u8..6, score, proptest::option::weighted(0.3, 1_u8..6)), 1..60)
}

fn outcome_of(score: Option<u8>) -> Outcome {
    score.map_or_else(not_evaluable, |twentieths| scored(f64::from(twentieths) / 20.0))
}

/// Computes passed, failed, not evaluable and the sum of scores directly.
fn plain(steps: &[Step]) -> (i64, i64, i64, f64) {
    let mut first = HashMap::new();
    for (trace, id, score, revises) in steps {
        let revises = revises.filter(|it| it != id);
        first.entry((*trace, *id)).or_insert((*score, revises));
    }
    let is_current = |trace: u64, id: u8| {
        !first.iter().any(|((of, _), (_, revises))| *of == trace && *revises == Some(id))
    };
    let mut sums = (0, 0, 0, 0.0);
    for ((trace, id), (score, _)) in &first {
        if !is_current(*trace, *id) {
            continue;
        }
        match score {
            None => sums.2 += 1,
            Some(score) => {
                let score = f64::from(*score) / 20.0;
                sums.0 += i64::from(score >= 0.8);
                sums.1 += i64::from(score < 0.8);
                sums.3 += score;
            }
        }
    }
    sums
}

fn total(folder: &Path) -> StoredGroup {
    let groups = reader(folder).groups(&StoreFilter::default(), &[]).unwrap();
    let empty = StoredGroup {
        keys: Vec::new(),
        passed: 0,
        failed: 0,
        not_evaluable: 0,
        broken: 0,
        mean: None,
        squares: 0.0,
        cost_usd: 0.0,
    };
    groups.into_iter().next().unwrap_or(empty)
}

fn feed(store: &Store, steps: &[Step]) {
    for (trace, id, score, revises) in steps {
        let revises = revises.filter(|it| it != id);
        store.evaluations([evaluation(*trace, *id, outcome_of(*score), revises)].into());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Also across a restart, after which traces are read from the file.
    #[test]
    fn rows_and_sums_equal_a_plain_computation(steps in steps(), cut in 0_usize..60) {
        let folder = tempfile::tempdir().unwrap();
        let (before, after) = steps.split_at(cut.min(steps.len()));
        for part in [before, after] {
            let store = start(folder.path());
            feed(&store, part);
            store.close();
        }
        let (passed, failed, not_evaluable, sum) = plain(&steps);
        let sums = total(folder.path());
        let found = (sums.passed, sums.failed, sums.not_evaluable);
        prop_assert_eq!(found, (passed, failed, not_evaluable));
        let mean = sums.mean.unwrap_or(0.0) * (passed + failed) as f64;
        prop_assert!((mean - sum).abs() < 1e-6, "{} and {}", mean, sum);
        let rows = all(folder.path());
        let current = rows.iter().filter(|row| row.current).count() as i64;
        prop_assert_eq!(current, passed + failed + not_evaluable);
        let by_label = reader(folder.path())
            .groups(&StoreFilter::default(), &[crate::query::StoreField::Label])
            .unwrap();
        prop_assert_eq!(by_label.iter().map(|it| it.passed).sum::<i64>(), passed);
        // Rows add up to the sums.
        if let Some(merged) = StoredGroup::merged(&by_label) {
            prop_assert!((merged.squares - sums.squares).abs() < 1e-6);
            prop_assert!((merged.mean.unwrap_or(0.0) - sums.mean.unwrap_or(0.0)).abs() < 1e-6);
            prop_assert_eq!(merged.count(), sums.count());
        }
        let mut of_rows = StoreFilter::default();
        of_rows.score_gte = Some(0.0);
        let reader = reader(folder.path());
        let bins = reader.score_bins(&StoreFilter::default()).unwrap();
        prop_assert_eq!(bins, reader.score_bins(&of_rows).unwrap());
    }
}

#[test]
fn full_queue_leaves_out_rows_and_keeps_the_sums() {
    let folder = tempfile::tempdir().unwrap();
    let second = start(folder.path());
    while second.view().state() == crate::StoreState::Opening {
        std::thread::yield_now();
    }
    // Its writer waits for the lock, so its queue fills.
    let store = start_small(folder.path(), 40);
    for number in 0..100 {
        store.trajectory(run(number, 0, number % 4 != 0));
        let score = if number % 4 == 0 { 0.5 } else { 1.0 };
        store.evaluations([evaluation(number, 1, scored(score), None)].into());
    }
    drop(second);
    while store.view().state() != crate::StoreState::Working {
        std::thread::yield_now();
    }
    store.close();
    let sums = total(folder.path());
    assert_eq!((sums.passed, sums.failed), (75, 25));
    let count = |count| store.view().counters().get(count);
    assert!(count(StoreCount::ShedContent) > 0 && count(StoreCount::ShedTrajectories) > 0);
    assert_eq!(count(StoreCount::ShedEvaluations) + all(folder.path()).len() as u64, 100);
    let losses = reader(folder.path()).losses().unwrap();
    assert_eq!(losses.shed_evaluations as u64, count(StoreCount::ShedEvaluations));
    assert_eq!(losses.repeated_unseen as u64, count(StoreCount::RepeatedUnseen));
}

#[test]
fn repeated_run_whose_passes_were_left_out_is_not_counted_twice() {
    let folder = tempfile::tempdir().unwrap();
    let holder = start(folder.path());
    while holder.view().state() == crate::StoreState::Opening {
        std::thread::yield_now();
    }
    let store = start_small(folder.path(), 8);
    let record = run(1, 0, true);
    // Three quarters: two runs of three rows each.
    (2..4).for_each(|number| store.trajectory(run(number, 0, false)));
    store.trajectory(record.clone());
    holder.close();
    drop(holder);
    while store.view().state() != crate::StoreState::Working {
        std::thread::yield_now();
    }
    store.close();
    assert_eq!(store.view().counters().get(StoreCount::ShedCalls), 1);
    let again = start(folder.path());
    again.trajectory(record);
    again.evaluations([evaluation(1, 1, scored(1.0), None)].into());
    again.close();
    assert_eq!(again.view().counters().get(StoreCount::Repeated), 1);
}

#[test]
fn shards_learn_what_there_is_room_for_before_they_build_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let holder = start(folder.path());
    while holder.view().state() == crate::StoreState::Opening {
        std::thread::yield_now();
    }
    // Each run counts as three rows.
    let store = start_small(folder.path(), 12);
    let check = |passing: Option<bool>, failing: Option<bool>| {
        let of = Sender::default();
        assert_eq!((store.admit(of, true, true), store.admit(of, false, true)), (passing, failing));
    };
    check(Some(true), Some(true));
    (0..2).for_each(|number| store.trajectory(run(number, 0, false)));
    check(Some(false), Some(true));
    (2..4).for_each(|number| store.trajectory(run(number, 0, false)));
    check(None, None);
    let count = |count| store.view().counters().get(count);
    assert_eq!((count(StoreCount::ShedContent), count(StoreCount::ShedTrajectories)), (1, 2));
    drop(holder);
    while store.view().state() != crate::StoreState::Working {
        std::thread::yield_now();
    }
    store.close();
    check(None, None);
}

#[test]
fn sender_with_little_is_stored_whole_beside_connections_that_fill_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let second = start(folder.path());
    while second.view().state() == crate::StoreState::Opening {
        std::thread::yield_now();
    }
    // Its writer waits for the lock, so nothing leaves the queue.
    let store = start_small(folder.path(), 400);
    let keep = |sender: Sender, number: u64| {
        if let Some(with_content) = store.admit(sender, true, true) {
            let mut record = run(number, 0, true);
            record.sender = sender;
            record.content = record.content.filter(|_| with_content);
            store.trajectory(record);
        }
        let mut evaluation = evaluation(number, 1, scored(1.0), None);
        Arc::make_mut(&mut evaluation.target).sender = sender;
        store.evaluations([evaluation].into());
    };
    let of = |peer, connection| Sender { peer, connection, ..Sender::default() };
    (0..300_u16).for_each(|number| keep(of(1, number % 200), number.into()));
    (1000..1005).for_each(|number| keep(of(2, 1), number));
    (300..600_u16).for_each(|number| keep(of(1, number % 200), number.into()));
    drop(second);
    while store.view().state() != crate::StoreState::Working {
        std::thread::yield_now();
    }
    store.close();
    let reader = reader(folder.path());
    for number in 1000..1005 {
        let stored = reader.trajectory(&trace_id(number).to_string()).unwrap();
        let is_whole = stored.left_out.is_none() && stored.evaluations.len() == 1;
        assert!(is_whole && stored.calls.len() == 1, "{number}");
    }
    let count = |count| store.view().counters().get(count);
    assert!(count(StoreCount::ShedTrajectories) > 300 && count(StoreCount::ShedEvaluations) > 300);
    assert_eq!(total(folder.path()).passed, 605, "the sums hold all");
}

/// Many calls, each judged: quadratic work per trace would take minutes.
#[test]
fn evaluations_of_many_calls_find_the_tools_of_their_spans() {
    const CALLS: u64 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let span = |call: u64| SpanId((call + 1).to_be_bytes());
    let mut record = run(1, 0, false);
    let first = record.calls[0].clone();
    record.calls = (0..CALLS)
        .map(|call| {
            let tool = format!("tool{}", call % 10).into();
            crate::record::CallRecord { span_id: span(call), tool, ..first.clone() }
        })
        .collect();
    store.trajectory(record);
    let of_calls = Arc::new(EvaluatorInfo { level: Level::Call, ..(*info("refund")).clone() });
    let target = target(1);
    let judged = |call: u64| Evaluation {
        id: EvaluationId(u128::from(call).to_be_bytes()),
        evaluator: Arc::clone(&of_calls),
        target: Arc::clone(&target),
        span_id: span(call),
        ..evaluation(1, 1, scored(0.5), None)
    };
    store.evaluations((0..CALLS).map(judged).collect());
    store.close();
    let by_tool = reader(folder.path())
        .groups(&StoreFilter::default(), &[crate::query::StoreField::Tool])
        .unwrap();
    assert_eq!(by_tool.len(), 10);
    assert!(by_tool.iter().all(|group| group.failed == 1_000), "{by_tool:?}");
}

#[test]
fn revisions_of_old_targets_are_counted_in_hours() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let mut of_days_ago = Arc::unwrap_or_clone(target(1));
    of_days_ago.ended_ns -= 3 * 24 * 3_600 * 1_000_000_000;
    let target = Arc::new(of_days_ago);
    for (id, revises) in [(1, None), (2, Some(1))] {
        let it = evaluation(1, id, scored(1.0), revises);
        store.evaluations([Evaluation { target: Arc::clone(&target), ..it }].into());
    }
    store.close();
    let file = Connection::open(folder.path().join("scores.db")).unwrap();
    let spans = "SELECT group_concat(span || ' ' || passed) FROM rollups";
    let spans: String = file.query_row(spans, [], |row| row.get(0)).unwrap();
    assert_eq!(spans, "3600 1");
}
