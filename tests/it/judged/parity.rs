//! Dokimos' own answers where it asked a judge: a judge that gives the scripted reply leads to the
//! same score under `compat: dokimos`, and to none where Dokimos throws.

use spanscore_base::model::{Content, Outcome, ToolCall, Trajectory};
use spanscore_base::settings::Node;
use spanscore_base::value::{Map, Value, json};
use spanscore_evaluate::inquiry::Inquired;
use spanscore_evaluate::{self, Want};

use super::room;
use crate::parity_dokimos::{CASES, KNOWN, definitions, tool_calls};

/// Returns the settings that the evaluator is built from.
fn settings(case: &Value<'static>, kind: &str) -> Map<'static> {
    let mut settings = case.get("config").and_then(Value::as_map).cloned().unwrap_or_default();
    settings.remove("threshold");
    settings.insert("compat", "dokimos");
    if case.get("judge_response").is_some() {
        settings.insert("judge", "scripted");
    }
    if let Some(tools) = case.get("tools").filter(|_| kind.ends_with("reliability")) {
        settings.insert("tools", definitions(tools));
    }
    if kind == "task_completion" {
        let mut criteria = Map::new();
        if let Some(tasks) = case.get("tasks") {
            criteria.insert("tasks", stringified(tasks));
        }
        // One text or a list, Dokimos prints it.
        if let Some(constraints) = case.get("constraints").filter(|value| !value.is_null()) {
            let text = constraints.as_str().map_or_else(|| constraints.to_string(), str::to_owned);
            criteria.insert("constraints", vec![Value::from(text)]);
        }
        settings.insert("criteria", criteria);
    }
    settings
}

/// Tasks are printed, whatever they are; null is refused.
fn stringified(tasks: &Value<'static>) -> Value<'static> {
    let Some(list) = tasks.as_list() else { return tasks.clone() };
    let text = |task: &Value<'static>| match task {
        Value::String(_) | Value::Null => task.clone(),
        other => Value::from(other.to_string()),
    };
    Value::List(list.iter().map(text).collect())
}

fn content<'a>(value: Option<&'a Value<'a>>) -> Content<'a> {
    match value {
        None | Some(Value::Null) => Content::NotRecorded,
        Some(value) => Content::ready(value.clone()),
    }
}

fn trajectory<'a>(case: &'a Value<'a>, kind: &str) -> Result<Trajectory<'a>, &'static str> {
    if kind.ends_with("reliability") {
        return Ok(Trajectory::default());
    }
    let mut calls = Vec::new();
    if kind == "tool_argument_hallucination" {
        for call in tool_calls(case, "actual_tool_calls")? {
            calls.push(ToolCall {
                name: call
                    .get("name")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
                    .into(),
                arguments: content(call.get("arguments")),
                result: content(call.get("result")),
                ..ToolCall::default()
            });
        }
    }
    Ok(Trajectory {
        user_input: content(case.get("input")),
        final_output: content(case.get("actual_output")),
        tool_calls: calls,
        ..Trajectory::default()
    })
}

fn answer(case: &Value<'static>, kind: &spanscore_evaluate::Kind) -> Result<f64, String> {
    let trajectory = trajectory(case, kind.name)?;
    let settings = Node::from_value(&Value::Map(settings(case, kind.name)));
    let evaluator = (kind.build)(&settings).map_err(|error| error.to_string())?;
    let reply = case.get("judge_response").and_then(Value::as_str).unwrap_or_default();
    let outcome =
        match evaluator.as_judged().map(|judged| judged.inquire(&trajectory, 0.5, Want::ALL)) {
            None => evaluator.as_code().unwrap().evaluate(&trajectory, Want::ALL),
            Some(Inquired::Known(conclusion)) => conclusion.outcome,
            Some(Inquired::Asked(inquiry)) => {
                inquiry.prompt(&room()).map_err(|outcome| format!("{outcome:?}"))?;
                let answers = inquiry.read(&room(), reply).map_err(|error| error.to_string())?;
                inquiry.conclude(&room(), &[answers]).outcome
            }
        };
    match outcome {
        Outcome::Scored(score) => Ok(score.value),
        other => Err(format!("{other:?}")),
    }
}

fn is_judged(case: &Value<'_>) -> bool {
    let name = case.get("evaluator").and_then(Value::as_str).unwrap_or_default();
    matches!(name, "task_completion" | "tool_argument_hallucination")
        || case.get("judge_response").is_some()
}

fn check(compressed: &[u8], expected: usize) {
    let text = String::from_utf8(zstd::decode_all(compressed).unwrap()).unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let case = json::parse(line).unwrap().into_owned();
        if !is_judged(&case) {
            continue;
        }
        count += 1;
        let name = case.get("evaluator").and_then(Value::as_str).unwrap();
        let found = answer(&case, spanscore_evaluate::kind(name).unwrap());
        let score = case.get("expected").unwrap().get("score").and_then(Value::as_number);
        let right = match (score.map(|score| score.as_f64()), &found) {
            (Some(score), Ok(found)) => (score - found).abs() <= 1e-12,
            (None, Err(_)) => true,
            _ => false,
        };
        if !right {
            let id = case.get("id").and_then(Value::as_str).unwrap_or_default();
            wrong.push(format!("{id}: {} but {found:?}", case.get("expected").unwrap()));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(count, expected);
}

#[test]
fn every_judged_answer_of_dokimos_is_ours() {
    check(CASES, 364);
}

#[test]
fn every_known_judged_case_of_dokimos_holds() {
    check(KNOWN, 58);
}
