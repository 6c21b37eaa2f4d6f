//! Labelled runs of calibration data, parsed into trajectories.
//!
//! Each line is a JSON object with `id`, `evaluator` (a kind), `trajectory` in the form of
//! `spanscore inspect` (or `session`, a list of them, or only `tool_definition`), `criteria`,
//! `label` and `tags`. `label` (or `expected`) has the answers to the statements in order, the
//! score, the verdict, and the verdicts on its `calls`. A trajectory may also have
//! `system_instructions` and `tool_definitions`.

use crate::inquiry::JudgeAnswer;
use spanscore_base::model::session::join_session;
use spanscore_base::model::trajectory::KeptSpan;
use spanscore_base::model::{CallStatus, Content, SpanId, ToolCall, ToolDefinition, Trajectory};
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::{Map, Value, json};

use super::operator::SYSTEM_INSTRUCTIONS;

/// Nanoseconds between two calls of a line without times.
const TICK_NS: u64 = 1_000;

/// Labelled run.
#[derive(Debug)]
pub struct LabelledRun {
    /// Name of the run in the data.
    pub id: String,
    /// Kind of evaluator for the labels.
    pub evaluator: String,
    /// Criteria of the evaluator; `Null` if it needs none.
    pub criteria: Value<'static>,
    /// Answer to each statement, in order.
    pub items: Vec<JudgeAnswer>,
    /// Expected score; `None` if the run cannot be judged.
    pub score: Option<f64>,
    /// Expected verdict: `pass`, `fail` or `not_evaluable`; empty if only calls are labelled.
    pub verdict: String,
    /// Expected verdict on each call by index, `None` without a label; empty if no call has one.
    pub calls: Vec<Option<String>>,
    /// True if the run contains an attempt to influence the judge; `None` without a label.
    pub injection_suspected: Option<bool>,
    /// Tags to group results by.
    pub tags: Vec<String>,
    run: Value<'static>,
}

/// Error of an invalid line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LabelledRunError(String);

impl LabelledRun {
    /// Parses one line.
    ///
    /// # Errors
    /// Returns an error for a part that is missing or malformed.
    pub fn read(line: &str) -> Result<Self, LabelledRunError> {
        let value = json::parse(line).map_err(|error| {
            LabelledRunError(format!("{error}: each line is one labelled run, a JSON object"))
        })?;
        Self::of(value.into_owned())
    }

    /// Parses the object of a line.
    ///
    /// # Errors
    /// Returns an error for a part that is missing or malformed.
    pub fn of(value: Value<'static>) -> Result<Self, LabelledRunError> {
        let text = |value: &Value<'_>, key: &str| {
            let found = value.get(key).and_then(Value::as_str).map(str::to_owned);
            found.ok_or_else(|| LabelledRunError(format!("`{key}` is not a text")))
        };
        let label = value.get("label").or_else(|| value.get("expected"));
        let label = label.ok_or_else(|| LabelledRunError("no `label`".to_owned()))?;
        let calls = label.get("calls").and_then(Value::as_list).unwrap_or_default();
        let calls: Vec<_> = calls.iter().map(|it| it.as_str().map(str::to_owned)).collect();
        let texts = |key: &str| value.get(key).and_then(Value::as_list).unwrap_or_default();
        let read = Self {
            id: text(&value, "id")?,
            evaluator: text(&value, "evaluator")?,
            criteria: value.get("criteria").cloned().unwrap_or_default(),
            items: items(label)?,
            score: label.get("score").and_then(Value::as_number).map(|score| score.as_f64()),
            verdict: if calls.is_empty() {
                text(label, "verdict")?
            } else {
                text(label, "verdict").unwrap_or_default()
            },
            calls,
            injection_suspected: label.get("injection_suspected").and_then(Value::as_bool),
            tags: texts("tags").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            run: Value::Null,
        };
        let Value::Map(mut map) = value else { return Ok(read) };
        let run = ["trajectory", "session", "tool_definition"].into_iter().find_map(|key| {
            let run = map.remove(key)?;
            Some(if key == "tool_definition" { definition_alone(run) } else { run })
        });
        let run = run.ok_or_else(|| {
            LabelledRunError("none of `trajectory`, `session`, `tool_definition`".to_owned())
        })?;
        Ok(Self { run, ..read })
    }

    /// Returns the expected verdict, if any.
    pub fn verdicts(&self) -> impl Iterator<Item = &str> {
        Some(&*self.verdict).filter(|verdict| !verdict.is_empty()).into_iter()
    }

    /// Returns true for a session.
    pub fn is_session(&self) -> bool {
        matches!(self.run, Value::List(_))
    }

    /// Builds the trajectory; for a session, from all its traces.
    ///
    /// # Errors
    /// Returns an error with the malformed part.
    pub fn trajectory(&self) -> Result<Trajectory<'_>, LabelledRunError> {
        let Value::List(turns) = &self.run else { return trajectory(&self.run, 1) };
        let mut start_ns = 1;
        let mut read = Vec::with_capacity(turns.len());
        for turn in turns {
            let turn = trajectory(turn, start_ns)?;
            start_ns = turn.end_ns + TICK_NS;
            read.push(turn);
        }
        join_session(read).ok_or_else(|| LabelledRunError("an empty `session`".to_owned()))
    }
}

fn definition_alone(tool: Value<'static>) -> Value<'static> {
    let tools = Value::List(vec![tool]);
    Value::Map(Map::from([("tool_definitions", tools)]))
}

fn items(label: &Value<'_>) -> Result<Vec<JudgeAnswer>, LabelledRunError> {
    let words = label.get("items").and_then(Value::as_list).unwrap_or_default();
    let answer = |word: &Value<'_>| {
        let answer = word.as_str().and_then(JudgeAnswer::from_word);
        answer.ok_or_else(|| LabelledRunError(format!("{word} is no answer to a statement")))
    };
    words.iter().map(answer).collect()
}

fn trajectory<'a>(run: &'a Value<'_>, start_ns: u64) -> Result<Trajectory<'a>, LabelledRunError> {
    let list = |key: &str| run.get(key).and_then(Value::as_list).unwrap_or_default();
    let mut calls = Vec::with_capacity(list("tool_calls").len());
    let mut time_ns = start_ns;
    for (call, number) in list("tool_calls").iter().zip(1_u64..) {
        calls.push(tool_call(call, start_ns + number, &mut time_ns)?);
    }
    let definitions = list("tool_definitions").iter().map(definition);
    let instructions = run.get("system_instructions").and_then(Value::as_str);
    let kept = instructions.map(|text| KeptSpan {
        span_id: SpanId::default(),
        start_ns,
        end_ns: time_ns + TICK_NS,
        attributes: vec![(SYSTEM_INSTRUCTIONS, AnyValue::String(text))],
    });
    Ok(Trajectory {
        span_id: SpanId(start_ns.to_be_bytes()),
        start_ns,
        end_ns: time_ns + TICK_NS,
        tool_calls: calls,
        tool_definitions: definitions.collect::<Result<_, _>>()?,
        user_input: content(run, "user_input"),
        final_output: content(run, "final_output"),
        kept_spans: kept.into_iter().collect(),
        ..Trajectory::default()
    })
}

/// Parses a call; calls of one `group` start together, others in sequence.
fn tool_call<'a>(
    call: &'a Value<'_>,
    span: u64,
    time_ns: &mut u64,
) -> Result<ToolCall<'a>, LabelledRunError> {
    let text = |key: &str| call.get(key).and_then(Value::as_str);
    let name = text("name").ok_or_else(|| LabelledRunError("a call without `name`".to_owned()))?;
    let group = call.get("group").and_then(Value::as_number).and_then(|group| group.as_i64());
    *time_ns += TICK_NS;
    Ok(ToolCall {
        name: name.into(),
        id: text("id").map(Into::into),
        arguments: content(call, "arguments"),
        result: content(call, "result"),
        error: text("error").map(Into::into),
        status: match text("status") {
            Some("error") => CallStatus::Error,
            Some("ok") => CallStatus::Ok,
            _ => CallStatus::Unknown,
        },
        agent: text("agent").map(Into::into),
        group: group.and_then(|group| u32::try_from(group).ok()).unwrap_or(0),
        span_id: SpanId(span.to_be_bytes()),
        start_ns: *time_ns,
        end_ns: *time_ns + 1,
        ..ToolCall::default()
    })
}

fn definition<'a>(tool: &'a Value<'_>) -> Result<ToolDefinition<'a>, LabelledRunError> {
    let text = |key: &str| tool.get(key).and_then(Value::as_str);
    let name =
        text("name").ok_or_else(|| LabelledRunError("a definition without `name`".to_owned()))?;
    let schema = ["inputSchema", "input_schema", "parameters"].into_iter();
    Ok(ToolDefinition {
        name: name.into(),
        description: text("description").unwrap_or_default().into(),
        input_schema: schema.filter_map(|key| tool.get(key)).next().cloned().unwrap_or_default(),
        agent: None,
    })
}

/// Returns the content under a key. `null` is a value only if the list `not_recorded` of `inspect`
/// is present without the key.
fn content<'a>(of: &'a Value<'_>, key: &str) -> Content<'a> {
    let missing = of.get("not_recorded").and_then(Value::as_list);
    match of.get(key) {
        None => Content::NotRecorded,
        Some(Value::Null) => match missing {
            Some(missing) if !missing.iter().any(|name| name.as_str() == Some(key)) => {
                Content::ready(Value::Null)
            }
            _ => Content::NotRecorded,
        },
        Some(value) => Content::ready(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: [&str; 2] = [
        include_str!("../../../../tests/fixtures/judges/calibration.jsonl"),
        include_str!("../../../../tests/fixtures/judges/injection.jsonl"),
    ];

    #[test]
    fn every_line_of_the_shipped_data_is_read() {
        for line in DATA.iter().flat_map(|data| data.lines()) {
            let run = LabelledRun::read(line).unwrap();
            let trajectory = run.trajectory().unwrap();
            assert!(!run.items.is_empty(), "{}", run.id);
            let turns = trajectory.turn_starts.len();
            assert_eq!(
                (turns > 0, trajectory.exchanges.len()),
                (run.is_session(), turns.max(1) - 1)
            );
        }
    }

    #[test]
    fn a_line_that_is_none_says_what_is_missing() {
        let error = |line: &str| LabelledRun::read(line).unwrap_err().to_string();
        assert_eq!(error(r#"{"id":"a"}"#), "no `label`");
        let label = r#"{"id":"a","evaluator":"x","label":{"items":["si"],"verdict":"pass"}}"#;
        assert_eq!(error(label), "\"si\" is no answer to a statement");
        let label = r#"{"id":"a","evaluator":"x","label":{"items":["yes"],"verdict":"pass"}}"#;
        assert_eq!(error(label), "none of `trajectory`, `session`, `tool_definition`");
    }
}
