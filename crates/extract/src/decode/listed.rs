//! Decoder of calls listed on a model's span as comma-separated names, ids and arguments.

use super::Decoded;
use spanscore_base::value::{Map, Value, json};

/// Limit on the calls of one list.
const CALLS_MAX: usize = 256;

/// Decodes attributes with comma-separated values to a list of calls. Ids or arguments are dropped
/// if their number differs from that of names.
///
/// ```text
/// {gen_ai.tool.name: "a, b", gen_ai.tool.call.id: "1, 2", gen_ai.tool.args: "{..}, {..}"}
/// ```
pub(super) fn listed_calls(value: Value<'_>) -> Option<Decoded<'_>> {
    let Value::Map(map) = value else { return None };
    let names = parts(&map, &["gen_ai.tool.name"]);
    let ids = parts(&map, &["gen_ai.tool.call.id"]);
    let arguments = ["gen_ai.tool.args", "gen_ai.tool.call.arguments"].into_iter();
    let arguments = arguments.filter_map(|key| map.get(key).and_then(Value::as_str)).next();
    let arguments = arguments.map(|text| format!("[{text}]"));
    let arguments = match arguments.as_deref().map(json::parse) {
        Some(Ok(Value::List(items))) if items.len() == names.len() => {
            items.into_iter().map(Value::into_owned).collect()
        }
        _ => Vec::new(),
    };
    let call = |(at, name): (usize, &String)| {
        let mut call = Map::new();
        call.insert("type", Value::from("tool_call"));
        call.insert("name", Value::from(name.clone()));
        if ids.len() == names.len() {
            call.insert("id", Value::from(ids[at].clone()));
        }
        if let Some(arguments) = arguments.get(at) {
            call.insert("arguments", arguments.clone());
        }
        Value::Map(call)
    };
    let calls: Vec<_> = names.iter().take(CALLS_MAX).enumerate().map(call).collect();
    (!calls.is_empty()).then_some(Decoded::Value(Value::List(calls)))
}

fn parts(map: &Map<'_>, keys: &[&str]) -> Vec<String> {
    let text = keys.iter().find_map(|key| map.get(key).and_then(Value::as_str)).unwrap_or("");
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}
