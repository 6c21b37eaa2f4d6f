//! Each limit of the pipeline, at it and one past it, with what is counted.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use spanscore_base::model::{Facts, Outcome, Score, Trajectory};
use spanscore_base::value::Value;
use spanscore_evaluate::engine::run::Against;
use spanscore_evaluate::{CodeEvaluator, Evaluator, Want};
use tonic::Code;

use crate::support::collector::{HELD, PROTOBUF, Running};
use crate::support::patience::PATIENCE;
use crate::support::spans::{agent, request, searches, tool, with};

fn config(limits: &str) -> String {
    format!(
        r#"{HELD}
limits: {{{limits}}}
evaluators:
  tool_call_args/refund: {{criteria: {{tool_calls: [{{name: refund, args: {{}}}}]}}}}
"#
    )
}

/// A call with arguments of about so many bytes.
fn heavy(trace: u8, id: u8, bytes: usize) -> Span {
    with(tool(trace, id, "refund"), "input.value", &format!("{{\"a\": \"{}\"}}", "x".repeat(bytes)))
}

#[tokio::test]
async fn a_trace_keeps_no_more_spans_than_its_limit() {
    let running = Running::start(&config("spans_per_trace_max: 3")).await;
    running.send(request(searches(7, &[2, 3]))).await;
    running.send(request(searches(8, &[2, 3, 4]))).await;
    let events = running.events(1).await;
    assert_eq!((events[0].trace(), events[0].completion()), (8, "evicted"));
    running.counted("spanscore_assemble_dropped_spans_total{reason=\"trace_over_limit\"}", 1).await;
    running.counted("spanscore_assemble_evicted_traces_total{reason=\"trace_size\"}", 1).await;
    // What still comes for it is dropped and judges nothing again.
    running.send(request([tool(8, 5, "search")])).await;
    running.counted("spanscore_assemble_dropped_spans_total{reason=\"trace_over_limit\"}", 2).await;
    let events = running.judged().await;
    let told: Vec<_> = events.iter().map(|event| (event.trace(), event.completion())).collect();
    assert_eq!(told, [(7, "shutdown"), (8, "evicted")]);
}

#[tokio::test]
async fn a_trace_keeps_no_more_bytes_than_its_limit() {
    let running = Running::start(&config("trace_mib_max: 1")).await;
    running.send(request([agent(7), heavy(7, 2, 900_000)])).await;
    running.send(request([agent(8), heavy(8, 2, 900_000), heavy(8, 3, 200_000)])).await;
    let events = running.events(1).await;
    assert_eq!((events[0].trace(), events[0].completion()), (8, "evicted"));
    running.counted("spanscore_assemble_dropped_spans_total{reason=\"trace_over_limit\"}", 1).await;
    running.counted("spanscore_assemble_evicted_traces_total{reason=\"trace_size\"}", 1).await;
    assert_eq!(running.judged().await.len(), 2);
}

#[tokio::test]
async fn one_trace_past_the_limit_judges_the_oldest() {
    let running = Running::on_one_shard(&config("open_traces_max: 2")).await;
    running.send(request(searches(7, &[2]))).await;
    running.send(request(searches(8, &[2]))).await;
    running.counted("spanscore_assemble_open_traces", 2).await;
    running.counted("spanscore_assemble_evicted_traces_total{reason=\"trace_count\"}", 0).await;
    running.send(request(searches(9, &[2]))).await;
    let events = running.events(1).await;
    assert_eq!((events[0].trace(), events[0].completion()), (7, "evicted"));
    running.counted("spanscore_assemble_evicted_traces_total{reason=\"trace_count\"}", 1).await;
    let events = running.judged().await;
    let told: Vec<_> = events.iter().map(|event| (event.trace(), event.completion())).collect();
    assert_eq!(told, [(7, "evicted"), (8, "shutdown"), (9, "shutdown")]);
}

#[tokio::test]
async fn remembered_traces_go_before_open_ones() {
    let quick = config("open_traces_max: 2").replace("quiet_period: 10m", "quiet_period: 50ms");
    let running = Running::on_one_shard(&quick).await;
    running.send(request(searches(7, &[2]))).await;
    running.events(1).await;
    running.send(request([tool(8, 2, "search")])).await;
    running.send(request([tool(9, 2, "search")])).await;
    running.counted("spanscore_assemble_evicted_traces_total{reason=\"remembered\"}", 1).await;
    // Trace 7 is forgotten, so that a late span is a new trace.
    assert_eq!(running.judged().await.len(), 3);
}

#[tokio::test]
async fn traces_together_keep_no_more_bytes_than_the_limit() {
    let running = Running::on_one_shard(&config("traces_mib: 1")).await;
    running.send(request([agent(7), heavy(7, 2, 450_000)])).await;
    running.send(request([agent(8), heavy(8, 2, 450_000)])).await;
    running.counted("spanscore_assemble_evicted_traces_total{reason=\"memory\"}", 0).await;
    running.send(request([agent(9), heavy(9, 2, 450_000)])).await;
    let events = running.events(1).await;
    assert_eq!((events[0].trace(), events[0].completion()), (7, "evicted"));
    running.counted("spanscore_assemble_evicted_traces_total{reason=\"memory\"}", 1).await;
    assert_eq!(running.judged().await.len(), 3);
}

fn in_session(trace: u8, session: &str) -> Vec<Span> {
    searches(trace, &[2]).into_iter().map(|span| with(span, "session.id", session)).collect()
}

#[tokio::test]
async fn sessions_past_their_limits_are_judged_and_counted() {
    let running = Running::start(
        r#"
sessions: {open_sessions_max: 1, traces_per_session_max: 2}
evaluators:
  tool_call_count/two: {level: session, criteria: {tool_calls_count: {search: ["=", 2]}}}
"#,
    )
    .await;
    // The order in which sessions come to be is that of their traces' judgement.
    for (count, trace) in (1..).zip([1, 2, 3]) {
        running.send(request(in_session(trace, "a"))).await;
        running
            .counted("spanscore_assemble_judged_traces_total{completion=\"root_ended\"}", count)
            .await;
    }
    let losses = "spanscore_assemble_session_losses_total{reason=\"session_over_limit\"}";
    running.counted(losses, 1).await;
    running.counted("spanscore_assemble_evicted_traces_total{reason=\"session\"}", 0).await;
    running.send(request(in_session(4, "b"))).await;
    let event = running.events(1).await.remove(0);
    let told = (event.text("session.id"), event.score(), event.completion());
    assert_eq!(told, ("a", Some(1.0), "evicted"));
    running.counted("spanscore_assemble_evicted_traces_total{reason=\"session\"}", 1).await;
    assert_eq!(running.judged().await.len(), 2);
}

/// Says when it is asked, and answers when it may.
struct Gate {
    asked: Sender<()>,
    open: Mutex<Receiver<()>>,
}

impl CodeEvaluator for Gate {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn evaluate(&self, _: &Trajectory<'_>, _: Want) -> Outcome {
        let _ = self.asked.send(());
        // An opener that is gone leaves the gate open.
        let _ = self.open.lock().unwrap_or_else(PoisonError::into_inner).recv();
        Outcome::Scored(Score {
            value: 1.0,
            explanation: Default::default(),
            details: Value::Null,
            label: None,
        })
    }
}

/// A request of exactly so many bytes.
fn sized(trace: u8, bytes: usize) -> ExportTraceServiceRequest {
    let build = |padding: usize| {
        let mut root = agent(trace);
        root.trace_state = "x".repeat(padding);
        request([root])
    };
    // The lengths of the messages around take more bytes as they grow.
    let padding = (bytes - 400..bytes).find(|padding| build(*padding).encoded_len() == bytes);
    build(padding.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_beyond_the_queue_are_told_to_come_again() {
    let (asked, is_asked) = channel();
    let (open, opened) = channel();
    let gate = Gate { asked, open: Mutex::new(opened) };
    let config = "limits: {queue_mib: 1}\nevaluators: {tool_error: {}}";
    let running = Running::with(config, |settings| {
        settings.shard_count = Some(1);
        settings.evaluators[0].against = Against::Settings(Evaluator::code(gate));
    })
    .await;
    running.send(request(searches(1, &[2]))).await;
    tokio::task::block_in_place(|| is_asked.recv_timeout(PATIENCE)).unwrap();

    // The shard is at work and takes nothing: what comes now waits in the queue, and fills it but
    // for the tenth that is left to small requests.
    running.send(sized(2, 512 << 10)).await;
    let mut other = running.connect().await;
    other.export(sized(3, 400 << 10)).await.expect("who has nothing takes what is left");
    let headers = [("content-type", PROTOBUF)];
    let (grpc, http) = tokio::join!(
        running.try_send(sized(5, 64 << 10)),
        running.post("/v1/traces", &headers, sized(4, 64 << 10).encode_to_vec())
    );
    let status = grpc.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.metadata().contains_key("google.rpc.retryinfo-bin"));
    assert_eq!(
        (http.status().as_u16(), &http.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    running.counted("spanscore_pipeline_refused_requests_total{reason=\"queue_full\"}", 2).await;
    for transport in ["grpc", "http"] {
        let labels = format!("reason=\"overloaded\",receiver=\"otlp\",transport=\"{transport}\"");
        running.counted(&format!("spanscore_receiver_refused_spans_total{{{labels}}}"), 1).await;
    }
    let small = running.post("/v1/traces", &headers, request(searches(7, &[2])).encode_to_vec());
    assert_eq!(small.await.status(), 200, "small requests have room");

    // It recovers by itself.
    drop(open);
    running.send(request(searches(6, &[2]))).await;
    let mut traces: Vec<_> = running.events(5).await.iter().map(|event| event.trace()).collect();
    traces.sort_unstable();
    assert_eq!(traces, [1, 2, 3, 6, 7]);
}

#[tokio::test]
async fn a_request_larger_than_the_queue_passes_alone() {
    let running = Running::start(&config("queue_mib: 1")).await;
    running.send(sized(7, 3 << 20)).await;
    assert_eq!(running.judged().await.len(), 1);
}
