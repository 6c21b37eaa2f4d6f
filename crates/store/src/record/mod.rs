//! Record of a judged trajectory: an owned excerpt, built on the shard, read by the writer.

mod content;
mod definitions;
mod facts;
mod output;

use std::sync::Arc;

use hashbrown::HashSet;

use spanscore_base::model::{
    CallStatus, ClientGroup, Completion, Resource, Sender, SpanId, ToolCall, TraceId, Trajectory,
    Usage,
};

use content::content_of;
#[cfg(test)]
pub(crate) use definitions::DEFINITIONS_BYTES_MAX;
pub(crate) use definitions::RecordedDefinitions;
use facts::facts_of;
pub(crate) use facts::{FACTS_VERSION, IS_OF_MODEL, IS_OUTPUT, usage_of};
pub(crate) use output::OutputState;

use crate::writer::cut;

/// Longest JSON text of one argument, result, input or output; longer ones are cut.
pub(crate) const FIELD_BYTES_MAX: usize = 64 << 10;
/// Bytes of content after which further fields of a trajectory are omitted.
pub(crate) const CONTENT_BYTES_MAX: usize = 1 << 20;
/// Limit on the attributes of the root span; with more, none is stored.
pub(crate) const ATTRIBUTES_MAX: usize = 64;
/// Longest text of such an attribute; a longer one is omitted.
pub(crate) const ATTRIBUTE_BYTES_MAX: usize = 200;
/// Limit on individually stored calls of a trajectory.
pub(crate) const CALLS_MAX: usize = 10_000;

/// Facts of a judgement that are not in the trajectory.
#[derive(Clone, Copy, Debug)]
pub struct Judgement {
    /// Cause that completed the trace.
    pub completion: Completion,
    /// True if part of the trace is known to be missing.
    pub is_partial: bool,
    /// 0 for the first judgement of the trace, then counting up.
    pub revision: u32,
    /// Number of its spans.
    pub spans: usize,
    /// Time of the judgement, Unix nanoseconds.
    pub now_ns: u64,
    /// True if every evaluation that is known by now is a pass.
    pub is_passing: bool,
}

/// Trace id as sent, with the client group: other clients may send the same id.
pub(crate) type TraceKey = (TraceId, ClientGroup);

/// Judged trajectory to store.
#[derive(Clone, Debug)]
pub struct TrajectoryRecord {
    pub(crate) trace: TraceKey,
    pub(crate) sender: Sender,
    pub(crate) span_id: SpanId,
    pub(crate) session_id: Option<Box<str>>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) agent_name: Option<Box<str>>,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) judgement: Judgement,
    pub(crate) calls: Vec<CallRecord>,
    pub(crate) call_count: usize,
    pub(crate) error_count: usize,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<f64>,
    /// Models that its spans name, a JSON list.
    pub(crate) models: Option<String>,
    pub(crate) user_id: Option<Box<str>>,
    pub(crate) answer: OutputState,
    /// Texts and numbers for judging it again; `None` without content.
    pub(crate) content: Option<RecordedContent>,
    /// Offered tools; `None` if they are not stored.
    pub(crate) definitions: Option<RecordedDefinitions>,
}

/// Content of a run, as two JSON objects.
#[derive(Clone, Debug)]
pub(crate) struct RecordedContent {
    /// Untrusted texts: input, output, calls, names, attributes.
    pub(crate) texts: String,
    /// Only numbers and flags, which need no redaction.
    pub(crate) facts: String,
}

/// Tool call without its content.
#[derive(Clone, Debug)]
pub(crate) struct CallRecord {
    pub(crate) span_id: SpanId,
    pub(crate) tool: Box<str>,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) status: CallStatus,
    pub(crate) is_undeclared: bool,
    pub(crate) is_repeated: bool,
}

impl TrajectoryRecord {
    /// Copies a trajectory, including its content if `with_content`.
    pub fn new(trajectory: &Trajectory<'_>, judgement: Judgement, with_content: bool) -> Self {
        let calls = &trajectory.tool_calls;
        let is_error = |call: &&ToolCall<'_>| call.status == CallStatus::Error;
        let offered = trajectory.tool_definitions.iter().map(|it| &*it.name).collect();
        Self {
            trace: (trajectory.trace_id, trajectory.sender.group),
            sender: trajectory.sender,
            span_id: trajectory.span_id,
            session_id: trajectory.session_id.as_deref().map(Box::from),
            resource: Arc::clone(&trajectory.resource),
            agent_name: trajectory.agent_name.as_deref().map(Box::from),
            start_ns: trajectory.start_ns,
            end_ns: trajectory.end_ns,
            judgement,
            calls: calls.iter().take(CALLS_MAX).map(|call| excerpt(&offered, call)).collect(),
            call_count: calls.len(),
            error_count: calls.iter().filter(is_error).count(),
            usage: trajectory.usage,
            cost: trajectory.cost,
            models: models_of(trajectory),
            user_id: trajectory.user_id.as_deref().map(Box::from),
            answer: OutputState::of(&trajectory.final_output, with_content),
            content: with_content.then(|| RecordedContent {
                texts: content_of(trajectory),
                facts: facts_of(trajectory),
            }),
            definitions: RecordedDefinitions::of(&trajectory.tool_definitions, with_content),
        }
    }

    /// Returns the approximate bytes held in memory.
    pub(crate) fn bytes(&self) -> usize {
        let content = self.content.as_ref().map_or(0, |it| it.texts.len() + it.facts.len());
        let definitions = self.definitions.as_ref().map_or(0, |it| it.text.len());
        let calls: usize = self.calls.iter().map(|c| size_of::<CallRecord>() + c.tool.len()).sum();
        let names = [&self.session_id, &self.agent_name, &self.user_id];
        let names: usize = names.into_iter().flatten().map(|name| name.len()).sum();
        let names = names + self.models.as_ref().map_or(0, String::len);
        size_of::<Self>() + self.resource.bytes() + content + definitions + calls + names
    }
}

/// Returns the distinct models, each cut as names are; `None` without any.
fn models_of(trajectory: &Trajectory<'_>) -> Option<String> {
    let mut models: Vec<&str> = Vec::new();
    for model in trajectory.models.iter().map(|it| cut(it)) {
        if !models.contains(&model) {
            models.push(model);
        }
    }
    if models.is_empty() { None } else { serde_json::to_string(&models).ok() }
}

fn excerpt(offered: &HashSet<&str>, call: &ToolCall<'_>) -> CallRecord {
    CallRecord {
        span_id: call.span_id,
        tool: Box::from(&*call.name),
        start_ns: call.start_ns,
        end_ns: call.end_ns,
        status: call.status,
        is_undeclared: !offered.is_empty() && !offered.contains(&*call.name),
        is_repeated: call.is_repeated,
    }
}
