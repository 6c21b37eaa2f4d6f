//! Agreement of `check` and the schema, over examples, fixtures and mistakes.
//!
//! Each example is changed at one place after the other, to values of every type and by settings
//! that do not exist. The config and its schema must think the same of each, but for what a schema
//! cannot say: [`BEYOND`] names it.

use serde_json::{Value as Json, json};
use spanscore::config::{Config, ConfigPart, load};
use spanscore_base::settings::Node;
use spanscore_base::value;
use spanscore_evaluate::{KINDS, Kind};

/// The settings of all kinds, which the kind itself does not read.
const SHARED: [&str; 12] = [
    "when", "sample", "threshold", "level", "expect", "early", "run_if", "only_tools",
    "exclude_tools", "only_agents", "only_chosen", "tool_aliases",
];

fn node(value: &Json) -> Node {
    Node::from_value(&value::json::parse(&value.to_string()).unwrap().into_owned())
}

fn read(text: &str) -> Json {
    let part = ConfigPart::Text { name: "example".to_owned(), text: text.to_owned() };
    let loaded = load(&[part], &|_| Some("x".to_owned())).unwrap();
    serde_json::from_str(&loaded.node.to_value().to_string()).unwrap()
}

/// A value with something else at one place, with the place and what stands there.
fn changed(value: &Json) -> Vec<(String, Json)> {
    let others = [
        json!(null),
        json!(true),
        json!(7),
        json!(-1),
        json!(1.5),
        json!("zzz"),
        json!([]),
        json!({}),
        json!(["zzz"]),
        json!({ "zzz": 1 }),
    ];
    let mut found = Vec::new();
    for other in others {
        if other != *value {
            found.push((format!(" = {other}"), other));
        }
    }
    match value {
        Json::Object(map) => {
            let mut more = map.clone();
            more.insert("zzz".to_owned(), json!(1));
            found.push((".zzz = 1".to_owned(), more.into()));
            for key in map.keys() {
                let mut without = map.clone();
                without.remove(key);
                found.push((format!(".{key} left out"), without.into()));
                for (place, other) in changed(&map[key]) {
                    let mut changed = map.clone();
                    changed.insert(key.clone(), other);
                    found.push((format!(".{key}{place}"), changed.into()));
                }
            }
        }
        Json::Array(items) => {
            for (at, item) in items.iter().enumerate().take(1) {
                for (place, other) in changed(item) {
                    let mut changed = items.clone();
                    changed[at] = other;
                    found.push((format!("[{at}]{place}"), changed.into()));
                }
            }
        }
        _ => {}
    }
    found
}

/// Places where the schema cannot say what the config says, with the reason: the end of a place.
const BEYOND: &[(&str, &str)] = &[
    (".tool_calls[0].arguments = ", "only `tool_correctness` compares entries"),
    (".tools[0]", "definitions have the shapes of many providers"),
    (".tools = ", "so do lists of them"),
    ("tool_policy = ", "at least one of its rules"),
    ("tool_budget = ", "at least one of its limits"),
    ("tool_budget.max_latency", "`latency_percentile` goes only with it"),
    ("exact_match.target left out", "`tools` goes only with it"),
    ("classification.classes", "either they or `positive_class`, and the expected one among them"),
    ("classification.criteria.expected_class = ", "one of the classes"),
    ("rubric.criteria", "one form of criteria, with weights above 0"),
    ("topic_adherence.criteria", "at least one topic"),
    ("agentevals = ", "either `command` or `path`"),
    ("agentevals.command", "either `command` or `path`"),
    ("agentevals.config = ", "a map of any form"),
    ("grpc.settings = ", "a map of any form"),
    ("grpc.endpoint = ", "addresses have a grammar of their own"),
    ("http.endpoint = ", "addresses have a grammar of their own"),
    (".limits.memory_mib = 7", "what the shares need together is checked with all sections"),
    (".logs.level = ", "a filter has a grammar of its own"),
];

fn is_beyond(place: &str) -> bool {
    BEYOND.iter().any(|(known, _)| place.contains(known))
}

/// The kind's own settings in its example.
fn own_settings(kind: &Kind) -> Json {
    let indented: String = kind.example.lines().map(|line| format!("  {line}\n")).collect();
    let config = read(&format!("evaluators:\n{indented}"));
    let (_, entry) = config["evaluators"].as_object().unwrap().iter().next().unwrap();
    let mut own = entry.as_object().cloned().unwrap_or_default();
    own.retain(|key, _| !SHARED.contains(&key.as_str()));
    own.into()
}

#[test]
fn config_and_schema_take_the_same_settings_of_kinds() {
    let validator = jsonschema::validator_for(&spanscore::config::schema()).unwrap();
    let mut differ = Vec::new();
    for kind in KINDS {
        let own = own_settings(kind);
        for (place, changed) in changed(&own).into_iter().chain([(String::new(), own.clone())]) {
            // An entry without settings has none.
            let changed = if changed.is_null() { json!({}) } else { changed };
            let built = (kind.build)(&node(&changed));
            let config = json!({ "evaluators": { kind.name: changed } });
            let place = format!("{}{place}", kind.name);
            if built.is_ok() != validator.is_valid(&config) && !is_beyond(&place) {
                let said = built.err().map_or_else(|| "taken".to_owned(), |error| error.message);
                differ.push(format!("{place}: the config says: {said}"));
            }
        }
    }
    assert!(differ.is_empty(), "{}\n{} differ", differ.join("\n"), differ.len());
}

#[test]
fn config_and_schema_take_the_same_sections() {
    let validator = jsonschema::validator_for(&spanscore::config::schema()).unwrap();
    let mut config = read("evaluators: {}");
    config["evaluators"] = json!({});
    config["exporters"] = json!({});
    let mut differ = Vec::new();
    for (place, changed) in changed(&config) {
        if place.starts_with(".evaluators") || place.starts_with(".exporters") {
            continue;
        }
        let read = node(&changed).read::<Config>();
        if read.is_ok() != validator.is_valid(&changed) && !is_beyond(&place) {
            let said = read.err().map_or_else(|| "taken".to_owned(), |error| error.message);
            differ.push(format!("{place}: the config says: {said}"));
        }
    }
    assert!(differ.is_empty(), "{}\n{} differ", differ.join("\n"), differ.len());
}

#[test]
fn a_pasted_definition_is_taken_by_both() {
    let validator = jsonschema::validator_for(&spanscore::config::schema()).unwrap();
    let check = |kind_name: &str, entry: Json, expected: bool| {
        let kind = spanscore_evaluate::kind(kind_name).unwrap();
        let built = (kind.build)(&node(&entry));
        let config = json!({ "evaluators": { kind_name: entry } });
        assert_eq!(built.is_ok(), expected, "{:?}", built.err());
        assert_eq!(validator.is_valid(&config), expected, "{config}");
    };
    let order = json!({ "toolCallsOrder": ["find", "pay"] });
    let inner = json!({ "name": "order", "strict": true, "defaultEvaluationCriteria": order });
    let pasted = json!({ "version": "1.0", "id": "Order", "description": "d",
        "evaluatorTypeId": "uipath-tool-call-order", "evaluatorConfig": inner });
    check("tool_call_order", pasted, true);
    check("tool_call_order", json!({ "defaultEvaluationCriteria": order }), true);
    check("tool_call_order", json!({ "evaluationCriteria": order }), false);
    let calls = json!([{ "name": "find" }]);
    let other_words =
        json!([{ "tool_name": "find", "tool_input": {} }, { "name": "a", "args": {} }]);
    check("tool_trajectory", json!({ "criteria": { "tool_calls": other_words } }), true);
    check("tool_trajectory", json!({ "criteria": { "tool_calls": [{ "args": {} }] } }), false);
    for key in ["toolCalls", "expected_trajectory", "tool_calls"] {
        let entry = json!({ "match_mode": "IN_ORDER", "criteria": { key: calls } });
        check("tool_trajectory", entry, true);
    }
    check(
        "tool_trajectory",
        json!({ "match_mode": "IN", "criteria": { "tool_calls": calls } }),
        false,
    );
}
