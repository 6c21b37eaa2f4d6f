//! Trajectories: the tool calls of a trace or session in order, with the rest of what is judged.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::tool_call::groups;
use super::{Content, Resource, Sender, SpanId, ToolCall, ToolDefinition, TraceId, WorkBudget};
use crate::otlp::AnyValue;
use crate::value::Value;

/// Cause that completed a trace.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Debug,
    PartialOrd,
    Ord,
    EnumString,
    IntoStaticStr,
    VariantNames,
)]
#[strum(serialize_all = "snake_case")]
pub enum Completion {
    /// Its root ended and nothing came for the quiet period.
    RootEnded,
    /// Nothing came for the idle timeout.
    Idle,
    /// It was open longer than the maximum age.
    AgeMax,
    /// The process shut down.
    Shutdown,
    /// A limit pushed it out.
    Evicted,
    /// The files it was read from ended.
    EndOfInput,
    /// Not complete: an early verdict that nothing still to come can change.
    Open,
}

impl Completion {
    /// Returns the word for it in records, attributes and counters.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Token counts, summed over the model calls of the trajectory; `None` if no span records them.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Usage {
    /// Calls of a language model: the innermost spans that record tokens.
    pub model_calls: Option<u64>,
    /// Tokens of the prompts, cached ones included.
    pub input_tokens: Option<u64>,
    /// Tokens of the replies.
    pub output_tokens: Option<u64>,
    /// Tokens of the prompts that came from a cache.
    pub cache_read_tokens: Option<u64>,
    /// Tokens of the prompts that were written to a cache.
    pub cache_write_tokens: Option<u64>,
    /// Tokens of the replies that were spent on reasoning.
    pub reasoning_tokens: Option<u64>,
}

/// Span of the trajectory with the attributes that an evaluator reads as they came.
pub struct KeptSpan<'a> {
    /// The span's id.
    pub span_id: SpanId,
    /// Start, Unix nanoseconds.
    pub start_ns: u64,
    /// End, Unix nanoseconds.
    pub end_ns: u64,
    /// The retained attributes that the span has, in the order of the span.
    pub attributes: Vec<(&'a str, AnyValue<'a>)>,
}

/// Answer and next input between two turns of a session.
pub struct Exchange<'a> {
    /// The answer that ended the earlier turn.
    pub answer: Content<'a>,
    /// The user's input that began the later one.
    pub user_input: Content<'a>,
}

/// List that is read on first use, since few evaluations need it.
pub struct Deferred<'a, T> {
    known: OnceCell<Vec<T>>,
    read: Option<ReadList<'a, T>>,
}

type ReadList<'a, T> = Box<dyn Fn(&WorkBudget) -> Vec<T> + Send + 'a>;

impl<T> Default for Deferred<'_, T> {
    fn default() -> Self {
        Self { known: OnceCell::new(), read: None }
    }
}

impl<'a, T> Deferred<'a, T> {
    /// Returns a list that `read` yields on first use.
    pub fn new(read: impl Fn(&WorkBudget) -> Vec<T> + Send + 'a) -> Self {
        Self { known: OnceCell::new(), read: Some(Box::new(read)) }
    }

    /// Returns a list that is read already.
    pub fn ready(list: Vec<T>) -> Self {
        Self { known: OnceCell::from(list), read: None }
    }

    /// Returns all of it; reading it is charged to the trace.
    pub fn get(&self, effort: &WorkBudget) -> &[T] {
        self.known.get_or_init(|| self.read.as_ref().map_or_else(Vec::new, |read| read(effort)))
    }
}

/// Results of calls of other traces by call id, read from the messages of a trace: only the traces
/// of a session need each other's.
pub type ForeignResults<'a> = Deferred<'a, (Cow<'a, str>, Value<'a>)>;

/// Origin of a text that an agent could have known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TextOrigin {
    /// The user, whose counts are meant.
    User,
    /// The operator: a text, whatever it holds. Objects in it are examples, nothing to add up.
    Operator,
    /// A tool, of which the objects are read.
    Tool,
}

/// Text or value that a model was given.
#[derive(Clone, Debug)]
pub struct HeardText<'a> {
    /// Start of the first span that was given it, or end of the first whose answer holds it, Unix
    /// nanoseconds.
    pub since_ns: u64,
    /// Author.
    pub origin: TextOrigin,
    /// Id of the call whose result it is; empty for words, and where none is known.
    pub id: Cow<'a, str>,
    /// The text; of a tool the value.
    pub value: Value<'a>,
}

/// Texts that models were given, each once in a trace: words of users and operators, and results of
/// calls, also of its own.
pub type HeardTexts<'a> = Deferred<'a, HeardText<'a>>;

/// Words of models while a run went on, each with the end of its span, Unix nanoseconds: the final
/// output is among them.
pub type Remarks<'a> = Deferred<'a, (u64, Value<'a>)>;

/// Tool calls of one trace or session in order, with the rest of what is judged.
#[derive(Default)]
pub struct Trajectory<'a> {
    /// The trace; of a session, its last.
    pub trace_id: TraceId,
    /// Sender of its first record.
    pub sender: Sender,
    /// The span that a trace-level evaluation is attached to: the root, or without one the earliest
    /// span without a known parent.
    pub span_id: SpanId,
    /// The name of that span.
    pub span_name: Cow<'a, str>,
    /// Its attributes, if an evaluator or a `when` reads them.
    pub attributes: Vec<(&'a str, AnyValue<'a>)>,
    /// The id of the model's reply that the span is about, if it is a model's.
    pub response_id: Option<Cow<'a, str>>,
    /// The resource of that span.
    pub resource: Arc<Resource>,
    /// The session of the spans, if they name one.
    pub session_id: Option<Cow<'a, str>>,
    /// The first agent entered.
    pub agent_name: Option<Cow<'a, str>>,
    /// Earliest start, Unix nanoseconds.
    pub start_ns: u64,
    /// Latest end, Unix nanoseconds.
    pub end_ns: u64,
    /// Of a session, the starts of its traces, in order, Unix nanoseconds; empty for a trace.
    pub turn_starts: Vec<u64>,
    /// Of a session, the trace of each turn and the span that its evaluations are attached to;
    /// empty for a trace.
    pub turn_roots: Vec<(TraceId, SpanId)>,
    /// Of a session, answer and next input where one turn went over into the next: one fewer than
    /// there are turns. The first input is [`user_input`](Self::user_input), the last answer
    /// [`final_output`](Self::final_output).
    pub exchanges: Vec<Exchange<'a>>,
    /// The calls in start order. Calls made together ([`ToolCall::group`]) have no order in time:
    /// they are listed by their content, so that the list never depends on arrival.
    pub tool_calls: Vec<ToolCall<'a>>,
    /// True if a model asked for tools, and no call is recorded.
    pub calls_missing: bool,
    /// Results of calls of other traces, as the messages of this one repeat them, by call id; only
    /// for a trace without tool spans.
    pub foreign_results: ForeignResults<'a>,
    /// The user's input.
    pub user_input: Content<'a>,
    /// The agent's answer.
    pub final_output: Content<'a>,
    /// Words of models on the way to it; of a session, a list for each turn.
    pub remarks: Vec<Remarks<'a>>,
    /// Texts that models were given; of a session, a list for each turn. Empty unless an evaluator
    /// asks for them.
    pub heard: Vec<HeardTexts<'a>>,
    /// The tools that the agent was offered.
    pub tool_definitions: Vec<ToolDefinition<'a>>,
    /// Tokens.
    pub usage: Usage,
    /// Cost in US dollars.
    pub cost: Option<f64>,
    /// The model named last.
    pub model: Option<Cow<'a, str>>,
    /// Spans with attributes that an evaluator reads as they came
    /// ([`Facts::attributes`](super::Facts)), in order of their ends; at one instant, inner spans
    /// before outer ones.
    pub kept_spans: Vec<KeptSpan<'a>>,
    /// All spans in order of start, each encoded as [`span_parts`](super::span_parts) reads it;
    /// empty unless an expression reads them.
    pub spans: Vec<&'a [u8]>,
    /// Bytes of the records that it was read from, without [`spans`](Self::spans).
    pub bytes: usize,
    /// Remaining work budget of judging it; reading it is charged already.
    pub effort: WorkBudget,
}

impl<'a> Trajectory<'a> {
    /// Returns the calls of each turn of a session: a group of calls belongs to the turn that began
    /// last before it. Nothing for a trace.
    pub fn calls_by_turn(&self) -> impl ExactSizeIterator<Item = &[ToolCall<'a>]> {
        let mut groups = groups(&self.tool_calls).peekable();
        let mut from = 0;
        let mut to = 0;
        let mut ends = Vec::with_capacity(self.turn_starts.len());
        for next_start in self.turn_starts.iter().skip(1) {
            let is_before = |group: &&[ToolCall<'_>]| {
                group.first().is_some_and(|call| call.start_ns < *next_start)
            };
            while let Some(group) = groups.next_if(is_before) {
                to += group.len();
            }
            ends.push(to);
        }
        ends.extend((!self.turn_starts.is_empty()).then_some(self.tool_calls.len()));
        ends.into_iter().map(move |end| {
            let calls = &self.tool_calls[from..end];
            from = end;
            calls
        })
    }

    /// Returns `service.name` of the resource; empty if there is none.
    pub fn service_name(&self) -> &str {
        &self.resource.service_name
    }
}
