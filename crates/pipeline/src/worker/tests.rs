mod long;
mod partitions;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::pace::WORK_MAX;
use super::testing::{Brittle, configured};
use super::*;
use crate::request_queue::{RequestQueue, ShardQueue};
use crate::{PipelineIntake, PipelineSettings, Unjudged};
use spanscore_base::model::{EvaluationId, Level};
use spanscore_base::otlp::{Signal, json};
use spanscore_evaluate::engine::run::Configured;
use spanscore_extract::{ExtractionCache, extract};
use spanscore_receive::{Intake, Received};
use spanscore_telemetry::Telemetry;

const SAMPLE: &[u8] = include_bytes!("../../../../examples/traces/refund_agent.json");

/// Builds a worker with these evaluators, whose metrics show its judgements.
fn worker(telemetry: &Telemetry, evaluators: Vec<Configured>) -> Worker {
    let (context, settings) = WorkerContext::of(telemetry, evaluators);
    context.worker(&settings, 0, None)
}

fn sample(worker: &Worker) -> Arc<SpanBatch> {
    batch(worker, SAMPLE)
}

/// Loads the sample with some ids changed: `0a01` to `0a05` are of tools, `02b7` is the root's.
fn sample_with(worker: &Worker, changed: &[(&str, &str)]) -> Arc<SpanBatch> {
    let text = String::from_utf8(SAMPLE.to_vec()).unwrap();
    let text = changed.iter().fold(text, |text, (from, to)| text.replace(from, to));
    batch(worker, text.as_bytes())
}

fn batch(worker: &Worker, json: &[u8]) -> Arc<SpanBatch> {
    let request = json::transcode(Signal::Traces, json).unwrap();
    let mut batches = [SpanBatch::default()];
    let table = worker.context.setup.resolver.table();
    extract(table, Signal::Traces, &request, &mut ExtractionCache::default(), &mut batches)
        .unwrap();
    let [batch] = batches;
    Arc::new(batch)
}

/// Requests with a place in the channel are acknowledged, though they arrive after the drain.
#[tokio::test(start_paused = true)]
async fn work_that_was_taken_is_judged_although_it_stands_behind_the_drain() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let worker = worker(&telemetry, Vec::new());
    let batch = sample(&worker);
    let table = Arc::clone(worker.context.setup.resolver.table());
    let count = batch.spans.len();
    let (sender, queue) = mpsc::channel(2 * WORK_MAX + 2);
    let room = room().await;
    sender.send(ShardMessage::Drain).await.unwrap();
    let place = sender.clone().reserve_owned().await.unwrap();
    for _ in 0..2 * WORK_MAX {
        let work = ShardMessage::Batch {
            batch: Arc::clone(&batch),
            table: Arc::clone(&table),
            at_ms: None,
            room: Arc::clone(&room),
        };
        sender.send(work).await.unwrap();
    }
    let running = tokio::spawn(worker.run(queue));
    sender.closed().await;
    place.send(ShardMessage::Batch { batch, table, at_ms: None, room });
    running.await.unwrap();
    counted(&telemetry, "spanscore_assemble_judged_traces_total{completion=\"shutdown\"} 1");
    let again = 2 * WORK_MAX * count;
    let duplicates = "spanscore_assemble_dropped_spans_total{reason=\"duplicate\"}";
    counted(&telemetry, &format!("{duplicates} {again}"));
}

/// Takes room in the queue for a request to one shard.
async fn room() -> Arc<(ShardRoom, Arc<QueueRoom>)> {
    let queue = RequestQueue::new(MemoryQuota::new("queue", 100));
    let soon = Instant::now() + TICK;
    let room = queue.take(&Arc::default(), 1, soon, || {}).await.unwrap();
    let own = ShardQueue::new(1).take(&room, 1, soon, || {}).await.unwrap();
    Arc::new((own, Arc::new(room)))
}

#[track_caller]
fn counted(telemetry: &Telemetry, line: &str) {
    let text = telemetry.exposition();
    assert!(text.lines().any(|have| have == line), "no {line} in\n{text}");
}

#[tokio::test]
async fn records_after_the_drain_message_are_judged() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let worker = worker(&telemetry, Vec::new());
    let (sender, queue) = mpsc::channel(WORK_MAX + 1);
    for _ in 0..WORK_MAX {
        sender.send(ShardMessage::Drain).await.unwrap();
    }
    let batch = sample(&worker);
    let table = Arc::clone(worker.context.setup.resolver.table());
    let batch = ShardMessage::Batch { batch, table, at_ms: None, room: room().await };
    sender.send(batch).await.unwrap();
    worker.run(queue).await;
    counted(&telemetry, "spanscore_assemble_judged_traces_total{completion=\"shutdown\"} 1");
}

#[tokio::test]
async fn what_is_acknowledged_is_in_the_backlog_until_it_is_judged() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let mut worker = worker(&telemetry, Vec::new());
    let (sender, mut queue) = mpsc::channel(1);
    let context = worker.context.clone();
    let backlog = &context.backlog;
    let room = MemoryQuota::new("queue", 1 << 20);
    let intake = PipelineIntake::new(&context, vec![sender], &room, &telemetry.meter());
    let request = json::transcode(Signal::Traces, SAMPLE).unwrap();
    intake.accept(Received::protobuf(Signal::Traces, request), &Arc::default()).await.unwrap();
    assert_eq!(backlog.unjudged(), Unjudged { records: 6, ..Unjudged::default() });

    let Some(ShardMessage::Batch { batch, table, .. }) = queue.recv().await else {
        panic!("a batch")
    };
    let mut due = Vec::new();
    worker.arrived((batch, table), None, &mut due);
    assert_eq!(backlog.unjudged(), Unjudged { traces: 1, ..Unjudged::default() });
    worker.guarded(0, &mut due, |own, due| own.judge_all(Completion::Shutdown, 0, due));
    assert_eq!(backlog.unjudged(), Unjudged::default());
}

#[test]
fn a_fault_judges_what_the_shard_holds_and_the_shard_goes_on() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let mut worker = worker(&telemetry, Vec::new());
    let batch = sample(&worker);
    let mut due = Vec::new();
    worker.guarded(0, &mut due, |own, due| {
        own.take_in(Arc::clone(&batch), false, 0, due);
        panic!("a fault after a request was taken");
    });
    counted(&telemetry, "spanscore_evaluate_panics_total 1");
    counted(&telemetry, "spanscore_assemble_judged_traces_total{completion=\"evicted\"} 1");
    assert_eq!((worker.shard.trace_count(), worker.shard.bytes(), due.len()), (0, 0, 0));

    worker.guarded(1, &mut due, |own, due| {
        own.take_in(batch, false, 1, due);
    });
    worker.guarded(1, &mut due, |own, due| own.judge_all(Completion::Shutdown, 1, due));
    counted(&telemetry, "spanscore_assemble_judged_traces_total{completion=\"shutdown\"} 1");
    counted(&telemetry, "spanscore_evaluate_panics_total 1");
}

type Kept = Arc<Mutex<Vec<Evaluation>>>;

/// Collects the evaluations of a worker.
fn keep(worker: &mut Worker) -> Kept {
    let kept = Kept::default();
    let outlet = Arc::clone(&kept);
    worker.context.outlet =
        Arc::new(move |evaluations, _| outlet.lock().unwrap().extend(evaluations));
    kept
}

fn revisions(evaluations: &[Evaluation]) -> Vec<(u32, Option<EvaluationId>)> {
    evaluations.iter().map(|e| (e.revision, e.revises)).collect()
}

#[test]
fn evaluations_that_a_panic_dropped_are_never_revised() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let brittle = Brittle::default();
    let evaluators = vec![
        configured("steady", Level::Trace, Brittle::default()),
        configured("of calls", Level::Call, Brittle::default()),
        configured("brittle", Level::Trace, brittle.clone()),
    ];
    let mut worker = worker(&telemetry, evaluators);
    let kept = keep(&mut worker);
    let mut due = Vec::new();
    let batches = ["0a05", "0a06", "0a07", "0a08"].map(|id| sample_with(&worker, &[("0a05", id)]));
    let mut judge = |breaks, batch: &Arc<SpanBatch>| {
        brittle.breaks(breaks);
        worker.take_in(Arc::clone(batch), false, 0, &mut due);
        worker.judge_all(Completion::Idle, 0, &mut due);
        std::mem::take(&mut *kept.lock().unwrap())
    };
    assert!(judge(true, &batches[0]).is_empty());
    let first = judge(false, &batches[1]);
    assert!(first.len() > 2 && first.iter().all(|e| (e.revision, e.revises) == (0, None)));
    assert!(judge(true, &batches[2]).is_empty());
    let revised = judge(false, &batches[3]);
    assert!(revised.iter().all(|e| e.revision == 1));
    let of_traces = |evaluations: &[Evaluation]| {
        let own = evaluations.iter().filter(|e| e.evaluator.level == Level::Trace);
        own.map(|e| (e.id, e.revises)).collect::<Vec<_>>()
    };
    for ((id, _), (_, revises)) in of_traces(&first).into_iter().zip(of_traces(&revised)) {
        assert_eq!(revises, Some(id));
    }
}

#[test]
fn early_verdicts_that_did_not_leave_are_never_revised() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let mut worker =
        worker(&telemetry, vec![configured("steady", Level::Trace, Brittle::default())]);
    let kept = keep(&mut worker);
    let outlet = Arc::clone(&worker.context.outlet);
    let breaks = AtomicBool::new(true);
    worker.context.outlet = Arc::new(move |evaluations, receipt| {
        assert!(!breaks.swap(false, Ordering::Relaxed), "a fault of an exporter");
        outlet(evaluations, receipt);
    });
    // Another span has the id of the root, which never comes.
    let batch = sample_with(&worker, &[(r#""spanId": "00f067aa0ba902b7","#, r#""spanId": "0a","#)]);
    let mut due = Vec::new();
    worker.guarded(0, &mut due, |own, due| {
        own.take_in(batch, false, 0, due);
    });
    assert_eq!(revisions(&kept.lock().unwrap()), [(0, None)]);
}

#[test]
fn a_fault_judges_no_trace_again_whose_evaluations_have_left() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let mut worker =
        worker(&telemetry, vec![configured("steady", Level::Trace, Brittle::default())]);
    let kept = keep(&mut worker);
    let batch = sample(&worker);
    let mut due = Vec::new();
    worker.guarded(0, &mut due, |own, due| {
        own.shard.add(&batch, 0, due);
        own.shard.drain(Completion::Idle, 0, due);
        let judged = due.clone();
        own.judge_due(due);
        due.extend(judged);
        panic!("a fault after evaluations were handed out");
    });
    assert_eq!(revisions(&kept.lock().unwrap()), [(0, None)]);
}
