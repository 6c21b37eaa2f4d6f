//! Messages of `spanscore.evaluator.v1` as proto3 JSON. Requests have names in camel case, answers
//! may have either spelling; unknown fields are ignored.
//!
//! Source: <https://protobuf.dev/programming-guides/json/>.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Timestamp};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::proto::{
    CallEnd, ContentState, DescribeResponse, EvaluateResponse, EvaluationMessage, FailureMessage,
    NeededPart, OutcomeMessage, ScoreMessage, ServedKind, TaskLevel,
};

/// All facts, for a server that does not state its needs.
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

/// Error of a malformed answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer {0}")]
pub struct UnreadableAnswer(String);

/// Serializes a request, whose generated message knows its field names.
pub fn request(request: &impl Serialize) -> String {
    // Only map keys other than texts could fail.
    serde_json::to_string(request).unwrap_or_default()
}

/// Returns true for the value of a field that the encoding omits.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Serializes a [`TaskLevel`] by name.
pub(super) fn level<S: Serializer>(number: &i32, out: S) -> Result<S::Ok, S::Error> {
    TaskLevel::try_from(*number).unwrap_or_default().as_str_name().serialize(out)
}

/// Serializes a [`CallEnd`] by name.
pub(super) fn status<S: Serializer>(number: &i32, out: S) -> Result<S::Ok, S::Error> {
    CallEnd::try_from(*number).unwrap_or_default().as_str_name().serialize(out)
}

/// Serializes a [`ContentState`] by name.
pub(super) fn state<S: Serializer>(number: &i32, out: S) -> Result<S::Ok, S::Error> {
    ContentState::try_from(*number).unwrap_or_default().as_str_name().serialize(out)
}

/// Serializes a number of 64 bits, as a text in this encoding.
pub(super) fn long<S: Serializer>(number: &u64, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(number)
}

/// Serializes a map of numbers of 64 bits.
pub(super) fn longs<S: Serializer>(
    numbers: &BTreeMap<String, u64>,
    out: S,
) -> Result<S::Ok, S::Error> {
    out.collect_map(numbers.iter().map(|(key, number)| (key, number.to_string())))
}

/// Serializes a time by RFC 3339.
pub(super) fn time<S: Serializer>(time: &Option<Timestamp>, out: S) -> Result<S::Ok, S::Error> {
    let time = time.and_then(|time| jiff::Timestamp::new(time.seconds, time.nanos).ok());
    time.serialize(out)
}

/// Serializes a `Struct` as an object.
pub(super) fn object_of<S: Serializer>(fields: &Option<Struct>, out: S) -> Result<S::Ok, S::Error> {
    fields.as_ref().map(from_struct).serialize(out)
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

/// Parses a `DescribeResponse`.
///
/// # Errors
/// Returns the reason for a malformed response.
pub fn describe_response(body: &[u8]) -> Result<DescribeResponse, UnreadableAnswer> {
    let body = object(body)?;
    let kinds = list(&body, "kinds").iter().map(|kind| ServedKind {
        name: text(kind, "name"),
        version: text(kind, "version"),
        settings_schema: text(kind, "settingsSchema"),
        levels: list(kind, "levels")
            .iter()
            .map(|it| number_of(it, TaskLevel::from_str_name))
            .collect(),
        needs: list(kind, "needs")
            .iter()
            .map(|it| number_of(it, NeededPart::from_str_name))
            .collect(),
        batch_max: u32::try_from(count(get(kind, "batchMax"))).unwrap_or(u32::MAX),
    });
    let minor = u32::try_from(count(get(&body, "minor"))).unwrap_or(u32::MAX);
    Ok(DescribeResponse { minor, kinds: kinds.collect() })
}

/// Parses an `EvaluateResponse`.
///
/// # Errors
/// Returns the reason for a malformed response.
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
        // An absent cost is zero.
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

/// Returns a field by its name in camel case, or as in the protocol file.
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

/// Parses a number of 64 bits, which may be a text.
fn count(value: Option<&Value>) -> u64 {
    let text = value.and_then(Value::as_str).and_then(|text| text.parse().ok());
    text.or_else(|| value.and_then(Value::as_u64)).unwrap_or(0)
}

/// Parses a double; `NaN`, `Infinity` and other types are no score.
fn double(value: Option<&Value>) -> f64 {
    match value {
        // A score of zero may be omitted.
        None => 0.0,
        Some(Value::String(text)) => text.parse().unwrap_or(f64::NAN),
        Some(value) => value.as_f64().unwrap_or(f64::NAN),
    }
}

/// Parses an enum by name or number; a name of a later minor version gives an unknown number.
fn number_of<E: Into<i32>>(value: &Value, known: fn(&str) -> Option<E>) -> i32 {
    let by_name = value.as_str().and_then(known).map(E::into);
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
    use crate::external::proto::{
        CallMessage, ContentMessage, EvaluateRequest, TaskMessage, TrajectoryMessage,
    };

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
        assert_eq!(super::request(&request), expected);
    }
}
