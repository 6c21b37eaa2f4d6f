//! Record of a trajectory: its facts as numbered lines, in the order in which they became known.
//!
//! It owns its data to wait in a queue. A result has a larger `seq` than every call that could not
//! know it. Nothing is cut or redacted here.

use std::collections::VecDeque;
use strum::IntoStaticStr;

use super::operator;
use super::settings::{Send, SendSettings};
use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{Content, SpanId, ToolCall, Trajectory};
use spanscore_base::value::{Map, Value};

/// Limit on the bytes of telemetry in a record.
pub(super) const EVIDENCE_BYTES_MAX: usize = 8 << 20;

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum LineKind {
    /// System instructions of the agent.
    Operator,
    /// Definition of a tool.
    Tool,
    /// Criterion of the evaluator, if the trace provided it or many statements use it.
    Criterion,
    /// Input of the user.
    User,
    /// Step of the agent's plan.
    Plan,
    /// Call of a tool.
    Call,
    /// Result of a call.
    Result,
    /// Answer of the agent.
    Answer,
}

impl LineKind {
    /// Returns its word in the record.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the key of its content.
    pub(super) fn content_key(self) -> &'static str {
        match self {
            Self::Call => "arguments",
            Self::Result => "value",
            _ => "text",
        }
    }
}

/// Content of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum LineContent {
    /// Whole content.
    Whole(Value<'static>),
    /// Part of a content truncated in the telemetry.
    Part(Value<'static>),
    /// Content that exists but is not shown.
    Unknown,
}

impl LineContent {
    /// Returns the value, whole or in part.
    pub fn value(&self) -> Option<&Value<'static>> {
        match self {
            Self::Whole(value) | Self::Part(value) => Some(value),
            Self::Unknown => None,
        }
    }

    pub(super) fn value_mut(&mut self) -> Option<&mut Value<'static>> {
        match self {
            Self::Whole(value) | Self::Part(value) => Some(value),
            Self::Unknown => None,
        }
    }
}

/// Line of the record.
#[derive(Clone, Debug)]
pub struct RecordLine {
    /// Position in time, from 1.
    pub seq: u64,
    /// Kind of line.
    pub kind: LineKind,
    /// Tool of a call or a definition.
    pub tool: Option<String>,
    /// `seq` of the call, for a result.
    pub of: Option<u64>,
    /// Status of the call, for a result.
    pub status: Option<&'static str>,
    /// Content of the line.
    pub content: LineContent,
    /// Schema of a definition.
    pub schema: Option<Value<'static>>,
    /// Agent that made the call.
    pub agent: Option<String>,
    /// Turn of a session, from 1.
    pub turn: Option<usize>,
    /// Permission to send the fact.
    pub(super) send: Send,
}

/// Call of the trajectory with its lines in the record.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    /// `seq` of its line.
    pub seq: u64,
    /// Span of the call.
    pub span_id: SpanId,
    /// Index of its line.
    pub line: usize,
    /// Index of the line of its result.
    pub result: Option<usize>,
}

/// Record of one trajectory.
#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    /// Lines in order.
    pub lines: Vec<RecordLine>,
    /// Calls in the order of the trajectory.
    pub calls: Vec<RecordedCall>,
    /// Identity of the trajectory, for the mark.
    pub(super) identity: Vec<u8>,
}

/// Parts requested by a kind as separate lines.
#[derive(Clone, Debug, Default)]
pub struct RecordWishes {
    /// Final output in parts, such as its sentences; one line if absent.
    pub answer_parts: Option<Vec<String>>,
    /// Steps of the plan.
    pub plan: Vec<String>,
}

impl RunRecord {
    /// Builds the record of a trajectory.
    pub(crate) fn of(
        trajectory: &Trajectory<'_>,
        send: &SendSettings,
        wishes: RecordWishes,
    ) -> Self {
        let mut record = Self::begun(trajectory, send);
        for tool in &trajectory.tool_definitions {
            record.push_definition(&tool.name, &tool.description, &tool.input_schema, send);
        }
        record.push(LineKind::User, said(&trajectory.user_input), send.user_input);
        for step in wishes.plan {
            record.push(LineKind::Plan, LineContent::Whole(Value::from(step)), Send::Redacted);
        }
        let turns: Vec<&[ToolCall<'_>]> = if trajectory.exchanges.is_empty() {
            vec![&trajectory.tool_calls]
        } else {
            trajectory.calls_by_turn().collect()
        };
        let mut exchanges = trajectory.exchanges.iter();
        let mut from = 0;
        for calls in turns {
            record.push_calls(calls, send);
            record.number_turn(&mut from, !trajectory.exchanges.is_empty());
            if let Some(exchange) = exchanges.next() {
                record.push(LineKind::Answer, said(&exchange.answer), send.final_output);
                record.number_turn(&mut from, true);
                record.push(LineKind::User, said(&exchange.user_input), send.user_input);
            }
        }
        record.push_answer(trajectory, send, wishes.answer_parts);
        record.number_turn(&mut from, !trajectory.exchanges.is_empty());
        record
    }

    /// Starts a record with the operator's instructions.
    fn begun(trajectory: &Trajectory<'_>, send: &SendSettings) -> Self {
        let mut record = Self { identity: identity(trajectory), ..Self::default() };
        for (_, text) in operator::texts(trajectory) {
            let text = LineContent::Whole(Value::from(text));
            record.push(LineKind::Operator, text, send.system_instructions);
        }
        record
    }

    /// Builds a record of the operator's instructions and the request, to which a kind adds its own
    /// lines.
    pub(crate) fn of_request(trajectory: &Trajectory<'_>, send: &SendSettings) -> Self {
        let mut record = Self::begun(trajectory, send);
        record.push(LineKind::User, said(&trajectory.user_input), send.user_input);
        record
    }

    /// Builds a record of definitions only: their seq is their number, from 1.
    pub(crate) fn of_definitions<'d>(
        definitions: impl Iterator<Item = (&'d str, &'d str, &'d Value<'d>)>,
        send: &SendSettings,
    ) -> Self {
        let mut record = Self::default();
        for (name, description, schema) in definitions {
            record.push_definition(name, description, schema, send);
            record.identity.extend(name.as_bytes());
        }
        record
    }

    /// Adds a criterion; returns its seq.
    pub(crate) fn push_criterion(&mut self, criterion: &str) -> u64 {
        self.push_whole(LineKind::Criterion, Value::from(criterion.to_owned()), Send::Redacted)
    }

    /// Adds a complete content; returns its seq.
    pub(crate) fn push_whole(
        &mut self,
        kind: LineKind,
        content: Value<'static>,
        send: Send,
    ) -> u64 {
        self.push(kind, LineContent::Whole(content), send).seq
    }

    /// Adds the answer of the agent; returns its seq.
    pub(crate) fn push_final_output(
        &mut self,
        trajectory: &Trajectory<'_>,
        send: &SendSettings,
    ) -> u64 {
        self.push(LineKind::Answer, said(&trajectory.final_output), send.final_output).seq
    }

    fn push_definition(
        &mut self,
        name: &str,
        description: &str,
        schema: &Value<'_>,
        send: &SendSettings,
    ) {
        let description = LineContent::Whole(Value::from(description.to_owned()));
        let line = self.push(LineKind::Tool, description, send.tool_definitions);
        line.tool = Some(name.to_owned());
        let is_shown = !schema.is_null() && send.tool_definitions != Send::NamesOnly;
        line.schema = is_shown.then(|| schema.clone().into_owned());
    }

    fn push(&mut self, kind: LineKind, content: LineContent, send: Send) -> &mut RecordLine {
        let content = if send == Send::NamesOnly { LineContent::Unknown } else { content };
        let at = self.lines.len();
        self.lines.push(RecordLine {
            seq: at as u64 + 1,
            kind,
            tool: None,
            of: None,
            status: None,
            content,
            schema: None,
            agent: None,
            turn: None,
            send,
        });
        &mut self.lines[at]
    }

    /// Sets the turn of the lines from `from` on to that of the last answer; lines of operator and
    /// tools have none.
    fn number_turn(&mut self, from: &mut usize, is_session: bool) {
        let answers =
            self.lines[..*from].iter().filter(|line| line.kind == LineKind::Answer).count();
        for line in self.lines[*from..].iter_mut().filter(|_| is_session) {
            if !matches!(line.kind, LineKind::Operator | LineKind::Tool) {
                line.turn = Some(answers + 1);
            }
        }
        *from = self.lines.len();
    }

    /// Adds calls by group; a result precedes the first group that could know it.
    fn push_calls(&mut self, calls: &[ToolCall<'_>], send: &SendSettings) {
        let mut waiting: VecDeque<(&ToolCall<'_>, usize)> = VecDeque::new();
        for group in groups(calls) {
            let start_ns = group.iter().map(|call| call.start_ns).min().unwrap_or(0);
            let (known, open): (Vec<_>, Vec<_>) = waiting
                .drain(..)
                .partition(|(call, _)| call.end_ns == 0 || call.end_ns <= start_ns);
            waiting.extend(open);
            known.into_iter().for_each(|(call, at)| self.push_result(call, at, send));
            for call in group {
                let line = self.lines.len();
                let pushed = self.push(LineKind::Call, said(&call.arguments), send.arguments);
                pushed.tool = Some(call.name.to_string());
                pushed.agent = call.agent.as_ref().map(ToString::to_string);
                let seq = pushed.seq;
                self.calls.push(RecordedCall { seq, span_id: call.span_id, line, result: None });
                waiting.push_back((call, self.calls.len() - 1));
            }
        }
        waiting.into_iter().for_each(|(call, at)| self.push_result(call, at, send));
    }

    fn push_result(&mut self, call: &ToolCall<'_>, at: usize, send: &SendSettings) {
        let of = self.calls[at].seq;
        self.calls[at].result = Some(self.lines.len());
        let line = self.push(LineKind::Result, returned(call), send.results);
        line.of = Some(of);
        line.status = Some(call.status.as_str());
    }

    fn push_answer(
        &mut self,
        trajectory: &Trajectory<'_>,
        send: &SendSettings,
        parts: Option<Vec<String>>,
    ) {
        match parts {
            Some(parts) => parts.into_iter().for_each(|part| {
                let part = LineContent::Whole(Value::from(part));
                self.push(LineKind::Answer, part, send.final_output);
            }),
            None => {
                self.push_final_output(trajectory, send);
            }
        }
    }

    /// Returns the lines of one kind.
    pub fn of_kind(&self, kind: LineKind) -> impl Iterator<Item = &RecordLine> {
        self.lines.iter().filter(move |line| line.kind == kind)
    }

    /// Estimates the bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        let line = |line: &RecordLine| {
            let content = line.content.value().map_or(0, held);
            size_of::<RecordLine>() + content + line.schema.as_ref().map_or(0, held)
        };
        self.lines.iter().map(line).sum::<usize>() + size_of_val(&*self.calls)
    }
}

/// Estimates the bytes of a value in memory.
fn held(value: &Value<'_>) -> usize {
    let inner = match value {
        Value::String(text) => text.len(),
        Value::List(list) => list.iter().map(held).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| key.len() + 24 + held(value)).sum(),
        _ => 0,
    };
    size_of::<Value<'_>>() + inner
}

/// Returns bytes that identify the trajectory, equal for all kinds.
fn identity(trajectory: &Trajectory<'_>) -> Vec<u8> {
    let mut bytes = trajectory.trace_id.0.to_vec();
    bytes.extend(trajectory.span_id.0);
    bytes.extend(trajectory.end_ns.to_be_bytes());
    trajectory.tool_calls.iter().for_each(|call| bytes.extend(call.span_id.0));
    bytes
}

fn said(content: &Content<'_>) -> LineContent {
    match content {
        Content::Recorded(lazy) => LineContent::Whole(lazy.get().clone().into_owned()),
        Content::Unreadable(text) => LineContent::Part(Value::from(text.to_string())),
        Content::NotRecorded | Content::Redacted => LineContent::Unknown,
    }
}

/// Returns the content returned by a call: its result, its error, or both.
fn returned(call: &ToolCall<'_>) -> LineContent {
    let error = call.error.as_ref().map(|error| Value::from(error.to_string()));
    match (said(&call.result), error) {
        (LineContent::Unknown, Some(error)) => LineContent::Whole(error),
        (LineContent::Whole(Value::Null), Some(error)) => LineContent::Whole(error),
        (result, None) => result,
        (LineContent::Whole(result), Some(error)) if result == error => LineContent::Whole(result),
        (result, Some(error)) => {
            let is_part = matches!(result, LineContent::Part(_));
            let value = result.value().cloned().unwrap_or_default();
            let both = Value::Map(Map::from([("error", error), ("result", value)]));
            if is_part { LineContent::Part(both) } else { LineContent::Whole(both) }
        }
    }
}
