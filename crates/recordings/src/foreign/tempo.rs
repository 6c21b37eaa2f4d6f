//! Tempo: OTLP under older names, in protobuf's JSON mapping, with ids in base64 and enums by name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};

/// Converts the trace of `GET /api/traces/{id}`.
pub(super) fn request(mut trace: Json) -> Json {
    let batches = trace.get_mut("batches").map(Json::take).unwrap_or_default();
    let mut request = Map::new();
    request.insert("resourceSpans".to_owned(), plain(batches));
    Json::Object(request)
}

/// Converts ids, enums and names to OTLP's. OTLP/JSON stays unchanged.
pub(super) fn plain(value: Json) -> Json {
    match value {
        Json::Array(items) => Json::Array(items.into_iter().map(plain).collect()),
        Json::Object(map) => Json::Object(map.into_iter().map(entry).collect()),
        other => other,
    }
}

fn entry((key, value): (String, Json)) -> (String, Json) {
    let value = match (key.as_str(), value) {
        ("traceId" | "spanId" | "parentSpanId", Json::String(id)) => Json::String(hex(id)),
        ("kind", Json::String(name)) => number(&name, &KINDS),
        ("code", Json::String(name)) => number(&name, &CODES),
        // User content: its keys have no meaning here.
        ("attributes" | "body", value) => value,
        (_, value) => plain(value),
    };
    let key = match key.as_str() {
        "instrumentationLibrarySpans" => "scopeSpans".to_owned(),
        "instrumentationLibrary" => "scope".to_owned(),
        _ => key,
    };
    (key, value)
}

const KINDS: [&str; 6] = [
    "SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL", "SPAN_KIND_SERVER", "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER",
];
const CODES: [&str; 3] = ["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"];

fn number(name: &str, names: &[&str]) -> Json {
    match names.iter().position(|known| *known == name) {
        Some(number) => Json::from(number),
        None => Json::String(name.to_owned()),
    }
}

/// Converts an id from base64 to hexadecimal: sixteen bytes are 24 characters of base64 and 32
/// digits, eight are 12 and 16.
fn hex(id: String) -> String {
    if !matches!(id.len(), 12 | 24) {
        return id;
    }
    match STANDARD.decode(&id) {
        Ok(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Err(_) => id,
    }
}
