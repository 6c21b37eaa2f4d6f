//! The messages of `spanscore.evaluator.v1` as proto3 JSON: requests are written with names in
//! camel case, answers are read with either spelling; what is not known is passed over.
//!
//! Source of the rules: <https://protobuf.dev/programming-guides/json/>.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Timestamp};
use serde_json::{Map, Value, json};

use super::proto::{
    CallMessage, ContentMessage, DescribeRequest, DescribeResponse, EvaluateRequest,
    EvaluateResponse, EvaluationMessage, FailureMessage, NeededPart, OutcomeMessage, ScoreMessage,
    ServedKind, TaskMessage, TrajectoryMessage,
};

/// The names of `Level`, `Status`, `State` and `Fact`, at the places of their numbers.
const LEVELS: [&str; 4] = ["LEVEL_UNSPECIFIED", "LEVEL_CALL", "LEVEL_TRACE", "LEVEL_SESSION"];
const STATUSES: [&str; 3] = ["STATUS_UNSPECIFIED", "STATUS_OK", "STATUS_ERROR"];
const STATES: [&str; 4] = ["STATE_UNSPECIFIED", "STATE_FULL", "STATE_TRUNCATED", "STATE_REDACTED"];
const FACTS: [&str; 10] = [
    "FACT_UNSPECIFIED",
    "FACT_USER_INPUT",
    "FACT_FINAL_OUTPUT",
    "FACT_TOOL_CALLS",
    "FACT_ARGUMENTS",
    "FACT_RESULTS",
    "FACT_TOOL_DEFINITIONS",
    "FACT_MESSAGES",
    "FACT_USAGE",
    "FACT_ATTRIBUTES",
];

/// Every fact, for a server that does not say what it needs.
pub const ALL_FACTS: [i32; 9] = [
    NeededPart::UserInput as i32,
    NeededPart::FinalOutput as i32,
    NeededPart::ToolCalls as i32,
    NeededPart::Arguments as i32,
    NeededPart::Results as i32,
    NeededPart::ToolDefinitions as i32,
    NeededPart::Messages as i32,
    NeededPart::Usage as i32,
    NeededPart::Attributes as i32,
];

/// An answer that is not of its form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer {0}")]
pub struct UnreadableAnswer(String);

/// A `DescribeRequest`.
pub fn describe_request(request: &DescribeRequest) -> String {
    let DescribeRequest { minor, collector_version } = request;
    json!({"minor": minor, "collectorVersion": collector_version}).to_string()
}

/// An `EvaluateRequest`.
pub fn evaluate_request(request: &EvaluateRequest) -> String {
    let mut out = Map::new();
    put_text(&mut out, "kind", &request.kind);
    put_text(&mut out, "settingsJson", &request.settings_json);
    out.insert("tasks".to_owned(), request.tasks.iter().map(task).collect());
    Value::Object(out).to_string()
}

fn task(task: &TaskMessage) -> Value {
    let mut out = Map::new();
    put_text(&mut out, "id", &task.id);
    put_enum(&mut out, "level", task.level, &LEVELS);
    put_text(&mut out, "spanId", &task.span_id);
    put_text(&mut out, "criteriaJson", &task.criteria_json);
    out.insert("trajectories".to_owned(), task.trajectories.iter().map(trajectory).collect());
    Value::Object(out)
}

fn trajectory(trajectory: &TrajectoryMessage) -> Value {
    let mut out = Map::new();
    put_text(&mut out, "traceId", &trajectory.trace_id);
    put_text(&mut out, "rootSpanId", &trajectory.root_span_id);
    put_text(&mut out, "sessionId", &trajectory.session_id);
    put_text(&mut out, "serviceName", &trajectory.service_name);
    put_text(&mut out, "agentName", &trajectory.agent_name);
    put_text(&mut out, "completion", &trajectory.completion);
    if trajectory.revision > 0 {
        out.insert("revision".to_owned(), trajectory.revision.into());
    }
    put_content(&mut out, "userInput", trajectory.user_input.as_ref());
    put_content(&mut out, "finalOutput", trajectory.final_output.as_ref());
    put_list(&mut out, "toolCalls", trajectory.tool_calls.iter().map(call));
    put_list(
        &mut out,
        "toolDefinitions",
        trajectory.tool_definitions.iter().map(|tool| {
            let mut out = Map::new();
            put_text(&mut out, "name", &tool.name);
            put_text(&mut out, "description", &tool.description);
            put_text(&mut out, "inputSchemaJson", &tool.input_schema_json);
            Value::Object(out)
        }),
    );
    put_list(
        &mut out,
        "messages",
        trajectory.messages.iter().map(|said| {
            let mut out = Map::new();
            put_text(&mut out, "role", &said.role);
            put_content(&mut out, "content", said.content.as_ref());
            Value::Object(out)
        }),
    );
    if !trajectory.usage.is_empty() {
        // Numbers of 64 bits are texts in this encoding.
        let usage = trajectory.usage.iter().map(|(key, n)| (key.clone(), n.to_string().into()));
        out.insert("usage".to_owned(), Value::Object(usage.collect()));
    }
    if let Some(attributes) = &trajectory.attributes {
        out.insert("attributes".to_owned(), from_struct(attributes));
    }
    Value::Object(out)
}

fn call(call: &CallMessage) -> Value {
    let mut out = Map::new();
    put_text(&mut out, "spanId", &call.span_id);
    put_text(&mut out, "id", &call.id);
    put_text(&mut out, "name", &call.name);
    put_text(&mut out, "agentName", &call.agent_name);
    put_content(&mut out, "arguments", call.arguments.as_ref());
    put_content(&mut out, "result", call.result.as_ref());
    put_content(&mut out, "error", call.error.as_ref());
    put_enum(&mut out, "status", call.status, &STATUSES);
    for (key, time) in [("startTime", &call.start_time), ("endTime", &call.end_time)] {
        if let Some(text) = time.as_ref().and_then(rfc3339) {
            out.insert(key.to_owned(), text.into());
        }
    }
    Value::Object(out)
}

fn rfc3339(time: &Timestamp) -> Option<String> {
    jiff::Timestamp::new(time.seconds, time.nanos).ok().map(|time| time.to_string())
}

/// Fields without a value are left out, as the encoding says.
fn put_text(out: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        out.insert(key.to_owned(), text.into());
    }
}

fn put_enum(out: &mut Map<String, Value>, key: &str, number: i32, names: &[&str]) {
    let name = usize::try_from(number).ok().and_then(|place| names.get(place));
    if let Some(name) = name.filter(|_| number != 0) {
        out.insert(key.to_owned(), (*name).into());
    }
}

fn put_list(out: &mut Map<String, Value>, key: &str, items: impl Iterator<Item = Value>) {
    let items: Vec<Value> = items.collect();
    if !items.is_empty() {
        out.insert(key.to_owned(), items.into());
    }
}

fn put_content(out: &mut Map<String, Value>, key: &str, content: Option<&ContentMessage>) {
    let Some(content) = content else { return };
    let mut entry = Map::new();
    put_text(&mut entry, "value", &content.value);
    if content.json {
        entry.insert("json".to_owned(), true.into());
    }
    put_enum(&mut entry, "state", content.state, &STATES);
    if content.bytes_full > 0 {
        entry.insert("bytesFull".to_owned(), content.bytes_full.to_string().into());
    }
    out.insert(key.to_owned(), Value::Object(entry));
}

fn from_struct(fields: &Struct) -> Value {
    let entries = fields.fields.iter().map(|(key, value)| (key.clone(), from_proto(value)));
    Value::Object(entries.collect())
}

fn from_proto(value: &prost_types::Value) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(*value),
        Some(Kind::NumberValue(value)) => json!(value),
        Some(Kind::StringValue(text)) => text.as_str().into(),
        Some(Kind::ListValue(list)) => list.values.iter().map(from_proto).collect(),
        Some(Kind::StructValue(fields)) => from_struct(fields),
    }
}

/// Reads a `DescribeResponse`.
///
/// # Errors
/// Why it is none.
pub fn describe_response(body: &[u8]) -> Result<DescribeResponse, UnreadableAnswer> {
    let body = object(body)?;
    let kinds = list(&body, "kinds").iter().map(|kind| ServedKind {
        name: text(kind, "name"),
        version: text(kind, "version"),
        settings_schema: text(kind, "settingsSchema"),
        levels: list(kind, "levels").iter().map(|it| number_of(it, &LEVELS)).collect(),
        needs: list(kind, "needs").iter().map(|it| number_of(it, &FACTS)).collect(),
        batch_max: u32::try_from(count(get(kind, "batchMax"))).unwrap_or(u32::MAX),
    });
    let minor = u32::try_from(count(get(&body, "minor"))).unwrap_or(u32::MAX);
    Ok(DescribeResponse { minor, kinds: kinds.collect() })
}

/// Reads an `EvaluateResponse`.
///
/// # Errors
/// Why it is none.
pub fn evaluate_response(body: &[u8]) -> Result<EvaluateResponse, UnreadableAnswer> {
    let body = object(body)?;
    let evaluations = list(&body, "evaluations").iter().map(evaluation);
    Ok(EvaluateResponse { evaluations: evaluations.collect() })
}

fn evaluation(evaluation: &Value) -> EvaluationMessage {
    let outcome = if let Some(score) = get(evaluation, "scored") {
        let label = get(score, "label").and_then(Value::as_str).map(str::to_owned);
        Some(OutcomeMessage::Scored(ScoreMessage { value: double(get(score, "value")), label }))
    } else if let Some(failure) = get(evaluation, "failed") {
        Some(OutcomeMessage::Failed(FailureMessage {
            r#type: text(failure, "type"),
            message: text(failure, "message"),
            retryable: get(failure, "retryable").and_then(Value::as_bool).unwrap_or(false),
        }))
    } else {
        let why = get(evaluation, "notEvaluable").and_then(Value::as_str);
        why.map(|why| OutcomeMessage::NotEvaluable(why.to_owned()))
    };
    let usage = get(evaluation, "usage").and_then(Value::as_object);
    let usage: BTreeMap<String, u64> =
        usage.into_iter().flatten().map(|(key, n)| (key.clone(), count(Some(n)))).collect();
    let details = get(evaluation, "details").and_then(Value::as_object);
    EvaluationMessage {
        task_id: text(evaluation, "taskId"),
        name: text(evaluation, "name"),
        span_id: text(evaluation, "spanId"),
        outcome,
        explanation: text(evaluation, "explanation"),
        details: details.map(to_struct),
        usage,
        // Absent means none.
        cost_usd: get(evaluation, "costUsd").map_or(0.0, |cost| double(Some(cost))),
    }
}

fn object(body: &[u8]) -> Result<Value, UnreadableAnswer> {
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(UnreadableAnswer("is not a JSON object".to_owned())),
        Err(error) => Err(UnreadableAnswer(format!("is not JSON: {error}"))),
    }
}

/// A field under its name in camel case, or as it stands in the file of the protocol.
fn get<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    let found = value.get(key).or_else(|| {
        let mut snake = String::with_capacity(key.len() + 4);
        for c in key.chars() {
            if c.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(c.to_ascii_lowercase());
        }
        value.get(snake)
    });
    found.filter(|found| !found.is_null())
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    get(value, key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value, key: &str) -> String {
    get(value, key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A number of 64 bits, which may be a text.
fn count(value: Option<&Value>) -> u64 {
    let text = value.and_then(Value::as_str).and_then(|text| text.parse().ok());
    text.or_else(|| value.and_then(Value::as_u64)).unwrap_or(0)
}

/// A double; `NaN`, `Infinity` and what is no number are no score.
fn double(value: Option<&Value>) -> f64 {
    match value {
        // A score of zero may be left out.
        None => 0.0,
        Some(Value::String(text)) => text.parse().unwrap_or(f64::NAN),
        Some(value) => value.as_f64().unwrap_or(f64::NAN),
    }
}

/// An enum by name or number; a name of a later minor version is no known number.
fn number_of(value: &Value, names: &[&str]) -> i32 {
    let by_name = value.as_str().and_then(|name| names.iter().position(|known| *known == name));
    let by_name = by_name.and_then(|place| i32::try_from(place).ok());
    let by_number = || value.as_i64().and_then(|number| i32::try_from(number).ok());
    by_name.or_else(by_number).unwrap_or(-1)
}

fn to_struct(object: &Map<String, Value>) -> Struct {
    Struct { fields: object.iter().map(|(key, value)| (key.clone(), to_proto(value))).collect() }
}

fn to_proto(value: &Value) -> prost_types::Value {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(list) => {
            Kind::ListValue(ListValue { values: list.iter().map(to_proto).collect() })
        }
        Value::Object(object) => Kind::StructValue(to_struct(object)),
    };
    prost_types::Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external::proto::{CallEnd, ContentState, TaskLevel};

    #[test]
    fn an_answer_is_read_in_either_spelling_and_what_is_unknown_is_passed_over() {
        let body = br#"{"later": 1, "evaluations": [
            {"taskId": "a", "scored": {"value": 0.5, "label": "fail"}, "usage": {"tokens": "7"},
             "details": {"n": [1]}, "costUsd": 0.25, "later": {}},
            {"task_id": "b", "not_evaluable": "why"},
            {"taskId": "c", "failed": {"type": "t", "message": "m", "retryable": true}},
            {"taskId": "d", "scored": {"value": "NaN"}}, {"taskId": "e", "later": 1},
            {"taskId": "f", "scored": {}}]}"#;
        let read = evaluate_response(body).expect("it is an answer").evaluations;
        let outcome = |place: usize| read[place].outcome.clone();
        let label = Some("fail".to_owned());
        assert_eq!(outcome(0), Some(OutcomeMessage::Scored(ScoreMessage { value: 0.5, label })));
        assert_eq!((read[0].usage["tokens"], read[0].cost_usd), (7, 0.25));
        assert_eq!(outcome(1), Some(OutcomeMessage::NotEvaluable("why".to_owned())));
        assert_eq!(read[1].task_id, "b");
        assert!(matches!(outcome(2), Some(OutcomeMessage::Failed(it)) if it.retryable));
        assert!(matches!(outcome(3), Some(OutcomeMessage::Scored(it)) if it.value.is_nan()));
        assert_eq!(outcome(4), None);
        assert!(matches!(outcome(5), Some(OutcomeMessage::Scored(it)) if it.value == 0.0));
        assert!(evaluate_response(b"[]").is_err() && evaluate_response(b"{").is_err());
    }

    #[test]
    fn a_description_is_read_with_names_and_numbers_of_enums() {
        let body = br#"{"minor": 3, "kinds": [{"name": "k", "version": "2", "batchMax": 4,
            "levels": ["LEVEL_TRACE", 3, "LEVEL_OF_LATER"],
            "needs": ["FACT_RESULTS", "FACT_OF_LATER"], "settingsSchema": "{}"}]}"#;
        let read = describe_response(body).expect("it is a description");
        let kind = &read.kinds[0];
        assert_eq!(
            (kind.levels.as_slice(), kind.needs.as_slice()),
            (&[2, 3, -1][..], &[5, -1][..])
        );
        assert_eq!((kind.batch_max, read.minor), (4, 3));
    }

    #[test]
    fn a_request_leaves_out_what_has_no_value() {
        let call = CallMessage {
            name: "search".to_owned(),
            status: CallEnd::Error as i32,
            start_time: Some(Timestamp { seconds: 1, nanos: 500_000_000 }),
            ..CallMessage::default()
        };
        let input = ContentMessage {
            value: "hi".to_owned(),
            state: ContentState::Full as i32,
            bytes_full: 2,
            ..ContentMessage::default()
        };
        let trajectory = TrajectoryMessage {
            user_input: Some(input),
            tool_calls: vec![call],
            usage: BTreeMap::from([("model_calls".to_owned(), 3)]),
            ..TrajectoryMessage::default()
        };
        let task = TaskMessage {
            id: "1".to_owned(),
            level: TaskLevel::Trace as i32,
            trajectories: vec![trajectory],
            ..TaskMessage::default()
        };
        let request = EvaluateRequest { tasks: vec![task], ..EvaluateRequest::default() };
        let expected = concat!(
            r#"{"tasks":[{"id":"1","level":"LEVEL_TRACE","trajectories":[{"userInput":"#,
            r#"{"value":"hi","state":"STATE_FULL","bytesFull":"2"},"toolCalls":[{"name":"#,
            r#""search","status":"STATUS_ERROR","startTime":"1970-01-01T00:00:01.5Z"}],"#,
            r#""usage":{"model_calls":"3"}}]}]}"#
        );
        assert_eq!(evaluate_request(&request), expected);
    }
}
