//! Trajectories: the tool calls of a trace or session in order, with all other data for evaluators.

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
    /// Its root ended and the quiet period passed without a span.
    RootEnded,
    /// The idle timeout passed without a span.
    Idle,
    /// It was open longer than the maximum age.
    AgeMax,
    /// The process shut down.
    Shutdown,
    /// A limit evicted it.
    Evicted,
    /// The files it was read from ended.
    EndOfInput,
    /// Not complete: an early verdict that no further span can change.
    Open,
}

impl Completion {
    /// Returns its name in records, attributes and counters.
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

/// Limit on the models of a trajectory; of more the first named go.
pub const MODELS_MAX: usize = 8;

/// Span of the trajectory with its raw attributes for an evaluator.
pub struct KeptSpan<'a> {
    /// The span's id.
    pub span_id: SpanId,
    /// Start, Unix nanoseconds.
    pub start_ns: u64,
    /// End, Unix nanoseconds.
    pub end_ns: u64,
    /// The retained attributes of the span, in its order.
    pub attributes: Vec<(&'a str, AnyValue<'a>)>,
}

/// Boundary of two turns of a session: an answer and the next input.
pub struct Exchange<'a> {
    /// The answer that ended the earlier turn.
    pub answer: Content<'a>,
    /// The user's input that began the later turn.
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
    /// Returns a list that `read` produces on first use.
    pub fn new(read: impl Fn(&WorkBudget) -> Vec<T> + Send + 'a) -> Self {
        Self { known: OnceCell::new(), read: Some(Box::new(read)) }
    }

    /// Returns a list that is already read.
    pub fn ready(list: Vec<T>) -> Self {
        Self { known: OnceCell::from(list), read: None }
    }

    /// Returns the whole list; reading is charged to the trace.
    pub fn get(&self, effort: &WorkBudget) -> &[T] {
        self.known.get_or_init(|| self.read.as_ref().map_or_else(Vec::new, |read| read(effort)))
    }
}

/// Results of calls of other traces by call id, from the messages of a trace. Only traces of a
/// session need them.
pub type ForeignResults<'a> = Deferred<'a, (Cow<'a, str>, Value<'a>)>;

/// Source of a text that was available to an agent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TextOrigin {
    /// The user: counts in the text are meant, and so are known numbers.
    User,
    /// The operator: only a text. Objects in it are examples, so they are not parsed or added up.
    Operator,
    /// A tool, whose objects are parsed.
    Tool,
}

/// Text or value that was given to a model.
#[derive(Clone, Debug)]
pub struct HeardText<'a> {
    /// Start of the first span that received it, or end of the first whose answer holds it, Unix
    /// nanoseconds.
    pub since_ns: u64,
    /// Author.
    pub origin: TextOrigin,
    /// Call id of a result; empty for other texts, and if unknown.
    pub id: Cow<'a, str>,
    /// The text, or a tool's value.
    pub value: Value<'a>,
}

/// Texts given to models, once each per trace: words of users and operators, and results of calls,
/// including its own.
pub type HeardTexts<'a> = Deferred<'a, HeardText<'a>>;

/// Model texts during a run, each with the end of its span in Unix nanoseconds, including the final
/// output.
pub type Remarks<'a> = Deferred<'a, (u64, Value<'a>)>;

/// Tool calls of one trace or session in order, with all other data for evaluators.
#[derive(Default)]
pub struct Trajectory<'a> {
    /// The trace; for a session its last one.
    pub trace_id: TraceId,
    /// Sender of its first record.
    pub sender: Sender,
    /// The span that a trace-level evaluation is attached to: the root, or without one the earliest
    /// span without a known parent.
    pub span_id: SpanId,
    /// The name of that span.
    pub span_name: Cow<'a, str>,
    /// Its attributes, if an evaluator or a `when` uses them.
    pub attributes: Vec<(&'a str, AnyValue<'a>)>,
    /// Id of the model reply that a model span describes.
    pub response_id: Option<Cow<'a, str>>,
    /// The resource of that span.
    pub resource: Arc<Resource>,
    /// The session id on the spans, if any.
    pub session_id: Option<Cow<'a, str>>,
    /// The id of the user on the spans, if any.
    pub user_id: Option<Cow<'a, str>>,
    /// The first entered agent.
    pub agent_name: Option<Cow<'a, str>>,
    /// Earliest start, Unix nanoseconds.
    pub start_ns: u64,
    /// Latest end, Unix nanoseconds.
    pub end_ns: u64,
    /// Starts of a session's traces, in order, Unix nanoseconds; empty for a trace.
    pub turn_starts: Vec<u64>,
    /// For each turn of a session, its trace and the span for its evaluations; empty for a trace.
    pub turn_roots: Vec<(TraceId, SpanId)>,
    /// Answer and next input at each boundary of a session's turns: one fewer than there are turns.
    /// The first input is [`user_input`](Self::user_input), the last answer
    /// [`final_output`](Self::final_output).
    pub exchanges: Vec<Exchange<'a>>,
    /// The calls in start order. Parallel calls ([`ToolCall::group`]) have no order in time and are
    /// listed by content, so the list never depends on arrival.
    pub tool_calls: Vec<ToolCall<'a>>,
    /// True if a model requested tools but no call is recorded.
    pub calls_missing: bool,
    /// Results of other traces' calls that this one's messages repeat, by call id; only for a trace
    /// without tool spans.
    pub foreign_results: ForeignResults<'a>,
    /// The user's input.
    pub user_input: Content<'a>,
    /// The agent's answer.
    pub final_output: Content<'a>,
    /// Model texts before the final output; for a session, a list for each turn.
    pub remarks: Vec<Remarks<'a>>,
    /// Texts given to models; for a session, a list for each turn. Empty unless an evaluator uses
    /// them.
    pub heard: Vec<HeardTexts<'a>>,
    /// The tools that the agent was offered.
    pub tool_definitions: Vec<ToolDefinition<'a>>,
    /// Token counts.
    pub usage: Usage,
    /// Cost in US dollars.
    pub cost: Option<f64>,
    /// The models that spans name, in the order of their last naming.
    pub models: Vec<Cow<'a, str>>,
    /// Spans with raw attributes for an evaluator ([`Facts::attributes`](super::Facts)), by end
    /// time; at one instant, inner spans before outer ones.
    pub kept_spans: Vec<KeptSpan<'a>>,
    /// All spans by start, each encoded as [`span_parts`](super::span_parts) reads it; empty unless
    /// an expression uses them.
    pub spans: Vec<&'a [u8]>,
    /// Bytes of its records, without [`spans`](Self::spans).
    pub bytes: usize,
    /// Remaining work budget of judging it, after the cost of reading.
    pub effort: WorkBudget,
}

impl<'a> Trajectory<'a> {
    /// Returns the calls of each turn of a session: a group belongs to the last turn that began
    /// before it. Empty for a trace.
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

    /// Adds a model that is named after all others.
    pub fn add_model(&mut self, model: Cow<'a, str>) {
        self.models.retain(|known| *known != model);
        self.models.push(model);
        let excess = self.models.len().saturating_sub(MODELS_MAX);
        self.models.drain(..excess);
    }

    /// Returns `service.name` of the resource; empty if absent.
    pub fn service_name(&self) -> &str {
        &self.resource.service_name
    }
}
