//! Dokimos' own answers: every case that needs no judge's reply gives the same score and verdict,
//! and no score where Dokimos throws.
//!
//! The cases are data of what Dokimos (`dokimos-dev/dokimos`, August 2026) answered; one JSON
//! object per line.

use spanscore_base::model::{Content, Outcome, ToolCall, Trajectory, Want};
use spanscore_base::settings::Node;
use spanscore_base::value::{Map, Value, json};

pub(crate) const CASES: &[u8] = include_bytes!("../fixtures/parity/dokimos.jsonl.zst");
pub(crate) const KNOWN: &[u8] = include_bytes!("../fixtures/parity/dokimos_known.jsonl.zst");

/// Answer to a case: a score and verdict, or no score.
type Answer = Option<(f64, bool)>;

pub(crate) fn tool_calls<'a>(
    case: &'a Value<'a>,
    key: &str,
) -> Result<Vec<&'a Map<'a>>, &'static str> {
    let list = case.get(key).ok_or("no calls")?.as_list().ok_or("calls are not a list")?;
    list.iter().map(tool_call).collect()
}

/// The shape that a typed trajectory cannot break.
fn tool_call<'a>(call: &'a Value<'a>) -> Result<&'a Map<'a>, &'static str> {
    let map = call.as_map().ok_or("a call is not an object")?;
    let name = map.get("name").and_then(Value::as_str).ok_or("a call without a name")?;
    if spanscore_evaluate::shared::text::is_blank(name) {
        return Err("a blank name");
    }
    for key in ["arguments", "metadata"] {
        match map.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::Map(inner)) if key == "metadata" => {
                if inner.iter().any(|(_, value)| value.is_null()) {
                    return Err("null in metadata");
                }
            }
            Some(Value::Map(_)) => {}
            Some(_) => return Err("arguments or metadata that are not an object"),
        }
    }
    Ok(map)
}

fn content<'a>(value: Option<&'a Value<'a>>) -> Content<'a> {
    match value {
        None | Some(Value::Null) => Content::NotRecorded,
        Some(value) => Content::ready(value.clone()),
    }
}

fn trajectory<'a>(case: &'a Value<'a>) -> Result<Trajectory<'a>, &'static str> {
    let calls = tool_calls(case, "actual_tool_calls")?;
    let call = |call: &&'a Map<'a>| ToolCall {
        name: call.get("name").and_then(Value::as_str).unwrap_or_default().into(),
        arguments: content(call.get("arguments")),
        result: content(call.get("result")),
        ..ToolCall::default()
    };
    Ok(Trajectory { tool_calls: calls.iter().map(call).collect(), ..Trajectory::default() })
}

/// Definitions with only the keys that Dokimos reads; ours takes the schema under others, too.
pub(crate) fn definitions<'a>(tools: &Value<'a>) -> Value<'a> {
    let Value::List(list) = tools else {
        // An object may be an answer to `tools/list` for us, never for Dokimos.
        return Value::from("not a list");
    };
    let strip = |tool: &Value<'a>| match tool {
        Value::Map(map) => {
            let mut map = map.clone();
            for key in ["input_schema", "parameters", "function"] {
                map.remove(key);
            }
            Value::Map(map)
        }
        other => other.clone(),
    };
    Value::List(list.iter().map(strip).collect())
}

fn settings<'a>(case: &'a Value<'a>, kind: &str) -> Result<Map<'a>, &'static str> {
    let mut settings = case.get("config").and_then(Value::as_map).cloned().unwrap_or_default();
    settings.remove("threshold");
    if let Some(tools) = case.get("tools") {
        settings.insert("tools", definitions(tools));
    }
    if !kind.ends_with("reliability") {
        settings.insert("compat", "dokimos");
    }
    if matches!(kind, "tool_correctness" | "tool_trajectory") {
        let expected = tool_calls(case, "expected_tool_calls")?;
        let expected = expected.into_iter().map(|call| {
            let kept = ["name", "arguments"].into_iter();
            let kept = kept.filter_map(|key| Some((key, call.get(key)?.clone())));
            Value::Map(kept.collect())
        });
        let expected: Map<'_> =
            [("tool_calls", Value::List(expected.collect()))].into_iter().collect();
        settings.insert("criteria", expected);
    }
    Ok(settings)
}

fn answer(case: &Value<'_>, kind: &'static spanscore_evaluate::Kind) -> Result<Answer, String> {
    let trajectory = match kind.name.ends_with("reliability") {
        true => Trajectory::default(),
        false => trajectory(case)?,
    };
    let settings = Value::Map(settings(case, kind.name)?);
    let evaluator = (kind.build)(&Node::from_value(&settings)).map_err(|e| e.to_string())?;
    let threshold = case.get("config").and_then(|config| config.get("threshold"));
    let threshold =
        threshold.and_then(Value::as_number).map_or(kind.threshold, |number| number.as_f64());
    let plain = evaluator.as_code().unwrap().evaluate(&trajectory, Want::SCORE);
    match (evaluator.as_code().unwrap().evaluate(&trajectory, Want::ALL), plain) {
        (Outcome::Scored(score), Outcome::Scored(plain)) => {
            assert_eq!(score.value.to_bits(), plain.value.to_bits(), "what is wanted changes it");
            assert!(!score.explanation.is_empty() && plain.explanation.is_empty());
            Ok(Some((score.value, score.value >= threshold)))
        }
        (other, _) => Err(format!("{other:?}")),
    }
}

/// Runs the cases of a file; gives how many there were and what is wrong.
fn run(compressed: &[u8]) -> (usize, Vec<String>) {
    let bytes = zstd::decode_all(compressed).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let case = json::parse(line).unwrap();
        let Some(kind) = case.get("evaluator").and_then(Value::as_str) else { continue };
        let Some(kind) = spanscore_evaluate::kind(kind) else { continue };
        let is_judged = matches!(kind.name, "task_completion" | "tool_argument_hallucination");
        if is_judged || case.get("judge_response").is_some() {
            continue;
        }
        count += 1;
        let expected = case.get("expected").unwrap();
        let score = expected.get("score").and_then(Value::as_number).map(|n| n.as_f64());
        let passed = expected.get("passed").and_then(Value::as_bool);
        let found = answer(&case, kind);
        let right = match (score, passed, &found) {
            (Some(score), Some(passed), Ok(Some((value, verdict)))) => {
                (score - value).abs() <= 1e-12 && passed == *verdict
            }
            (None, _, Err(_)) => true,
            _ => false,
        };
        if !right {
            let id = case.get("id").and_then(Value::as_str).unwrap_or_default();
            wrong.push(format!("{id}: {expected} but {found:?}"));
        }
    }
    (count, wrong)
}

#[test]
fn every_answer_of_dokimos_is_ours() {
    let (count, wrong) = run(CASES);
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(count, 1884);
}

#[test]
fn every_known_case_of_dokimos_holds() {
    let (count, wrong) = run(KNOWN);
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(count, 405);
}
