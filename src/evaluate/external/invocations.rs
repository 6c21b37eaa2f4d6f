//! The input of agentevals' protocol 1.0: one invocation for each turn.
//!
//! Source of the rules: `agentevals-dev/agentevals`, `docs/custom-evaluators.md` and
//! `src/agentevals/_protocol.py`.

use super::content;
use crate::model::{CallStatus, Content, ToolCall, Trajectory};
use crate::value::python::PyValue;
use crate::value::{Map, Value};

/// The version of the protocol.
const PROTOCOL_VERSION: &str = "1.0";

/// How structured results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Compact JSON.
    #[default]
    Json,
    /// Python's `repr`, as agentevals' own runner writes them.
    PythonRepr,
}

/// What of an evaluator's settings its input holds.
pub(in crate::evaluate) struct InputSettings<'s> {
    pub(in crate::evaluate) threshold: f64,
    pub(in crate::evaluate) config: &'s Value<'static>,
    pub(in crate::evaluate) expected: &'s Value<'static>,
    pub(in crate::evaluate) output_format: OutputFormat,
}

/// The input about a trajectory, without the name of the evaluator: see [`named`].
pub(in crate::evaluate) fn input(
    trajectory: &Trajectory<'_>,
    settings: &InputSettings<'_>,
) -> String {
    let mut input: Map<'_> = Map::new();
    input.insert("threshold", settings.threshold);
    let config = match settings.config {
        Value::Null => Value::Map(Map::new()),
        config => config.clone(),
    };
    input.insert("config", config);
    input.insert("invocations", Value::List(invocations(trajectory, settings.output_format)));
    input.insert("expected_invocations", settings.expected.clone());
    let text = Value::Map(input).to_string();
    text[1..].to_owned()
}

/// The whole input: that of a target under the name of its evaluator.
pub fn named(name: &str, input: &str) -> String {
    let name = Value::from(name);
    format!("{{\"protocol_version\":\"{PROTOCOL_VERSION}\",\"metric_name\":{name},{input}")
}

fn invocations(trajectory: &Trajectory<'_>, format: OutputFormat) -> Vec<Value<'static>> {
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
        one(trace.to_string(), asked, answered, calls, format)
    };
    turns.into_iter().enumerate().map(invocation).collect()
}

fn one(
    id: String,
    asked: &Content<'_>,
    answered: &Content<'_>,
    calls: &[ToolCall<'_>],
    format: OutputFormat,
) -> Value<'static> {
    let answer = content::text(answered).filter(|answer| !answer.is_empty());
    let steps: Map<'static> = [
        ("tool_calls", Value::List(calls.iter().map(call).collect())),
        (
            "tool_responses",
            Value::List(calls.iter().filter_map(|call| response(call, format)).collect()),
        ),
    ]
    .into_iter()
    .collect();
    let entries: Map<'static> = [
        ("invocation_id", Value::from(id)),
        ("user_content", Value::from(content::text(asked).unwrap_or_default())),
        ("final_response", answer.map_or(Value::Null, Value::from)),
        ("intermediate_steps", Value::Map(steps)),
        ("performance_metrics", Value::Null),
    ]
    .into_iter()
    .collect();
    Value::Map(entries)
}

fn call(call: &ToolCall<'_>) -> Value<'static> {
    let args = match call.arguments.value() {
        Some(Value::Map(map)) => Value::Map(map.clone()).into_owned(),
        _ => Value::Map(Map::new()),
    };
    let entries: Map<'static> =
        [("name", Value::from(call.name.to_string())), ("args", args)].into_iter().collect();
    Value::Map(entries)
}

/// What came back of a call; nothing where neither result nor error is recorded.
fn response(call: &ToolCall<'_>, format: OutputFormat) -> Option<Value<'static>> {
    let is_error = call.status == CallStatus::Error;
    let output = match call.result.value() {
        Some(value @ (Value::Map(_) | Value::List(_))) if format == OutputFormat::PythonRepr => {
            Some(PyValue::from(value.clone()).repr())
        }
        _ => content::text(&call.result),
    };
    let error = call.error.as_ref().map(ToString::to_string);
    let output = output.or(error.filter(|_| is_error));
    if output.is_none() && !is_error {
        return None;
    }
    let status = match call.status {
        CallStatus::Ok => Value::from("success"),
        CallStatus::Error => Value::from("error"),
        CallStatus::Unknown => Value::Null,
    };
    let entries: Map<'static> = [
        ("name", Value::from(call.name.to_string())),
        ("output", Value::from(output.unwrap_or_default())),
        ("status", status),
    ]
    .into_iter()
    .collect();
    Some(Value::Map(entries))
}
