//! Importers of other systems' exports: lists of OTLP requests, responses of Tempo and Jaeger,
//! spans of Phoenix, observations of Langfuse, transcripts of messages.
//!
//! The output is OTLP. Attributes stay as exported, so the dialects see them as they would live.
//! Ids that are not OpenTelemetry ids are hashed.

mod jaeger;
mod langfuse;
mod phoenix;
mod span;
mod tempo;
pub(super) mod transcript;

use bytes::Bytes;
use serde_json::{Map, Value as Json};

use super::unreadable;
use span::ForeignSpan;
use spanscore_base::otlp::{Signal, json};

/// Error of a text in no known form.
const UNKNOWN: &str = "not an OTLP/JSON request: it has neither `resourceSpans` nor `resourceLogs` \
     nor `resourceMetrics`; nor is it an export of Jaeger, Tempo, Phoenix or Langfuse; nor a \
     transcript: messages with a `role`, an object with `messages`, a log of Inspect or a session \
     of Claude Code";

/// Error of a file of scores, one per line.
const SCORES: &str = "a score, as `spanscore score --format jsonl` writes them, and no recording: \
     `--baseline` reads it";

/// Limit on nested lists and envelopes.
const DEPTH_MAX: usize = 4;

/// Requests, with their signals.
type Requests = Vec<(Signal, Bytes)>;

/// Reads a JSON text other than a single OTLP request; `origin` is its place.
pub(super) fn read(text: &[u8], origin: &str) -> Result<Requests, String> {
    let value: Json = serde_json::from_slice(text).map_err(|error| {
        if text.trim_ascii_start().starts_with(b"{") {
            UNKNOWN.to_owned()
        } else {
            error.to_string()
        }
    })?;
    let mut import = Import { origin, ..Import::default() };
    import.take(value, 0)?;
    let Import { mut requests, spans, .. } = import;
    if !spans.is_empty() {
        requests.push((Signal::Traces, span::request(spans)));
    }
    Ok(requests)
}

/// State of reading one text.
#[derive(Default)]
struct Import<'o> {
    origin: &'o str,
    requests: Requests,
    spans: Vec<ForeignSpan>,
}

impl Import<'_> {
    fn take(&mut self, value: Json, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(UNKNOWN.to_owned());
        }
        let map = match value {
            Json::Array(items) => return self.take_list(items, depth),
            Json::Object(map) => map,
            _ => return Err(UNKNOWN.to_owned()),
        };
        let has = |key: &str| map.get(key).is_some_and(|value| !value.is_null());
        if ["resourceSpans", "resourceLogs", "resourceMetrics"].into_iter().any(has) {
            return self.take_otlp(&tempo::plain(Json::Object(map)));
        }
        if has("evaluation_id") && has("evaluator") {
            return Err(SCORES.to_owned());
        }
        if has("batches") {
            return self.take_otlp(&tempo::request(Json::Object(map)));
        }
        if has("spans") && has("processes") {
            self.spans.extend(jaeger::spans(&Json::Object(map)));
            return Ok(());
        }
        if has("observations") {
            self.spans.extend(langfuse::spans_of_trace(&Json::Object(map)));
            return Ok(());
        }
        self.take_other(map, depth)
    }

    fn take_otlp(&mut self, request: &Json) -> Result<(), String> {
        self.requests.extend(otlp_requests(request.to_string().as_bytes())?);
        Ok(())
    }

    fn take_list(&mut self, items: Vec<Json>, depth: usize) -> Result<(), String> {
        let origin = self.next_origin();
        if let Some(spans) = transcript::spans_of_list(&items, &origin) {
            self.spans.extend(spans);
            return Ok(());
        }
        items.into_iter().try_for_each(|item| self.take(item, depth + 1))
    }

    /// Takes a transcript, a span, or an envelope around others.
    fn take_other(&mut self, mut map: Map<String, Json>, depth: usize) -> Result<(), String> {
        if let Some(spans) = transcript::spans_of_object(&map, &self.next_origin())? {
            self.spans.extend(spans);
            return Ok(());
        }
        let other = unreadable::object(&map).unwrap_or(UNKNOWN);
        for envelope in ["data", "trace", "traces"] {
            if let Some(inner) = map.remove(envelope).filter(|it| it.is_object() || it.is_array()) {
                let named = |error| if error == UNKNOWN { other.to_owned() } else { error };
                return self.take(inner, depth + 1).map_err(named);
            }
        }
        let value = Json::Object(map);
        let span = phoenix::span(&value).or_else(|| langfuse::span(&value, None));
        self.spans.push(span.ok_or(other)?);
        Ok(())
    }

    /// Returns the place of the next transcript, as one text may hold several.
    fn next_origin(&self) -> String {
        format!("{} {}", self.origin, self.spans.len())
    }
}

/// Reads the requests of OTLP/JSON, one for each of its signals.
pub(super) fn otlp_requests(text: &[u8]) -> Result<Requests, String> {
    let signals = json::signals(text).map_err(|error| error.to_string())?;
    let request = |signal| {
        let request = json::transcode(signal, text).map_err(|error| error.to_string())?;
        Ok((signal, request))
    };
    signals.into_iter().map(request).collect()
}

#[cfg(test)]
mod tests;
