//! Requests with the spans of small agents.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

const START_NS: u64 = 1_735_689_600_000_000_000;
const MS: u64 = 1_000_000;

/// An attribute whose value is a text.
pub(crate) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, any_value::Value::StringValue(value.to_owned()))
}

pub(crate) fn attribute(key: &str, value: any_value::Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// The root of trace `trace`: an agent with span id 1, longer than its tools.
pub(crate) fn agent(trace: u8) -> Span {
    Span {
        trace_id: vec![trace; 16],
        span_id: vec![1; 8],
        name: "agent".to_owned(),
        start_time_unix_nano: START_NS,
        end_time_unix_nano: START_NS + 1000 * MS,
        attributes: vec![text("openinference.span.kind", "AGENT"), text("agent.name", "clerk")],
        ..Span::default()
    }
}

/// A tool's call below that root; calls stand in the order of their ids.
pub(crate) fn tool(trace: u8, id: u8, name: &str) -> Span {
    Span {
        trace_id: vec![trace; 16],
        span_id: vec![id; 8],
        parent_span_id: vec![1; 8],
        name: name.to_owned(),
        start_time_unix_nano: START_NS + u64::from(id) * MS,
        end_time_unix_nano: START_NS + u64::from(id) * MS + MS / 2,
        attributes: vec![text("openinference.span.kind", "TOOL"), text("tool.name", name)],
        ..Span::default()
    }
}

/// The span with one more attribute, a text.
pub(crate) fn with(mut span: Span, key: &str, value: &str) -> Span {
    span.attributes.push(text(key, value));
    span
}

/// Spans of one scope.
pub(crate) fn scoped(scope: &str, service: &str, spans: Vec<Span>) -> ResourceSpans {
    let scope = InstrumentationScope { name: scope.to_owned(), ..InstrumentationScope::default() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
    let attributes = vec![text("service.name", service), text("host.name", "h-1")];
    let resource = Some(Resource { attributes, ..Resource::default() });
    ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }
}

/// A request with spans of the service `shop`.
pub(crate) fn request(spans: impl Into<Vec<Span>>) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest { resource_spans: vec![scoped("test", "shop", spans.into())] }
}

/// A trace with a call of `search` for each id.
pub(crate) fn searches(trace: u8, ids: &[u8]) -> Vec<Span> {
    let tools = ids.iter().map(|id| tool(trace, *id, "search"));
    std::iter::once(agent(trace)).chain(tools).collect()
}
