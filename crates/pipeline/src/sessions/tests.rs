use std::sync::Mutex;

use super::*;
use crate::worker::testing::{Brittle, configured, costly_one};
use spanscore_base::model::{Evaluation, Sender};
use spanscore_base::model::{Level, TraceId};
use spanscore_evaluate::engine::run::Configured;
use spanscore_telemetry::Telemetry;

/// Builds a session worker with these evaluators, and the list of its evaluations.
fn worker(evaluators: Vec<Configured>) -> (SessionWorker, Arc<Mutex<Vec<Evaluation>>>) {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let (mut context, settings) = WorkerContext::of(&telemetry, evaluators);
    let out = Arc::<Mutex<Vec<Evaluation>>>::default();
    let outlet = Arc::clone(&out);
    context.outlet = Arc::new(move |evaluations, _| outlet.lock().unwrap().extend(evaluations));
    let worker = context.session_worker(&settings);
    (worker, out)
}

#[test]
fn evaluations_that_a_panic_dropped_are_never_revised() {
    let brittle = Brittle::default();
    let evaluators = vec![
        configured("steady", Level::Session, Brittle::default()),
        configured("brittle", Level::Session, brittle.clone()),
    ];
    let (mut worker, out) = worker(evaluators);
    let mut due = Vec::new();
    let mut evaluate_trace = |n: u8| {
        let trace = TraceSpans { trace_id: TraceId([n; 16]), ..TraceSpans::default() };
        let key =
            SessionKey { service_name: None, session_id: "s-1".into(), group: Default::default() };
        worker.sessions.add(key, (Arc::new(trace), [n; 16]), 0, &mut due);
        worker.judge_all(Completion::Idle, &mut due);
        std::mem::take(&mut *out.lock().unwrap())
    };
    brittle.breaks(true);
    assert!(evaluate_trace(1).is_empty());
    brittle.breaks(false);
    let first = evaluate_trace(2);
    assert_eq!(first.iter().map(|e| (e.revision, e.revises)).collect::<Vec<_>>(), [(0, None); 2]);
    brittle.breaks(true);
    assert!(evaluate_trace(3).is_empty());
    brittle.breaks(false);
    let revised = evaluate_trace(4);
    let ids = first.iter().map(|e| (1, Some(e.id)));
    assert!(revised.iter().map(|e| (e.revision, e.revises)).eq(ids));
}

#[test]
fn long_sessions_are_judged_beside_the_worker_in_turns_of_their_senders() {
    let (mut worker, out) = worker(vec![costly_one("costly", Level::Session)]);
    let mut thread = {
        let (long, thread) = LongSessions::with_thread();
        worker.long = long;
        thread
    };
    let mut due = Vec::new();
    let of = |peer| Sender { peer, connection: 1, ..Sender::default() };
    let mut add = |worker: &mut SessionWorker, sender: Sender, id: &str, n: u8| {
        let trace = TraceSpans { trace_id: TraceId([n; 16]), sender, ..TraceSpans::default() };
        let (service_name, group) = (None, Default::default());
        let key = SessionKey { service_name, session_id: id.into(), group };
        worker.sessions.add(key, (Arc::new(trace), [n; 16]), 0, &mut due);
        worker.judge_all(Completion::Idle, &mut due);
        worker.long.begin();
    };
    for n in 0..6 {
        assert_eq!(worker.long.holds(of(1)), n > 4);
        add(&mut worker, of(1), &format!("flood {n}"), n);
    }
    add(&mut worker, of(2), "other", 10);
    // A revision while the first judgement waits, by another sender's turn.
    add(&mut worker, of(3), "other", 11);
    assert!(out.lock().unwrap().is_empty() && worker.long.len() == 8);
    let mut order = Vec::new();
    while let Some(judgement) = thread.judge_one() {
        worker.conclude_long(Some(judgement));
        worker.long.begin();
        let mut out = out.lock().unwrap();
        assert!(out.iter().all(|it| it.outcome.as_str() == "scored"));
        assert!(out.iter().all(|it| it.target.sender != of(3)), "who began it has it");
        order.extend(out.drain(..).map(|it| (it.revision, it.revises.is_some())));
    }
    assert_eq!(order.iter().filter(|it| **it == (0, false)).count(), 7);
    let revised = order.iter().position(|it| *it == (1, true));
    assert!(revised.is_some_and(|at| at < 5), "{order:?}: not behind all of the flood");
    assert_eq!((worker.long.len(), worker.long.holds(of(1))), (0, false));
}

#[test]
fn sessions_that_find_no_room_to_wait_are_judged_on_the_worker() {
    let (mut worker, out) = worker(vec![costly_one("costly", Level::Session)]);
    let (long, _thread) = LongSessions::with_thread();
    worker.long = long;
    // Room for one, whatever its size.
    worker.memory.resize(2);
    let mut due = Vec::new();
    for n in 0..3 {
        let sender = Sender { peer: n.into(), ..Sender::default() };
        let trace = TraceSpans { trace_id: TraceId([n; 16]), sender, ..TraceSpans::default() };
        let (service_name, group) = (None, Default::default());
        let key = SessionKey { service_name, session_id: n.to_string().into(), group };
        worker.sessions.add(key, (Arc::new(trace), [n; 16]), 0, &mut due);
        worker.judge_all(Completion::Idle, &mut due);
    }
    let out = out.lock().unwrap();
    assert_eq!((worker.long.len(), out.len()), (1, 2));
    assert!(out.iter().all(|it| it.outcome.as_str() == "scored"));
}

#[tokio::test]
async fn sessions_that_wait_at_the_end_are_judged() {
    let (mut worker, out) = worker(vec![costly_one("costly", Level::Session)]);
    let (long, mut thread) = LongSessions::with_thread();
    worker.long = long;
    let mut due = Vec::new();
    for n in 0..3 {
        let sender = Sender { peer: n.into(), ..Sender::default() };
        let trace = TraceSpans { trace_id: TraceId([n; 16]), sender, ..TraceSpans::default() };
        let (service_name, group) = (None, Default::default());
        let key = SessionKey { service_name, session_id: n.to_string().into(), group };
        worker.sessions.add(key, (Arc::new(trace), [n; 16]), 0, &mut due);
        worker.judge_all(Completion::Idle, &mut due);
    }
    worker.long.begin();
    // The thread has one, and ends with it.
    drop(thread.judge_one());
    drop(thread);
    worker.end_long().await;
    assert_eq!((worker.long.len(), out.lock().unwrap().len()), (0, 3));
}
