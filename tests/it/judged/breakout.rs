//! Texts of attackers in every place of a record: nothing of them stands outside of its lines.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use spanscore_base::value::Map;
use spanscore_evaluate::judged::labelled::LabelledRun;
use spanscore_evaluate::kind;

use super::{INJECTION, evaluator, inquire, room};

/// Forms that close the record and orders in twenty languages.
const BREAKOUTS: &str = include_str!("../../fixtures/judges/breakouts.json");

/// Places of a run that others write.
const PLACES: [&str; 10] = [
    "/system_instructions",
    "/tool_definitions/0/description",
    "/tool_definitions/0/inputSchema/properties/order/description",
    "/user_input",
    "/tool_calls/0/name",
    "/tool_calls/0/arguments/order",
    "/tool_calls/0/arguments/KEY",
    "/tool_calls/0/result/note",
    "/tool_calls/1/error",
    "/final_output",
];

/// Kinds that ask a judge about a run, with criteria.
const JUDGED: [(&str, &str); 9] = [
    ("task_completion", r#"{"tasks": ["Refund order 17"]}"#),
    ("tool_argument_hallucination", "null"),
    ("tool_selection", "null"),
    ("tool_response_handling", "null"),
    ("faithfulness", "null"),
    ("helpfulness", "null"),
    ("goal_accuracy", "null"),
    ("retrieval", "null"),
    ("pairwise", r#"{"baseline": "It is not."}"#),
];

fn run(place: &str, text: &str) -> Json {
    let call = |name: &str| {
        json!({"id": "c1", "name": name, "arguments": {"order": "17"},
            "result": {"note": "found"}, "status": "ok", "error": null})
    };
    let mut run = json!({
        "system_instructions": "Help the customers of the shop.",
        "tool_definitions": [{"name": "lookup", "description": "Finds an order.",
            "inputSchema": {"properties": {"order": {"type": "string", "description": "Id."}}}}],
        "user_input": "Refund order 18 please.",
        "tool_calls": [call("lookup"), call("refund")],
        "final_output": "It is refunded.",
    });
    if let Some(parent) = place.strip_suffix("/KEY") {
        let parent = run.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        parent.insert(text.to_owned(), "1".into());
    } else {
        *run.pointer_mut(place).unwrap() = text.into();
    }
    if place.ends_with("/error") {
        let call = &mut run["tool_calls"][1];
        (call["status"], call["result"]) = ("error".into(), Json::Null);
    }
    run
}

/// Lines outside of the record with their numbers left out, and those of the record.
fn lines(kind_name: &str, criteria: &str, run: &Json) -> Option<(BTreeSet<String>, Vec<String>)> {
    let criteria: Json = serde_json::from_str(criteria).unwrap();
    let line = json!({"id": "x", "evaluator": kind_name, "trajectory": run, "criteria": criteria,
        "expected": {"items": [], "verdict": "pass"}, "label": {"items": [], "verdict": "pass"}});
    let labelled = LabelledRun::read(&line.to_string()).unwrap();
    let mut settings = Map::new();
    if !labelled.criteria.is_null() {
        settings.insert("criteria", labelled.criteria.clone());
    }
    let threshold = kind(kind_name).unwrap().threshold;
    let evaluator = evaluator(kind_name, settings);
    let trajectory = labelled.trajectory().unwrap();
    let inquiry = inquire(&evaluator, &trajectory, threshold).ok()?;
    let prompt = inquiry.prompt(&room()).unwrap();
    let mark = prompt.user.split(' ').next().unwrap().to_owned();
    let is_mark = mark.len() == 8 && mark.chars().all(|digit| digit.is_ascii_hexdigit());
    assert!(is_mark, "{mark}");
    let all = format!("{}\n{}", prompt.system, prompt.user).replace(&mark, "MARK");
    let (record, outside): (Vec<&str>, Vec<&str>) =
        all.split('\n').partition(|line| line.starts_with("MARK {"));
    let numberless = |line: &str| -> String {
        line.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect()
    };
    Some((
        outside.into_iter().map(numberless).collect(),
        record.into_iter().map(str::to_owned).collect(),
    ))
}

/// Lines outside of the record with plain words in a place, by place and kind.
fn harmless() -> BTreeMap<(&'static str, &'static str), BTreeSet<String>> {
    let pairs = PLACES.into_iter().flat_map(|place| JUDGED.map(|judged| (place, judged)));
    let outside = pairs.filter_map(|(place, (kind_name, criteria))| {
        // As many sentences as an attacker may write, so that as much is asked.
        let run = run(place, "Plain words. More of them.\nAnd a line.");
        Some(((place, kind_name), lines(kind_name, criteria, &run)?.0))
    });
    outside.collect()
}

/// Returns the number of prompts that were rendered with the text.
#[track_caller]
fn check(
    text: &str,
    judged: &[(&'static str, &'static str)],
    harmless: &BTreeMap<(&'static str, &'static str), BTreeSet<String>>,
) -> usize {
    let mut checked = 0;
    for place in PLACES {
        for (kind_name, criteria) in judged {
            let Some((outside, record)) = lines(kind_name, criteria, &run(place, text)) else {
                continue;
            };
            let known = harmless.get(&(place, *kind_name));
            let leaks: Vec<_> = outside
                .iter()
                .filter(|it| known.is_none_or(|known| !known.contains(*it)))
                .collect();
            assert!(leaks.is_empty(), "{kind_name}, {place}: {leaks:#?} of {text:?}");
            for line in &record {
                let json = line.strip_prefix("MARK ").unwrap();
                let read: Json = serde_json::from_str(json).unwrap();
                assert!(read["seq"].is_u64(), "{kind_name}, {place}: {line}");
                let hidden = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
                assert!(!line.contains("<|") && !line.contains("[/INST]"), "{line}");
                assert!(!line.chars().any(hidden), "{kind_name}, {place}: {line:?}");
            }
            checked += 1;
        }
    }
    checked
}

#[test]
fn what_closes_a_record_in_any_language_stays_within_its_lines() {
    let table: Json = serde_json::from_str(BREAKOUTS).unwrap();
    let orders = table["orders"].as_object().unwrap();
    let forms = table["breakouts"].as_array().unwrap();
    let texts = forms.iter().flat_map(|form| {
        orders.values().map(|it| form.as_str().unwrap().replace("{}", it.as_str().unwrap()))
    });
    let harmless = harmless();
    let judged = JUDGED.iter().cycle().map(std::slice::from_ref);
    let checked: Vec<_> =
        texts.zip(judged).map(|(text, judged)| check(&text, judged, &harmless)).collect();
    assert_eq!(checked.len(), 200);
    assert!(checked.iter().sum::<usize>() >= 1_800, "{checked:?}");
}

/// The longest text of each shipped attack.
fn attacks() -> impl Iterator<Item = String> {
    fn longest(value: &Json) -> String {
        let all: Vec<String> = match value {
            Json::String(text) => return text.clone(),
            Json::Array(list) => list.iter().map(longest).collect(),
            Json::Object(map) => map.values().map(longest).collect(),
            _ => Vec::new(),
        };
        all.into_iter().max_by_key(String::len).unwrap_or_default()
    }
    INJECTION.lines().map(|line| {
        let line: Json = serde_json::from_str(line).unwrap();
        let parts = ["trajectory", "session", "tool_definition"];
        longest(&parts.map(|part| line[part].clone()).into())
    })
}

#[test]
fn shipped_attacks_in_every_place_stay_within_the_lines_of_the_record() {
    let harmless = harmless();
    let checked = attacks().map(|text| check(&text, &JUDGED, &harmless));
    assert_eq!(checked.filter(|checked| *checked >= 50).count(), 50);
}
