use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use super::*;

/// Encodes spans, given as resource, scope, trace and name.
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

/// Returns the messages of all chunks.
fn chunks(split: &mut SplitRequest, bytes_max: usize) -> Vec<TraceMessage> {
    let mut messages = Vec::new();
    loop {
        let before = messages.len();
        messages.extend(split.next_chunk(bytes_max));
        if messages.len() == before {
            return messages;
        }
    }
}

/// Splits a request; returns the spans of each message in the form of [`request`].
fn split(request: &Bytes, bytes_max: usize) -> (Vec<String>, [u64; 3]) {
    let mut split = SplitRequest::new(Signal::Traces, request.clone()).expect("small enough");
    let mut messages = Vec::new();
    for message in chunks(&mut split, bytes_max) {
        assert!(message.payload.len() <= bytes_max);
        let decoded = ExportTraceServiceRequest::decode(&message.payload[..]).expect("a request");
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
        assert_eq!(items, message.items());
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
    let mut whole = SplitRequest::new(Signal::Traces, all).expect("small enough");
    let first = whole.next_chunk(10_000);
    assert!(whole.halve(&first[0]));
    assert_eq!(whole.items_left(), 3);
    let halves = chunks(&mut whole, 10_000);
    assert_eq!(halves.iter().map(TraceMessage::items).collect::<Vec<_>>(), [1, 2]);
    assert!(!whole.halve(&halves[0]));
    let (messages, _) = split(&halves[1].payload, 10_000);
    assert_eq!(messages, ["5: 1/b=y 2/b=z"]);
}

#[test]
fn a_request_becomes_only_so_many_bytes_and_the_rest_is_counted() {
    // Each of 250 messages repeats the scope's name.
    let check = |name_len: usize, is_whole: bool| {
        let scope = "s".repeat(name_len);
        let spans: Vec<_> = (1..=250).map(|trace| (1, scope.as_str(), trace, "x")).collect();
        let request = request(&spans);
        let mut split = SplitRequest::new(Signal::Traces, request).expect("small enough");
        let messages = chunks(&mut split, 1_000_000);
        let items = messages.iter().map(TraceMessage::items).sum::<u64>();
        assert_eq!(items + split.items_left(), 250);
        assert_eq!(split.items_left() == 0, is_whole, "{name_len}");
        let bytes = messages.iter().map(|message| message.payload.len()).sum::<usize>();
        assert!(bytes < WRITTEN_LEAST + 1_000_000, "{bytes}");
    };
    check(100, true);
    check(100_000, true);
    check(200_000, false);
}

#[test]
fn small_messages_count_with_what_they_cost_beside_their_payload() {
    let spans: Vec<_> = (0..6000).map(|n| (1, "a", 1 + (n % 2) as u8, "x")).collect();
    let mut split = SplitRequest::new(Signal::Traces, request(&spans)).expect("small enough");
    let chunk = split.next_chunk(150);
    let payloads = chunk.iter().map(|message| message.payload.len()).sum::<usize>();
    let bytes = payloads + chunk.len() * MESSAGE_BYTES;
    assert!((CHUNK_BYTES..CHUNK_BYTES + 1000).contains(&bytes), "{bytes}");
}

#[test]
fn of_several_trace_ids_of_an_item_the_last_counts() {
    let check = |ids: &[&[u8]], expected: Option<u8>| {
        let id = |id: &&[u8]| [&[10, id.len() as u8], *id].concat();
        let item: Vec<u8> = ids.iter().flat_map(id).collect();
        let found = trace_id(Signal::Traces, &item).and_then(TraceId::from_wire);
        assert_eq!(found.map(|id| id.0[0]), expected, "{ids:?}");
    };
    check(&[&[1; 16]], Some(1));
    check(&[&[1; 16], &[2; 16]], Some(2));
    check(&[&[1; 15], &[2; 16]], Some(2));
    check(&[&[1; 16], &[2; 15]], None);
    check(&[&[1; 16], &[]], None);
    check(&[], None);
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
    for message in chunks(&mut split, 1000) {
        found.push((message.trace_id.0[0], message.items()));
    }
    assert_eq!((found, split.without_trace), (vec![(5, 2), (7, 1)], 1));
}
