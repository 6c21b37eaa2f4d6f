//! `output_rules` against what Iris 0.4.2 itself answered, and against right answers by hand.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be read shall stop the test")]

use std::sync::Arc;

use serde_json::{Map, Value, json};
use spanscore_base::model::{Content, Label, Outcome, Resource, Score, Trajectory, Usage};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_evaluate::kinds::outputs::output_rules;
use spanscore_evaluate::{Evaluator, Want};

fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/fixtures/parity/{name}.jsonl.zst", env!("CARGO_MANIFEST_DIR"));
    let bytes = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn node(value: &Value) -> Node {
    let text = value.to_string();
    Node::from_value(&spanscore_base::value::json::parse(&text).unwrap())
}

fn build(settings: &Value) -> Result<Evaluator, SettingsError> {
    (output_rules::KIND.build)(&node(settings))
}

fn trajectory(params: &Map<String, Value>) -> Trajectory<'static> {
    let text = |key: &str| match params.get(key).and_then(Value::as_str) {
        Some(text) => Content::ready(text.to_owned().into()),
        None => Content::NotRecorded,
    };
    let tokens = |key| params.get("token_usage").and_then(|usage| usage.get(key)?.as_u64());
    Trajectory {
        final_output: text("output"),
        user_input: text("input"),
        cost: params.get("cost_usd").and_then(Value::as_f64),
        usage: Usage {
            input_tokens: tokens("prompt_tokens"),
            output_tokens: tokens("completion_tokens"),
            ..Usage::default()
        },
        resource: Arc::new(Resource::default()),
        ..Trajectory::default()
    }
}

/// The settings that say what a call of the source's tool says.
fn settings(case: &Value) -> Value {
    let params = &case["params"];
    let mut settings = json!({
        "compat": "iris",
        "bundle": params.get("eval_type").unwrap_or(&json!("completeness")),
    });
    for (key, from) in [("custom_rules", "custom_rules")] {
        if let Some(value) = params.get(from) {
            settings[key] = value.clone();
        }
    }
    if let Some(expected) = params.get("expected") {
        settings["criteria"] = json!({ "expected": expected });
    }
    if let Some(thresholds) = case.get("config").and_then(|config| config.get("rule_thresholds")) {
        settings["thresholds"] = thresholds.clone();
    }
    settings
}

/// Telemetry counts tokens from 0.
fn has_negative_tokens(case: &Value) -> bool {
    let usage = case["params"].get("token_usage").and_then(Value::as_object);
    usage.is_some_and(|usage| usage.values().any(|tokens| tokens.as_f64().is_some_and(|n| n < 0.0)))
}

fn has_tag(case: &Value, tag: &str) -> bool {
    case["tags"].as_array().unwrap().iter().any(|found| found == tag)
}

fn scored(outcome: Outcome) -> Score {
    match outcome {
        Outcome::Scored(score) => score,
        other => panic!("{other:?}"),
    }
}

fn passes(score: &Score, threshold: f64) -> bool {
    let by_value = if score.value >= threshold { Label::Pass } else { Label::Fail };
    score.label.unwrap_or(by_value) == Label::Pass
}

fn near(found: &Value, expected: &Value) -> bool {
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-9,
        _ => found == expected,
    }
}

/// Says where a result differs, if it does.
fn difference(found: &Score, expected: &Value, threshold: f64) -> Option<String> {
    let details: Value = serde_json::from_str(&found.details.to_string()).unwrap();
    if !near(&json!(found.value), &expected["score"]) {
        return Some(format!("score {} for {}", found.value, expected["score"]));
    }
    if json!(passes(found, threshold)) != expected["passed"] {
        return Some(format!("passed differs at score {}", found.value));
    }
    for key in ["rules_evaluated", "rules_skipped", "insufficient_data"] {
        if details[key] != expected[key] {
            return Some(format!("{key} {} for {}", details[key], expected[key]));
        }
    }
    let (rules, wanted) =
        (details["rule_results"].as_array()?, expected["rule_results"].as_array()?);
    if rules.len() != wanted.len() {
        return Some(format!("{} rules for {}", rules.len(), wanted.len()));
    }
    for (rule, wanted) in rules.iter().zip(wanted) {
        for key in ["ruleName", "passed", "skipped", "skipReason"] {
            if rule.get(key) != wanted.get(key) {
                return Some(format!("{rule} for {wanted}"));
            }
        }
        if !near(&rule["score"], &wanted["score"])
            || !same_message(&rule["message"], &wanted["message"])
        {
            return Some(format!("{rule} for {wanted}"));
        }
    }
    let said = details["suggestions"].as_array()?.iter().zip(expected["suggestions"].as_array()?);
    (!said.clone().all(|(found, wanted)| same_message(found, wanted))
        || details["suggestions"].as_array()?.len() != expected["suggestions"].as_array()?.len())
    .then(|| format!("{} for {}", details["suggestions"], expected["suggestions"]))
}

/// Compares messages; behind `Invalid regex syntax: ` stand the words of another engine.
fn same_message(found: &Value, wanted: &Value) -> bool {
    let cut = |text: &Value| {
        let text = text.as_str().unwrap_or_default().to_owned();
        text.find("Invalid regex syntax: ").map_or(text.clone(), |at| text[..at + 22].to_owned())
    };
    cut(found) == cut(wanted)
}

#[test]
fn compat_iris_gives_the_verdicts_scores_and_messages_of_iris() {
    let (mut equal, mut refused, mut other_input) = (0, 0, 0);
    let mut wrong = Vec::new();
    let more = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/output_rules/compat.jsonl");
    let more = std::fs::read_to_string(more).unwrap();
    let more = more.lines().map(|line| serde_json::from_str(line).unwrap());
    for case in lines("iris").into_iter().chain(more) {
        let expected = &case["expected"];
        let threshold =
            case.get("config").and_then(|config| config["threshold"].as_f64()).unwrap_or(0.7);
        let built = build(&settings(&case));
        if has_negative_tokens(&case) || case["params"].get("eval_type") == Some(&Value::Null) {
            other_input += 1;
            continue;
        }
        if let Some(error) = expected.get("error") {
            let about_settings = error["kind"] == "exception"
                || error["paths"].as_array().is_some_and(|paths| {
                    paths.iter().any(|path| {
                        let path = path.as_str().unwrap_or_default();
                        path.starts_with("custom_rules") || path == "eval_type"
                    })
                });
            match (about_settings, built.is_err()) {
                (true, true) => refused += 1,
                (true, false) => wrong.push(format!("{}: taken, but {error}", case["id"])),
                // A wrong type of text or number: the model has no such values. An `eval_type`
                // of null is the default, as everywhere in the config.
                (false, _) => other_input += 1,
            }
            continue;
        }
        match built {
            Err(_) if has_tag(&case, "rx:js") || has_tag(&case, "rx:unsafe") => refused += 1,
            Err(error) => wrong.push(format!("{}: {error}", case["id"])),
            Ok(evaluator) => {
                let params = case["params"].as_object().unwrap();
                let score =
                    scored(evaluator.as_code().unwrap().evaluate(&trajectory(params), Want::ALL));
                match difference(&score, expected, threshold) {
                    None => equal += 1,
                    Some(difference) => wrong.push(format!("{}: {difference}", case["id"])),
                }
            }
        }
    }
    println!(
        "{equal} equal, {refused} refused as Iris throws or as not linear, \
         {other_input} not expressible"
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(equal > 1500);
}

/// Names of the rules that fail on an output by default.
fn failing(settings: Value, params: &Map<String, Value>) -> Vec<String> {
    let evaluator = build(&settings).unwrap();
    let outcome = evaluator.as_code().unwrap().evaluate(&trajectory(params), Want::ALL);
    let Outcome::Scored(score) = outcome else { return Vec::new() };
    let details: Value = serde_json::from_str(&score.details.to_string()).unwrap();
    let rules = details["rule_results"].as_array().unwrap();
    rules
        .iter()
        .filter(|rule| rule["passed"] == false && rule.get("skipped").is_none())
        .map(|rule| rule["ruleName"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn default_detectors_are_right_where_iris_is_wrong() {
    let mut counts = std::collections::BTreeMap::<String, (usize, usize)>::new();
    let mut wrong = Vec::new();
    for case in lines("iris_weak") {
        let rule = case["rule"].as_str().unwrap().to_owned();
        let expected = case["params"].get("expected").cloned().unwrap_or(Value::Null);
        let settings = json!({ "bundle": "all", "criteria": { "expected": expected } });
        let fires = failing(settings, case["params"].as_object().unwrap()).contains(&rule);
        let (right, all) = counts.entry(rule.clone()).or_default();
        *all += 1;
        if json!(fires) == case["should_fire"] {
            *right += 1;
        } else {
            wrong.push(format!(
                "{} {rule} {} ({})",
                case["id"], case["params"]["output"], case["why"]
            ));
        }
    }
    println!("{counts:?}\n{}", wrong.join("\n"));
    for rule in ["no_pii", "no_stub_output", "no_injection_patterns"] {
        let (right, all) = counts[rule];
        assert!(right * 100 >= all * 95, "{rule}: {right} of {all}\n{}", wrong.join("\n"));
    }
}

#[test]
fn ordinary_output_raises_no_alarm() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/output_rules/benign.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut alarms = Vec::new();
    for case in &cases {
        let params = json!({ "output": case["text"] });
        let rules = failing(json!({ "bundle": "safety" }), params.as_object().unwrap());
        if !rules.is_empty() {
            alarms.push(format!("{} {rules:?} {}", case["id"], case["text"]));
        }
    }
    println!("{} alarms in {} texts\n{}", alarms.len(), cases.len(), alarms.join("\n"));
    assert!(cases.len() >= 300);
    assert!(alarms.len() * 100 <= cases.len(), "{}", alarms.join("\n"));
}

#[test]
fn detectors_tell_real_findings_from_look_alikes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/output_rules/detect.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut wrong = Vec::new();
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let params = json!({ "output": case["text"] });
        let rules = failing(json!({ "bundle": "safety" }), params.as_object().unwrap());
        if rules.iter().any(|rule| json!(rule) == case["rule"]) != (case["fires"] == true) {
            wrong.push(line.to_owned());
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn differences_from_iris_are_real_and_documented() {
    let root = env!("CARGO_MANIFEST_DIR");
    let docs = std::fs::read_to_string(format!("{root}/docs/output_rules.md")).unwrap();
    let path = format!("{root}/tests/fixtures/output_rules/differences.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut rows = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (id, rule) = (case["id"].as_str().unwrap(), case["rule"].as_str().unwrap());
        assert!(docs.contains(&format!("| `{id}` | `{rule}` |")), "{id} is not documented");
        let params = case["params"].as_object().unwrap();
        let run = |compat: Value| {
            let criteria = json!({ "expected": params.get("expected") });
            let settings = json!({ "bundle": "all", "compat": compat, "criteria": criteria });
            failing(settings, params).iter().any(|failed| failed == rule)
        };
        let fails = case["fails"] == true;
        assert_eq!((run(json!("iris")), run(Value::Null)), (!fails, fails), "{id}");
        rows += 1;
    }
    let documented = docs.lines().filter(|line| line.starts_with("| `")).count();
    assert!(rows >= 40 && documented >= rows);
}
