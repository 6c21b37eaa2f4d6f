//! Phoenix: spans of `GET /v1/projects/{project}/spans`, and rows of a table of spans as JSON, with
//! dotted column names.

use serde_json::{Map, Value as Json};

use super::span::{ForeignAttributes, ForeignSpan, items, text, time};

/// Limit on nested attributes.
const DEPTH_MAX: usize = 32;

pub(super) fn span(value: &Json) -> Option<ForeignSpan> {
    let context = |key: &str| {
        let nested = value.get("context").and_then(|context| text(context, key));
        nested.or_else(|| text(value, &format!("context.{key}")))
    };
    let trace_id = context("trace_id")?;
    let span_id = context("span_id")?;
    let mut attributes = attributes(value.as_object()?);
    let has_kind = attributes.iter().any(|(key, _)| key == KIND);
    if let Some(kind) = text(value, "span_kind").filter(|_| !has_kind) {
        attributes.push((KIND.to_owned(), Json::String(kind)));
    }
    Some(ForeignSpan {
        trace_id,
        span_id,
        parent_id: text(value, "parent_id"),
        name: text(value, "name").unwrap_or_default(),
        start_ns: time(value.get("start_time")),
        end_ns: time(value.get("end_time")),
        status: match text(value, "status_code").as_deref() {
            Some("ERROR") => 2,
            Some("OK") => 1,
            _ => 0,
        },
        status_message: text(value, "status_message").unwrap_or_default(),
        attributes,
        events: items(value, "events").iter().map(event).collect(),
        // The attributes are OpenInference's, whoever wrote them.
        scope: "openinference.instrumentation".to_owned(),
        ..ForeignSpan::default()
    })
}

const KIND: &str = "openinference.span.kind";

/// Reads the attributes under `attributes`, or in columns with that prefix.
fn attributes(row: &Map<String, Json>) -> ForeignAttributes {
    let mut out = ForeignAttributes::new();
    for (key, value) in row {
        match key.strip_prefix("attributes") {
            Some("") => flatten("", value, 0, &mut out),
            Some(rest) if rest.starts_with('.') => flatten(&rest[1..], value, 0, &mut out),
            _ => {}
        }
    }
    out
}

/// Flattens nested maps, and lists of maps, to dotted keys.
fn flatten(path: &str, value: &Json, depth: usize, out: &mut ForeignAttributes) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Json::Object(map) if depth < DEPTH_MAX => {
            map.iter().for_each(|(key, value)| flatten(&below(key), value, depth + 1, out));
        }
        Json::Array(items) if depth < DEPTH_MAX && items.iter().any(Json::is_object) => {
            let items = items.iter().enumerate();
            items.for_each(|(at, value)| flatten(&below(&at.to_string()), value, depth + 1, out));
        }
        Json::Null => {}
        other => out.push((path.to_owned(), other.clone())),
    }
}

fn event(event: &Json) -> (String, u64, ForeignAttributes) {
    let mut attributes = ForeignAttributes::new();
    if let Some(own) = event.get("attributes") {
        flatten("", own, 0, &mut attributes);
    }
    (text(event, "name").unwrap_or_default(), time(event.get("timestamp")), attributes)
}
