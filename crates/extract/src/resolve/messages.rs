//! Calls requested in models' answers, and the decision which of them are on no span.
//!
//! A model's output is read once, and only if it may contain a call.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashMap;
use smart_default::SmartDefault;

use super::super::decode::{Decoded, MessageCall, Messages};
use super::super::unknown_tool;
use super::gather::{FoundValue, Gathered, ModelOutput};
use super::join::weight;
use super::plan::ReadingPlan;
use super::read::{self, Raw};
use super::tool_calls::SpanCall;
use super::tree::Tree;
use spanscore_base::model::{CallStatus, Content, Origin, SpanFlags, ToolCall, WorkBudget};
use spanscore_base::value::Value;

/// Limit on calls of one answer compared with a call without an id.
const WINDOW: usize = 64;

/// Limit on spans around a model's that are searched for a message about an unknown tool.
const AROUND_MAX: usize = 4;

/// Steps per byte of messages: each object is compared with the keys of every shape.
const STEPS_PER_BYTE: usize = 2;

/// Call requested by a model.
pub(super) struct LlmCall<'a> {
    pub(super) call: MessageCall<'a>,
    /// Index of the model's span.
    pub(super) span: u32,
    /// Time of the model's answer, Unix nanoseconds.
    pub(super) time_ns: u64,
    /// Source that found it.
    source: u16,
    /// Dialect that read it.
    pub(super) dialect: u16,
    /// True if it is also on a span.
    pub(super) on_span: bool,
    /// Arguments shared with spans.
    shared: Option<Arc<Value<'a>>>,
    /// Message with the request.
    pub(super) asked: Asked,
    /// True if it is known only from a request's history, whose model is not the one that requested
    /// it.
    pub(super) is_repeated: bool,
    /// True if a later request repeats it with the same id.
    pub(super) is_asked_again: bool,
    /// Verdict on the request once decided.
    pub(super) role: RequestedAs,
}

/// Position of a call in the messages of models.
#[derive(Clone, Copy, SmartDefault)]
pub(super) struct Asked {
    /// Index among the calls requested by models; `u32::MAX` if in no message.
    #[default(u32::MAX)]
    pub(super) order: u32,
    /// Number of the message; `u32::MAX` if in none.
    #[default(u32::MAX)]
    pub(super) message: u32,
    /// Time of the model's answer, Unix nanoseconds; 0 if unknown.
    pub(super) time_ns: u64,
    /// Start of the message's record, Unix nanoseconds; 0 if unknown.
    pub(super) begin_ns: u64,
    /// Index of the model's parent span; `u32::MAX` if unknown.
    #[default(u32::MAX)]
    pub(super) run: u32,
    /// Number of the message within one list of several messages of a model.
    pub(super) part: u32,
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
        Self {
            call,
            span,
            time_ns,
            source,
            dialect,
            on_span,
            shared,
            asked,
            is_repeated: false,
            is_asked_again: false,
            role,
        }
    }

    /// Returns its arguments, if an object, for spans without any: any number of spans may have its
    /// id, so that they share one copy.
    pub(super) fn shared_arguments(&mut self) -> Option<Arc<Value<'a>>> {
        let Decoded::Value(value @ Value::Map(_)) = &self.call.arguments else { return None };
        Some(Arc::clone(self.shared.get_or_insert_with(|| Arc::new(value.clone()))))
    }

    /// Returns true if a later answer assigns the same id to another call: some instrumentations
    /// number the calls of each message if the model gives no ids.
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

    /// Converts it to a tool call that only messages have.
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

/// Marks a call without a span as failed if a failed span around the model's reports that its tool
/// does not exist.
pub(super) fn fail_if_unknown<'a>(tree: &Tree<'a>, span: u32, call: &mut ToolCall<'a>) {
    let around = |at: &u32| tree.get(*at).map(|span| span.parent);
    for span in std::iter::successors(Some(span), around).take(AROUND_MAX) {
        let Some(span) = tree.get(span) else { return };
        let message = span.facts.status_message();
        if span.record.flags.has(SpanFlags::ERROR)
            && unknown_tool::is_reported(message.as_bytes())
            && unknown_tool::is_named(message, &call.name)
        {
            call.status = CallStatus::Error;
            call.error = Some(Cow::Borrowed(message));
            return;
        }
    }
}

/// Returns the dialect of a value's source.
fn dialect_of(plan: &ReadingPlan, found: &FoundValue<'_>) -> u16 {
    plan.sources.get(usize::from(found.source)).map_or(u16::MAX, |source| source.dialect)
}

/// Verdict on a request for a call in a model's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestedAs {
    /// Call without a span.
    Call,
    /// Call on a span.
    OnSpan,
    /// A handoff to another agent.
    Handoff,
    /// A repeated mention of a tool whose calls are on spans.
    HasSpans,
    /// Call written into an agent's history by a framework, not requested by its model.
    WrittenIn,
    /// Call of an unused choice.
    OtherChoice,
}

/// Decides the verdict on each request. A request for a tool with spans is a call of its own if its
/// id is on no span and all spans of the tool are joined to other requests.
pub(super) fn decide(
    requested: &mut [LlmCall<'_>],
    calls: &[SpanCall<'_>],
    handoff: bool,
    repeats: &[bool],
) {
    let mut free: HashMap<&str, usize> = HashMap::new();
    if requested.iter().any(|call| !call.on_span) {
        for call in calls.iter().filter(|call| call.part_of.is_none()) {
            *free.entry(&call.call.name).or_default() += usize::from(!call.joined);
        }
    }
    for request in requested {
        let spans = free.get_mut(&*request.call.name);
        if request.role == RequestedAs::OtherChoice {
            continue;
        }
        request.role = match spans {
            _ if request.on_span => RequestedAs::OnSpan,
            _ if !calls.is_empty() && repeats.get(request.span as usize) == Some(&true) => {
                RequestedAs::WrittenIn
            }
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

/// Returns true for each span whose messages can only repeat those of models within it: there are
/// such models, and all of the trace's models have recorded answers. Empty without such spans.
pub(super) fn repeating(tree: &Tree<'_>, outputs: &[ModelOutput<'_>]) -> Vec<bool> {
    let mut models = vec![false; tree.spans.len()];
    for (model, span) in models.iter_mut().zip(&tree.spans) {
        *model = tree.form(span).model;
    }
    let mut is_silent = models.clone();
    for output in outputs {
        if let Some(silent) = is_silent.get_mut(output.found.span as usize) {
            *silent = false;
        }
    }
    if is_silent.contains(&true) || !models.contains(&true) {
        return Vec::new();
    }
    let mut repeating = vec![false; models.len()];
    for model in (0..models.len()).filter(|at| models[*at]) {
        let mut at = tree.spans[model].parent;
        while let Some(around) = repeating.get_mut(at as usize) {
            if std::mem::replace(around, true) {
                break;
            }
            at = tree.spans[at as usize].parent;
        }
    }
    for (repeats, model) in repeating.iter_mut().zip(&models) {
        *repeats &= !model;
    }
    repeating
}

/// Returns true for a source that yields to others.
fn is_guess(plan: &ReadingPlan, source: u16) -> bool {
    plan.sources.get(usize::from(source)).is_some_and(|source| source.source.fallback)
}

/// Returns the calls requested by models in the order of their answers, each id once.
pub(super) fn requested<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    gathered: &mut Gathered<'a>,
    effort: &WorkBudget,
) -> Vec<LlmCall<'a>> {
    let mut outputs = std::mem::take(&mut gathered.model_outputs);
    outputs.retain(|output| output.calls.is_some() || may_hold_call(plan, &output.found));
    outputs.sort_by_key(|ModelOutput { found, .. }| (found.end_ns, found.start_ns, found.source));
    let mut calls: Vec<LlmCall<'a>> = Vec::new();
    let mut places: HashMap<Cow<'a, str>, usize> = HashMap::new();
    let mut message = 0;
    let mut last = None;
    for ModelOutput { found, calls: known } in outputs {
        let span = found.span;
        let start_ns = found.start_ns;
        let time_ns = found.end_ns;
        let run = tree.get(span).map_or(u32::MAX, |span| span.parent);
        let source = found.source;
        let dialect = dialect_of(plan, &found);
        let read = || answered(plan, found, &mut gathered.model_inputs, effort);
        let (answered, begins) = known.map_or_else(read, |calls| (calls, Vec::new()));
        for (at, call) in answered.into_iter().enumerate() {
            if let Some(known) = repeated_call(&mut calls, (span, source), &call, effort) {
                // An outer span may repeat it with the id that it now has.
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
                    other.is_asked_again = other.is_asked_again
                        || other.span != span && !is_one_request(tree, other.span, span, effort);
                    // A source that knows the messages is better evidence for grouping than one
                    // that guesses.
                    if is_guess(plan, other.source) && !is_guess(plan, source) {
                        let message = number();
                        let begin_ns = start_ns;
                        let asked = Asked { message, time_ns, begin_ns, run, part, ..other.asked };
                        (other.asked, other.source) = (asked, source);
                    }
                    continue;
                }
                places.insert(id.clone(), calls.len());
            } else if calls.iter().rev().take(WINDOW).any(|known| {
                known.span != span
                    && known.call.name == call.name
                    && (known.time_ns == time_ns || is_one_request(tree, known.span, span, effort))
                    && effort.spend(weight(&call.arguments))
                    && known.call.arguments == call.arguments
            }) {
                // The same answer on two nested spans.
                continue;
            }
            let order = calls.len() as u32;
            let asked = Asked { order, message: number(), time_ns, begin_ns: start_ns, run, part };
            calls.push(LlmCall { asked, ..LlmCall::of(dialect, call, (span, time_ns, source)) });
        }
    }
    calls
}

/// Limit on spans walked between two nested model spans.
const NESTED_MAX: usize = 8;

/// Returns true if a model's span is within another's without a tool call between them: both record
/// one request, like a client and a library around it.
fn is_one_request(tree: &Tree<'_>, one: u32, other: u32, effort: &WorkBudget) -> bool {
    let is_model = |at: u32| tree.get(at).is_some_and(|span| tree.form(span).model);
    let is_within = |inner: u32, outer: u32| {
        let above = |at: &u32| tree.get(*at).map(|span| span.parent);
        let is_tool =
            |at: &u32| tree.get(*at).is_some_and(|span| span.record.flags.has(SpanFlags::TOOL));
        let around = std::iter::successors(above(&inner), above).take(NESTED_MAX);
        around.take_while(|at| !is_tool(at)).any(|at| at == outer)
    };
    effort.spend(2 * NESTED_MAX)
        && is_model(one)
        && is_model(other)
        && (is_within(one, other) || is_within(other, one))
}

/// Returns the calls requested in a model's answer, and the number of calls before each message. An
/// answer of a fallback source with messages of users or tools is a history, and moves to the
/// inputs.
fn answered<'a>(
    plan: &'a ReadingPlan,
    found: FoundValue<'a>,
    inputs: &mut Vec<FoundValue<'a>>,
    effort: &WorkBudget,
) -> (Vec<MessageCall<'a>>, Vec<usize>) {
    let is_guessed = found.is_fallback(plan);
    let read = read_messages(plan, found.clone(), effort);
    let Some(messages) = read else { return Default::default() };
    let has_results = !messages.results.is_empty();
    if is_guessed && (messages.has_user() || has_results) {
        inputs.push(found);
        return Default::default();
    }
    // Tools run by the provider or in its client library have their results in the answer.
    if has_results {
        inputs.push(found);
    }
    (messages.calls, messages.begins)
}

/// Finds the same call of the same model call from another source, fills its gaps, and returns its
/// index.
fn repeated_call<'a>(
    calls: &mut [LlmCall<'a>],
    (span, source): (u32, u16),
    call: &MessageCall<'a>,
    effort: &WorkBudget,
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

/// Returns true if a text may contain a tool call or its result: every shape has one of these
/// words, except a message marked as a tool's only by its event.
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
    effort: &WorkBudget,
) -> Option<Messages<'a>> {
    let bytes = found.raw.as_str().map_or(0, str::len);
    if !effort.spend(1 + bytes * STEPS_PER_BYTE) {
        return None;
    }
    let source = plan.sources.get(usize::from(found.source))?;
    read::decoded(&source.source, found.raw)?.value().map(Messages::read)
}
