//! The calls that models asked for in their answers, and which of them no span tells of.
//!
//! A model's output is read once, and only where it may hold a call.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashMap;

use super::super::decode::{Decoded, MessageCall, Messages};
use super::super::unknown_tool;
use super::gather::{FoundValue, Gathered, ModelOutput};
use super::join::weight;
use super::plan::ReadingPlan;
use super::read::{self, Raw};
use super::tool_calls::SpanCall;
use super::tree::Tree;
use crate::model::{CallStatus, Content, Effort, Origin, SpanFlags, ToolCall};
use crate::value::Value;

/// How many calls of one answer are compared with a call without an id.
const WINDOW: usize = 64;

/// How many spans around a model's are asked whether the tool is unknown.
const AROUND_MAX: usize = 4;

/// Steps to read one byte of messages: each object is asked for the keys of every shape.
const STEPS_PER_BYTE: usize = 2;

/// A call that a model asked for.
pub(super) struct LlmCall<'a> {
    pub(super) call: MessageCall<'a>,
    /// Place of the model's span.
    pub(super) span: u32,
    /// When the model had answered, Unix nanoseconds.
    pub(super) time_ns: u64,
    /// The source that gave it.
    source: u16,
    /// The dialect that read it.
    pub(super) dialect: u16,
    /// A span tells of it too.
    pub(super) on_span: bool,
    /// Its arguments, once a span has taken them.
    shared: Option<Arc<Value<'a>>>,
    /// The message that asked for it.
    pub(super) asked: Asked,
    /// Only the history of a request tells of it, whose model was not the one that asked.
    pub(super) is_repeated: bool,
    /// What it stands for, once that is decided.
    pub(super) role: RequestedAs,
}

/// The place of a call in the messages of models.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// Place among the calls that models asked for; `u32::MAX` where no message tells of it.
    pub(super) order: u32,
    /// Number of the message; `u32::MAX` where none tells of it.
    pub(super) message: u32,
    /// When the model had answered, Unix nanoseconds; 0 where that is not known.
    pub(super) time_ns: u64,
    /// Which of several messages of a model it is, where they stand in one list.
    pub(super) part: u32,
}

impl Default for Asked {
    fn default() -> Self {
        Self { order: u32::MAX, message: u32::MAX, time_ns: 0, part: 0 }
    }
}

impl<'a> LlmCall<'a> {
    pub(super) fn new(plan: &ReadingPlan, call: MessageCall<'a>, found: &FoundValue<'a>) -> Self {
        Self::of(dialect_of(plan, found), call, (found.span, found.end_ns, found.source))
    }

    fn of(dialect: u16, call: MessageCall<'a>, place: (u32, u64, u16)) -> Self {
        let (span, time_ns, source) = place;
        let asked = Asked::default();
        let role = RequestedAs::Call;
        let on_span = false;
        let shared = None;
        let is_repeated = false;
        Self { call, span, time_ns, source, dialect, on_span, shared, asked, is_repeated, role }
    }

    /// Its arguments, if they are an object, for spans that lack them: as many as have its id, so
    /// all of them share one copy.
    pub(super) fn shared_arguments(&mut self) -> Option<Arc<Value<'a>>> {
        let Decoded::Value(value @ Value::Map(_)) = &self.call.arguments else { return None };
        Some(Arc::clone(self.shared.get_or_insert_with(|| Arc::new(value.clone()))))
    }

    /// Whether a later answer gives the same id to another call: some instrumentations number the
    /// calls of each message where the model gives no ids.
    fn is_other(&self, call: &MessageCall<'a>, span: u32, time_ns: u64) -> bool {
        let both_read = |one: &Decoded<'_>, other: &Decoded<'_>| {
            matches!((one, other), (Decoded::Value(Value::Map(_)), Decoded::Value(Value::Map(_))))
        };
        self.span != span
            && self.time_ns < time_ns
            && (self.call.name != call.name
                || both_read(&self.call.arguments, &call.arguments)
                    && self.call.arguments != call.arguments)
    }

    /// The call as one that only messages tell of.
    pub(super) fn into_tool_call(self, plan: &'a ReadingPlan, tree: &Tree<'a>) -> ToolCall<'a> {
        let dialect = plan.dialects.get(usize::from(self.dialect));
        let arguments = match self.call.arguments {
            Decoded::Value(Value::Null) => Content::NotRecorded,
            Decoded::Value(value) => Content::ready(value),
            Decoded::Unreadable(text) => Content::Unreadable(text),
        };
        ToolCall {
            name: self.call.name,
            id: self.call.id.or(self.call.item_id),
            arguments,
            origin: Origin::Llm,
            is_repeated: self.is_repeated,
            status: CallStatus::Unknown,
            span_id: tree.get(self.span).map_or_else(Default::default, |it| it.record.span_id),
            dialect: dialect.map_or("", |dialect| &dialect.name),
            start_ns: self.time_ns,
            ..ToolCall::default()
        }
    }
}

/// Fails a call that nothing tells of but a failed span around the model's, which says that there
/// is no tool of its name.
pub(super) fn fail_if_unknown<'a>(tree: &Tree<'a>, span: u32, call: &mut ToolCall<'a>) {
    let around = |at: &u32| tree.get(*at).map(|span| span.parent);
    for span in std::iter::successors(Some(span), around).take(AROUND_MAX) {
        let Some(span) = tree.get(span) else { return };
        let message = span.facts.status_message();
        if span.record.flags.has(SpanFlags::ERROR)
            && unknown_tool::is_told(message.as_bytes())
            && unknown_tool::is_named(message, &call.name)
        {
            call.status = CallStatus::Error;
            call.error = Some(Cow::Borrowed(message));
            return;
        }
    }
}

/// The dialect whose source found it.
fn dialect_of(plan: &ReadingPlan, found: &FoundValue<'_>) -> u16 {
    plan.sources.get(usize::from(found.source)).map_or(u16::MAX, |source| source.dialect)
}

/// What the request for a call in a model's message stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestedAs {
    /// A call that no span tells of.
    Call,
    /// A call that is on a span.
    OnSpan,
    /// A handoff to another agent.
    Handoff,
    /// One more mention of a tool whose calls are on spans.
    HasSpans,
}

/// Decides what each request stands for. One for a tool that has spans is a call of its own if it
/// has an id that no span has, and all spans of the tool are those of other requests.
pub(super) fn decide(requested: &mut [LlmCall<'_>], calls: &[SpanCall<'_>], handoff: bool) {
    let mut free: HashMap<&str, usize> = HashMap::new();
    if requested.iter().any(|call| !call.on_span) {
        for call in calls.iter().filter(|call| call.part_of.is_none()) {
            *free.entry(&call.call.name).or_default() += usize::from(!call.joined);
        }
    }
    for request in requested {
        let spans = free.get_mut(&*request.call.name);
        request.role = match spans {
            _ if request.on_span => RequestedAs::OnSpan,
            _ if handoff && request.call.name.starts_with("transfer_to_") => RequestedAs::Handoff,
            None => RequestedAs::Call,
            Some(0) if request.call.id.is_some() => RequestedAs::Call,
            Some(count) => {
                *count = count.saturating_sub(1);
                RequestedAs::HasSpans
            }
        };
    }
}

/// The calls that models asked for, in the order of their answers; each id once.
pub(super) fn requested<'a>(
    plan: &'a ReadingPlan,
    gathered: &mut Gathered<'a>,
    effort: &Effort,
) -> Vec<LlmCall<'a>> {
    let mut outputs = std::mem::take(&mut gathered.model_outputs);
    outputs.retain(|output| output.calls.is_some() || may_hold_call(plan, &output.found));
    outputs.sort_by_key(|ModelOutput { found, .. }| (found.end_ns, found.start_ns, found.source));
    let mut calls: Vec<LlmCall<'a>> = Vec::new();
    let mut places: HashMap<Cow<'a, str>, usize> = HashMap::new();
    let mut message = 0;
    let mut last = None;
    let is_guess = |source: u16| {
        plan.sources.get(usize::from(source)).is_some_and(|source| source.source.fallback)
    };
    for ModelOutput { found, calls: known } in outputs {
        let span = found.span;
        let start_ns = found.start_ns;
        let time_ns = found.end_ns;
        let source = found.source;
        let dialect = dialect_of(plan, &found);
        let read = || answered(plan, found, &mut gathered.model_inputs, effort);
        let (answered, begins) = known.map_or_else(read, |calls| (calls, Vec::new()));
        for (at, call) in answered.into_iter().enumerate() {
            if let Some(known) = says_again(&mut calls, (span, source), &call, effort) {
                // An outer span may tell of it once more, by the id that it now has.
                if let Some(id) = call.id {
                    places.entry(id).or_insert(known);
                }
                continue;
            }
            let key = (span, start_ns, call.turn);
            let part = begins.partition_point(|begin| *begin <= at) as u32;
            let mut number = || {
                message += u32::from(last.replace(key) != Some(key));
                message
            };
            if let Some(id) = call.id.as_ref().or(call.item_id.as_ref()) {
                let other = places.get(id).and_then(|at| calls.get_mut(*at));
                if let Some(other) = other.filter(|other| !other.is_other(&call, span, time_ns)) {
                    // What is known to be a message tells better what it holds than a guess.
                    if is_guess(other.source) && !is_guess(source) {
                        let asked = Asked { message: number(), time_ns, part, ..other.asked };
                        (other.asked, other.source) = (asked, source);
                    }
                    continue;
                }
                places.insert(id.clone(), calls.len());
            } else if calls.iter().rev().take(WINDOW).any(|known| {
                known.span != span
                    && known.time_ns == time_ns
                    && known.call.name == call.name
                    && effort.spend(weight(&call.arguments))
                    && known.call == call
            }) {
                // The same answer on two spans, one inside the other.
                continue;
            }
            let asked = Asked { order: calls.len() as u32, message: number(), time_ns, part };
            calls.push(LlmCall { asked, ..LlmCall::of(dialect, call, (span, time_ns, source)) });
        }
    }
    calls
}

/// The calls that a model asked for in an answer, and how many stand before each message. What is
/// only guessed to be one and holds what users or tools said is a history, and goes to the inputs.
fn answered<'a>(
    plan: &'a ReadingPlan,
    found: FoundValue<'a>,
    inputs: &mut Vec<FoundValue<'a>>,
    effort: &Effort,
) -> (Vec<MessageCall<'a>>, Vec<usize>) {
    let is_guessed = found.is_fallback(plan);
    let read = read_messages(plan, found.clone(), effort);
    let Some(messages) = read else { return Default::default() };
    let has_results = !messages.results.is_empty();
    if is_guessed && (messages.user.is_some() || has_results) {
        inputs.push(found);
        return Default::default();
    }
    // What ran where the model does, or in its library, stands in the answer with its results.
    if has_results {
        inputs.push(found);
    }
    (messages.calls, messages.begins)
}

/// The place of the same call of the same model call that another source has given, which takes
/// what it lacks.
fn says_again<'a>(
    calls: &mut [LlmCall<'a>],
    (span, source): (u32, u16),
    call: &MessageCall<'a>,
    effort: &Effort,
) -> Option<usize> {
    let is_same = |known: &LlmCall<'a>| {
        known.span == span
            && known.source != source
            && known.call.name == call.name
            && match (&known.call.id, &call.id) {
                (Some(id), Some(other)) => id == other,
                _ => {
                    effort.spend(weight(&call.arguments)) && known.call.arguments == call.arguments
                }
            }
    };
    let near = calls.len().saturating_sub(WINDOW);
    let place = near + calls[near..].iter().position(is_same)?;
    let known = calls.get_mut(place)?;
    if known.call.id.is_none() {
        known.call.id.clone_from(&call.id);
    }
    if known.call.arguments == Decoded::Value(Value::Null) {
        known.call.arguments.clone_from(&call.arguments);
    }
    Some(place)
}

/// Whether a text may hold a tool call, or its result: every shape of one has one of these words,
/// but for the message of which only its event says that it is a tool's.
pub(super) fn may_hold_call(plan: &ReadingPlan, found: &FoundValue<'_>) -> bool {
    let Raw::Any(value) = &found.raw else { return true };
    let Some(text) = value.as_str() else { return true };
    let source = plan.sources.get(usize::from(found.source));
    if source.is_some_and(|source| source.source.decode.is_of_tools()) {
        return true;
    }
    ["tool", "function", "Tool"]
        .iter()
        .any(|word| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some())
}

pub(super) fn read_messages<'a>(
    plan: &'a ReadingPlan,
    found: FoundValue<'a>,
    effort: &Effort,
) -> Option<Messages<'a>> {
    let bytes = found.raw.as_str().map_or(0, str::len);
    if !effort.spend(1 + bytes * STEPS_PER_BYTE) {
        return None;
    }
    let source = plan.sources.get(usize::from(found.source))?;
    match read::decoded(&source.source, found.raw)? {
        Decoded::Value(value) => Some(Messages::read(value)),
        Decoded::Unreadable(_) => None,
    }
}
