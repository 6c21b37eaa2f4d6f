//! Details of answers, and selection of a task's facts for an evaluator.

use prost_types::Struct;
use prost_types::value::Kind;

use super::proto::{NeededPart, TaskMessage};
use spanscore_base::value::{Map, Value};

/// Deepest parsed nesting of an answer's details.
const DEPTH_MAX: usize = 32;

/// Converts a structure of an answer to a value; deeper nesting is dropped.
pub(super) fn from_struct(fields: &Struct) -> Value<'static> {
    object(fields, 0)
}

fn object(fields: &Struct, depth: usize) -> Value<'static> {
    let entries = fields.fields.iter().map(|(key, value)| (key.clone(), from_proto(value, depth)));
    Value::Map(entries.collect::<Map<'static>>())
}

fn from_proto(value: &prost_types::Value, depth: usize) -> Value<'static> {
    match &value.kind {
        _ if depth >= DEPTH_MAX => Value::Null,
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(*value),
        Some(Kind::NumberValue(value)) => Value::from(*value),
        Some(Kind::StringValue(text)) => Value::from(text.clone()),
        Some(Kind::ListValue(list)) => {
            Value::List(list.values.iter().map(|item| from_proto(item, depth + 1)).collect())
        }
        Some(Kind::StructValue(fields)) => object(fields, depth + 1),
    }
}

/// Removes from a task the facts that its evaluator does not need.
pub fn prune(task: &mut TaskMessage, needs: &[i32]) {
    let needs = |part: NeededPart| needs.contains(&(part as i32));
    let has_calls = [NeededPart::ToolCalls, NeededPart::Arguments, NeededPart::Results];
    let has_calls = has_calls.into_iter().any(&needs);
    for trajectory in &mut task.trajectories {
        if !needs(NeededPart::UserInput) {
            trajectory.user_input = None;
        }
        if !needs(NeededPart::FinalOutput) {
            trajectory.final_output = None;
        }
        if !has_calls {
            trajectory.tool_calls.clear();
        }
        for call in &mut trajectory.tool_calls {
            if !needs(NeededPart::Arguments) {
                call.arguments = None;
            }
            if !needs(NeededPart::Results) {
                (call.result, call.error) = (None, None);
            }
        }
        if !needs(NeededPart::ToolDefinitions) {
            trajectory.tool_definitions.clear();
        }
        if !needs(NeededPart::Messages) {
            trajectory.messages.clear();
        }
        if !needs(NeededPart::Usage) {
            trajectory.usage.clear();
        }
        if !needs(NeededPart::Attributes) {
            trajectory.attributes = None;
        }
    }
}
