//! Success bodies of servers and relays: in envelopes, and as unrequested events.
//!
//! The events of one answer are joined to the body that its protocol has without them. An
//! incomplete one is no answer.

use serde_json::{Value, json};

use super::fault::Fault;
use super::text;
use crate::judge::settings::JudgeApi;

/// Reads the body of a success: JSON, alone in a list or as the `data` of a gateway's envelope, or
/// events. Returns true as well for an error that ended a begun answer.
///
/// # Errors
/// It is neither, or one of its events is not JSON.
pub(super) fn whole(api: JudgeApi, raw: &[u8]) -> Result<(Value, bool), Fault> {
    let raw = raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(raw);
    let body: Value = match serde_json::from_slice(raw) {
        Ok(body) => body,
        Err(error) => {
            let fault = || Fault::Unreadable(format!("its answer is not JSON: {error}"));
            return joined(api, raw).ok_or_else(fault);
        }
    };
    let is_answer = |inner: &&Value| inner.get("choices").is_some();
    let envelopes = ["data", "result", "response"].map(|key| body.get(key));
    let inner = [body.get(0)].into_iter().chain(envelopes).flatten().find(is_answer).cloned();
    Ok((inner.unwrap_or(body), false))
}

/// Joins server-sent events to the whole answer, or finds the error among them. `None` for other
/// texts, or if an event is unreadable, since the answer would be incomplete.
fn joined(api: JudgeApi, raw: &[u8]) -> Option<(Value, bool)> {
    let events = parsed(std::str::from_utf8(raw).ok()?)?;
    let is_error = |event: &Value| event.get("error").is_some_and(Value::is_object);
    if let Some(at) = events.iter().position(is_error) {
        return Some((events[at].clone(), events[..at].iter().any(has_begun)));
    }
    let whole = match api {
        JudgeApi::OpenAi => chat(&events),
        JudgeApi::OpenAiResponses => {
            let last = events.iter().rfind(|event| event.pointer("/response/output").is_some());
            last?.get("response").cloned()
        }
        JudgeApi::Anthropic => message(&events),
    };
    whole.map(|whole| (whole, false))
}

/// Parses the data of events, of one or several lines each; `None` if one is not JSON.
fn parsed(text: &str) -> Option<Vec<Value>> {
    let text = text.replace("\r\n", "\n");
    let mut events = Vec::new();
    for event in text.split("\n\n") {
        let data = event.lines().filter_map(|line| line.strip_prefix("data:"));
        let data: Vec<&str> = data.filter(|data| data.trim() != "[DONE]").collect();
        for value in serde_json::Deserializer::from_str(&data.join("\n")).into_iter() {
            events.push(value.ok()?);
        }
    }
    Some(events)
}

/// Returns true for an event with a part of an answer besides its role, or its usage.
fn has_begun(event: &Value) -> bool {
    let is_filled = |part: &Value| match part {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    let has_part = |place: &&str| match event.pointer(place) {
        Some(Value::Object(delta)) => {
            delta.iter().any(|(key, part)| key != "role" && is_filled(part))
        }
        delta => delta.is_some_and(is_filled),
    };
    let is_counted = |place: &&str| event.pointer(place).is_some_and(|usage| !usage.is_null());
    ["/choices/0/delta", "/delta"].iter().any(has_part)
        || ["/usage", "/message/usage", "/response/usage"].iter().any(is_counted)
}

/// Joins the chunks of a chat completion.
fn chat(events: &[Value]) -> Option<Value> {
    let joined = |pointer: &str| -> String {
        events.iter().filter_map(|event| text(event, pointer)).collect()
    };
    let finish = events.iter().rev().find_map(|event| text(event, "/choices/0/finish_reason"))?;
    let mut usages = events.iter().rev().filter_map(|event| event.get("usage"));
    let usage = usages.find(|usage| usage.is_object()).unwrap_or(&Value::Null);
    let arguments = joined("/choices/0/delta/tool_calls/0/function/arguments");
    let mut message = json!({"content": joined("/choices/0/delta/content")});
    if !arguments.is_empty() {
        message["tool_calls"] = json!([{"function": {"arguments": arguments}}]);
    }
    let choice = json!({"message": message, "finish_reason": finish});
    Some(json!({"choices": [choice], "usage": usage}))
}

/// Joins the events of a message.
fn message(events: &[Value]) -> Option<Value> {
    let of_type =
        |kind: &'static str| events.iter().filter(move |event| text(event, "/type") == Some(kind));
    let ended = of_type("message_delta").next_back()?;
    let started = of_type("message_start").next()?;
    let joined = |pointer: &str| -> String {
        of_type("content_block_delta").filter_map(|event| text(event, pointer)).collect()
    };
    let part = match serde_json::from_str::<Value>(&joined("/delta/partial_json")) {
        Ok(input) => json!({"type": "tool_use", "input": input}),
        Err(_) => json!({"type": "text", "text": joined("/delta/text")}),
    };
    let usage = started.pointer("/message/usage").and_then(Value::as_object).cloned();
    let mut usage = usage.unwrap_or_default();
    if let Some(output) = ended.pointer("/usage/output_tokens") {
        usage.insert("output_tokens".to_owned(), output.clone());
    }
    let stop = ended.pointer("/delta/stop_reason");
    Some(json!({"content": [part], "stop_reason": stop, "usage": usage}))
}
