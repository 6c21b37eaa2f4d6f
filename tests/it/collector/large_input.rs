//! Input that is valid and far too much: it costs time in proportion, no stack, and loses nothing.

use std::time::Instant;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message;

use super::bad_input::{CONFIG, good, scores, still_good};
use crate::support::collector::{HELD, Running};
use crate::support::patience::PATIENCE;
use crate::support::spans::{attribute, request, tool, with};

/// With room for large bodies.
async fn start() -> Running {
    Running::start(
        &format!("{HELD}{CONFIG}").replace("1048576", "67108864").replace("mib: 1}", "mib: 64}"),
    )
    .await
}

#[tokio::test]
async fn a_hundred_thousand_attributes_are_read_in_time() {
    let running = start().await;
    // The root's attributes are all kept, for `when`, and some of them are put together again.
    let key = |n| format!("{}.{n}", if n % 2 == 0 { "some.attribute" } else { "llm.tools" });
    let mut spans = good(7);
    let value = |n| attribute(&key(n), Value::StringValue(format!("value {n}")));
    spans[0].attributes.extend((0..100_000).map(value));
    let body = request(spans).encode_to_vec();
    let started = Instant::now();
    assert_eq!(running.post_traces(body).await.0, 200);
    assert_eq!(scores(&running.judged().await), [(7, Some(1.0))]);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

/// An encoded `AnyValue`: lists, or maps, so deep in each other.
fn nested(depth: usize, is_map: bool) -> Vec<u8> {
    // Written from its end, so that each length is known when it is needed.
    let mut reversed = Vec::new();
    let wrap = |reversed: &mut Vec<u8>, field: u8| {
        let mut length = Vec::new();
        prost::encoding::encode_varint(reversed.len() as u64, &mut length);
        reversed.extend(length.iter().rev());
        reversed.push(field << 3 | 2);
    };
    for _ in 0..depth {
        if is_map {
            wrap(&mut reversed, 2);
            reversed.extend(b"k\x01\x0a");
            wrap(&mut reversed, 1);
            wrap(&mut reversed, 6);
        } else {
            wrap(&mut reversed, 1);
            wrap(&mut reversed, 5);
        }
    }
    reversed.reverse();
    reversed
}

/// An encoded field that holds a message or a text.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut out);
    out.extend(content);
    out
}

/// A request with a good trace whose spans all have one more attribute of that encoded value, and
/// whose resource has it too.
fn with_encoded(trace: u8, key: &str, value: &[u8]) -> Vec<u8> {
    let entry = [field(1, key.as_bytes()), field(2, value)].concat();
    let spans = good(trace).into_iter().flat_map(|span| {
        // What comes first counts where a key stands twice.
        field(2, &[field(9, &entry), span.encode_to_vec()].concat())
    });
    let resource = field(1, &field(1, &entry));
    field(1, &[resource, field(2, &spans.collect::<Vec<_>>())].concat())
}

#[tokio::test]
async fn deep_nesting_is_cut_and_loses_nothing() {
    let running = start().await;
    let mut trace = 0;
    for depth in [1_000, 100_000] {
        for key in ["something.else", "output.value", "llm.input_messages.0.message.content"] {
            for is_map in [false, true] {
                trace += 1;
                let body = with_encoded(trace, key, &nested(depth, is_map));
                let (status, rejected, _) = running.post_traces(body).await;
                assert_eq!((status, rejected), (200, 0), "{key} {depth}");
            }
        }
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[(", ")]")] {
            for key in ["output.value", "llm.tools.0.tool.json_schema"] {
                trace += 1;
                let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
                let spans = good(trace).into_iter().map(|span| with(span, key, &text));
                running.send(request(spans.collect::<Vec<_>>())).await;
            }
        }
    }
    running.counted("spanscore_evaluate_panics_total", 0).await;
    let events = running.judged().await;
    let expected: Vec<_> = (1..=trace).map(|trace| (trace, Some(1.0))).collect();
    assert_eq!(scores(&events), expected);
}

#[tokio::test]
async fn keys_of_many_parts_lose_nothing() {
    let running = start().await;
    let key = |prefix: &str| format!("{prefix}.{}tool_calls", "0.".repeat(100_000));
    for (trace, prefix) in [(1, "llm.input_messages"), (2, "llm.output_messages"), (3, "llm.tools")]
    {
        let spans = good(trace).into_iter().map(|span| with(span, &key(prefix), "x"));
        running.send(request(spans.collect::<Vec<_>>())).await;
    }
    assert_eq!(scores(&running.judged().await), [1, 2, 3].map(|trace| (trace, Some(1.0))));
}

#[tokio::test]
async fn arguments_nested_too_deep_are_no_arguments() {
    let running = start().await;
    for (trace, depth) in [(1, 1_000), (2, 100_000)] {
        let text = format!("{{\"order\": {}1{}}}", "[".repeat(depth), "]".repeat(depth));
        let mut spans = good(trace);
        spans[1] = with(tool(trace, 2, "refund"), "input.value", &text);
        running.send(request(spans)).await;
        let body = with_encoded(trace + 2, "input.value", &nested(depth, true));
        assert_eq!(running.post_traces(body).await.0, 200);
    }
    running.send(request(good(9))).await;
    let events = running.judged().await;
    assert_eq!((events.len(), events[4].score()), (5, Some(1.0)));
    assert!(events[..4].iter().all(|event| event.score() != Some(1.0)), "{:?}", scores(&events));
}

#[tokio::test]
async fn json_requests_nested_too_deep_are_answered() {
    let running = start().await;
    for depth in [1_000, 100_000] {
        let value = format!(
            "{}{{\"intValue\": \"1\"}}{}",
            "{\"arrayValue\": {\"values\": [".repeat(depth),
            "]}}".repeat(depth)
        );
        let body = format!(
            r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{"traceId": "{}",
            "spanId": "{}", "attributes": [{{"key": "k", "value": {value}}}]}}]}}]}}]}}"#,
            "07".repeat(16),
            "01".repeat(8)
        );
        let headers = [("content-type", "application/json")];
        let status = running.post("/v1/traces", &headers, body.into_bytes()).await.status();
        assert!(matches!(status.as_u16(), 200 | 400), "{status}");
    }
    still_good(running).await;
}
