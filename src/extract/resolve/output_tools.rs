//! Output tools: a framework's own way to return a structured answer by a tool call. The call's
//! arguments are the final output.
//!
//! A call is told to be one by the name that frameworks give it, or, where only a model's message
//! holds it, by its arguments: they are the final output.

use crate::model::{Content, Origin, ToolCall, Trajectory};
use crate::value::Value;

/// Names of output tools: of Pydantic AI, smolagents and BeeAI.
const NAMES: [&str; 2] = ["final_result", "final_answer"];

/// Members that hold an answer which is no object.
const WRAPPERS: [&str; 3] = ["response", "answer", "result"];

/// Marks the calls of output tools, and takes the final output from the last one where the
/// telemetry has none, or only its text; gives the place of the call that it was taken from.
pub(super) fn mark(trajectory: &mut Trajectory<'_>) -> Option<usize> {
    let Trajectory { tool_calls, final_output, agent_name, .. } = trajectory;
    let may_be = |call: &ToolCall<'_>| call.origin == Origin::Llm || is_named(&call.name);
    if !tool_calls.iter().any(may_be) {
        return None;
    }
    let answer = final_output.value();
    for call in tool_calls.iter_mut() {
        call.is_output = is_named(&call.name) || is_answer(call, answer);
    }
    let is_own = |call: &&ToolCall<'_>| {
        call.is_output
            && (call.agent.is_none() || agent_name.is_none() || call.agent == *agent_name)
    };
    let at = tool_calls.iter().rposition(|call| is_own(&call))?;
    let arguments = tool_calls.get(at)?.arguments.value()?;
    let given = unwrapped(arguments);
    let is_text_of = |answer: &Value<'_>| {
        answer.as_str().is_some() && given.as_str().is_none() && answer != arguments
    };
    if final_output.value().is_none_or(is_text_of) {
        *final_output = Content::ready(given.clone());
        return Some(at);
    }
    None
}

fn is_named(tool: &str) -> bool {
    NAMES.iter().any(|name| {
        let rest = tool.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}

/// Whether a call that no span tells of gave the answer.
fn is_answer(call: &ToolCall<'_>, answer: Option<&Value<'_>>) -> bool {
    let (Origin::Llm, Some(answer @ Value::Map(map))) = (call.origin, answer) else { return false };
    !map.is_empty() && call.arguments.value() == Some(answer)
}

/// An answer that is no object stands in the only member of one.
fn unwrapped<'v, 'a>(arguments: &'v Value<'a>) -> &'v Value<'a> {
    let Value::Map(map) = arguments else { return arguments };
    let only = WRAPPERS.iter().find_map(|key| map.get(key)).filter(|_| map.len() == 1);
    only.unwrap_or(arguments)
}
