//! Input of agentevals' protocol 1.0: one invocation per turn.
//!
//! Source of the rules: `agentevals-dev/agentevals`, `docs/custom-evaluators.md` and
//! `src/agentevals/_protocol.py`.

use super::content;
use super::redaction::unbuilt;
use spanscore_base::model::{CallStatus, Content, ToolCall, Trajectory};
use spanscore_base::value::python::PyValue;
use spanscore_base::value::{Map, Value, json};
use spanscore_detect::redactor::{Redact, RedactionGaps, Redactor, UnderKey};

/// Version of the protocol.
const PROTOCOL_VERSION: &str = "1.0";
/// Key of a turn's id.
const TURN_ID: &str = "invocation_id";

/// Format of structured results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Compact JSON.
    #[default]
    Json,
    /// Python's `repr`, the format of agentevals' own runner.
    PythonRepr,
}

/// Settings included in an evaluator's input.
pub(crate) struct InputSettings<'s> {
    pub(crate) threshold: f64,
    pub(crate) config: &'s Value<'static>,
    pub(crate) expected: &'s Value<'static>,
}

/// Builds the input about a trajectory, without the evaluator's name ([`named`]) and with original
/// contents, to be converted by [`ready`].
pub(crate) fn input(trajectory: &Trajectory<'_>, settings: &InputSettings<'_>) -> String {
    let mut input: Map<'_> = Map::new();
    input.insert("threshold", settings.threshold);
    let config = match settings.config {
        Value::Null => Value::Map(Map::new()),
        config => config.clone(),
    };
    input.insert("config", config);
    input.insert("invocations", Value::List(invocations(trajectory)));
    input.insert("expected_invocations", settings.expected.clone());
    let text = Value::Map(input).to_string();
    text[1..].to_owned()
}

/// Returns the complete input, with the evaluator's name.
pub fn named(name: &str, input: &str) -> String {
    let name = Value::from(name);
    format!("{{\"protocol_version\":\"{PROTOCOL_VERSION}\",\"metric_name\":{name},{input}")
}

/// Returns the input for the process: redacted, with structured contents as texts; also returns
/// failures of redaction.
///
/// # Errors
/// Returns an error if the detectors cannot be built, which a test rules out.
pub fn ready(
    input: &str,
    redact: Redact,
    format: OutputFormat,
) -> Result<(String, RedactionGaps), String> {
    // The input was written by `input` and `named`.
    let Ok(Value::Map(input)) = json::parse(input) else {
        return Ok((input.to_owned(), RedactionGaps::default()));
    };
    let Value::Map(input) = Value::Map(input).into_owned() else { return Ok(Default::default()) };
    let mut entries = input.into_entries();
    let mut gaps = RedactionGaps::default();
    let turns = entries.iter_mut().filter(|(key, _)| key == "invocations");
    for (_, turns) in turns {
        let Value::List(turns) = turns else { continue };
        if redact != Redact::None {
            gaps.add(redact_turns(turns, redact)?);
        }
        turns.iter_mut().for_each(|turn| write_texts(turn, format));
    }
    Ok((Value::Map(Map::from_entries(entries)).to_string(), gaps))
}

/// Redacts secrets, except in the ids of turns.
fn redact_turns(turns: &mut [Value<'static>], redact: Redact) -> Result<RedactionGaps, String> {
    let mut redactor = Redactor::new(redact).map_err(unbuilt)?;
    for (key, value) in turns.iter().filter_map(Value::as_map).flat_map(Map::iter) {
        if key != TURN_ID {
            redactor.look_at(value, UnderKey::of(key));
        }
    }
    if redactor.is_needed() {
        each_entry(turns, |key, value| {
            if key != TURN_ID {
                redactor.replace(value, UnderKey::of(key));
            }
        });
    }
    Ok(redactor.gaps())
}

/// Replaces structured contents by texts.
fn write_texts(turn: &mut Value<'static>, format: OutputFormat) {
    each_entry(std::slice::from_mut(turn), |key, value| match key {
        "user_content" => *value = Value::from(text(value).unwrap_or_default()),
        "final_response" => {
            let answer = text(value).filter(|answer| !answer.is_empty());
            *value = answer.map_or(Value::Null, Value::from);
        }
        "intermediate_steps" => each_entry(std::slice::from_mut(value), |key, value| {
            let Value::List(responses) = value else { return };
            if key != "tool_responses" {
                return;
            }
            each_entry(responses, |key, value| {
                if key != "output" {
                    return;
                }
                let output = match value {
                    Value::Map(_) | Value::List(_) if format == OutputFormat::PythonRepr => {
                        Some(PyValue::from(value.clone()).repr())
                    }
                    _ => text(value),
                };
                *value = Value::from(output.unwrap_or_default());
            });
        }),
        _ => {}
    });
}

/// Visits the entries of all maps.
fn each_entry(maps: &mut [Value<'static>], mut visit: impl FnMut(&str, &mut Value<'static>)) {
    for value in maps {
        let Value::Map(map) = value else { continue };
        let mut entries = std::mem::take(map).into_entries();
        entries.iter_mut().for_each(|(key, value)| visit(key, value));
        *map = Map::from_entries(entries);
    }
}

/// Returns a content as a text, `None` if absent.
fn text(value: &Value<'_>) -> Option<String> {
    (!value.is_null()).then(|| value.to_text().into_owned())
}

fn invocations(trajectory: &Trajectory<'_>) -> Vec<Value<'static>> {
    let mut turns: Vec<&[ToolCall<'_>]> = trajectory.calls_by_turn().collect();
    if turns.is_empty() {
        turns.push(&trajectory.tool_calls);
    }
    let last = turns.len() - 1;
    let invocation = |(turn, calls): (usize, &[ToolCall<'_>])| {
        let exchanges = &trajectory.exchanges;
        let before = turn.checked_sub(1).and_then(|before| exchanges.get(before));
        let asked = before.map_or(&trajectory.user_input, |exchange| &exchange.user_input);
        let answered = match exchanges.get(turn) {
            Some(exchange) if turn < last => &exchange.answer,
            _ => &trajectory.final_output,
        };
        let trace = trajectory.turn_roots.get(turn).map_or(trajectory.trace_id, |(id, _)| *id);
        one(trace.to_string(), asked, answered, calls)
    };
    turns.into_iter().enumerate().map(invocation).collect()
}

fn one(
    id: String,
    asked: &Content<'_>,
    answered: &Content<'_>,
    calls: &[ToolCall<'_>],
) -> Value<'static> {
    let steps = Map::from([
        ("tool_calls", Value::List(calls.iter().map(call).collect())),
        ("tool_responses", Value::List(calls.iter().filter_map(response).collect())),
    ]);
    Value::Map(Map::from([
        (TURN_ID, Value::from(id)),
        ("user_content", content::value(asked)),
        ("final_response", content::value(answered)),
        ("intermediate_steps", Value::Map(steps)),
        ("performance_metrics", Value::Null),
    ]))
}

fn call(call: &ToolCall<'_>) -> Value<'static> {
    let args = match call.arguments.value() {
        Some(Value::Map(map)) => Value::Map(map.clone()).into_owned(),
        _ => Value::Map(Map::new()),
    };
    Value::Map(Map::from([("name", Value::from(call.name.to_string())), ("args", args)]))
}

/// Builds the response of a call; `None` without a recorded result or error.
fn response(call: &ToolCall<'_>) -> Option<Value<'static>> {
    let is_error = call.status == CallStatus::Error;
    let output = match (content::value(&call.result), &call.error) {
        (Value::Null, Some(error)) if is_error => Value::from(error.to_string()),
        (Value::Null, _) if !is_error => return None,
        (output, _) => output,
    };
    let status = match call.status {
        CallStatus::Ok => Value::from("success"),
        CallStatus::Error => Value::from("error"),
        CallStatus::Unknown => Value::Null,
    };
    Some(Value::Map(Map::from([
        ("name", Value::from(call.name.to_string())),
        ("output", output),
        ("status", status),
    ])))
}
