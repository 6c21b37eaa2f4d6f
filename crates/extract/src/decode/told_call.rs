//! Decoder of a call from an event's attributes: `acme.tool_name`, `acme.call_id`,
//! `acme.tool_input`, `acme.success`. The last word of a key identifies its part.

use super::Decoded;
use spanscore_base::value::{Map, Value};

/// Words after the identifying word of a key without a meaning of their own.
const HOLDERS: [&str; 7] = ["value", "json", "text", "raw", "content", "data", "str"];

/// Part of a call in an attribute of an event.
#[derive(Clone, Copy, PartialEq)]
enum EventPart {
    Id,
    Name,
    Arguments,
    Result,
    Success,
    Error,
}

/// Returns the call and its result as messages of a model and a tool.
pub(super) fn told_call(value: Value<'_>) -> Option<Decoded<'_>> {
    let Value::Map(map) = value else { return None };
    let mut call = Map::default();
    let mut result = Map::default();
    let mut failed = false;
    let mut error = None;
    for (key, value) in map.into_entries() {
        match part(&key) {
            EventPart::Id => {
                call.insert("tool_use_id", value.clone());
                result.insert("tool_use_id", value);
            }
            EventPart::Name => {
                call.insert("tool_name", value.clone());
                result.insert("tool_name", value);
            }
            EventPart::Arguments => call.insert("tool_input", value),
            EventPart::Result => result.insert("content", value),
            EventPart::Success => {
                failed |= value == Value::Bool(false) || value.as_str() == Some("false");
            }
            EventPart::Error => error = Some(value).filter(|error| !is_nothing(error)),
        }
    }
    failed |= error.is_some();
    if failed && result.get("content").is_none() {
        result.insert("content", error.unwrap_or_default());
    }
    let mut told = Vec::new();
    if call.get("tool_input").is_some() {
        told.push(Value::Map(call));
    }
    if result.get("content").is_some() {
        result.insert("type", Value::from("tool_result"));
        result.insert("is_error", Value::Bool(failed));
        told.push(Value::Map(result));
    }
    (!told.is_empty()).then_some(Decoded::Value(Value::List(told)))
}

fn is_nothing(error: &Value<'_>) -> bool {
    error.is_null() || *error == Value::Bool(false) || error.as_str() == Some("")
}

fn part(key: &str) -> EventPart {
    let key = key.to_ascii_lowercase();
    let mut words = key.rsplit(|char: char| !char.is_ascii_alphanumeric());
    let last = words.find(|word| !HOLDERS.contains(word)).unwrap_or_default();
    let before = words.next().unwrap_or_default();
    match last {
        "id" | "callid" | "toolcallid" => EventPart::Id,
        "arguments" | "args" | "parameters" | "params" | "kwargs" | "input" | "inputs" => {
            EventPart::Arguments
        }
        "result" | "results" | "output" | "outputs" | "response" => EventPart::Result,
        "success" | "succeeded" | "ok" => EventPart::Success,
        "error" | "exception" | "failure" => EventPart::Error,
        _ if before == "error" => EventPart::Error,
        _ => EventPart::Name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    #[test]
    fn keys_tell_by_their_last_words_what_they_hold() {
        let told = |text: &str| match told_call(json::parse(text).unwrap()) {
            Some(Decoded::Value(value)) => value.to_string(),
            _ => String::new(),
        };
        for (text, expected) in [
            (
                r#"{"x.tool_use_id": "c", "x.tool": "find", "x.input.json": "{}"}"#,
                r#"[{"tool_use_id":"c","tool_name":"find","tool_input":"{}"}]"#,
            ),
            (
                r#"{"call.id": "c", "name": "pay", "success": false, "error.message": "no cash"}"#,
                concat!(
                    r#"[{"tool_use_id":"c","tool_name":"pay","content":"no cash","#,
                    r#""type":"tool_result","is_error":true}]"#
                ),
            ),
            (
                r#"{"id": "c", "tool": "find", "output": [1], "error": ""}"#,
                concat!(
                    r#"[{"tool_use_id":"c","tool_name":"find","content":[1],"#,
                    r#""type":"tool_result","is_error":false}]"#
                ),
            ),
            (r#"{"id": "c", "tool": "find"}"#, ""),
            (r#""find""#, ""),
        ] {
            assert_eq!(told(text), expected, "{text}");
        }
    }
}
