//! Schemas of OTLP messages: JSON names, field numbers and kinds, from `opentelemetry-proto` 1.x.
//!
//! Only lowerCamelCase fields of OTLP/JSON. Others are unknown and skipped.

use super::super::Signal;

/// Type of a field's value.
#[derive(Clone, Copy)]
pub(super) enum FieldKind {
    String,
    /// `bytes` written in base64.
    Base64,
    /// `bytes` written in hexadecimal: trace and span ids.
    Id,
    Bool,
    /// `int32`, `int64`, `uint32`, `uint64`: the range is that of 64 bits.
    Varint,
    /// `sint32`.
    Zigzag,
    /// An enumeration: an integer, never a name.
    Enum,
    Fixed32,
    /// `fixed64`: never negative.
    Fixed64,
    /// `sfixed64`.
    SignedFixed64,
    Double,
    Message(&'static MessageSchema),
}

/// A field of a message.
pub(super) struct FieldSchema {
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) kind: FieldKind,
    pub(super) is_list: bool,
}

/// Message: its fields.
pub(super) struct MessageSchema(&'static [FieldSchema]);

impl MessageSchema {
    /// Returns the field with a JSON name.
    #[inline]
    pub(super) fn field(&self, name: &str) -> Option<&'static FieldSchema> {
        self.0.iter().find(|field| field.name == name)
    }
}

/// Returns the request message of a signal.
pub(super) fn request(signal: Signal) -> &'static MessageSchema {
    match signal {
        Signal::Traces => &TRACES,
        Signal::Logs => &LOGS,
        Signal::Metrics => &METRICS,
    }
}

/// Returns the name of the one field of a request message.
pub(super) fn request_key(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "resourceSpans",
        Signal::Logs => "resourceLogs",
        Signal::Metrics => "resourceMetrics",
    }
}

const fn one(name: &'static str, number: u32, kind: FieldKind) -> FieldSchema {
    FieldSchema { name, number, kind, is_list: false }
}

const fn list(name: &'static str, number: u32, kind: FieldKind) -> FieldSchema {
    FieldSchema { name, number, kind, is_list: true }
}

use FieldKind::{
    Base64, Bool, Double, Enum, Fixed32, Fixed64, Id, SignedFixed64, String, Varint, Zigzag,
};

static TRACES: MessageSchema =
    MessageSchema(&[list("resourceSpans", 1, FieldKind::Message(&RESOURCE_SPANS))]);

static RESOURCE_SPANS: MessageSchema = MessageSchema(&[
    one("resource", 1, FieldKind::Message(&RESOURCE)),
    list("scopeSpans", 2, FieldKind::Message(&SCOPE_SPANS)),
    one("schemaUrl", 3, String),
]);

static SCOPE_SPANS: MessageSchema = MessageSchema(&[
    one("scope", 1, FieldKind::Message(&SCOPE)),
    list("spans", 2, FieldKind::Message(&SPAN)),
    one("schemaUrl", 3, String),
]);

static SPAN: MessageSchema = MessageSchema(&[
    one("traceId", 1, Id),
    one("spanId", 2, Id),
    one("traceState", 3, String),
    one("parentSpanId", 4, Id),
    one("name", 5, String),
    one("kind", 6, Enum),
    one("startTimeUnixNano", 7, Fixed64),
    one("endTimeUnixNano", 8, Fixed64),
    list("attributes", 9, FieldKind::Message(&KEY_VALUE)),
    one("droppedAttributesCount", 10, Varint),
    list("events", 11, FieldKind::Message(&EVENT)),
    one("droppedEventsCount", 12, Varint),
    list("links", 13, FieldKind::Message(&LINK)),
    one("droppedLinksCount", 14, Varint),
    one("status", 15, FieldKind::Message(&STATUS)),
    one("flags", 16, Fixed32),
]);

static EVENT: MessageSchema = MessageSchema(&[
    one("timeUnixNano", 1, Fixed64),
    one("name", 2, String),
    list("attributes", 3, FieldKind::Message(&KEY_VALUE)),
    one("droppedAttributesCount", 4, Varint),
]);

static LINK: MessageSchema = MessageSchema(&[
    one("traceId", 1, Id),
    one("spanId", 2, Id),
    one("traceState", 3, String),
    list("attributes", 4, FieldKind::Message(&KEY_VALUE)),
    one("droppedAttributesCount", 5, Varint),
    one("flags", 6, Fixed32),
]);

static STATUS: MessageSchema = MessageSchema(&[one("message", 2, String), one("code", 3, Enum)]);

static RESOURCE: MessageSchema = MessageSchema(&[
    list("attributes", 1, FieldKind::Message(&KEY_VALUE)),
    one("droppedAttributesCount", 2, Varint),
    list("entityRefs", 3, FieldKind::Message(&ENTITY_REF)),
]);

static ENTITY_REF: MessageSchema = MessageSchema(&[
    one("schemaUrl", 1, String),
    one("type", 2, String),
    list("idKeys", 3, String),
    list("descriptionKeys", 4, String),
]);

static SCOPE: MessageSchema = MessageSchema(&[
    one("name", 1, String),
    one("version", 2, String),
    list("attributes", 3, FieldKind::Message(&KEY_VALUE)),
    one("droppedAttributesCount", 4, Varint),
]);

static KEY_VALUE: MessageSchema =
    MessageSchema(&[one("key", 1, String), one("value", 2, FieldKind::Message(&ANY_VALUE))]);

static ANY_VALUE: MessageSchema = MessageSchema(&[
    one("stringValue", 1, String),
    one("boolValue", 2, Bool),
    one("intValue", 3, Varint),
    one("doubleValue", 4, Double),
    one("arrayValue", 5, FieldKind::Message(&ARRAY_VALUE)),
    one("kvlistValue", 6, FieldKind::Message(&KEY_VALUE_LIST)),
    one("bytesValue", 7, Base64),
]);

static ARRAY_VALUE: MessageSchema =
    MessageSchema(&[list("values", 1, FieldKind::Message(&ANY_VALUE))]);

static KEY_VALUE_LIST: MessageSchema =
    MessageSchema(&[list("values", 1, FieldKind::Message(&KEY_VALUE))]);

static LOGS: MessageSchema =
    MessageSchema(&[list("resourceLogs", 1, FieldKind::Message(&RESOURCE_LOGS))]);

static RESOURCE_LOGS: MessageSchema = MessageSchema(&[
    one("resource", 1, FieldKind::Message(&RESOURCE)),
    list("scopeLogs", 2, FieldKind::Message(&SCOPE_LOGS)),
    one("schemaUrl", 3, String),
]);

static SCOPE_LOGS: MessageSchema = MessageSchema(&[
    one("scope", 1, FieldKind::Message(&SCOPE)),
    list("logRecords", 2, FieldKind::Message(&LOG_RECORD)),
    one("schemaUrl", 3, String),
]);

static LOG_RECORD: MessageSchema = MessageSchema(&[
    one("timeUnixNano", 1, Fixed64),
    one("severityNumber", 2, Enum),
    one("severityText", 3, String),
    one("body", 5, FieldKind::Message(&ANY_VALUE)),
    list("attributes", 6, FieldKind::Message(&KEY_VALUE)),
    one("droppedAttributesCount", 7, Varint),
    one("flags", 8, Fixed32),
    one("traceId", 9, Id),
    one("spanId", 10, Id),
    one("observedTimeUnixNano", 11, Fixed64),
    one("eventName", 12, String),
]);

static METRICS: MessageSchema =
    MessageSchema(&[list("resourceMetrics", 1, FieldKind::Message(&RESOURCE_METRICS))]);

static RESOURCE_METRICS: MessageSchema = MessageSchema(&[
    one("resource", 1, FieldKind::Message(&RESOURCE)),
    list("scopeMetrics", 2, FieldKind::Message(&SCOPE_METRICS)),
    one("schemaUrl", 3, String),
]);

static SCOPE_METRICS: MessageSchema = MessageSchema(&[
    one("scope", 1, FieldKind::Message(&SCOPE)),
    list("metrics", 2, FieldKind::Message(&METRIC)),
    one("schemaUrl", 3, String),
]);

static METRIC: MessageSchema = MessageSchema(&[
    one("name", 1, String),
    one("description", 2, String),
    one("unit", 3, String),
    one("gauge", 5, FieldKind::Message(&NUMBERS)),
    one("sum", 7, FieldKind::Message(&NUMBERS)),
    one("histogram", 9, FieldKind::Message(&HISTOGRAM)),
    one("exponentialHistogram", 10, FieldKind::Message(&EXPONENTIAL_HISTOGRAM)),
    one("summary", 11, FieldKind::Message(&SUMMARY)),
    list("metadata", 12, FieldKind::Message(&KEY_VALUE)),
]);

/// Schema of `Gauge`, and of `Sum` with its two additional fields.
static NUMBERS: MessageSchema = MessageSchema(&[
    list("dataPoints", 1, FieldKind::Message(&NUMBER_POINT)),
    one("aggregationTemporality", 2, Enum),
    one("isMonotonic", 3, Bool),
]);

static HISTOGRAM: MessageSchema = MessageSchema(&[
    list("dataPoints", 1, FieldKind::Message(&HISTOGRAM_POINT)),
    one("aggregationTemporality", 2, Enum),
]);

static EXPONENTIAL_HISTOGRAM: MessageSchema = MessageSchema(&[
    list("dataPoints", 1, FieldKind::Message(&EXPONENTIAL_HISTOGRAM_POINT)),
    one("aggregationTemporality", 2, Enum),
]);

static SUMMARY: MessageSchema =
    MessageSchema(&[list("dataPoints", 1, FieldKind::Message(&SUMMARY_POINT))]);

static NUMBER_POINT: MessageSchema = MessageSchema(&[
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("asDouble", 4, Double),
    list("exemplars", 5, FieldKind::Message(&EXEMPLAR)),
    one("asInt", 6, SignedFixed64),
    list("attributes", 7, FieldKind::Message(&KEY_VALUE)),
    one("flags", 8, Varint),
]);

static HISTOGRAM_POINT: MessageSchema = MessageSchema(&[
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    list("bucketCounts", 6, Fixed64),
    list("explicitBounds", 7, Double),
    list("exemplars", 8, FieldKind::Message(&EXEMPLAR)),
    list("attributes", 9, FieldKind::Message(&KEY_VALUE)),
    one("flags", 10, Varint),
    one("min", 11, Double),
    one("max", 12, Double),
]);

static EXPONENTIAL_HISTOGRAM_POINT: MessageSchema = MessageSchema(&[
    list("attributes", 1, FieldKind::Message(&KEY_VALUE)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    one("scale", 6, Zigzag),
    one("zeroCount", 7, Fixed64),
    one("positive", 8, FieldKind::Message(&BUCKETS)),
    one("negative", 9, FieldKind::Message(&BUCKETS)),
    one("flags", 10, Varint),
    list("exemplars", 11, FieldKind::Message(&EXEMPLAR)),
    one("min", 12, Double),
    one("max", 13, Double),
    one("zeroThreshold", 14, Double),
]);

static BUCKETS: MessageSchema =
    MessageSchema(&[one("offset", 1, Zigzag), list("bucketCounts", 2, Varint)]);

static SUMMARY_POINT: MessageSchema = MessageSchema(&[
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    list("quantileValues", 6, FieldKind::Message(&QUANTILE)),
    list("attributes", 7, FieldKind::Message(&KEY_VALUE)),
    one("flags", 8, Varint),
]);

static QUANTILE: MessageSchema =
    MessageSchema(&[one("quantile", 1, Double), one("value", 2, Double)]);

static EXEMPLAR: MessageSchema = MessageSchema(&[
    one("timeUnixNano", 2, Fixed64),
    one("asDouble", 3, Double),
    one("spanId", 4, Id),
    one("traceId", 5, Id),
    one("asInt", 6, SignedFixed64),
    list("filteredAttributes", 7, FieldKind::Message(&KEY_VALUE)),
]);
