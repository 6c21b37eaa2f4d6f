//! Traces chosen by what was judged of them.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use spanscore_base::otlp::Signal;
use spanscore_net::client::{Compression, Protocol};

use std::time::Duration;

use super::{balanced, client, forwards, logs, send, settled};
use crate::judges::{asking, refund};
use crate::support::collector::Running;
use crate::support::fake_judge::{FakeJudge, Scripted};
use crate::support::raw_backend::RawBackend;
use crate::support::spans::{agent, request, searches, tool, with};

/// Two calls of `search` pass, fewer fail.
const EVALUATORS: &str = "
evaluators:
  tool_call_count/two: {criteria: {tool_calls_count: {search: ['>=', 2]}}}
";

/// A span of a trace without anything of an agent.
fn plain(trace: u8) -> Span {
    Span { parent_span_id: Vec::new(), attributes: Vec::new(), ..tool(trace, 1, "GET /") }
}

/// The traces and spans that came, sorted.
fn spans(backend: &RawBackend) -> Vec<(u8, u8)> {
    let requests = backend.requests().into_iter().filter(|it| it.path.contains("race"));
    let mut spans: Vec<_> = requests
        .flat_map(|it| ExportTraceServiceRequest::decode(&it.body[..]).unwrap().resource_spans)
        .flat_map(|it| it.scope_spans)
        .flat_map(|it| it.spans)
        .map(|it| (it.trace_id[0], it.span_id[0]))
        .collect();
    spans.sort_unstable();
    spans
}

async fn started(traces: &str, kind: &str) -> (Running, RawBackend) {
    let backend = RawBackend::start().await;
    let forward = forwards(&[(kind, &format!("traces: {traces}"), &backend)]);
    (Running::start(&format!("{EVALUATORS}{forward}")).await, backend)
}

#[tokio::test]
async fn only_traces_of_agents_are_passed_on() {
    let (running, backend) = started("agent", "otlp_grpc").await;
    let mixed: Vec<_> = searches(1, &[2, 3]).into_iter().chain([plain(2)]).collect();
    running.send(request(mixed)).await;
    running.send(request(vec![plain(3)])).await;
    let whole = request(searches(4, &[2]));
    running.send(whole.clone()).await;
    let books = settled(&running, "otlp_grpc").await;
    assert_eq!(spans(&backend), [(1, 1), (1, 2), (1, 3), (4, 1), (4, 2)]);
    assert_eq!((books["accepted_items"], books["sent_items"], books["unchosen_items"]), (7, 5, 2));
    assert!(backend.bodies().contains(&whole.encode_to_vec()), "chosen whole, it stays as it is");
}

#[tokio::test]
async fn only_traces_that_fail_are_passed_on_with_their_logs() {
    let (running, backend) = started("fail", "otlp_http").await;
    let client = client(&running, Protocol::HttpProtobuf, Compression::Gzip);
    send(&client, Signal::Logs, &logs(&[1, 2, 0, 2])).await;
    let both = [searches(1, &[2, 3]), searches(2, &[2])].concat();
    running.send(request(both)).await;
    let books = settled(&running, "otlp_http").await;
    assert_eq!(spans(&backend), [(2, 1), (2, 2)]);
    let records = backend.requests().into_iter().filter(|it| it.path == "/v1/logs");
    let records: Vec<_> = records
        .flat_map(|it| ExportLogsServiceRequest::decode(&it.body[..]).unwrap().resource_logs)
        .flat_map(|it| it.scope_logs)
        .flat_map(|it| it.log_records)
        .map(|it| it.trace_id[0])
        .collect();
    assert_eq!(records, [2, 2]);
    assert_eq!((books["accepted_items"], books["sent_items"], books["unchosen_items"]), (9, 4, 5));
}

#[tokio::test]
async fn traces_that_a_judge_fails_are_passed_on_when_it_has_said_so() {
    let backend = RawBackend::start().await;
    let judge = FakeJudge::start(|asked| {
        let verdict = if asked.user().contains("order 18") { "no" } else { "yes" };
        Scripted { delay: Duration::from_millis(300), ..asked.answer(&[verdict]) }
    })
    .await;
    let forward = forwards(&[("otlp_grpc", "traces: fail", &backend)]);
    let running = Running::start(&format!("{}{forward}", asking(&judge, "openai", ""))).await;
    let mut bad = refund(2);
    bad[0].attributes.retain(|it| it.key != "input.value");
    bad[0] = with(bad[0].clone(), "input.value", "Refund order 18 please");
    running.send(request([refund(1), bad].concat())).await;
    let books = settled(&running, "otlp_grpc").await;
    assert_eq!(spans(&backend), [(2, 1), (2, 2)]);
    assert_eq!((books["sent_items"], books["unchosen_items"], judge.asked().len()), (2, 2, 2));
}

#[tokio::test]
async fn late_spans_follow_the_decision_of_their_trace() {
    let (running, backend) = started("fail", "otlp_grpc").await;
    running.send(request(searches(1, &[2]))).await;
    running.send(request(searches(2, &[2, 3]))).await;
    settled(&running, "otlp_grpc").await;
    running.send(request(vec![tool(1, 4, "other"), tool(2, 4, "other")])).await;
    let books = settled(&running, "otlp_grpc").await;
    assert_eq!(spans(&backend), [(1, 1), (1, 2), (1, 4)]);
    assert_eq!((books["sent_items"], books["unchosen_items"]), (3, 4));
}

#[tokio::test]
async fn what_is_open_is_judged_and_passed_on_before_the_end() {
    let backend = RawBackend::start().await;
    let forward = forwards(&[("otlp_grpc", "traces: fail", &backend)]);
    let held = crate::support::collector::HELD;
    let running = Running::start(&format!("{held}{EVALUATORS}{forward}")).await;
    running.send(request(searches(1, &[2]))).await;
    running.send(request(vec![agent(2)])).await;
    running.send(request(searches(3, &[2, 3]))).await;
    running.counted("spanscore_assemble_open_traces", 3).await;
    assert_eq!(balanced(&running, "otlp_grpc").await["held_items"], 6);
    let lost = running.lost(&Default::default()).await;
    assert_eq!(lost.to_string(), "nothing");
    let traces: Vec<_> = spans(&backend).into_iter().map(|(trace, _)| trace).collect();
    assert_eq!(traces, [1, 1, 2]);
}
