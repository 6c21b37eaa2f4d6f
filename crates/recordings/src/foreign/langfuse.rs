//! Langfuse: a trace with its observations (the UI's "Download JSON", or `GET
//! /api/public/traces/{id}`) and single observations (`GET /api/public/observations`, table
//! exports), as the attributes that Langfuse's SDK writes.

use serde_json::Value as Json;

use super::span::{ForeignSpan, as_text, items, text, time};

/// Reads the spans of a trace whose observations are in it or beside it.
pub(super) fn spans_of_trace(value: &Json) -> Vec<ForeignSpan> {
    let trace = value.get("trace").filter(|it| it.is_object()).unwrap_or(value);
    let observations = items(value, "observations").iter();
    observations.filter_map(|observation| span(observation, Some(trace))).collect()
}

/// Reads the span of one observation; `trace` holds its trace's fields, if known.
pub(super) fn span(observation: &Json, trace: Option<&Json>) -> Option<ForeignSpan> {
    let kind = text(observation, "type")?.to_lowercase();
    let of_trace = |key: &str| trace.and_then(|trace| text(trace, key));
    let trace_id = text(observation, "traceId").or_else(|| of_trace("id"))?;
    let span_id = text(observation, "id")?;
    let level = text(observation, "level").unwrap_or_default();
    let parent_id = text(observation, "parentObservationId");
    let mut attributes = vec![("langfuse.observation.type".to_owned(), Json::String(kind))];
    let mut add = |key: &str, value: Option<&Json>| {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            attributes.push((key.to_owned(), as_text(value)));
        }
    };
    for (key, field) in FIELDS {
        add(key, observation.get(field));
    }
    let session = observation.get("sessionId").filter(|it| !it.is_null());
    add("session.id", session.or_else(|| trace?.get("sessionId")));
    if parent_id.is_none() {
        add("langfuse.trace.input", trace.and_then(|it| it.get("input")));
        add("langfuse.trace.output", trace.and_then(|it| it.get("output")));
        add("langfuse.trace.name", trace.and_then(|it| it.get("name")));
    }
    let metadata = observation.get("metadata").and_then(Json::as_object);
    for (key, value) in metadata.into_iter().flatten() {
        add(&format!("langfuse.observation.metadata.{key}"), Some(value));
    }
    Some(ForeignSpan {
        trace_id,
        span_id,
        parent_id,
        name: text(observation, "name").unwrap_or_default(),
        start_ns: time(observation.get("startTime")),
        end_ns: time(observation.get("endTime")),
        status: if level == "ERROR" { 2 } else { 0 },
        status_message: text(observation, "statusMessage").unwrap_or_default(),
        attributes,
        scope: "langfuse-sdk".to_owned(),
        ..ForeignSpan::default()
    })
}

/// Attributes of the SDK, with the API's fields of the same content.
const FIELDS: [(&str, &str); 7] = [
    ("langfuse.observation.input", "input"),
    ("langfuse.observation.output", "output"),
    ("langfuse.observation.level", "level"),
    ("langfuse.observation.status_message", "statusMessage"),
    ("langfuse.observation.model.name", "model"),
    ("langfuse.observation.usage_details", "usageDetails"),
    ("langfuse.observation.cost_details", "costDetails"),
];
