//! Tests of traces that exceed a slice.

use super::*;
use crate::reload::setup::HeldSettings;
use crate::worker::inbox::Inbox;
use crate::worker::long_thread::LongThread;
use crate::worker::long_traces::LongTask;
use crate::worker::testing::costly_one;
use spanscore_base::model::Sender;

fn costly(telemetry: &Telemetry) -> (Worker, LongThread<LongTask>, Kept) {
    let evaluators = ["one", "other"].map(|name| costly_one(name, Level::Trace));
    let (context, settings) = WorkerContext::of(telemetry, evaluators.into());
    let mut worker = context.worker(&settings, 0, None);
    let (thread, _) = context.add_long_traces(&settings, &mut worker);
    let kept = keep(&mut worker);
    (worker, thread, kept)
}

#[derive(Clone, Copy)]
enum Step {
    /// A span with this id arrives, with all others.
    Add(&'static str),
    /// Open traces are complete.
    Judge,
    /// The thread begins with the waiting traces.
    Begin,
    /// The thread has judged.
    End,
}

/// Evaluations by id and revision, with their predecessors.
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

/// Checks that steps with a thread have the results of other steps on the shard alone.
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
    // Spans that arrive while it waits are judged with it, once.
    let once = [Add("0a05"), Add("0a06"), Judge];
    check(&[Add("0a05"), Judge, Add("0a06"), Judge, Begin, End], &once);
    check(&[Add("0a05"), Judge, Add("0a06"), Begin, Judge, Begin, End], &once);
    // Spans that arrive while it is judged revise it.
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
    let named = Sender { connection: 1, ..Sender::default() };
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
    assert_eq!((worker.long.len(), worker.long.holds(Sender::default())), (6, false));
}

/// Returns an update to these evaluators.
fn update_to(telemetry: &Telemetry, evaluators: Vec<Configured>) -> Arc<ConfigUpdate> {
    let (context, settings) = WorkerContext::of(telemetry, evaluators);
    let setup = context.setup;
    let PipelineSettings { traces, sessions, limits, .. } = settings;
    let held = HeldSettings { traces, sessions, limits, reports_ignored: false };
    Arc::new(ConfigUpdate { setup, held })
}

#[tokio::test]
async fn update_waits_neither_for_long_traces_nor_for_requests_that_they_hold_up() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let (mut worker, mut thread, kept) = costly(&telemetry);
    let named = Sender { connection: 1, ..Sender::default() };
    let send = |worker: &Worker, number: usize| {
        let id = format!("5b8efff798038103d269b633813fc6{number}c");
        let mut batch = sample_with(worker, &[("5b8efff798038103d269b633813fc60c", &id)]);
        Arc::get_mut(&mut batch).unwrap().sender = named;
        batch
    };
    for number in 0..6 {
        let batch = send(&worker, number);
        worker.take_in(batch, false, 0, &mut Vec::new());
        worker.judge_all(Completion::Idle, 0, &mut Vec::new());
        worker.begin_long();
    }
    assert!(worker.long.holds(named));
    let mut inbox = Inbox::default();
    let table = Arc::clone(worker.context.setup.resolver.table());
    let (batch, room) = (send(&worker, 7), room().await);
    inbox.put(ShardMessage::Batch { batch, table, at_ms: None, room });
    let next = configured("next", Level::Trace, Brittle::default());
    inbox.put(ShardMessage::ConfigUpdate(update_to(&telemetry, vec![next])));
    inbox.put(ShardMessage::Drain);
    assert!(!inbox.has_barrier(), "long traces may wait");
    let Some(ShardMessage::ConfigUpdate(update)) = inbox.take(&worker.long) else {
        panic!("the update passes")
    };
    worker.update(update).await;
    assert!(inbox.has_barrier() && inbox.take(&worker.long).is_none(), "the request is held");
    // The trace that was judged already is as before, the others have the new evaluators.
    let mut judged: Vec<Vec<String>> = Vec::new();
    while let Some(judgement) = thread.judge_one() {
        worker.conclude_long(Some(judgement));
        judged.push(kept.lock().unwrap().drain(..).map(|it| it.evaluator.name.clone()).collect());
        worker.begin_long();
    }
    let new: Vec<String> = vec!["next".to_owned()];
    let mut expected = vec![vec!["one".to_owned(), "other".to_owned()]];
    expected.resize(6, new);
    assert_eq!(judged, expected);
    assert!(matches!(inbox.take(&worker.long), Some(ShardMessage::Batch { .. })));
}

#[test]
fn trace_that_grows_while_it_is_judged_holds_what_its_sender_has() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let (mut worker, mut thread, _) = costly(&telemetry);
    let add = |worker: &mut Worker, id| {
        let batch = sample_with(worker, &[("0a05", id)]);
        worker.take_in(batch, false, 0, &mut Vec::new());
    };
    add(&mut worker, "0a05");
    worker.judge_all(Completion::Idle, 0, &mut Vec::new());
    let before = worker.shard.bytes();
    let copy = worker.shard.traces().map(TraceSpans::bytes).sum::<usize>();
    worker.begin_long();
    assert_eq!(worker.shard.bytes(), before, "lent as it is");
    add(&mut worker, "0a06");
    let grown = worker.shard.bytes();
    assert!(grown >= before + copy, "{grown} and {before}: with the copy");
    worker.conclude_long(thread.judge_one());
    let after = worker.shard.bytes();
    assert!(after < grown, "{after} and {grown}: its verdicts came, the copy went");
    counted(&telemetry, "spanscore_evaluate_copied_traces_total 1");
}
