//! Decoder of the inner call of a toolset's wrapper: the span is named after the wrapper, and the
//! tool is in its arguments. Also decodes arguments that repeat their tool's name.

use super::answers::is_empty;
use super::{Decoded, json_or_py_or_text};
use spanscore_base::value::{Map, Value};

/// Keys of the tool's name in a call: a lone `name` is no sign of a call.
const NAMES: [&str; 3] = ["tool_name", "toolName", "name"];
const IDS: [&str; 3] = ["tool_call_id", "toolCallId", "id"];
const ARGUMENTS: [&str; 5] = ["args", "arguments", "tool_args", "parameters", "input"];

/// Members next to the call that belong to the wrapper.
const BESIDE: [&str; 7] =
    ["ctx", "context", "run_context", "tool", "wrap_validation_errors", "allow_partial", "self"];

/// Returns `{name, id, arguments}` of the call in a wrapper's arguments
/// (`{call: {tool_name, args, tool_call_id}}`, or these members themselves); `None` for a tool's
/// arguments.
pub(super) fn wrapped_call(value: Value<'_>) -> Option<Decoded<'_>> {
    let Value::Map(mut map) = json_or_py_or_text(value) else { return None };
    let is_beside = |key: &str| BESIDE.contains(&key);
    let mut call = match ["call", "tool_call"].into_iter().find_map(|key| map.remove(key)) {
        Some(Value::Map(call)) if map.iter().all(|(key, _)| is_beside(key)) => call,
        Some(_) => return None,
        // Without a separate object, all members must identify the call.
        None => {
            let is_call = |key: &str| {
                NAMES[..2].contains(&key) || IDS.contains(&key) || ARGUMENTS.contains(&key)
            };
            let known = map.iter().all(|(key, _)| is_call(key) || is_beside(key));
            let named = NAMES[..2].iter().any(|key| map.get(key).is_some());
            let given = ARGUMENTS[..3].iter().any(|key| map.get(key).is_some());
            if !(known && named && given) {
                return None;
            }
            map
        }
    };
    let mut take = |keys: &[&str]| keys.iter().find_map(|key| call.remove(key));
    let name = take(&NAMES).filter(|name| name.as_str().is_some_and(|name| !name.is_empty()))?;
    let parts = [("name", Some(name)), ("id", take(&IDS)), ("arguments", take(&ARGUMENTS))];
    let found = parts.into_iter().filter_map(|(key, part)| Some((key, part?)));
    Some(Decoded::Value(Value::Map(found.collect::<Map<'_>>())))
}

/// Members with a tool's input, next to its name.
const GIVEN: [&str; 6] = ["kwargs", "parameters", "arguments", "args", "tool_args", "input"];
/// Members with a call as a separate object.
const CALLS: [&str; 3] = ["calling", "call", "tool_call"];
/// Members that describe a call or its tool.
const ABOUT: [&str; 3] = ["description", "tool_description", "type"];

/// Returns the input of a tool with this name if its arguments are only an envelope with the name
/// (`{tool_name: "find", kwargs: {city: "Brno"}}`).
pub(in super::super) fn without_envelope<'a>(value: &Value<'a>, name: &str) -> Option<Value<'a>> {
    let map = value.as_map()?;
    let is_named =
        |map: &Map<'_>| NAMES.iter().any(|key| map.get(key).and_then(Value::as_str) == Some(name));
    let inner = CALLS.into_iter().find_map(|key| map.get(key)?.as_map().map(|call| (key, call)));
    let (call, key) = match inner {
        Some((key, call)) if is_named(call) => (call, Some(key)),
        _ if is_named(map) => (map, None),
        _ => return None,
    };
    let is_beside = |key: &str, value: &Value<'_>| {
        let known = [&NAMES[..], &IDS, &ABOUT, &BESIDE].iter().any(|keys| keys.contains(&key));
        known || is_empty(value)
    };
    let is_given = |key: &&&str| call.get(key).is_some_and(|it| it.as_map().is_some());
    let given = *GIVEN.iter().find(is_given)?;
    let is_whole =
        map.iter().all(|(k, v)| Some(k) == key || key.is_none() && k == given || is_beside(k, v))
            && call.iter().all(|(k, v)| k == given || is_beside(k, v));
    call.get(given).filter(|_| is_whole).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    #[test]
    fn arguments_that_repeat_their_tools_name_are_an_envelope() {
        for (text, expected) in [
            (r#"{"tool_name": "find", "args": [], "kwargs": {"a": 1}}"#, Some(r#"{"a":1}"#)),
            (r#"{"name": "find", "description": "d", "parameters": {}}"#, Some("{}")),
            (
                r#"{"line": "", "calling": {"tool_name": "find", "arguments": {"a": 1}}}"#,
                Some(r#"{"a":1}"#),
            ),
            // What a tool was given is no envelope.
            (r#"{"name": "pay", "parameters": {"a": 1}}"#, None),
            (r#"{"name": "find", "parameters": {"a": 1}, "limit": 3}"#, None),
            (r#"{"name": "find"}"#, None),
            (r#"{"tool_name": "find", "args": [1], "kwargs": {"a": 1}}"#, None),
            (r#"["find"]"#, None),
        ] {
            let value = json::parse(text).unwrap();
            let found = without_envelope(&value, "find").map(|given| given.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
