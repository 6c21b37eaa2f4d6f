//! Span of another system, and its conversion to OTLP.

use bytes::Bytes;
use jiff::Timestamp;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span::Event};
use prost::Message;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

/// Attributes, in their order.
pub(super) type ForeignAttributes = Vec<(String, Json)>;

/// Span; ids as in the export.
#[derive(Clone, Debug, Default)]
pub(super) struct ForeignSpan {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    pub(super) parent_id: Option<String>,
    pub(super) name: String,
    /// Unix nanoseconds.
    pub(super) start_ns: u64,
    /// Unix nanoseconds; 0 if it has not ended.
    pub(super) end_ns: u64,
    /// 0 unset, 1 ok, 2 error.
    pub(super) status: i32,
    pub(super) status_message: String,
    pub(super) attributes: ForeignAttributes,
    /// Events: name, time and attributes.
    pub(super) events: Vec<(String, u64, ForeignAttributes)>,
    pub(super) resource: ForeignAttributes,
    /// Name of the scope, possibly empty.
    pub(super) scope: String,
}

/// Encodes one request with all spans, each with its own resource.
pub(super) fn request(spans: Vec<ForeignSpan>) -> Bytes {
    let resource_spans = spans.into_iter().map(resource_spans).collect();
    ExportTraceServiceRequest { resource_spans }.encode_to_vec().into()
}

fn resource_spans(span: ForeignSpan) -> ResourceSpans {
    let attributes = key_values(span.resource.clone());
    let scope = InstrumentationScope { name: span.scope.clone(), ..Default::default() };
    ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: vec![ScopeSpans {
            scope: Some(scope),
            spans: vec![otlp(span)],
            ..ScopeSpans::default()
        }],
        ..ResourceSpans::default()
    }
}

fn otlp(span: ForeignSpan) -> Span {
    let events = span.events.into_iter().map(|(name, time_unix_nano, attributes)| Event {
        name,
        time_unix_nano,
        attributes: key_values(attributes),
        ..Event::default()
    });
    let parent = span.parent_id.filter(|id| !id.is_empty());
    Span {
        trace_id: id(&span.trace_id, 16),
        span_id: id(&span.span_id, 8),
        parent_span_id: parent.map(|parent| id(&parent, 8)).unwrap_or_default(),
        name: span.name,
        start_time_unix_nano: span.start_ns,
        end_time_unix_nano: span.end_ns,
        attributes: key_values(span.attributes),
        events: events.collect(),
        status: Some(Status { code: span.status, message: span.status_message }),
        ..Span::default()
    }
}

/// Converts an id to `len` bytes: from hexadecimal digits, padded with zeros on the left as Jaeger
/// omits them, else by a hash.
fn id(text: &str, len: usize) -> Vec<u8> {
    let digits: String = text.chars().filter(|char| *char != '-').collect();
    let is_hex = digits.len() <= 2 * len && !digits.starts_with('+');
    match u128::from_str_radix(&digits, 16) {
        Ok(id) if is_hex => id.to_be_bytes()[size_of::<u128>() - len..].to_vec(),
        _ => Sha256::digest(text.as_bytes())[..len].to_vec(),
    }
}

fn key_values(attributes: ForeignAttributes) -> Vec<KeyValue> {
    let entry = |(key, value)| KeyValue { key, value: any_value(value), ..KeyValue::default() };
    attributes.into_iter().map(entry).collect()
}

/// Returns a value as text: a text unchanged, anything else as JSON.
pub(super) fn as_text(value: &Json) -> Json {
    match value {
        Json::String(_) => value.clone(),
        other => Json::String(other.to_string()),
    }
}

/// Returns the items of a list by its key; none of anything else.
pub(super) fn items<'j>(value: &'j Json, key: &str) -> &'j [Json] {
    value.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// Converts a value; maps become JSON text, as instrumentations write them.
fn any_value(value: Json) -> Option<AnyValue> {
    use any_value::Value;
    let value = match value {
        Json::Null => return None,
        Json::String(text) => Value::StringValue(text),
        Json::Bool(flag) => Value::BoolValue(flag),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::IntValue(integer),
            None => Value::DoubleValue(number.as_f64().unwrap_or_default()),
        },
        Json::Array(items) if items.iter().all(|it| !it.is_object() && !it.is_array()) => {
            let values = items.into_iter().filter_map(any_value).collect();
            Value::ArrayValue(ArrayValue { values })
        }
        other => Value::StringValue(other.to_string()),
    };
    Some(AnyValue { value: Some(value) })
}

/// Returns the text of a field; `None` if there is none.
pub(super) fn text(value: &Json, key: &str) -> Option<String> {
    value.get(key).and_then(Json::as_str).map(str::to_owned)
}

/// Parses an RFC 3339 time, as Unix nanoseconds; 0 without one.
pub(super) fn time(value: Option<&Json>) -> u64 {
    let text = value.and_then(Json::as_str).unwrap_or_default();
    let nanoseconds = text.parse::<Timestamp>().map(Timestamp::as_nanosecond).unwrap_or_default();
    u64::try_from(nanoseconds).unwrap_or_default()
}
