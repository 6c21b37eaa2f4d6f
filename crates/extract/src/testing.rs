//! Builders of spans and requests for the tests of extraction.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use super::dialect::Dialect;
use super::record::cache::ExtractionCache;
use super::record::counts::Extracted;
use super::record::layout::FactsReader;
use super::record::traces::extract_traces;
use super::resolve::Resolver;
use super::table::Table;
use spanscore_base::model::{Facts, SpanBatch, SpanRecord, TraceSpans, Trajectory};

pub(super) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

pub(super) fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// Returns a child span with these attributes and ids made of `id`.
pub(super) fn span(id: u8, name: &str, attributes: Vec<KeyValue>) -> Span {
    Span {
        trace_id: vec![id; 16],
        span_id: vec![id; 8],
        parent_span_id: vec![0xee; 8],
        name: name.to_owned(),
        start_time_unix_nano: 10,
        end_time_unix_nano: 20,
        attributes,
        ..Span::default()
    }
}

/// Returns a tool call in OpenInference's form.
pub(super) fn tool_span(id: u8) -> Span {
    let attributes = vec![
        text("openinference.span.kind", "TOOL"),
        text("tool.name", "find"),
        text("input.value", "{\"q\":1}"),
        text("output.value", "found"),
        text("noise", "not needed"),
    ];
    span(id, "find", attributes)
}

pub(super) fn request(scope: &str, spans: Vec<Span>) -> Vec<u8> {
    let scope = InstrumentationScope { name: scope.to_owned(), ..InstrumentationScope::default() };
    let resource =
        Resource { attributes: vec![text("service.name", "shop")], ..Resource::default() };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
    .encode_to_vec()
}

pub(super) fn table(facts: &Facts) -> Table {
    Table::compile(Dialect::builtin().to_vec(), facts).unwrap()
}

/// Returns the facts of arguments and results, as most evaluators need.
pub(super) fn calls() -> Facts {
    Facts { arguments: true, results: true, ..Facts::default() }
}

/// Extracts into one shard.
pub(super) fn extract(table: &Table, body: &[u8]) -> (Extracted, SpanBatch) {
    let mut shards = [SpanBatch::default()];
    let extracted =
        extract_traces(table, body, &mut ExtractionCache::default(), &mut shards).unwrap();
    let [batch] = shards;
    (extracted, batch)
}

/// Calls `check` with the trajectory of these spans.
pub(super) fn resolved(needs: Facts, spans: Vec<Span>, check: impl FnOnce(&Trajectory<'_>)) {
    let table = Arc::new(table(&needs));
    let (_, batch) = extract(&table, &request("x", spans));
    let SpanBatch { arena, spans, resources, .. } = batch;
    let trace = TraceSpans { arena, spans, resources, ..TraceSpans::default() };
    check(&Resolver::new(table).resolve(&trace));
}

pub(super) fn facts<'a>(batch: &'a SpanBatch, record: &SpanRecord) -> FactsReader<'a> {
    FactsReader::new(&batch.arena[record.facts.start as usize..record.facts.end as usize])
}
