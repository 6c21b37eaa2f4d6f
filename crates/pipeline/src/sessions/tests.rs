use std::sync::Mutex;

use super::*;
use crate::worker::brittle::{Brittle, configured};
use spanscore_base::model::Evaluation;
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
        worker.sessions.add(key, Arc::new(trace), [n; 16], 0, &mut due);
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
