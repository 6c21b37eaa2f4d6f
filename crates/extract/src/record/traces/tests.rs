use std::sync::{Arc, LazyLock};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue as ProtoValue, ArrayValue};
use opentelemetry_proto::tonic::trace::v1::{Span, Status, span::Event};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::resolve::Resolver;
use crate::testing::{attribute, calls, extract, facts, request, span, table, text, tool_span};
use spanscore_base::model::{Facts, TraceSpans};
use spanscore_base::otlp::AnyValue;

fn holds_text(batch: &SpanBatch, text: &str) -> bool {
    memchr::memmem::find(&batch.arena, text.as_bytes()).is_some()
}

#[test]
fn a_tool_span_keeps_what_its_dialect_reads_and_nothing_else() {
    let table = table(&calls());
    let (extracted, batch) = extract(&table, &request("any", vec![tool_span(1)]));
    assert_eq!((extracted.accepted, extracted.records), (1, 1));
    let record = &batch.spans[0];
    assert_eq!(record.flags.0, SpanFlags::TOOL | SpanFlags::ENDED);
    assert_eq!((record.start_ns, record.end_ns), (10, 20));
    let reader = facts(&batch, record);
    let value = |key| reader.attribute(table.slot(key).unwrap());
    assert_eq!(value("tool.name"), Some(AnyValue::String("find")));
    assert_eq!(value("output.value"), Some(AnyValue::String("found")));
    assert_eq!(reader.span_name(), "find");
    assert!(!holds_text(&batch, "not needed"));
    let matched: Vec<_> = table
        .dialects()
        .iter()
        .filter(|dialect| {
            let id = dialect.detect.as_ref().and_then(|detect| table.condition(detect));
            id.is_some_and(|id| reader.conditions().any(|holds| holds == id))
        })
        .map(|dialect| dialect.name.as_str())
        .collect();
    assert_eq!(matched, ["openinference"]);
}

#[test]
fn a_result_that_no_evaluator_reads_still_tells_that_its_call_failed() {
    let mut failed = tool_span(1);
    failed.attributes[3] =
        text("output.value", r#"{"tool_call_id": "c1", "status": "error", "content": "found"}"#);
    let (_, batch) = extract(&table(&Facts::default()), &request("any", vec![failed]));
    assert!(holds_text(&batch, "found"));
}

#[test]
fn what_no_evaluator_reads_is_not_kept() {
    let cases = [
        (Facts::default(), false, false),
        (Facts { arguments: true, ..Facts::default() }, true, false),
        (Facts { results: true, ..Facts::default() }, false, true),
    ];
    for (needed, arguments, results) in cases {
        let (_, batch) = extract(&table(&needed), &request("any", vec![tool_span(1)]));
        assert_eq!(holds_text(&batch, "{\"q\":1}"), arguments);
        assert_eq!(holds_text(&batch, "found"), results);
        assert!(holds_text(&batch, "find"));
    }
}

#[test]
fn an_exclusion_makes_a_span_no_tool_call_for_any_dialect() {
    let mut spans = vec![tool_span(1), tool_span(2)];
    spans[1].attributes.push(attribute("tool.synthesized", Value::BoolValue(true)));
    for span in &mut spans {
        span.attributes.push(text("span_type", "TOOL"));
    }
    let (_, batch) = extract(&table(&calls()), &request("any", spans));
    let tools: Vec<_> = batch.spans.iter().map(|s| s.flags.has(SpanFlags::TOOL)).collect();
    assert_eq!(tools, [true, false]);
}

#[test]
fn a_tools_name_flags_only_spans_that_are_named_like_calls() {
    for (name, key, tool, expected) in [
        ("compile", "build.tool.name", "gradle", false),
        ("agent.run", "acme.tool_name", "find", false),
        ("tool.find", "acme.tool_name", "find", true),
        ("session.tool_call", "acme.toolName", "find", true),
    ] {
        let span = span(1, name, vec![text(key, tool)]);
        let (_, batch) = extract(&table(&calls()), &request("any", vec![span]));
        assert_eq!(batch.spans[0].flags.has(SpanFlags::TOOL), expected, "{name}");
    }
}

#[test]
fn a_broken_span_is_counted_and_its_neighbours_stay() {
    type Damage = fn(&mut Span);
    let broken: [(Rejection, Damage); 6] = [
        (Rejection::InvalidTraceId, |span| span.trace_id = Vec::new()),
        (Rejection::InvalidTraceId, |span| span.trace_id = vec![0; 16]),
        (Rejection::InvalidTraceId, |span| span.trace_id = vec![1; 15]),
        (Rejection::InvalidSpanId, |span| span.span_id = vec![1; 9]),
        (Rejection::InvalidSpanId, |span| span.span_id = Vec::new()),
        (Rejection::InvalidParentId, |span| span.parent_span_id = vec![1; 3]),
    ];
    for (reason, damage) in broken {
        let mut spans = vec![tool_span(1), tool_span(2), tool_span(3)];
        damage(&mut spans[1]);
        let (extracted, batch) = extract(&table(&calls()), &request("any", spans));
        assert_eq!((extracted.accepted, extracted.rejected_total()), (2, 1));
        assert_eq!(extracted.rejected(reason), 1);
        assert_eq!(extracted.message(), format!("rejected: 1 {}", reason.as_str()));
        let ids: Vec<_> = batch.spans.iter().map(|span| span.span_id.0[0]).collect();
        assert_eq!(ids, [1, 3]);
    }
}

#[test]
fn a_span_that_ends_before_it_starts_ends_at_its_start() {
    let mut backwards = tool_span(1);
    backwards.end_time_unix_nano = 3;
    let mut open = tool_span(2);
    open.end_time_unix_nano = 0;
    let (extracted, batch) = extract(&table(&calls()), &request("any", vec![backwards, open]));
    assert_eq!((extracted.accepted, extracted.ended_before_start), (2, 1));
    assert_eq!(batch.spans[0].end_ns, 10);
    assert!(!batch.spans[1].flags.has(SpanFlags::ENDED));
}

#[test]
fn words_for_the_state_of_a_run_are_flags() {
    let check = |key, word, expected| {
        let spans = vec![span(1, "task", vec![text(key, word)])];
        let (_, batch) = extract(&table(&calls()), &request("any", spans));
        let told = batch.spans[0].flags.0 & (SpanFlags::WAITING | SpanFlags::FINISHED);
        assert_eq!(told, expected, "{key} {word}");
    };
    check("a2a.task.state", "input-required", SpanFlags::WAITING);
    check("a2a.task.state", "TASK_STATE_COMPLETED", SpanFlags::FINISHED);
    check("a2a.task.state", "working", 0);
    check("gen_ai.task.state", "suspended", SpanFlags::WAITING);
    check("agentops.session.end_state", "Success", SpanFlags::FINISHED);
}

#[test]
fn flags_tell_roots_remote_parents_errors_and_agents() {
    let mut root = span(1, "run", vec![text("openinference.span.kind", "AGENT")]);
    root.parent_span_id = Vec::new();
    let mut remote = span(2, "serve", Vec::new());
    remote.flags = 0x301;
    remote.status = Some(Status { code: 2, message: "down".into() });
    let (_, batch) = extract(&table(&calls()), &request("any", vec![root, remote]));
    let ended = SpanFlags::ENDED;
    assert_eq!(batch.spans[0].flags.0, SpanFlags::ROOT | SpanFlags::AGENT | ended);
    assert_eq!(batch.spans[1].flags.0, SpanFlags::REMOTE_PARENT | SpanFlags::ERROR | ended);
    assert_eq!(facts(&batch, &batch.spans[1]).span_name(), "serve");
}

#[test]
fn exceptions_of_tool_calls_are_kept() {
    let mut failed = tool_span(1);
    let event = |name: &str| Event {
        name: name.into(),
        attributes: vec![text("exception.message", "no such order"), text("stack", "frames")],
        ..Event::default()
    };
    failed.events = vec![event("other"), event("exception")];
    failed.status = Some(Status { code: 2, message: "failed".into() });
    let table = table(&Facts::default());
    let (_, batch) = extract(&table, &request("any", vec![failed]));
    let reader = facts(&batch, &batch.spans[0]);
    assert_eq!(reader.status_message(), "failed");
    let events: Vec<_> = reader.events().collect();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].name, "exception");
    let message = events[0].attribute(table.slot("exception.message").unwrap());
    assert_eq!(message, Some(AnyValue::String("no such order")));
    assert_eq!(events[0].attributes().count(), 1);
}

#[test]
fn messages_are_kept_only_in_so_far_as_they_speak_of_tools() {
    let prose =
        "all is well with the order of the customer, who will hear from us tomorrow at noon";
    let call = "llm.output_messages.0.message.tool_calls.0.tool_call.function.name";
    let attributes = vec![
        text("openinference.span.kind", "LLM"),
        text("llm.input_messages.0.message.role", "user"),
        text("llm.input_messages.0.message.content", prose),
        text("llm.output_messages.0.message.content", prose),
        text(call, "find"),
    ];
    let body = request("any", vec![span(1, "chat", attributes)]);
    let lean = table(&calls());
    let (_, batch) = extract(&lean, &body);
    let keyed: Vec<_> = facts(&batch, &batch.spans[0]).keyed(&lean).map(|(key, _)| key).collect();
    assert!(keyed.contains(&call), "{keyed:?}");
    assert!(!holds_text(&batch, prose));
    let (_, batch) = extract(&table(&Facts::all()), &body);
    assert!(holds_text(&batch, prose));
}

#[test]
fn attributes_of_roots_and_groups_are_kept_when_asked_for() {
    let needed = Facts {
        root_attributes: true,
        attributes: vec![vec!["eval.score".to_owned(), "eval.label".to_owned()]],
        ..Facts::default()
    };
    let table = table(&needed);
    let mut root = span(1, "run", vec![text("case.id", "r-1"), text("tool.name", "x")]);
    root.parent_span_id = Vec::new();
    let scored = span(2, "s", vec![text("eval.label", "good"), text("eval.score", "1")]);
    let unscored = span(3, "s", vec![text("eval.label", "good"), text("case.id", "r-2")]);
    let (_, batch) = extract(&table, &request("any", vec![root, scored, unscored]));
    let keys = |at: usize| -> Vec<&str> {
        facts(&batch, &batch.spans[at]).keyed(&table).map(|(key, _)| key).collect()
    };
    assert_eq!(keys(0), ["case.id", "tool.name"]);
    assert_eq!(keys(1), ["eval.label", "eval.score"]);
    assert!(keys(2).is_empty());
    assert_eq!(table.groups()[0].len(), 2);
}

#[test]
fn text_that_is_not_utf8_is_kept_as_it_is() {
    let mut body = request("any", vec![tool_span(1)]);
    let at = memchr::memmem::find(&body, b"found").unwrap();
    body[at] = 0xff;
    let table = table(&calls());
    let (extracted, batch) = extract(&table, &body);
    assert_eq!(extracted.accepted, 1);
    let value = facts(&batch, &batch.spans[0]).attribute(table.slot("output.value").unwrap());
    assert_eq!(value, Some(AnyValue::InvalidText(b"\xffound")));
}

#[test]
fn huge_and_deep_spans_are_taken() {
    let mut many = tool_span(1);
    many.attributes.extend((0..100_000).map(|n| text(&format!("llm.tools.{n}.x"), "tool")));
    let mut nested = ProtoValue { value: Some(Value::IntValue(1)) };
    for _ in 0..1_000 {
        nested = ProtoValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![nested] })) };
    }
    let mut deep = tool_span(2);
    deep.attributes[3] = attribute("output.value", nested.value.unwrap());
    let table = table(&Facts::all());
    let (extracted, batch) = extract(&table, &request("any", vec![many, deep]));
    assert_eq!(extracted.accepted, 2);
    let value = facts(&batch, &batch.spans[1]).attribute(table.slot("output.value").unwrap());
    assert!(matches!(value, Some(AnyValue::Array(_))));
    assert!(value.unwrap().to_value().is_err(), "deeper than is read");
}

#[test]
fn spans_go_to_the_shard_of_their_trace_with_their_resource() {
    let table = table(&calls());
    let mut shards: Vec<SpanBatch> = (0..4).map(|_| SpanBatch::default()).collect();
    let body = request("any", (1..=100).map(tool_span).collect());
    extract_traces(&table, &body, &mut ExtractionCache::default(), &mut shards).unwrap();
    for (number, shard) in shards.iter().enumerate() {
        assert_eq!(shard.resources.len(), 1);
        assert_eq!(shard.resources[0].service_name, "shop");
        for (trace_id, run) in shard.by_trace() {
            assert_eq!(spanscore_base::model::shard_of(trace_id, 4), number);
            assert!(run.len() == 1 && run[0].resource == 0);
        }
    }
    assert_eq!(shards.iter().map(|shard| shard.spans.len()).sum::<usize>(), 100);
}

#[test]
fn span_keeps_its_own_resource_in_a_request_with_very_many() {
    const PAIRS: usize = 33_000;
    let one = request("any", vec![tool_span(1)]);
    let mut other = one.clone();
    let name = memchr::memmem::find(&other, b"shop").unwrap();
    other[name..name + 4].copy_from_slice(b"bank");
    let (extracted, batch) = extract(&table(&calls()), &[one, other].concat().repeat(PAIRS));
    assert_eq!((extracted.accepted, extracted.rejected_total()), (2 * PAIRS as u64, 0));
    for (span, service) in batch.spans.iter().zip(["shop", "bank"].into_iter().cycle()) {
        assert_eq!(batch.resources[span.resource as usize].service_name, service);
    }
}

#[test]
fn a_request_that_is_no_protobuf_is_malformed() {
    let whole = request("any", vec![tool_span(1)]);
    for body in [&b"\xff\xff\xff"[..], &whole[..whole.len() - 1], &whole[..5]] {
        let mut shards = [SpanBatch::default()];
        let result =
            extract_traces(&table(&calls()), body, &mut ExtractionCache::default(), &mut shards);
        assert_eq!(result, Err(Broken { items: 1, at: 0, len: body.len() }));
        assert!(shards[0].spans.is_empty() && shards[0].arena.is_empty());
    }
    let mut two = whole.clone();
    two.extend(&whole[..whole.len() - 1]);
    let (extracted, batch) = extract(&table(&calls()), &two);
    assert_eq!((extracted.accepted, extracted.rejected(Rejection::Malformed)), (1, 1));
    assert_eq!(batch.spans.len(), 1);
}

/// Returns a request whose middle span is these bytes.
fn with_middle(middle: &[u8]) -> Vec<u8> {
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(bytes.len() as u64, &mut field);
        field.extend(bytes);
        field
    }
    let spans = [&tool_span(1).encode_to_vec()[..], middle, &tool_span(3).encode_to_vec()];
    let scope: Vec<u8> = spans.iter().flat_map(|span| field(2, span)).collect();
    field(1, &field(2, &scope))
}

/// Table that reads everything, compiled once for all random cases.
static EVERYTHING: LazyLock<Table> = LazyLock::new(|| table(&Facts::all()));

proptest! {
    #[test]
    fn random_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut shards = [SpanBatch::default()];
        let table = &EVERYTHING;
        let _ = extract_traces(table, &body, &mut ExtractionCache::default(), &mut shards);
        let _ = super::super::logs::extract_logs(
            table, &body, &mut ExtractionCache::default(), &mut shards,
        );
    }

    #[test]
    fn a_damaged_span_never_costs_its_neighbours(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let table = &EVERYTHING;
        let mut middle = tool_span(2).encode_to_vec();
        for (at, byte) in damage {
            let at = at.index(middle.len());
            middle[at] = byte;
        }
        middle.truncate(cut.index(middle.len() + 1));
        let (extracted, batch) = extract(table, &with_middle(&middle));
        prop_assert_eq!(extracted.accepted + extracted.rejected_total(), 3);
        let (_, whole) = extract(table, &with_middle(&[]));
        let of = |batch: &SpanBatch, id: u8| {
            let record = batch.spans.iter().find(|span| span.span_id.0 == [id; 8]).unwrap();
            batch.arena[record.facts.start as usize..record.facts.end as usize].to_vec()
        };
        for id in [1, 3] {
            prop_assert_eq!(of(&batch, id), of(&whole, id));
        }
    }

    #[test]
    fn what_came_before_changes_nothing(
        spans in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec((0..KEYS.len(), 0..VALUES.len()), 0..9)),
            1..40,
        ),
    ) {
        let table = &EVERYTHING;
        let mut cache = ExtractionCache::default();
        let mut shards = [SpanBatch::default()];
        for (is_root, attributes) in spans {
            let attributes = attributes.into_iter();
            let attributes = attributes.map(|(key, value)| text(KEYS[key], VALUES[value]));
            let mut span = span(1, "run", attributes.collect());
            if is_root {
                span.parent_span_id.clear();
            }
            let body = request("any", vec![span]);
            let from = shards[0].arena.len();
            extract_traces(table, &body, &mut cache, &mut shards).unwrap();
            let (_, alone) = extract(table, &body);
            prop_assert_eq!(&shards[0].arena[from..], &alone.arena);
            let flags = shards[0].spans.last().map(|span| span.flags);
            prop_assert_eq!(flags, Some(alone.spans[0].flags));
        }
    }
}

const KEYS: [&str; 12] = [
    "openinference.span.kind",
    "tool.name",
    "input.value",
    "output.value",
    "gen_ai.operation.name",
    "gen_ai.tool.name",
    "session.id",
    "noise",
    "llm.output_messages.0.message.role",
    "llm.output_messages.0.message.content",
    "llm.output_messages.1.message.tool_calls.0.tool_call.function.name",
    "llm.input_messages.1.message.tool_call_id",
];
const VALUES: [&str; 6] = ["TOOL", "LLM", "execute_tool", "tool", "[{'role': 'tool'}]", ""];

#[test]
fn spans_beyond_the_limits_of_paths_are_read_as_all_others() {
    let table = table(&calls());
    let mut cache = ExtractionCache::default();
    let mut extract_both = |spans: Vec<Span>| {
        let body = request("any", spans);
        let mut shards = [SpanBatch::default()];
        extract_traces(&table, &body, &mut cache, &mut shards).unwrap();
        let (_, fresh) = extract(&table, &body);
        assert_eq!(shards[0].arena, fresh.arena);
        assert_eq!(shards[0].spans, fresh.spans);
    };
    for round in 0..40 {
        // Each has new keys, which find no room in the trie.
        let odd = |number: usize| {
            let mut odd = tool_span(1);
            odd.attributes.insert(0, text(&format!("odd.{round}.{number}"), "x"));
            odd.attributes.extend_from_within(1..3);
            odd
        };
        extract_both((0..200).map(odd).chain([tool_span(2)]).collect());
    }
    let mut long = tool_span(1);
    long.attributes.splice(0..0, (0..400).map(|number| text(&format!("long.{number}"), "x")));
    extract_both(vec![long.clone(), long, tool_span(2)]);
}

/// Attributes read only by an expression make no trace too long for a record.
#[test]
fn the_copies_for_expressions_do_not_count_as_bytes_of_a_trajectory() {
    let bytes = |spans: bool| {
        let mut noisy = tool_span(1);
        noisy.attributes.push(text("noisy", &"noise ".repeat(10_000)));
        let table = table(&Facts { spans, ..calls() });
        let (_, batch) = extract(&table, &request("any", vec![noisy]));
        let SpanBatch { arena, spans: records, runs, resources, .. } = batch;
        let trace_id = runs[0].trace_id;
        let trace =
            TraceSpans { trace_id, arena, spans: records, resources, ..TraceSpans::default() };
        let resolver = Resolver::new(Arc::new(table));
        let trajectory = resolver.resolve(&trace);
        (trajectory.bytes, trajectory.spans.iter().map(|parts| parts.len()).sum::<usize>())
    };
    let [(plain, none), (with_spans, copied)] = [bytes(false), bytes(true)];
    assert!(none == 0 && copied > 60_000, "{none} {copied}");
    assert!(with_spans < plain + 16, "{with_spans} {plain}");
}
