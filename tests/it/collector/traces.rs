//! Assembly of traces, as seen from outside.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};

use crate::support::collector::{HELD, Running};
use crate::support::spans::{agent, attribute, request, scoped, searches, text, tool};

/// One call is right.
const ONCE: &str = r#"
evaluators: {tool_call_count/once: {criteria: {tool_calls_count: {search: ["=", 1]}}}}
"#;

const THREE: &str = r#"
evaluators: {tool_call_count/three: {criteria: {tool_calls_count: {search: ["=", 3]}}}}
"#;

#[tokio::test]
async fn late_span_revises_the_evaluations_of_a_judged_trace() {
    let running = Running::start(ONCE).await;
    running.send(request(searches(7, &[2]))).await;
    let first = running.events(1).await.remove(0);
    assert_eq!((first.score(), first.revision(), first.completion()), (Some(1.0), 0, "root_ended"));
    assert_eq!(first.text("spanscore.evaluation.revises"), "");

    running.send(request([tool(7, 3, "search")])).await;
    let second = running.events(2).await.remove(1);
    assert_eq!((second.score(), second.revision()), (Some(0.0), 1));
    assert_eq!(second.text("spanscore.evaluation.revises"), first.id());
    assert_ne!(second.id(), first.id());
    assert_eq!((second.trace(), second.span()), (7, 1));

    running.send(request([tool(7, 4, "search")])).await;
    let third = running.events(3).await.remove(2);
    assert_eq!((third.revision(), third.text("spanscore.evaluation.revises")), (2, second.id()));
    running.counted("spanscore_assemble_reopened_traces_total", 2).await;
    running.counted("spanscore_assemble_judged_traces_total{completion=\"root_ended\"}", 3).await;
    assert_eq!(running.judged().await.len(), 3);
}

#[tokio::test]
async fn same_request_twice_is_judged_once() {
    let running = Running::start(THREE).await;
    let spans = request(searches(7, &[2, 3, 4]));
    running.send(spans.clone()).await;
    let first = running.events(1).await.remove(0);
    assert_eq!(running.send(spans.clone()).await, (0, String::new()));
    running.send(spans).await;
    running.counted("spanscore_assemble_dropped_spans_total{reason=\"duplicate\"}", 8).await;
    // A trace that came after shows that nothing is left of the first.
    running.send(request(searches(8, &[2]))).await;
    let events = running.events(2).await;
    assert_eq!((events[0].id(), events[1].trace()), (first.id(), 8));
    running.counted("spanscore_assemble_reopened_traces_total", 0).await;
    assert_eq!(running.judged().await.len(), 2);
}

#[tokio::test]
async fn duplicates_within_a_trace_count_once() {
    let running = Running::start(&format!("{HELD}{THREE}")).await;
    let mut spans = searches(7, &[2, 3, 4]);
    spans.extend(searches(7, &[4, 3]));
    running.send(request(spans)).await;
    running.counted("spanscore_assemble_dropped_spans_total{reason=\"duplicate\"}", 3).await;
    let events = running.judged().await;
    assert_eq!((events.len(), events[0].score()), (1, Some(1.0)));
}

#[tokio::test]
async fn order_split_connections_and_resources_change_nothing() {
    let config = format!("{HELD}{THREE}");
    let whole = Running::start(&config).await;
    whole.send(request(searches(7, &[2, 3, 4]))).await;
    let whole = whole.judged().await;

    let split = Running::start(&config).await;
    // The root first, then its children over another connection and from another process.
    split.send(request([agent(7)])).await;
    let mut other = split.connect().await;
    let elsewhere = scoped("test", "tools", vec![tool(7, 4, "search"), tool(7, 2, "search")]);
    let here = scoped("test", "shop", vec![tool(7, 3, "search")]);
    let resource_spans = vec![elsewhere, here];
    other.export(ExportTraceServiceRequest { resource_spans }).await.unwrap();
    let split = split.judged().await;

    for events in [&whole, &split] {
        assert_eq!((events.len(), events[0].score()), (1, Some(1.0)));
        assert_eq!((events[0].completion(), events[0].span()), ("shutdown", 1));
    }
    assert_eq!(split[0].id(), whole[0].id());
}

#[tokio::test]
async fn children_may_come_after_their_root_has_ended() {
    let running = Running::start(&format!("traces: {{quiet_period: 700ms}}\n{THREE}")).await;
    running.send(request([agent(7)])).await;
    for id in 2..=4 {
        running.send(request([tool(7, id, "search")])).await;
    }
    let events = running.events(1).await;
    assert_eq!((events[0].score(), events[0].completion()), (Some(1.0), "root_ended"));
}

#[tokio::test]
async fn trace_without_a_root_is_judged_when_nothing_comes() {
    let running = Running::start(&format!("traces: {{idle_timeout: 100ms}}\n{ONCE}")).await;
    running.send(request([tool(7, 2, "search")])).await;
    let events = running.events(1).await;
    assert_eq!((events[0].score(), events[0].completion()), (Some(1.0), "idle"));
}

#[tokio::test]
async fn active_trace_is_judged_at_age_max() {
    let traces = "traces: {quiet_period: 10m, idle_timeout: 10m, age_max: 100ms}";
    let running = Running::start(&format!("{traces}\n{ONCE}")).await;
    running.send(request(searches(7, &[2]))).await;
    let events = running.events(1).await;
    assert_eq!((events[0].score(), events[0].completion()), (Some(1.0), "age_max"));
}

#[tokio::test]
async fn traces_of_one_request_are_judged_apart() {
    let running = Running::start(ONCE).await;
    let spans: Vec<_> = (1..=40).flat_map(|trace| searches(trace, &[2])).collect();
    running.send(request(spans)).await;
    let traces: Vec<_> = running.events(40).await.iter().map(|event| event.trace()).collect();
    assert_eq!(traces, (1..=40).collect::<Vec<_>>());
}

#[tokio::test]
async fn trace_without_anything_of_an_agent_is_not_judged() {
    let running = Running::start(ONCE).await;
    let mut plain = agent(7);
    plain.attributes = vec![text("http.request.method", "GET")];
    running.send(request([plain])).await;
    running.counted("spanscore_assemble_ignored_traces_total{reason=\"no_agent_span\"}", 1).await;
    assert_eq!(running.judged().await.len(), 0);
}

fn map(entries: Vec<(&str, Value)>) -> Value {
    let values = entries.into_iter().map(|(key, value)| attribute(key, value)).collect();
    Value::KvlistValue(KeyValueList { values })
}

/// A model's message that asks for a call, as a log event on the span `id` of trace `trace`.
fn asks(trace: u8, id: u8) -> ExportLogsServiceRequest {
    let string = |text: &str| Value::StringValue(text.to_owned());
    let function =
        map(vec![("name", string("refund")), ("arguments", string(r#"{"order": "A-17"}"#))]);
    let call =
        map(vec![("id", string("c-1")), ("type", string("function")), ("function", function)]);
    let calls = opentelemetry_proto::tonic::common::v1::ArrayValue {
        values: vec![AnyValue { value: Some(call) }],
    };
    let message =
        map(vec![("role", string("assistant")), ("tool_calls", Value::ArrayValue(calls))]);
    let body = map(vec![("finish_reason", string("tool_calls")), ("message", message)]);
    let record = LogRecord {
        trace_id: vec![trace; 16],
        span_id: vec![id; 8],
        event_name: "gen_ai.choice".to_owned(),
        body: Some(AnyValue { value: Some(body) }),
        time_unix_nano: 1_735_689_600_000_000_000,
        ..LogRecord::default()
    };
    let scope_logs = vec![ScopeLogs { log_records: vec![record], ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    ExportLogsServiceRequest { resource_logs }
}

#[tokio::test]
async fn log_events_that_come_before_their_spans_are_judged_with_them() {
    let running = Running::start(
        r#"
evaluators:
  tool_call_args/refund: {criteria: {tool_calls: [{name: refund, args: {order: A-17}}]}}
"#,
    )
    .await;
    let mut logs = LogsServiceClient::connect(format!("http://{}", running.grpc)).await.unwrap();
    logs.export(asks(7, 2)).await.unwrap();
    let mut chat = tool(7, 2, "chat");
    chat.attributes = vec![text("gen_ai.operation.name", "chat")];
    let mut call = tool(7, 3, "execute_tool refund");
    call.attributes = vec![
        text("gen_ai.operation.name", "execute_tool"),
        text("gen_ai.tool.name", "refund"),
        text("gen_ai.tool.call.id", "c-1"),
    ];
    running.send(request([chat, call, agent(7)])).await;
    let events = running.events(1).await;
    assert_eq!(events[0].score(), Some(1.0), "{}", events[0].text("gen_ai.evaluation.explanation"));
    running
        .counted(
            "spanscore_receiver_accepted_log_records_total{receiver=\"otlp\",transport=\"grpc\"}",
            1,
        )
        .await;
}

#[tokio::test]
async fn evaluations_that_come_back_are_not_judged() {
    let config = format!(
        "{ONCE}
exporters: {{otlp_grpc/backend: {{forms: [event, span]}}}}
"
    );
    let running = Running::start(&config).await;
    running.send(request(searches(7, &[2]))).await;
    running.backend.until(|backend| !backend.trace_requests().is_empty()).await;
    running.events(1).await;
    for back in running.backend.trace_requests() {
        assert_eq!(running.send(back).await, (0, String::new()));
    }
    running.send(request(searches(8, &[2]))).await;
    running.events(2).await;
    let events = running.judged().await;
    let told: Vec<_> = events.iter().map(|event| (event.trace(), event.revision())).collect();
    assert_eq!(told, [(7, 0), (8, 0)]);
}
