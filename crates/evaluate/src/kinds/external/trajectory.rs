//! Conversion of a trajectory to messages of `spanscore.evaluator.v1`.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Timestamp};

use crate::external::content;
use crate::external::proto::{
    CallEnd, CallMessage, DefinitionMessage, SaidMessage, TrajectoryMessage,
};
use crate::judged::operator;
use spanscore_base::model::{CallStatus, Content, ToolCall, Trajectory, Usage};
use spanscore_base::value::Value;

/// Returns the trajectories of a target: one, or the turns of a session.
pub(super) fn trajectories(trajectory: &Trajectory<'_>) -> Vec<TrajectoryMessage> {
    let mut turns: Vec<&[ToolCall<'_>]> = trajectory.calls_by_turn().collect();
    if turns.is_empty() {
        turns.push(&trajectory.tool_calls);
    }
    let last = turns.len() - 1;
    let mut messages = Vec::with_capacity(turns.len());
    for (turn, calls) in turns.into_iter().enumerate() {
        let exchanges = &trajectory.exchanges;
        let before = turn.checked_sub(1).and_then(|before| exchanges.get(before));
        let asked = before.map_or(&trajectory.user_input, |exchange| &exchange.user_input);
        let answered = match exchanges.get(turn) {
            Some(exchange) if turn < last => &exchange.answer,
            _ => &trajectory.final_output,
        };
        let root = trajectory.turn_roots.get(turn).copied();
        let (trace_id, span_id) = root.unwrap_or((trajectory.trace_id, trajectory.span_id));
        let mut message = TrajectoryMessage {
            trace_id: trace_id.to_string(),
            root_span_id: span_id.to_string(),
            user_input: content::message(asked),
            final_output: content::message(answered),
            tool_calls: calls.iter().map(call).collect(),
            messages: said(trajectory, turn == 0, [("user", asked), ("assistant", answered)]),
            ..of_all(trajectory)
        };
        if turn == last {
            message.usage = usage(&trajectory.usage);
            message.attributes = attributes(trajectory);
        }
        messages.push(message);
    }
    messages
}

/// Builds the message with the parts common to all turns.
fn of_all(trajectory: &Trajectory<'_>) -> TrajectoryMessage {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let definitions = trajectory.tool_definitions.iter().map(|tool| DefinitionMessage {
        name: tool.name.to_string(),
        description: tool.description.to_string(),
        input_schema_json: match &tool.input_schema {
            Value::Null => String::new(),
            schema => schema.to_string(),
        },
    });
    TrajectoryMessage {
        session_id: text(trajectory.session_id.as_deref()),
        service_name: trajectory.service_name().to_owned(),
        agent_name: text(trajectory.agent_name.as_deref()),
        tool_definitions: definitions.collect(),
        ..TrajectoryMessage::default()
    }
}

fn said(
    trajectory: &Trajectory<'_>,
    is_first: bool,
    turn: [(&str, &Content<'_>); 2],
) -> Vec<SaidMessage> {
    let mut messages = Vec::new();
    if is_first {
        messages.extend(operator::texts(trajectory).iter().map(|(_, text)| SaidMessage {
            role: "system".to_owned(),
            content: Some(content::text_message(text)),
        }));
    }
    for (role, said) in turn {
        let content = content::message(said);
        let role = role.to_owned();
        messages.extend(content.map(|content| SaidMessage { role, content: Some(content) }));
    }
    messages
}

fn call(call: &ToolCall<'_>) -> CallMessage {
    let status = match call.status {
        CallStatus::Ok => CallEnd::Ok,
        CallStatus::Error => CallEnd::Error,
        CallStatus::Unknown => CallEnd::Unspecified,
    };
    CallMessage {
        span_id: call.span_id.to_string(),
        id: call.id.as_deref().unwrap_or_default().to_owned(),
        name: call.name.to_string(),
        agent_name: call.agent.as_deref().unwrap_or_default().to_owned(),
        arguments: content::message(&call.arguments),
        result: content::message(&call.result),
        error: call.error.as_deref().map(content::text_message),
        status: status as i32,
        start_time: time(call.start_ns),
        end_time: time(call.end_ns),
    }
}

fn time(unix_ns: u64) -> Option<Timestamp> {
    const SECOND_NS: u64 = 1_000_000_000;
    (unix_ns > 0).then(|| Timestamp {
        seconds: i64::try_from(unix_ns / SECOND_NS).unwrap_or(i64::MAX),
        nanos: i32::try_from(unix_ns % SECOND_NS).unwrap_or_default(),
    })
}

fn usage(usage: &Usage) -> BTreeMap<String, u64> {
    let all = [
        ("model_calls", usage.model_calls),
        ("input_tokens", usage.input_tokens),
        ("output_tokens", usage.output_tokens),
        ("cache_read_tokens", usage.cache_read_tokens),
        ("cache_write_tokens", usage.cache_write_tokens),
        ("reasoning_tokens", usage.reasoning_tokens),
    ];
    all.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?))).collect()
}

fn attributes(trajectory: &Trajectory<'_>) -> Option<Struct> {
    if trajectory.attributes.is_empty() {
        return None;
    }
    let read = trajectory.attributes.iter().filter_map(|(key, value)| {
        let value = value.to_value().ok()?;
        Some(((*key).to_owned(), to_proto(&value)))
    });
    Some(Struct { fields: read.collect() })
}

fn to_proto(value: &Value<'_>) -> prost_types::Value {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Number(number) => Kind::NumberValue(number.as_f64()),
        Value::String(text) => Kind::StringValue(text.to_string()),
        Value::List(list) => {
            Kind::ListValue(ListValue { values: list.iter().map(to_proto).collect() })
        }
        Value::Map(map) => {
            let fields = map.iter().map(|(key, value)| (key.to_owned(), to_proto(value)));
            Kind::StructValue(Struct { fields: fields.collect() })
        }
    };
    prost_types::Value { kind: Some(kind) }
}
