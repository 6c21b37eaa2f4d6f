//! Decoder of the call that the wrapper of a toolset was given: the span is named after the
//! wrapper, and the tool stands among its arguments.

use super::{Decoded, json_or_py_or_text};
use spanscore_base::value::{Map, Value};

/// Keys under which a call names its tool: a bare `name` is no sign of a call.
const NAMES: [&str; 3] = ["tool_name", "toolName", "name"];
const IDS: [&str; 3] = ["tool_call_id", "toolCallId", "id"];
const ARGUMENTS: [&str; 5] = ["args", "arguments", "tool_args", "parameters", "input"];

/// Members around the call that belong to the wrapper.
const BESIDE: [&str; 7] =
    ["ctx", "context", "run_context", "tool", "wrap_validation_errors", "allow_partial", "self"];

/// Returns `{name, id, arguments}` of the call in the arguments of a wrapper
/// (`{call: {tool_name, args, tool_call_id}}`, or these members themselves); `None` for the
/// arguments of a tool.
pub(super) fn wrapped_call(value: Value<'_>) -> Option<Decoded<'_>> {
    let Value::Map(mut map) = json_or_py_or_text(value) else { return None };
    let is_beside = |key: &str| BESIDE.contains(&key);
    let mut call = match ["call", "tool_call"].into_iter().find_map(|key| map.remove(key)) {
        Some(Value::Map(call)) if map.iter().all(|(key, _)| is_beside(key)) => call,
        Some(_) => return None,
        // Without an object of its own the call must be told by all of its members.
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
