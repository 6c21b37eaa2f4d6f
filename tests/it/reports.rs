//! Small cases that people reported of other systems: a recording, the evaluators that a user
//! would write, and the answers that a careful person wants.
//!
//! A line of the fixture names the report as `source`. `expected` has a list of answers for each
//! evaluator, in the order of the traces: the score, or the reason why there is none. `files` are
//! written beside the config.

use serde_json::Value as Json;

use crate::gate::Walk;
use crate::support::ran::run;

const CASES: &str = include_str!("../fixtures/reports.jsonl");

/// The answers to one case, as the fixture writes them.
fn answers(case: &Json) -> Json {
    let walk = Walk::new();
    for (name, text) in case["files"].as_object().into_iter().flatten() {
        walk.write(name, text.as_str().expect("a text"));
    }
    let config = walk.write("eval.yaml", &case["config"].to_string());
    let recording = match &case["recording"] {
        Json::String(lines) => walk.write("run.jsonl", lines),
        request => walk.write("run.json", &request.to_string()),
    };
    let ended = run(&["score", "--config", &config, "--format", "jsonl", &recording]);
    let mut found = serde_json::Map::new();
    for line in ended.out.lines() {
        let answer: Json = serde_json::from_str(line).expect("JSON");
        let name = answer["evaluator"].as_str().expect("a name").to_owned();
        let said = match &answer["score"] {
            Json::Null => answer["reason"].clone(),
            score => score.as_f64().map(|score| (score * 1000.0).round() / 1000.0).into(),
        };
        let list = found.entry(name).or_insert_with(|| Json::Array(Vec::new()));
        list.as_array_mut().expect("a list").push(said);
    }
    if found.is_empty() { Json::from(ended.err) } else { Json::Object(found) }
}

#[test]
fn reported_cases_are_judged_as_a_careful_person_would() {
    let cases: Vec<Json> =
        CASES.lines().map(|line| serde_json::from_str(line).expect("a case")).collect();
    let wrong: Vec<String> = cases
        .iter()
        .map(|case| (case, answers(case)))
        .filter(|(case, found)| *found != case["expected"])
        .map(|(case, found)| format!("{}\n  {found}\n  {}", case["name"], case["expected"]))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
