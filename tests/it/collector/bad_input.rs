//! Bad input: a clear answer, a counter, the good part scored, nothing else lost.

use std::io::Write;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, metrics_service_client::MetricsServiceClient,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use proptest::prelude::{Strategy, any};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use prost::Message;
use tonic::Code;
use tonic::codec::CompressionEncoding;

use crate::support::collector::{Event, HELD, PROTOBUF, Running};
use crate::support::fake_backend::attribute as value_of;
use crate::support::spans::{agent, attribute, request, searches, tool, with};

/// Small bodies, traces held open, one evaluator that reads calls, arguments and the root.
pub(super) const CONFIG: &str = r#"
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "127.0.0.1:0", max_recv_msg_size_mib: 1}
      http: {endpoint: "127.0.0.1:0", max_request_body_size: 1048576}
evaluators:
  tool_call_args/refund:
    when: size(attributes) > 0
    criteria: {tool_calls: [{name: refund, args: {order: A-17}}]}
"#;

async fn start() -> Running {
    Running::start(&format!("{HELD}{CONFIG}")).await
}

/// A trace that scores 1.
pub(super) fn good(trace: u8) -> Vec<Span> {
    vec![agent(trace), with(tool(trace, 2, "refund"), "input.value", r#"{"order": "A-17"}"#)]
}

#[track_caller]
pub(super) fn scores(events: &[Event]) -> Vec<(u8, Option<f64>)> {
    events.iter().map(|event| (event.trace(), event.score())).collect()
}

/// Sends a good trace over both protocols and asserts that these two are scored.
pub(super) async fn still_good(running: Running) {
    running.counted("spanscore_evaluate_panics_total", 0).await;
    running.send(request(good(0xf0))).await;
    assert_eq!(running.post_traces(request(good(0xf1)).encode_to_vec()).await.0, 200);
    let mut events = running.judged().await;
    events.retain(|event| [[0xf0; 16], [0xf1; 16]].iter().any(|id| *id == *event.0.trace_id));
    let own = scores(&events);
    assert_eq!(own, [(0xf0, Some(1.0)), (0xf1, Some(1.0))]);
}

fn refused(reason: &str, transport: &str) -> String {
    format!(
        "spanscore_receiver_refused_requests_total\
         {{reason=\"{reason}\",receiver=\"otlp\",transport=\"{transport}\"}}"
    )
}

fn extract(what: &str, reason: &str) -> String {
    format!("spanscore_extract_{what}_items_total{{reason=\"{reason}\"}}")
}

#[tokio::test]
async fn what_stands_before_the_cut_of_a_truncated_request_is_scored() {
    let running = start().await;
    let mut sent = request(good(7));
    sent.resource_spans.extend(request(good(8)).resource_spans);
    let mut body = sent.encode_to_vec();
    body.truncate(body.len() - 3);
    let (cut_at, len) = (request(good(7)).encoded_len(), body.len());
    let (status, rejected, why) = running.post_traces(body).await;
    let told = format!("rejected: at least 2 malformed (it breaks at byte {cut_at} of {len})");
    assert_eq!((status, rejected, why), (200, 2, told));
    running.counted(&extract("rejected", "malformed"), 2).await;
    // Where nothing stands before the cut there is nothing to take.
    let mut body = request(good(9)).encode_to_vec();
    body.truncate(body.len() - 3);
    let told = format!(
        "malformed protobuf: no complete field at byte 0 of {}; at least 2 spans",
        body.len()
    );
    let headers = [("content-type", PROTOBUF)];
    let response = running.post("/v1/traces", &headers, body.clone()).await;
    assert_eq!(response.status(), 400);
    let answer = String::from_utf8_lossy(&response.bytes().await.unwrap()).into_owned();
    assert!(answer.contains(&told), "{answer}");
    running.counted(&refused("malformed", "http"), 1).await;
    assert_eq!(scores(&running.judged().await), [(7, Some(1.0))]);
}

#[tokio::test]
async fn a_broken_span_leaves_its_neighbours() {
    let running = start().await;
    let mut broken = tool(7, 3, "broken");
    broken.trace_state = "~".repeat(8);
    let mut spans = good(7);
    spans.insert(1, broken);
    let mut body = request(spans).encode_to_vec();
    // The text's field becomes one of a wire type that does not exist.
    let at = body.windows(8).position(|part| part == b"~~~~~~~~").unwrap();
    body[at - 2] |= 7;
    let (status, rejected, why) = running.post_traces(body).await;
    assert_eq!((status, rejected, why.as_str()), (200, 1, "rejected: 1 malformed"));
    running.counted(&extract("rejected", "malformed"), 1).await;
    assert_eq!(scores(&running.judged().await), [(7, Some(1.0))]);
}

/// A field of that number with some bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encoding::encode_varint(bytes.len() as u64, &mut field);
    field.extend(bytes);
    field
}

#[tokio::test]
async fn fields_of_another_wire_type_are_skipped_as_unknown() {
    let running = start().await;
    // The name a number, the kind a text, the start a varint, an attribute a group, the status of
    // four bytes.
    let wrong = [0x28, 7, 0x32, 1, b'x', 0x38, 3, 0x4b, 0x0a, 0, 0x4c, 0x7d, 1, 2, 3, 4];
    let spans = good(7).into_iter().map(|span| [span.encode_to_vec(), wrong.into()].concat());
    let scope: Vec<u8> = spans.flat_map(|span| field(2, &span)).collect();
    let group = [field(2, &scope), wrong.into()].concat();
    let body = [field(1, &group), wrong.into()].concat();
    assert_eq!(running.post_traces(body).await.0, 200);
    running.counted(&extract("rejected", "malformed"), 0).await;
    assert_eq!(scores(&running.judged().await), [(7, Some(1.0))]);
}

#[tokio::test]
async fn random_bytes_are_answered_and_lose_nothing() {
    let running = start().await;
    let mut runner = TestRunner::deterministic();
    let noise = proptest::collection::vec(any::<u8>(), 1..400);
    let valid = request(good(7)).encode_to_vec();
    let flips = proptest::collection::vec((0..valid.len(), any::<u8>()), 1..6);
    for case in 0..200 {
        let body = if case % 2 == 0 {
            noise.new_tree(&mut runner).unwrap().current()
        } else {
            let flips = flips.new_tree(&mut runner).unwrap().current();
            let mut body = valid.clone();
            flips.into_iter().for_each(|(at, byte)| body[at] = byte);
            body
        };
        let status = running.post_traces(body).await.0;
        assert!(matches!(status, 200 | 400), "{status}");
    }
    still_good(running).await;
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn requests_that_cannot_be_read_have_their_answer_and_counter() {
    let running = start().await;
    let bomb = gzip(&vec![0; 4 << 20]);
    assert!(bomb.len() < 1 << 16);
    let text = || request(good(7)).encode_to_vec();
    for (kind, encoding, body, status, reason) in [
        ("text/plain", "identity", text(), 415, "content_type"),
        (PROTOBUF, "br", text(), 415, "encoding"),
        (PROTOBUF, "gzip", text(), 400, "malformed"),
        (PROTOBUF, "gzip", bomb, 413, "too_large"),
        (PROTOBUF, "identity", vec![0x0a; (1 << 20) + 1], 413, "too_large"),
        ("application/json", "identity", b"{]".to_vec(), 400, "malformed"),
        (PROTOBUF, "identity", b"\xff\xff\xff".to_vec(), 400, "malformed"),
    ] {
        let headers = [("content-type", kind), ("content-encoding", encoding)];
        let response = running.post("/v1/traces", &headers, body).await;
        assert_eq!(response.status(), status, "{reason}");
        assert!(!response.bytes().await.unwrap().is_empty(), "{reason}");
    }
    for (reason, count) in
        [("content_type", 1), ("encoding", 1), ("malformed", 3), ("too_large", 2)]
    {
        running.counted(&refused(reason, "http"), count).await;
    }
    still_good(running).await;
}

#[tokio::test]
async fn a_body_at_the_limit_is_taken_and_one_byte_more_is_not() {
    let running = start().await;
    let sized = |trace: u8, bytes: usize| {
        let build = |padding: usize| {
            let mut spans = good(trace);
            spans[0].trace_state = "x".repeat(padding);
            request(spans)
        };
        let padding = (bytes - 900..bytes).find(|padding| build(*padding).encoded_len() == bytes);
        build(padding.unwrap())
    };
    let limit = 1 << 20;
    assert_eq!(running.post_traces(sized(1, limit).encode_to_vec()).await.0, 200);
    assert_eq!(running.post_traces(sized(2, limit + 1).encode_to_vec()).await.0, 413);
    running.send(sized(3, limit)).await;
    let status = running.try_send(sized(4, limit + 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    // Small on the wire and large when unpacked.
    let mut client = running.connect().await.send_compressed(CompressionEncoding::Gzip);
    let status = client.export(sized(5, limit + 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    running.counted(&refused("too_large", "grpc"), 2).await;
    running.counted(&refused("too_large", "http"), 1).await;
    assert_eq!(scores(&running.judged().await), [(1, Some(1.0)), (3, Some(1.0))]);
}

#[tokio::test]
async fn texts_that_are_not_utf_8_are_read_leniently() {
    let running = start().await;
    let mut spans = good(7);
    spans.push(with(tool(7, 3, "~~~"), "input.value", "~~"));
    spans[0] = with(agent(7), "session.id", "s~");
    spans[0].name = "~".to_owned();
    let mut sent = request(spans);
    sent.resource_spans[0].resource.as_mut().unwrap().attributes[0] =
        attribute("service.name", Value::StringValue("shop~".to_owned()));
    let mut body = sent.encode_to_vec();
    body.iter_mut().filter(|byte| **byte == b'~').for_each(|byte| *byte = 0xff);
    let (status, rejected, why) = running.post_traces(body).await;
    assert_eq!((status, rejected, why.as_str()), (200, 0, ""));
    let backend = running.backend.clone();
    let events = running.judged().await;
    assert_eq!(scores(&events), [(7, Some(1.0))]);
    assert_eq!(events[0].text("session.id"), "s\u{fffd}");
    let service = Value::StringValue("shop\u{fffd}".to_owned());
    assert_eq!(value_of(&backend.log_resources()[0], "service.name"), Some(&service));
}

#[tokio::test]
async fn spans_with_bad_ids_are_rejected_alone() {
    let running = start().await;
    let mut spans = good(7);
    let bad = |change: fn(&mut Span)| {
        let mut span = tool(7, 3, "bad");
        change(&mut span);
        span
    };
    spans.extend([
        bad(|span| span.trace_id = Vec::new()),
        bad(|span| span.trace_id = vec![7; 15]),
        bad(|span| span.trace_id = vec![0; 16]),
        bad(|span| span.span_id = Vec::new()),
        bad(|span| span.span_id = vec![7; 9]),
        bad(|span| span.span_id = vec![0; 8]),
        bad(|span| span.parent_span_id = vec![1; 7]),
    ]);
    let (rejected, why) = running.send(request(spans)).await;
    let told = "rejected: 3 invalid_trace_id, 3 invalid_span_id, 1 invalid_parent_id";
    assert_eq!((rejected, why.as_str()), (7, told));
    running.counted(&extract("rejected", "invalid_trace_id"), 3).await;
    running.counted(&extract("rejected", "invalid_span_id"), 3).await;
    running.counted(&extract("rejected", "invalid_parent_id"), 1).await;
    let refused = "spanscore_receiver_refused_spans_total\
                   {reason=\"rejected\",receiver=\"otlp\",transport=\"grpc\"}";
    running.counted(refused, 7).await;

    // The same in JSON: ids that are too short, and one that is no hexadecimal number.
    let span = |trace: &str, id: &str| {
        format!(
            r#"{{"traceId": "{trace}", "spanId": "{id}", "name": "n", "startTimeUnixNano": "1",
            "endTimeUnixNano": "2", "attributes": [{{"key": "openinference.span.kind",
            "value": {{"stringValue": "AGENT"}}}}]}}"#
        )
    };
    let spans = [span(&"08".repeat(16), &"01".repeat(8)), span("0807", &"01".repeat(8))].join(",");
    let body = format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{spans}]}}]}}]}}"#);
    let headers = [("content-type", "application/json")];
    let response = running.post("/v1/traces", &headers, body.into_bytes()).await;
    assert_eq!(response.status(), 200);
    assert!(response.text().await.unwrap().contains(r#""rejectedSpans":"1""#));
    let events = running.judged().await;
    assert_eq!(scores(&events), [(7, Some(1.0)), (8, Some(0.0))]);
}

#[tokio::test]
async fn a_span_that_ends_before_it_starts_is_taken_and_counted() {
    let running = start().await;
    let mut spans = good(7);
    for span in &mut spans {
        span.end_time_unix_nano = span.start_time_unix_nano - 1;
    }
    assert_eq!(running.send(request(spans)).await, (0, String::new()));
    running.counted(&extract("repaired", "ended_before_start"), 2).await;
    assert_eq!(scores(&running.judged().await), [(7, Some(1.0))]);
}

#[tokio::test]
async fn spans_that_are_their_own_ancestors_lose_nothing() {
    let running = Running::start(&format!(
        r#"{HELD}
evaluators: {{tool_call_count/two: {{criteria: {{tool_calls_count: {{search: ["=", 2]}}}}}}}}
"#
    ))
    .await;
    let circle = |trace: u8, parents: &[(u8, u8)]| {
        let tools = parents.iter().map(|(id, parent)| Span {
            parent_span_id: vec![*parent; 8],
            ..with(tool(trace, *id, "search"), "tool_call.id", &id.to_string())
        });
        tools.collect::<Vec<_>>()
    };
    running.send(request([vec![agent(1)], circle(1, &[(2, 3), (3, 2)])].concat())).await;
    running.send(request(circle(2, &[(2, 3), (3, 2)]))).await;
    running.send(request(circle(3, &[(2, 2), (3, 2)]))).await;
    assert_eq!(scores(&running.judged().await), [1, 2, 3].map(|trace| (trace, Some(1.0))));
}

#[tokio::test]
async fn metrics_and_logs_are_accepted_and_counted() {
    let running = start().await;
    let point = NumberDataPoint::default();
    let gauge = Gauge { data_points: vec![point.clone(), point] };
    let metric = Metric { data: Some(metric::Data::Gauge(gauge)), ..Metric::default() };
    let scope_metrics = vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }];
    let metrics = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { scope_metrics, ..ResourceMetrics::default() }],
    };
    let address = format!("http://{}", running.grpc);
    let mut client = MetricsServiceClient::connect(address).await.unwrap();
    let answer = client.export(metrics.clone()).await.unwrap().into_inner();
    assert_eq!(answer.partial_success, None);
    let headers = [("content-type", PROTOBUF)];
    let answer = running.post("/v1/metrics", &headers, metrics.encode_to_vec()).await;
    assert_eq!(answer.status(), 200);

    let log_records = vec![LogRecord::default(), LogRecord::default(), LogRecord::default()];
    let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    let logs = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
    assert_eq!(running.post("/v1/logs", &headers, logs).await.status(), 200);
    for (what, transport, count) in
        [("metric_points", "grpc", 2), ("metric_points", "http", 2), ("log_records", "http", 3)]
    {
        let labels = format!("{{receiver=\"otlp\",transport=\"{transport}\"}}");
        running.counted(&format!("spanscore_receiver_accepted_{what}_total{labels}"), count).await;
    }
    still_good(running).await;
}

#[tokio::test]
async fn empty_requests_are_accepted() {
    let running = start().await;
    assert_eq!(running.post_traces(Vec::new()).await, (200, 0, String::new()));
    assert_eq!(running.send(request([])).await, (0, String::new()));
    assert_eq!(running.send(request(searches(7, &[]))).await.0, 0);
    still_good(running).await;
}
