//! Output tools, by which a framework lets a model return a structured answer. The call's arguments
//! are the final output.
//!
//! A call is recognized by a tool name in a dialect, by the framework's fixed result for it, or by
//! its arguments if they equal the final output, as a value or as its text. The last rule applies
//! to a call that only a model's message has. It also applies to the last call on a span without a
//! later model call, since then nothing else can have written the answer.

use std::cell::LazyCell;

use super::super::decode::told_object;
use super::plan::ReadingPlan;
use super::tree::Tree;
use spanscore_base::model::{Content, Origin, ToolCall, Trajectory};
use spanscore_base::value::{Map, Value};

/// Prefixes and suffixes of the frameworks' fixed results for an accepted answer: Strands Agents,
/// LangChain.
const GIVEN_BACK: [(&str, &str); 2] =
    [("Successfully validated ", " structured output"), ("Returning structured response: ", "")];

/// Members that contain an answer other than an object.
const WRAPPERS: [&str; 3] = ["response", "answer", "result"];

/// Marks the calls of output tools. Sets the final output from the last of them if none is
/// recorded, or only its text or an empty object; returns the call's index.
pub(super) fn mark(
    plan: &ReadingPlan,
    tree: &Tree<'_>,
    trajectory: &mut Trajectory<'_>,
) -> Option<usize> {
    let Trajectory { tool_calls, final_output, agent_name, .. } = trajectory;
    let last = tool_calls.len().checked_sub(1)?;
    let is_named = |tool: &str| plan.output_tools.iter().any(|name| names(name, tool));
    // Lazy: decoded only if some call may have returned the answer.
    let answer = LazyCell::new(|| final_output.value().map(FinalAnswer::of));
    for (at, call) in tool_calls.iter_mut().enumerate() {
        let answer = || LazyCell::force(&answer).as_ref();
        call.is_output = is_named(&call.name)
            || is_given_back(call)
            || match call.origin {
                Origin::Llm => answer().is_some_and(|answer| answer.is_of(call)),
                Origin::Span if at == last && is_end(tree, call) => {
                    answer().is_some_and(|answer| answer.is_given_by(call))
                }
                Origin::Span => false,
            };
    }
    let is_own = |call: &&ToolCall<'_>| {
        call.is_output
            && (call.agent.is_none() || agent_name.is_none() || call.agent == *agent_name)
    };
    let at = tool_calls.iter().rposition(|call| is_own(&call))?;
    let call = tool_calls.get(at)?;
    let arguments = call.arguments.value()?;
    let given = unwrapped(call, arguments);
    // With an output tool's arguments, an empty object is no answer.
    let is_nothing = |answer: &Value<'_>| answer.as_map().is_some_and(Map::is_empty);
    let is_less = |answer: &Value<'_>| {
        let is_text = answer.as_str().is_some() && given.as_str().is_none();
        (is_text || is_nothing(answer)) && answer != arguments
    };
    if final_output.value().is_none_or(is_less) {
        *final_output = Content::ready(given.clone());
        return Some(at);
    }
    None
}

/// Returns true if a name, or a prefix with `*`, matches a tool.
fn names(name: &str, tool: &str) -> bool {
    match name.strip_suffix('*') {
        Some(beginning) => tool.starts_with(beginning),
        None => tool == name,
    }
}

/// Returns true if a call's result is a framework's fixed one.
fn is_given_back(call: &ToolCall<'_>) -> bool {
    let Some(text) = call.result.value().and_then(Value::as_str) else { return false };
    GIVEN_BACK.iter().any(|(begin, end)| text.starts_with(begin) && text.ends_with(end))
}

/// Final output, and the object in its text.
struct FinalAnswer<'v, 'a> {
    value: &'v Value<'a>,
    told: Option<Value<'static>>,
}

impl<'v, 'a> FinalAnswer<'v, 'a> {
    fn of(value: &'v Value<'a>) -> Self {
        Self { value, told: value.as_str().and_then(told_object) }
    }

    /// Returns true if the arguments of a call equal the answer, an object.
    fn is_of(&self, call: &ToolCall<'_>) -> bool {
        let object = self.told.as_ref().unwrap_or(self.value);
        let is_object = object.as_map().is_some_and(|map| !map.is_empty());
        is_object && call.arguments.value() == Some(object)
    }

    /// Returns true if the arguments of a call on a span are the answer, or contain an answer that
    /// is a text; not if the tool returns that text.
    fn is_given_by(&self, call: &ToolCall<'_>) -> bool {
        let Some(arguments) = call.arguments.value() else { return false };
        let is_text = self.value.as_str().is_some_and(|text| !text.is_empty());
        let is_said =
            || unwrapped(call, arguments) == self.value && call.result.value() != Some(self.value);
        self.is_of(call) || is_text && is_said()
    }
}

/// Returns true if no model was called after the start of the call.
fn is_end(tree: &Tree<'_>, call: &ToolCall<'_>) -> bool {
    let is_later = |span: &&super::tree::Span<'_>| span.record.start_ns > call.start_ns;
    !tree.spans.iter().rev().take_while(is_later).any(|span| tree.form(span).model)
}

/// Returns the answer in the arguments: one other than an object is the only member of one.
fn unwrapped<'v, 'a>(call: &'v ToolCall<'a>, arguments: &'v Value<'a>) -> &'v Value<'a> {
    let Value::Map(map) = arguments else { return arguments };
    if map.len() != 1 {
        return arguments;
    }
    let only = WRAPPERS.iter().find_map(|key| map.get(key));
    // If the tool returns the member's value, its name does not matter.
    let returned = || {
        let result = call.result.value().filter(|result| result.as_map().is_none())?;
        map.iter().map(|(_, member)| member).find(|member| *member == result)
    };
    only.or_else(returned).unwrap_or(arguments)
}
