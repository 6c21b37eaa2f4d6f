//! Aliases of settings, so that a definition of another system can be pasted: serde accepts them,
//! but the types' schemas do not show them.
//!
//! A test checks that no alias in the source is missing here.

use serde_json::{Map, Value, json};

/// Settings of UiPath's package, with their spellings there.
const CAMEL: [(&str, &str); 16] = [
    ("default_evaluation_criteria", "defaultEvaluationCriteria"),
    ("tool_outputs", "toolOutputs"),
    ("tool_calls_count", "toolCallsCount"),
    ("tool_calls_order", "toolCallsOrder"),
    ("case_sensitive", "caseSensitive"),
    ("target_output_key", "targetOutputKey"),
    ("line_by_line_evaluator", "lineByLineEvaluator"),
    ("line_delimiter", "lineDelimiter"),
    ("search_text", "searchText"),
    ("expected_class", "expectedClass"),
    ("positive_class", "positiveClass"),
    ("metric_type", "metricType"),
    ("f_value", "fValue"),
    ("expected_output", "expectedOutput"),
    ("expected", "expected_output"),
    // The former name of `content` in exporters.
    ("content", "include_content"),
];

/// Names of expected calls in other systems; valid beside `turns`.
const EXPECTED_CALLS: [&str; 6] = [
    "toolCalls", "expected_tool_calls", "expected_tools", "expected_trajectory",
    "reference_tool_calls", "reference_trajectory",
];

/// Parts of an expected call in other systems; valid if exactly these three exist.
const EXPECTED_CALL: [(&str, &[&str]); 3] = [
    ("name", &["tool_name"]),
    ("arguments", &["args", "tool_input", "input_parameters"]),
    ("result", &["output"]),
];

/// Lists of words, each identified by a word of its own, with the other spellings of its words.
const WORDS: [(&str, &[&str]); 4] = [
    (
        "in_order_match",
        &[
            "STRICT", "exact", "EXACT", "exact_match", "IN_ORDER", "ANY_ORDER", "SUPERSET",
            "any_order_match", "SUBSET", "PRECISION", "RECALL",
        ],
    ),
    ("names_and_order", &["NAMES_ONLY", "NAMES_AND_ORDER", "NAMES_AND_ARGS"]),
    ("!=", &["=="]),
    ("ignore", &["EXACT", "SUBSET", "SUPERSET", "IGNORE"]),
];

/// Adds the aliases to a schema, wherever their settings occur.
pub(super) fn add(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(add);
            add_names(object);
            if let Some(Value::Array(words)) = object.get_mut("oneOf") {
                add_words(words);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(add),
        _ => {}
    }
}

fn add_names(object: &mut Map<String, Value>) {
    let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    let mut spelt: Vec<(&str, Vec<&str>)> = CAMEL
        .into_iter()
        .filter(|(name, _)| properties.contains_key(*name))
        .map(|(name, spelling)| (name, vec![spelling]))
        .collect();
    match (properties.contains_key("tool_calls"), properties.contains_key("turns")) {
        (true, true) => spelt.push(("tool_calls", EXPECTED_CALLS.to_vec())),
        (true, false) => spelt.push(("tool_calls", vec!["toolCalls"])),
        _ => {}
    }
    let is_call = |(name, _): &(&str, &[&str])| properties.contains_key(*name);
    if properties.len() == EXPECTED_CALL.len() && EXPECTED_CALL.iter().all(is_call) {
        spelt.extend(EXPECTED_CALL.map(|(name, spellings)| (name, spellings.to_vec())));
    }
    let mut either = Vec::new();
    for (name, spellings) in spelt {
        let Some(mut meant) = properties.get(name).cloned() else { continue };
        if let Some(meant) = meant.as_object_mut() {
            meant.insert("description".to_owned(), json!(format!("The same as `{name}`.")));
        }
        for spelling in &spellings {
            properties.entry(*spelling).or_insert_with(|| meant.clone());
        }
        let names = [name].into_iter().chain(spellings);
        either.push((name, names.map(|name| json!({ "required": [name] })).collect::<Vec<_>>()));
    }
    let Some(Value::Array(required)) = object.get_mut("required") else { return };
    either.retain(|(name, _)| required.iter().any(|known| known == name));
    required.retain(|known| !either.iter().any(|(name, _)| known == name));
    for (_, names) in either {
        let all = object.entry("allOf").or_insert_with(|| json!([]));
        if let Value::Array(all) = all {
            all.push(json!({ "anyOf": names }));
        }
    }
}

fn add_words(words: &mut Vec<Value>) {
    for (word, spellings) in WORDS {
        if words.iter().any(|known| known.get("const").is_some_and(|known| known == word)) {
            words.push(
                json!({ "enum": spellings, "description": "Other spellings of the values." }),
            );
        }
    }
}

/// Adds the layers of a UiPath file around its settings.
pub(super) fn add_definition(properties: &mut Map<String, Value>) {
    for key in ["version", "id", "evaluatorTypeId", "evaluator_type_id", "evaluatorSchema"] {
        let about = "Accepted and ignored, so that a UiPath definition can be pasted.";
        properties.entry(key).or_insert_with(|| json!({ "description": about }));
    }
    for key in LAYERS {
        let about = "Settings of a pasted UiPath definition.";
        let layer = json!({ "type": "object", "description": about });
        properties.entry(key).or_insert(layer);
    }
}

/// Keys under which a pasted file has its settings.
pub(super) const LAYERS: [&str; 3] = ["evaluatorConfig", "evaluator_config", "config"];

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Returns the texts after `alias = ` in the sources of a folder.
    fn aliases(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                aliases(&path, found);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let behind = text.split("alias = \"").skip(1);
                found.extend(behind.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_alias_in_the_source_is_in_the_schema() {
        let mut found = Vec::new();
        aliases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/evaluate/src"), &mut found);
        let schema = crate::config::schema().to_string();
        // The settings of a rule are checked by the rule.
        found.retain(|alias| alias != "length");
        let missing: Vec<_> =
            found.iter().filter(|alias| !schema.contains(&format!("\"{alias}\""))).collect();
        assert!(found.len() > 30 && missing.is_empty(), "{missing:?}");
    }
}
