//! Record of a judged trajectory: an owned excerpt, made on the shard, read by the writer.

use std::fmt;
use std::sync::Arc;

use hashbrown::HashSet;

use spanscore_base::model::{
    CallStatus, ClientGroup, Completion, Content, Resource, SpanId, ToolCall, TraceId, Trajectory,
    Usage,
};
use spanscore_base::value::{Value, json};

/// Longest JSON text of one argument, result, input or output; longer ones are cut.
pub(crate) const FIELD_BYTES_MAX: usize = 64 << 10;
/// Bytes of content beyond which further fields of a trajectory are left out.
pub(crate) const CONTENT_BYTES_MAX: usize = 1 << 20;
/// Most calls of a trajectory that are stored each by itself.
pub(crate) const CALLS_MAX: usize = 10_000;

/// Facts of a judgement that the trajectory does not hold.
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

/// Trace as its senders name it, and their group: other clients may send the same id.
pub(crate) type TraceKey = (TraceId, ClientGroup);

/// Judged trajectory as it is stored.
#[derive(Clone, Debug)]
pub struct TrajectoryRecord {
    pub(crate) trace: TraceKey,
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
    /// JSON object of `input`, `output` and `calls`; `None` if none is stored.
    pub(crate) content: Option<String>,
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
    /// Copies a trajectory, its content too if `with_content`.
    pub fn new(trajectory: &Trajectory<'_>, judgement: Judgement, with_content: bool) -> Self {
        let calls = &trajectory.tool_calls;
        let is_error = |call: &&ToolCall<'_>| call.status == CallStatus::Error;
        let offered = trajectory.tool_definitions.iter().map(|it| &*it.name).collect();
        Self {
            trace: (trajectory.trace_id, trajectory.group),
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
            content: with_content.then(|| content_of(trajectory)),
        }
    }

    /// Returns the bytes held in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let content = self.content.as_ref().map_or(0, String::len);
        let calls: usize = self.calls.iter().map(|c| size_of::<CallRecord>() + c.tool.len()).sum();
        let names = [&self.session_id, &self.agent_name];
        let names: usize = names.into_iter().flatten().map(|name| name.len()).sum();
        size_of::<Self>() + self.resource.bytes() + content + calls + names
    }
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

/// Writes input, output and calls as one JSON object.
fn content_of(trajectory: &Trajectory<'_>) -> String {
    let mut out = String::from(r#"{"input":"#);
    field(&trajectory.user_input, &mut out);
    out.push_str(r#","output":"#);
    field(&trajectory.final_output, &mut out);
    out.push_str(r#","calls":["#);
    for (at, call) in trajectory.tool_calls.iter().take(CALLS_MAX).enumerate() {
        out.push_str(if at == 0 { r#"{"arguments":"# } else { r#",{"arguments":"# });
        field(&call.arguments, &mut out);
        out.push_str(r#","result":"#);
        field(&call.result, &mut out);
        if let Some(error) = call.error.as_ref().filter(|_| out.len() <= CONTENT_BYTES_MAX) {
            out.push_str(r#","error":"#);
            text(error, &mut out);
        }
        out.push('}');
    }
    out.push_str("]}");
    out
}

/// Writes one field: its value under `value`, or the reason that there is none under `absent`.
fn field(content: &Content<'_>, out: &mut String) {
    if out.len() > CONTENT_BYTES_MAX {
        out.push_str(r#"{"absent":"left_out"}"#);
        return;
    }
    match content {
        Content::NotRecorded => out.push_str(r#"{"absent":"not_recorded"}"#),
        Content::Redacted => out.push_str(r#"{"absent":"redacted"}"#),
        Content::Unreadable(raw) => {
            out.push_str(r#"{"absent":"unreadable","value":"#);
            text(raw, out);
            out.push('}');
        }
        Content::Recorded(value) => {
            out.push_str(r#"{"value":"#);
            recorded(value.get(), out);
            out.push('}');
        }
    }
}

/// Writes a value, or as a text of the same beginning if it is too long.
fn recorded(value: &Value<'_>, out: &mut String) {
    let start = out.len();
    let mut limited = LimitedWriter { out, left: FIELD_BYTES_MAX };
    if json::write(value, &mut limited).is_err() {
        let beginning = out.split_off(start);
        text(&beginning, out);
        out.push_str(r#","truncated":true"#);
    }
}

/// Writer that fails at its limit, so that no more of a long value is read.
struct LimitedWriter<'a> {
    out: &'a mut String,
    left: usize,
}

impl fmt::Write for LimitedWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fitting = &text[..text.floor_char_boundary(self.left)];
        self.out.push_str(fitting);
        self.left -= fitting.len();
        if fitting.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

fn text(text: &str, out: &mut String) {
    let end = text.floor_char_boundary(FIELD_BYTES_MAX);
    // Writing to a String cannot fail.
    let _ = json::write_string(&text[..end], out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(trajectory: Trajectory<'_>) -> serde_json::Value {
        serde_json::from_str(&content_of(&trajectory)).unwrap()
    }

    #[test]
    fn long_values_are_cut_to_a_text_that_says_so() {
        let check = |bytes: usize, is_cut: bool| {
            let user_input = Content::ready(Value::from("ä".repeat(bytes / 2)));
            let content = content(Trajectory { user_input, ..Trajectory::default() });
            let input = &content["input"];
            assert_eq!(input["truncated"] == true, is_cut, "{bytes}");
            assert!(input["value"].as_str().unwrap().len() <= FIELD_BYTES_MAX, "{bytes}");
        };
        // Two bytes are the quotes.
        check(FIELD_BYTES_MAX - 2, false);
        check(FIELD_BYTES_MAX, true);
        check(8 * FIELD_BYTES_MAX, true);
    }

    #[test]
    fn errors_count_toward_the_content_of_a_run() {
        let error = || Some("e".repeat(FIELD_BYTES_MAX).into());
        let call = || ToolCall { error: error(), ..ToolCall::default() };
        let tool_calls = std::iter::repeat_with(call).take(100).collect();
        let content = content_of(&Trajectory { tool_calls, ..Trajectory::default() });
        assert!(content.len() < CONTENT_BYTES_MAX + 2 * FIELD_BYTES_MAX, "{}", content.len());
    }
}
