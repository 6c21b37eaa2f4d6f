use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use super::*;

/// Encodes spans, written as resource, scope, trace and name.
fn request(spans: &[(u32, &str, u8, &str)]) -> Bytes {
    let groups = spans.chunk_by(|one, next| one.0 == next.0).map(|group| {
        let scopes = group.chunk_by(|one, next| one.1 == next.1).map(|scope| ScopeSpans {
            scope: Some(InstrumentationScope {
                name: scope[0].1.to_owned(),
                ..InstrumentationScope::default()
            }),
            spans: scope.iter().map(|(_, _, trace, name)| span(*trace, name)).collect(),
            schema_url: "scope-schema".to_owned(),
        });
        let dropped = group[0].0;
        ResourceSpans {
            resource: Some(Resource { dropped_attributes_count: dropped, ..Resource::default() }),
            scope_spans: scopes.collect(),
            schema_url: "schema".to_owned(),
        }
    });
    ExportTraceServiceRequest { resource_spans: groups.collect() }.encode_to_vec().into()
}

fn span(trace: u8, name: &str) -> Span {
    let trace_id = if trace == 0 { Vec::new() } else { vec![trace; 16] };
    Span { trace_id, name: name.to_owned(), ..Span::default() }
}

/// Splits a request; returns each message as its spans in the form of [`request`].
fn split(request: &Bytes, bytes_max: usize) -> (Vec<String>, [u64; 3]) {
    let mut split = SplitRequest::new(Signal::Traces, request.clone()).expect("small enough");
    let mut messages = Vec::new();
    while let Some(message) = split.next_message(bytes_max) {
        assert!(message.payload.len() <= bytes_max);
        let decoded = ExportTraceServiceRequest::decode(message.payload).expect("a request");
        let mut text = format!("{}:", message.trace_id.0[0]);
        let mut items = 0;
        for group in decoded.resource_spans {
            assert_eq!(group.schema_url, "schema");
            let resource = group.resource.expect("a resource").dropped_attributes_count;
            for scope in group.scope_spans {
                assert_eq!(scope.schema_url, "scope-schema");
                let name = scope.scope.expect("a scope").name;
                let spans: Vec<_> = scope.spans.iter().map(|span| span.name.as_str()).collect();
                items += spans.len() as u64;
                let is_of_trace = |span: &Span| span.trace_id == message.trace_id.0;
                assert!(scope.spans.iter().all(is_of_trace));
                text += &format!(" {resource}/{name}={}", spans.join("+"));
            }
        }
        assert_eq!(items, message.items);
        messages.push(text);
    }
    let broken = split.broken.map_or(0, |broken| broken.items);
    (messages, [split.without_trace, split.too_large, broken])
}

#[test]
fn each_message_holds_one_trace_below_its_resources_and_scopes() {
    let all = request(&[
        (1, "a", 7, "r"),
        (1, "a", 5, "x"),
        (1, "b", 5, "y"),
        (2, "b", 5, "z"),
        (2, "b", 7, "s"),
        (2, "b", 5, "w"),
    ]);
    let expected = ["5: 1/a=x 1/b=y 2/b=z+w", "7: 1/a=r 2/b=s"];
    assert_eq!(split(&all, 10_000), (expected.map(str::to_owned).to_vec(), [0; 3]));
}

#[test]
fn a_trace_that_is_larger_than_a_message_is_split_by_size() {
    let name = "n".repeat(100);
    let spans: Vec<_> = (0..10).map(|_| (1, "a", 5, name.as_str())).collect();
    let (messages, lost) = split(&request(&spans), 500);
    assert_eq!((messages.len(), lost), (4, [0; 3]), "{messages:?}");
    let (messages, lost) = split(&request(&spans), 150);
    assert_eq!((messages.len(), lost), (0, [0, 10, 0]));
}

#[test]
fn halves_hold_the_items_of_a_message_in_their_order() {
    let all = request(&[(1, "a", 5, "x"), (1, "b", 5, "y"), (2, "b", 5, "z")]);
    let whole = SplitRequest::new(Signal::Traces, all).expect("small enough");
    let halves = whole.halves();
    assert_eq!(halves.iter().map(|half| half.items).collect::<Vec<_>>(), [1, 2]);
    let (messages, _) = split(&halves[1].payload, 10_000);
    assert_eq!(messages, ["5: 1/b=y 2/b=z"]);
}

#[test]
fn items_without_a_trace_and_damage_are_counted() {
    let all = request(&[(1, "a", 0, "none"), (1, "a", 5, "x"), (1, "a", 5, "y")]);
    let expected = vec!["5: 1/a=x+y".to_owned()];
    assert_eq!(split(&all, 10_000), (expected, [1, 0, 0]));
    let (messages, [_, _, broken]) = split(&all.slice(..all.len() - 30), 10_000);
    assert!(messages.is_empty() && broken > 0, "{messages:?} {broken}");
    assert_eq!(split(&Bytes::new(), 10_000), (Vec::new(), [0; 3]));
}

#[test]
fn last_of_several_trace_ids_of_an_item_counts() {
    let item = [span(1, "x"), span(5, "")].map(|span| span.encode_to_vec()).concat();
    assert_eq!(trace_id(Signal::Traces, &item), Some(TraceId([5; 16])));
}

#[test]
fn log_records_go_by_their_trace() {
    let records = [5, 0, 5, 7].map(|trace: u8| LogRecord {
        trace_id: if trace == 0 { Vec::new() } else { vec![trace; 16] },
        severity_text: trace.to_string(),
        ..LogRecord::default()
    });
    let scope_logs = vec![ScopeLogs { log_records: records.to_vec(), ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    let request = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
    let mut split = SplitRequest::new(Signal::Logs, request.into()).expect("small enough");
    let mut found = Vec::new();
    while let Some(message) = split.next_message(1000) {
        found.push((message.trace_id.0[0], message.items));
    }
    assert_eq!((found, split.without_trace), (vec![(5, 2), (7, 1)], 1));
}
