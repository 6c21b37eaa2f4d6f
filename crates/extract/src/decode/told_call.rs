//! Decoder of a call from the attributes of an event: `acme.tool_name`, `acme.call_id`,
//! `acme.tool_input`, `acme.success`. The last word of a key tells which part it holds.

use super::{Decoded, json_or_text};
use spanscore_base::value::{Map, Value};

/// Words behind the telling word of a key that add nothing to it.
const HOLDERS: [&str; 7] = ["value", "json", "text", "raw", "content", "data", "str"];

/// Member that names the event: with it all attributes of the event are there.
const EVENT_NAME: &str = "event.name";

/// Words before the `id` of a call in a whole event, which may hold other ids.
const OF_CALLS: [&str; 5] = ["", "call", "use", "toolcall", "tooluse"];

/// Part of a call that an attribute of an event holds.
#[derive(Clone, Copy, PartialEq)]
enum ToldPart {
    Id,
    /// Id of the tool: of the call where the tool has a name, too, else the tool's name.
    ToolId,
    Name,
    Arguments,
    Result,
    Success,
    Error,
    /// Anything else of a whole event.
    Other,
}

/// Returns the call and its result, in the form of messages of a model and of a tool.
pub(super) fn told_call(value: Value<'_>) -> Option<Decoded<'_>> {
    let Value::Map(map) = value else { return None };
    let mut call = Map::default();
    let mut result = Map::default();
    let mut failed = false;
    let mut error = None;
    let mut tool_id = None;
    let is_whole = map.get(EVENT_NAME).is_some();
    for (key, value) in map.into_entries() {
        match part(&key, is_whole) {
            ToldPart::Id => {
                call.insert("tool_use_id", value.clone());
                result.insert("tool_use_id", value);
            }
            ToldPart::ToolId => tool_id = Some(value),
            ToldPart::Name => {
                call.insert("tool_name", value.clone());
                result.insert("tool_name", value);
            }
            ToldPart::Arguments => call.insert("tool_input", value),
            ToldPart::Result => result.insert("content", returned(value)),
            ToldPart::Success => {
                failed |= value == Value::Bool(false) || value.as_str() == Some("false");
            }
            ToldPart::Other => {}
            ToldPart::Error => error = Some(value).filter(|error| !is_nothing(error)),
        }
    }
    if let Some(id) = tool_id {
        let key = if call.get("tool_name").is_some() { "tool_use_id" } else { "tool_name" };
        call.insert(key, id.clone());
        result.insert(key, id);
    }
    failed |= error.is_some();
    if failed && result.get("content").is_none() {
        result.insert("content", error.unwrap_or_default());
    }
    let mut told = Vec::new();
    if call.get("tool_input").is_some() {
        // Its id is the mark of a call; one without says what it is.
        if call.get("tool_use_id").is_none() {
            call.insert("type", Value::from("tool_call"));
        }
        told.push(Value::Map(call));
    }
    if result.get("content").is_some() {
        result.insert("type", Value::from("tool_result"));
        result.insert("is_error", Value::Bool(failed));
        told.push(Value::Map(result));
    }
    (!told.is_empty()).then_some(Decoded::Value(Value::List(told)))
}

/// Members of a result that is handed on with orders to the framework.
const ORDERS: [&str; 6] =
    ["data", "metadata", "control", "canned_responses", "canned_response_fields", "guidelines"];

/// Returns what a tool returned, without orders to the framework beside it.
fn returned(value: Value<'_>) -> Value<'_> {
    let mut map = match json_or_text(value) {
        Value::Map(map) => map,
        value => return value,
    };
    let has_orders = map.get("control").is_some() && map.get("data").is_some();
    if has_orders && map.iter().all(|(key, _)| ORDERS.contains(&key)) {
        return map.remove("data").unwrap_or_default();
    }
    Value::Map(map)
}

fn is_nothing(error: &Value<'_>) -> bool {
    error.is_null() || *error == Value::Bool(false) || error.as_str() == Some("")
}

fn part(key: &str, is_whole: bool) -> ToldPart {
    if key == EVENT_NAME {
        return ToldPart::Other;
    }
    let key = key.to_ascii_lowercase();
    let mut words = key.rsplit(|char: char| !char.is_ascii_alphanumeric());
    let last = words.find(|word| !HOLDERS.contains(word)).unwrap_or_default();
    let before = words.next().unwrap_or_default();
    match last {
        "id" if before == "tool" => ToldPart::ToolId,
        "id" if is_whole && !OF_CALLS.contains(&before) => ToldPart::Other,
        "id" | "callid" | "toolcallid" => ToldPart::Id,
        "arguments" | "args" | "parameters" | "params" | "kwargs" | "input" | "inputs" => {
            ToldPart::Arguments
        }
        "result" | "results" | "output" | "outputs" | "response" => ToldPart::Result,
        "success" | "succeeded" | "ok" => ToldPart::Success,
        "error" | "exception" | "failure" => ToldPart::Error,
        "tool" | "toolname" | "function" => ToldPart::Name,
        "name" if matches!(before, "" | "tool" | "call" | "function") => ToldPart::Name,
        _ if before == "error" => ToldPart::Error,
        _ if is_whole => ToldPart::Other,
        _ => ToldPart::Name,
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
            (
                r#"{"event.name": "tc", "tool_id": "s:f", "result": {"data": 3, "control": {}}}"#,
                r#"[{"content":3,"tool_name":"s:f","type":"tool_result","is_error":false}]"#,
            ),
            (
                r#"{"tool_id": "c", "tool_name": "find", "args": {}}"#,
                r#"[{"tool_name":"find","tool_input":{},"tool_use_id":"c"}]"#,
            ),
            (r#""find""#, ""),
        ] {
            assert_eq!(told(text), expected, "{text}");
        }
    }
}
