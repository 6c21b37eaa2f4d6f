//! Transcripts: the conversation of an agent and its model, as lists of messages, logs of Inspect
//! and session files of Claude Code.
//!
//! A transcript becomes spans as an instrumentation would write them, with the attributes of the
//! GenAI conventions. One span is the run; each turn of the model has one with its new input and
//! its output. So message readers treat a transcript like live traffic, whatever its API.

mod claude_code;
mod inspect;
mod messages;

use serde_json::{Map, Value as Json};

use super::span::{ForeignSpan, text};
use messages::Transcript;

/// Error of an object that claims to hold messages and has none.
const EMPTY: &str = "a transcript without messages: `messages` is an empty list";

/// Keys of a transcript's scalar values that are no attributes of its run.
const REQUEST_KEYS: [&str; 6] =
    ["system", "stream", "temperature", "max_tokens", "top_p", "parallel_tool_calls"];

/// Reads the spans of a list if it is a transcript: messages, or the lines of a session file.
pub(super) fn spans_of_list(items: &[Json], origin: &str) -> Option<Vec<ForeignSpan>> {
    if claude_code::is_session(items) {
        return Some(claude_code::spans(items, origin));
    }
    let is_chat = items.first().is_some_and(messages::is_message);
    is_chat.then(|| Transcript { messages: items, origin, ..Transcript::default() }.spans())
}

/// Reads the spans of an object if it holds a transcript or a log of several.
pub(super) fn spans_of_object(
    map: &Map<String, Json>,
    origin: &str,
) -> Result<Option<Vec<ForeignSpan>>, String> {
    if inspect::is_log(map) {
        return inspect::spans(map, origin).map(Some);
    }
    let list = |key: &str| map.get(key).and_then(Json::as_array);
    // `input` has the messages of a request to OpenAI's Responses API.
    let Some(given) = list("messages").or_else(|| list("input")) else { return Ok(None) };
    let Some(first) = given.first() else {
        return if map.contains_key("messages") { Err(EMPTY.to_owned()) } else { Ok(None) };
    };
    if !messages::is_message(first) {
        return Ok(None);
    }
    let scalars = map.iter().filter(|(key, value)| {
        let is_plain = value.is_string() || value.is_number() || value.is_boolean();
        is_plain && !REQUEST_KEYS.contains(&key.as_str())
    });
    let mut attributes: Vec<_> = scalars.map(|(key, value)| (key.clone(), value.clone())).collect();
    let metadata = map.get("metadata").and_then(Json::as_object);
    attributes
        .extend(metadata.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
    let answer = list("output").map(Vec::as_slice).unwrap_or_default();
    let messages: Vec<Json> = given.iter().chain(answer).cloned().collect();
    let transcript = Transcript {
        messages: &messages,
        origin,
        attributes,
        system: map.get("system"),
        tools: map.get("tools"),
        ..Transcript::default()
    };
    Ok(Some(transcript.spans()))
}

/// Returns true if a line is part of a transcript that the next lines continue.
pub(in super::super) fn is_line(line: &[u8]) -> bool {
    let first_key = line.trim_ascii_start().strip_prefix(b"{").unwrap_or_default();
    // Requests may be large, and should not be parsed twice.
    if first_key.trim_ascii_start().starts_with(b"\"resource") {
        return false;
    }
    serde_json::from_slice::<Json>(line).is_ok_and(|value| {
        value.is_object() && (messages::is_message(&value) || claude_code::is_event(&value))
    })
}

/// Returns true if a file may begin with a single transcript, whose list must not be split.
pub(in super::super) fn may_begin(start: &[u8]) -> bool {
    let has = |word: &str| memchr::memmem::find(start, word.as_bytes()).is_some();
    let is_of_spans = ["\"traceId\"", "\"trace_id\"", "\"resourceSpans\"", "\"spanId\""];
    has("\"role\"") && !is_of_spans.into_iter().any(has)
}

/// Returns the time in a field, Unix nanoseconds; 0 without one.
fn time_of(value: &Json, key: &str) -> u64 {
    super::span::time(value.get(key))
}

/// Returns the first text among these keys.
fn first_text(value: &Json, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| text(value, key))
}

#[cfg(test)]
mod tests;
