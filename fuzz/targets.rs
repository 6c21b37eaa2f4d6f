//! What is fuzzed: each function takes any bytes and must neither panic nor run away.
//!
//! `cargo fuzz run NAME` calls them with what it makes up (`fuzz_targets/`), an ordinary test with
//! the seeds and with broken forms of them (`tests/it/security/fuzz.rs`).

use std::sync::{Arc, LazyLock};

use spanscore::config::{ConfigPart, ResolvedConfig, load};
use spanscore::extract::dialect::Dialect;
use spanscore::extract::{ExtractionCache, Resolver, Table, extract};
use spanscore::model::{Effort, Facts, SpanBatch, TraceSpans};
use spanscore::otlp::{AnyValue, Signal, json, request, tag};
use spanscore::value::{json as value_json, python};

/// A function over any bytes.
pub(crate) type FuzzTarget = fn(&[u8]);

/// All targets by name; each has a folder of seeds.
pub(crate) const TARGETS: [(&str, FuzzTarget); 7] = [
    ("protobuf", protobuf),
    ("otlp_json", otlp_json),
    ("value_json", json_value),
    ("python", python_literal),
    ("config", config),
    ("dialects", dialects),
    ("stages", stages),
];

/// Steps that a trace may take.
const STEPS: u64 = 10_000_000;

/// The protobuf walker, values of attributes, and the writer of resource attributes.
pub(crate) fn protobuf(data: &[u8]) {
    let mut items = 0;
    let _ = request::walk(data, |_| items += 1);
    let _ = AnyValue::read(data);
    let tagged = tag::tag_resources(data, "spanscore.client", "fuzz");
    let mut again = 0;
    let _ = request::walk(&tagged, |_| again += 1);
    assert!(again >= items, "what could be read is read still");
}

/// OTLP/JSON.
pub(crate) fn otlp_json(data: &[u8]) {
    for signal in [Signal::Traces, Signal::Logs, Signal::Metrics] {
        if let Ok(request) = json::transcode(signal, data) {
            protobuf(&request);
        }
    }
    let _ = json::signals(data);
}

/// JSON in attributes: what is read can be written and read again.
pub(crate) fn json_value(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(value) = value_json::parse(text) {
        let written = value.to_string();
        assert!(value_json::parse(&written).is_ok(), "{written}");
    }
    let _ = value_json::parse_prefix(text);
}

/// Python's literals in attributes.
pub(crate) fn python_literal(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = python::parse_literal(text);
    }
}

/// A config: YAML, references, evaluators with their rules, expressions in CEL.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let part = ConfigPart::Text { name: "fuzz".to_owned(), text: text.to_owned() };
    match load(&[part], &|_| None) {
        Ok(loaded) => match ResolvedConfig::new(&loaded) {
            Ok(plan) => drop(plan.summary()),
            Err(error) => drop(error.to_string()),
        },
        Err(error) => drop(error.to_string()),
    }
}

/// Tables of dialects.
pub(crate) fn dialects(data: &[u8]) {
    let mut text = b"evaluators: {}\ndialects:\n".to_vec();
    text.extend_from_slice(data);
    config(&text);
}

/// A request through the stages that need no clock: extracted, and each of its traces read.
pub(crate) fn stages(data: &[u8]) {
    static RESOLVER: LazyLock<Option<Resolver>> = LazyLock::new(|| {
        let table = Table::compile(Dialect::builtin().to_vec(), &Facts::all()).ok()?;
        Some(Resolver::new(Arc::new(table)))
    });
    let Some(resolver) = RESOLVER.as_ref() else { return };
    for signal in [Signal::Traces, Signal::Logs] {
        let (mut batches, mut cache) = ([SpanBatch::default()], ExtractionCache::default());
        let _ = extract(resolver.table(), signal, data, &mut cache, &mut batches);
        let [SpanBatch { arena, spans, runs, resources, .. }] = batches;
        let Some(first) = runs.first() else { continue };
        let trace_id = first.trace_id;
        let trace = TraceSpans { trace_id, arena, spans, resources, ..TraceSpans::default() };
        let trajectory = resolver.resolve_within(&trace, Effort::new(STEPS));
        for call in &trajectory.tool_calls {
            let _ = (call.arguments.value(), call.result.value());
        }
    }
}
