//! Importers of other systems' exports to OTLP: lists of requests, Tempo's and Jaeger's answers,
//! spans of Phoenix, observations of Langfuse.
//!
//! Attributes go on as that system received them, so the dialects see the same as they would have
//! seen live. Ids that are no OpenTelemetry ids are hashed.

mod jaeger;
mod langfuse;
mod phoenix;
mod span;
mod tempo;

use bytes::Bytes;
use serde_json::Value as Json;

use span::ForeignSpan;
use spanscore_base::otlp::{Signal, json};

/// Error of a text in none of these forms.
const UNKNOWN: &str = "not an OTLP/JSON request: it has neither `resourceSpans` nor `resourceLogs` \
     nor `resourceMetrics`; nor is it an export of Jaeger, Tempo, Phoenix or Langfuse";

/// Error of a file of scores, which has a line for each.
const SCORES: &str = "a score, as `spanscore score --format jsonl` writes them, and no recording: \
     `--baseline` reads it";

/// Nesting of lists and envelopes that is followed.
const DEPTH_MAX: usize = 4;

/// Requests, with their signals.
type Requests = Vec<(Signal, Bytes)>;

/// Reads a JSON text that is not an OTLP request by itself.
pub(super) fn read(text: &[u8]) -> Result<Requests, String> {
    let value: Json = serde_json::from_slice(text).map_err(|error| {
        if text.trim_ascii_start().starts_with(b"{") {
            UNKNOWN.to_owned()
        } else {
            error.to_string()
        }
    })?;
    let mut requests = Vec::new();
    let mut spans = Vec::new();
    take(value, 0, &mut requests, &mut spans)?;
    if !spans.is_empty() {
        requests.push((Signal::Traces, span::request(spans)));
    }
    Ok(requests)
}

fn take(
    value: Json,
    depth: usize,
    requests: &mut Requests,
    spans: &mut Vec<ForeignSpan>,
) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(UNKNOWN.to_owned());
    }
    let mut map = match value {
        Json::Array(items) => {
            return items.into_iter().try_for_each(|item| take(item, depth + 1, requests, spans));
        }
        Json::Object(map) => map,
        _ => return Err(UNKNOWN.to_owned()),
    };
    let has = |key: &str| map.get(key).is_some_and(|value| !value.is_null());
    if ["resourceSpans", "resourceLogs", "resourceMetrics"].into_iter().any(has) {
        let text = tempo::plain(Json::Object(map)).to_string();
        return add_request(text.as_bytes(), requests);
    }
    if has("evaluation_id") && has("evaluator") {
        return Err(SCORES.to_owned());
    }
    if has("batches") {
        return add_request(tempo::request(Json::Object(map)).to_string().as_bytes(), requests);
    }
    if has("spans") && has("processes") {
        spans.extend(jaeger::spans(&Json::Object(map)));
        return Ok(());
    }
    if has("observations") {
        spans.extend(langfuse::spans_of_trace(&Json::Object(map)));
        return Ok(());
    }
    for envelope in ["data", "trace", "traces"] {
        if let Some(inner) = map.remove(envelope).filter(|it| it.is_object() || it.is_array()) {
            return take(inner, depth + 1, requests, spans);
        }
    }
    let value = Json::Object(map);
    let span = phoenix::span(&value).or_else(|| langfuse::span(&value, None));
    spans.push(span.ok_or(UNKNOWN)?);
    Ok(())
}

fn add_request(text: &[u8], requests: &mut Requests) -> Result<(), String> {
    for signal in json::signals(text).map_err(|error| error.to_string())? {
        let request = json::transcode(signal, text).map_err(|error| error.to_string())?;
        requests.push((signal, request));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
