//! The JSON Schema of the whole config, from the settings of the stages and of the kinds.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::evaluators::SharedSettings;
use super::plan::Config;
use crate::evaluate::{KINDS, Kind};

/// The schema of a config file, draft 2020-12.
pub fn schema() -> Value {
    let schema = schemars::schema_for!(Config);
    schema.to_value()
}

/// The schema of the settings that all kinds of evaluators share.
pub fn shared_schema() -> Value {
    schemars::schema_for!(SharedSettings).to_value()
}

/// The schema of the `evaluators` map: for each kind its own settings and the shared ones.
pub(super) fn evaluators(generator: &mut SchemaGenerator) -> Schema {
    let shared = SharedSettings::json_schema(generator).to_value();
    let mut by_key = Map::new();
    for kind in KINDS {
        let entry = entry(kind, &shared, generator);
        by_key.insert(format!("^{}(/.+)?$", kind.name), entry);
    }
    json_schema!({
        "description": "How traces are scored: a map keyed kind/name.",
        "type": "object",
        "patternProperties": by_key,
        "additionalProperties": false,
    })
}

/// One kind's settings. Its own definitions move to the root under names of their own.
fn entry(kind: &Kind, shared: &Value, generator: &mut SchemaGenerator) -> Value {
    let mut own = (kind.schema)().to_value();
    let prefix = format!("{}.", kind.name);
    rename_references(&mut own, &prefix);
    if let Some(Value::Object(definitions)) =
        own.as_object_mut().and_then(|own| own.remove("$defs"))
    {
        for (name, definition) in definitions {
            generator.definitions_mut().insert(format!("{prefix}{name}"), definition);
        }
    }
    let Some(object) = own.as_object_mut() else { return own };
    object.remove("$schema");
    object.remove("title");
    object.insert("description".to_owned(), json!(kind.about));
    object.insert("type".to_owned(), json!(["object", "null"]));
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    if let (Some(properties), Some(shared)) =
        (properties.as_object_mut(), shared.get("properties").and_then(Value::as_object))
    {
        for (key, value) in shared {
            let mut value = value.clone();
            if key == "threshold" {
                value["default"] = json!(kind.threshold);
            }
            properties.entry(key.clone()).or_insert(value);
        }
    }
    own
}

fn rename_references(value: &mut Value, prefix: &str) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match value {
                    Value::String(text) if key == "$ref" => {
                        if let Some(name) = text.strip_prefix("#/$defs/") {
                            *text = format!("#/$defs/{prefix}{name}");
                        }
                    }
                    value => rename_references(value, prefix),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_references(item, prefix)),
        _ => {}
    }
}
