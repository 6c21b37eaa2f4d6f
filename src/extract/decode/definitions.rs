//! Definitions of tools, in whatever shape they were written.

use std::borrow::Cow;

use super::{json_or_text, structured};
use crate::model::ToolDefinition;
use crate::value::{Map, Value};

/// Keys under which the JSON Schema of the arguments stands.
const SCHEMA_KEYS: [&str; 7] = [
    "parameters",
    "input_schema",
    "inputSchema",
    "parameters_json_schema",
    "json_schema",
    "args_schema",
    "schema",
];

/// Reads the definitions in a list (or the text of one); what is none is passed over.
pub(crate) fn tool_definitions<'a>(value: Value<'a>, found: &mut Vec<ToolDefinition<'a>>) {
    match value {
        Value::List(items) => items.into_iter().for_each(|item| tool_definitions(item, found)),
        Value::String(_) => {
            if let Some(value @ (Value::List(_) | Value::Map(_))) = structured(value) {
                tool_definitions(value, found);
            }
        }
        Value::Map(map) => definition(map, found),
        _ => {}
    }
}

fn definition<'a>(mut map: Map<'a>, found: &mut Vec<ToolDefinition<'a>>) {
    for key in ["function_declarations", "functionDeclarations", "tools"] {
        if let Some(list) = map.remove(key) {
            return tool_definitions(list, found);
        }
    }
    for key in ["function", "toolSpec", "tool"] {
        if let Some(Value::Map(mut inner)) = map.remove(key) {
            // OpenInference keeps the whole definition as the text of `tool.json_schema`.
            if inner.get("name").is_none()
                && let Some(schema) = inner.remove("json_schema")
            {
                return tool_definitions(schema, found);
            }
            return definition(inner, found);
        }
    }
    let Some(Value::String(name)) = map.remove("name") else { return };
    let description = match map.remove("description") {
        Some(Value::String(text)) => text,
        _ => Cow::Borrowed(""),
    };
    let schema = SCHEMA_KEYS.iter().find_map(|key| map.remove(key)).unwrap_or_default();
    let mut schema = match json_or_text(schema) {
        Value::String(_) => Value::Null,
        schema => schema,
    };
    if let Value::Map(inner) = &mut schema
        && inner.len() == 1
        && let Some(wrapped) = inner.remove("json")
    {
        schema = wrapped;
    }
    if !found.iter().any(|known| known.name == name) {
        found.push(ToolDefinition { name, description, input_schema: schema });
    }
}
