use super::*;
use crate::assemble::{LimitsSettings, TracesSettings};
use crate::extract::cache::Cache;
use crate::extract::collect::extract_traces;
use crate::extract::dialect::Dialect;
use crate::extract::table::Table;
use crate::model::Want;
use crate::pipeline::{PipelineIntake, Unjudged};
use crate::receive::{Intake, Signal, json};
use crate::telemetry::Telemetry;

const SAMPLE: &[u8] = include_bytes!("../../../examples/traces/refund_agent.json");

/// A worker without evaluators that tells of what it judged through its metrics.
fn worker(telemetry: &Telemetry) -> Worker {
    let judge = Judge::new(Vec::new(), Want::ALL);
    let table = Table::compile(Dialect::with_builtin(Vec::new()), &judge.facts()).unwrap();
    let metrics = PipelineMetrics::new(&telemetry.meter(), &judge);
    let empty =
        |now_ms| Shard::new(TracesSettings::default(), LimitsSettings::default(), 1, now_ms);
    Worker {
        index: 0,
        shard: empty(0),
        empty: Box::new(empty),
        resolver: Arc::new(Resolver::new(Arc::new(table))),
        judge: Arc::new(judge),
        outlet: Arc::new(|_| {}),
        metrics: Arc::new(metrics),
        pool: Arc::default(),
        backlog: Arc::new(Backlog::new(1)),
        sessions: None,
    }
}

fn sample(worker: &Worker) -> Arc<SpanBatch> {
    let request = json::transcode(Signal::Traces, SAMPLE).unwrap();
    let mut batches = [SpanBatch::default()];
    let table = worker.resolver.table();
    extract_traces(table, &request, &mut Cache::default(), &mut batches).unwrap();
    let [batch] = batches;
    Arc::new(batch)
}

#[track_caller]
fn counted(telemetry: &Telemetry, line: &str) {
    let text = telemetry.exposition();
    assert!(text.lines().any(|have| have == line), "no {line} in\n{text}");
}

#[tokio::test]
async fn what_comes_behind_the_last_word_is_judged_too() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let worker = worker(&telemetry);
    let room = Arc::new(tokio::sync::Semaphore::new(1)).acquire_owned().await.unwrap();
    let (sender, queue) = mpsc::channel(WORK_MAX + 1);
    for _ in 0..WORK_MAX {
        sender.send(Work::Drain).await.unwrap();
    }
    let batch = Work::Batch { batch: sample(&worker), _room: Arc::new(room) };
    sender.send(batch).await.unwrap();
    worker.run(queue).await;
    counted(&telemetry, "spanscore_assemble_judged_traces_total{completion=\"shutdown\"} 1");
}

#[tokio::test]
async fn what_is_acknowledged_is_in_the_backlog_until_it_is_judged() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let mut worker = worker(&telemetry);
    let (sender, mut queue) = mpsc::channel(1);
    let (table, backlog) = (Arc::clone(worker.resolver.table()), Arc::clone(&worker.backlog));
    let (metrics, pool) = (Arc::clone(&worker.metrics), Arc::default());
    let meter = telemetry.meter();
    let room = 1 << 20;
    let intake =
        PipelineIntake::new(table, vec![sender], room, metrics, pool, backlog.clone(), &meter);
    let request = json::transcode(Signal::Traces, SAMPLE).unwrap();
    intake.accept(Signal::Traces, request).await.unwrap();
    assert_eq!(backlog.unjudged(), Unjudged { records: 6, ..Unjudged::default() });

    let Some(Work::Batch { batch, .. }) = queue.recv().await else { panic!("a batch") };
    let mut due = Vec::new();
    worker.arrived(batch, 0, &mut due);
    assert_eq!(backlog.unjudged(), Unjudged { traces: 1, ..Unjudged::default() });
    worker.guarded(0, &mut due, |own, due| own.judge_all(Completion::Shutdown, 0, due));
    assert_eq!(backlog.unjudged(), Unjudged::default());
}

#[test]
fn a_fault_judges_what_the_shard_holds_and_the_shard_goes_on() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let mut worker = worker(&telemetry);
    let batch = sample(&worker);
    let mut due = Vec::new();
    worker.guarded(0, &mut due, |own, due| {
        own.take_in(Arc::clone(&batch), 0, due);
        panic!("a fault after a request was taken");
    });
    counted(&telemetry, "spanscore_evaluate_panics_total 1");
    counted(&telemetry, "spanscore_assemble_judged_traces_total{completion=\"evicted\"} 1");
    assert_eq!((worker.shard.trace_count(), worker.shard.bytes(), due.len()), (0, 0, 0));

    worker.guarded(1, &mut due, |own, due| own.take_in(batch, 1, due));
    worker.guarded(1, &mut due, |own, due| own.judge_all(Completion::Shutdown, 1, due));
    counted(&telemetry, "spanscore_assemble_judged_traces_total{completion=\"shutdown\"} 1");
    counted(&telemetry, "spanscore_evaluate_panics_total 1");
}
