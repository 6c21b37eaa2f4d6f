//! JSON Schema of the whole config, from the settings of stages and kinds.

mod spellings;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::plan::Config;
use spanscore_engine::settings::SharedSettings;
use spanscore_evaluate::KINDS;

/// Returns the schema of a config file, draft 2020-12.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Config).to_value();
    spellings::add(&mut schema);
    schema
}

/// Returns the schema of the settings that all kinds of evaluators share.
pub fn shared_schema() -> Value {
    schemars::schema_for!(SharedSettings).to_value()
}

/// Returns the schema of the `evaluators` map: for each kind its settings and the shared ones.
pub(super) fn evaluators(generator: &mut SchemaGenerator) -> Schema {
    let shared = SharedSettings::json_schema(generator).to_value();
    let shared = shared.get("properties").and_then(Value::as_object);
    let entries = KINDS.iter().map(|kind| {
        let mut entry = entry(kind.name, kind.about, (kind.schema)(), generator);
        if let Some(properties) = entry.get_mut("properties").and_then(Value::as_object_mut) {
            for (key, value) in shared.into_iter().flatten() {
                properties.entry(key.clone()).or_insert_with(|| value.clone());
            }
            if let Some(threshold) = properties.get_mut("threshold") {
                threshold["default"] = json!(kind.threshold);
            }
            if kind.also_known_as.iter().any(|(_, origin)| *origin == "UiPath") {
                spellings::add_definition(properties);
            }
        }
        if kind.needs_criteria {
            require_criteria(&mut entry);
        }
        (format!("^{}(/.+)?$", kind.name), entry)
    });
    keyed("Evaluators of traces: a map with keys `kind` or `kind/name`.", entries.collect())
}

/// Returns the schema of the `exporters` map.
pub(super) fn exporters(generator: &mut SchemaGenerator) -> Schema {
    let entries = spanscore_emit::settings::KINDS.iter().map(|kind| {
        let names: Vec<_> = kind.aliases.iter().chain([&kind.name]).copied().collect();
        let mut entry = entry(kind.name, kind.about, (kind.schema)(), generator);
        // `false` disables it.
        entry["type"] = json!(["object", "null", "boolean"]);
        (format!("^({})(/.+)?$", names.join("|")), entry)
    });
    keyed("Exporters of evaluations: a map with keys `kind` or `kind/name`.", entries.collect())
}

/// Requires one source of criteria in an entry.
fn require_criteria(entry: &mut Value) {
    const SOURCES: [&str; 4] =
        ["criteria", "default_evaluation_criteria", "defaultEvaluationCriteria", "expect"];
    let known = |key: &&str| match *key {
        "defaultEvaluationCriteria" => entry["properties"].get(SOURCES[1]).is_some(),
        key => entry["properties"].get(key).is_some(),
    };
    let sources: Vec<&str> = SOURCES.into_iter().chain(spellings::LAYERS).filter(known).collect();
    let given = |key: &str| {
        let properties = json!({ key: { "not": { "type": "null" } } });
        json!({ "required": [key], "properties": properties })
    };
    let given: Vec<Value> = sources.into_iter().map(given).collect();
    entry["anyOf"] = given.into();
    entry["type"] = json!("object");
    // Criteria may come from `expect` instead.
    if let Some(required) = entry.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|key| key != "criteria");
    }
}

/// Returns the schema of the `forward` map.
pub(super) fn forward(generator: &mut SchemaGenerator) -> Schema {
    let entries = spanscore_emit::forward::FORWARD_KINDS.iter().map(|(name, alias, about)| {
        let entry = entry(name, about, spanscore_emit::forward::forward_schema(), generator);
        (format!("^({alias}|{name})(/.+)?$"), entry)
    });
    keyed(
        "Backends that received requests are forwarded to: a map with keys `kind` or `kind/name`.",
        entries.collect(),
    )
}

fn keyed(about: &str, entries: Map<String, Value>) -> Schema {
    json_schema!({
        "description": about,
        "type": "object",
        "patternProperties": entries,
        "additionalProperties": false,
    })
}

/// Names of types that each kind may define; any other name means one type everywhere.
const OWN_NAMES: [&str; 2] = ["Criteria", "Settings"];

/// Returns the schema of one kind's settings. Its definitions move to the root; those of its own
/// get its name.
fn entry(name: &str, about: &str, schema: Schema, generator: &mut SchemaGenerator) -> Value {
    let mut own = schema.to_value();
    let prefix = format!("{name}.");
    rename_references(&mut own, &prefix);
    let Some(object) = own.as_object_mut() else { return own };
    if let Some(Value::Object(definitions)) = object.remove("$defs") {
        for (name, definition) in definitions {
            generator.definitions_mut().insert(at_root(&name, &prefix), definition);
        }
    }
    object.remove("$schema");
    object.remove("title");
    object.insert("description".to_owned(), json!(about));
    object.insert("type".to_owned(), json!(["object", "null"]));
    object.entry("properties").or_insert_with(|| json!({}));
    own
}

/// Returns the name of a kind's definition at the root.
fn at_root(name: &str, prefix: &str) -> String {
    if OWN_NAMES.contains(&name) { format!("{prefix}{name}") } else { name.to_owned() }
}

fn rename_references(value: &mut Value, prefix: &str) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match value {
                    Value::String(text) if key == "$ref" => {
                        if let Some(name) = text.strip_prefix("#/$defs/") {
                            *text = format!("#/$defs/{}", at_root(name, prefix));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_type_to_all_kinds() {
        let mut known: Map<String, Value> = Map::new();
        let exporters = spanscore_emit::settings::KINDS.iter().map(|kind| (kind.schema)());
        let exporters = exporters.chain([spanscore_emit::forward::forward_schema()]);
        for schema in KINDS.iter().map(|kind| (kind.schema)()).chain(exporters) {
            let definitions = schema.get("$defs").and_then(Value::as_object).cloned();
            for (name, definition) in definitions.into_iter().flatten() {
                if OWN_NAMES.contains(&name.as_str()) {
                    continue;
                }
                let before = known.entry(name.clone()).or_insert_with(|| definition.clone());
                assert_eq!(*before, definition, "{name}");
            }
        }
        assert!(known.len() > 20);
    }
}
