//! Traces that take more than a slice.

use super::*;
use crate::worker::long_traces::{ATTEMPT_STEPS, LongTraceThread};
use spanscore_base::model::{Explanation, Facts, Outcome, Score, SenderId, Trajectory, Want};
use spanscore_base::value::Value;
use spanscore_evaluate::engine::run::Against;
use spanscore_evaluate::{CodeEvaluator, Evaluator};

/// Takes two slices.
struct Costly;

impl CodeEvaluator for Costly {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, _: Want) -> Outcome {
        trajectory.effort.spend(2 * ATTEMPT_STEPS as usize);
        Outcome::Scored(Score {
            value: 1.0,
            explanation: Explanation::default(),
            details: Value::Null,
            label: None,
        })
    }
}

fn costly(telemetry: &Telemetry) -> (Worker, LongTraceThread, Kept) {
    let evaluators = ["one", "other"].map(|name| Configured {
        against: Against::Settings(Evaluator::code(Costly)),
        ..configured(name, Level::Trace, Brittle::default())
    });
    let (context, settings) = WorkerContext::of(telemetry, evaluators.into());
    let mut worker = context.worker(&settings, 0, None);
    let (thread, _) = context.add_long_traces(&settings, &mut worker);
    let kept = keep(&mut worker);
    (worker, thread, kept)
}

#[derive(Clone, Copy)]
enum Step {
    /// A span of this id comes, with all others.
    Add(&'static str),
    /// Open traces are complete.
    Judge,
    /// The thread begins with what waits.
    Begin,
    /// The thread has judged.
    End,
}

/// Evaluations by id, revision and what they revise.
fn identities(
    telemetry: &Telemetry,
    steps: &[Step],
    is_beside: bool,
) -> Vec<(EvaluationId, u32, Option<EvaluationId>)> {
    let (mut worker, mut thread, kept) = costly(telemetry);
    if !is_beside {
        worker.long.give_up();
    }
    let mut due = Vec::new();
    for step in steps {
        match step {
            Step::Add(id) => {
                let batch = sample_with(&worker, &[("0a05", id)]);
                worker.take_in(batch, false, 0, &mut due);
            }
            Step::Judge => worker.judge_all(Completion::Idle, 0, &mut due),
            Step::Begin => worker.begin_long(),
            Step::End => {
                let judgement = thread.judge_one().expect("a trace with the thread");
                worker.conclude_long(Some(judgement));
            }
        }
    }
    assert!(worker.long.is_empty());
    assert_eq!(worker.shard.open_spans(), 0, "all are counted as judged");
    let kept = kept.lock().unwrap();
    assert!(kept.iter().all(|it| it.outcome.as_str() == "scored"));
    kept.iter().map(|it| (it.id, it.revision, it.revises)).collect()
}

/// Checks that steps with a thread give what the other steps give on the shard alone.
fn check(beside: &[Step], alone: &[Step]) {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let found = identities(&telemetry, beside, true);
    assert_eq!(found, identities(&telemetry, alone, false));
    assert!(!found.is_empty());
}

#[test]
fn long_trace_is_judged_beside_the_shard_as_it_would_be_on_it() {
    use Step::{Add, Begin, End, Judge};
    check(&[Add("0a05"), Judge, Begin, End], &[Add("0a05"), Judge]);
    // What comes while it waits is judged with it, once.
    let once = [Add("0a05"), Add("0a06"), Judge];
    check(&[Add("0a05"), Judge, Add("0a06"), Judge, Begin, End], &once);
    check(&[Add("0a05"), Judge, Add("0a06"), Begin, Judge, Begin, End], &once);
    // What comes while it is judged revises it.
    let revised = [Add("0a05"), Judge, Add("0a06"), Judge];
    check(&[Add("0a05"), Judge, Begin, Add("0a06"), End, Judge, Begin, End], &revised);
    check(&[Add("0a05"), Judge, Begin, Add("0a06"), Judge, Begin, End, Begin, End], &revised);
}

#[test]
fn long_trace_is_judged_on_the_shard_while_a_message_waits_for_the_end_of_all() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let (mut worker, _thread, kept) = costly(&telemetry);
    worker.long.close_if(true);
    let batch = sample(&worker);
    worker.take_in(batch, false, 0, &mut Vec::new());
    worker.judge_all(Completion::Idle, 0, &mut Vec::new());
    assert!(worker.long.is_empty() && !kept.lock().unwrap().is_empty());
}

#[test]
fn long_traces_are_judged_on_the_shard_once_their_thread_has_ended() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    // The thread ends before it has a trace, with one, and with one that waits again.
    for grows in [None, Some(false), Some(true)] {
        let (mut worker, thread, kept) = costly(&telemetry);
        let mut thread = Some(thread);
        let judge = |worker: &mut Worker, id| {
            let batch = sample_with(worker, &[("0a05", id)]);
            worker.take_in(batch, false, 0, &mut Vec::new());
            worker.judge_all(Completion::Idle, 0, &mut Vec::new());
        };
        judge(&mut worker, "0a05");
        if grows.is_none() {
            thread = None;
        }
        worker.begin_long();
        if let Some(grows) = grows {
            if grows {
                judge(&mut worker, "0a06");
            }
            assert!(kept.lock().unwrap().is_empty());
            drop(thread);
            worker.conclude_long(None);
        }
        assert!(worker.long.is_empty() && !worker.may_put_long());
        assert_eq!(worker.shard.open_spans(), 0);
        let found = revisions(&kept.lock().unwrap());
        assert_eq!(found, [(0, None); 2], "{grows:?}");
    }
}

#[test]
fn no_long_trace_of_a_shard_that_panicked_waits_in_the_next() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let (mut worker, mut thread, _) = costly(&telemetry);
    let batches = ["0a05", "0a06"].map(|id| sample_with(&worker, &[("0a05", id)]));
    let mut due = Vec::new();
    worker.take_in(Arc::clone(&batches[0]), false, 0, &mut due);
    worker.judge_all(Completion::Idle, 0, &mut due);
    worker.begin_long();
    worker.guarded(0, &mut due, |own, due| {
        own.take_in(Arc::clone(&batches[1]), false, 0, due);
        panic!("a fault while a long trace is judged");
    });
    assert_eq!(worker.long.len(), 1, "only the one that is judged");
    worker.conclude_long(thread.judge_one());
    assert!(worker.long.is_empty() && worker.may_put_long());
}

#[test]
fn requests_of_a_sender_wait_while_many_of_its_traces_do() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let (mut worker, mut thread, kept) = costly(&telemetry);
    let mut due = Vec::new();
    let named = SenderId { connection: 1, ..SenderId::default() };
    for number in 0..6 {
        assert_eq!(worker.long.holds(named), number > 4);
        let id = format!("5b8efff798038103d269b633813fc6{number}c");
        let mut batch = sample_with(&worker, &[("5b8efff798038103d269b633813fc60c", &id)]);
        Arc::get_mut(&mut batch).unwrap().sender = named;
        worker.take_in(batch, false, 0, &mut due);
        worker.judge_all(Completion::Idle, 0, &mut due);
        worker.begin_long();
    }
    assert!(kept.lock().unwrap().is_empty());
    while let Some(judgement) = thread.judge_one() {
        worker.conclude_long(Some(judgement));
        worker.begin_long();
    }
    assert_eq!(kept.lock().unwrap().len(), 12);
    assert!(worker.long.is_empty() && !worker.long.holds(named));
}

#[test]
fn what_comes_by_no_connection_waits_for_no_long_traces() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let (mut worker, _thread, _) = costly(&telemetry);
    let mut due = Vec::new();
    for number in 0..6 {
        let id = format!("5b8efff798038103d269b633813fc6{number}c");
        let batch = sample_with(&worker, &[("5b8efff798038103d269b633813fc60c", &id)]);
        worker.take_in(batch, false, 0, &mut due);
        worker.judge_all(Completion::Idle, 0, &mut due);
    }
    assert_eq!((worker.long.len(), worker.long.holds(SenderId::default())), (6, false));
}
