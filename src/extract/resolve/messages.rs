//! What the messages of model calls add: ids, arguments and results of calls, and calls that no
//! span tells of.
//!
//! Messages are only read where something is missing that they may hold, or where they may hold a
//! call; a model's output is read once, and of the inputs, each of which repeats all that was said
//! before, as few as will do, the last first.

use std::borrow::Cow;
use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};

use super::super::decode::{Decoded, MessageCall, Messages};
use super::gather::{FoundValue, Gathered, ModelOutput};
use super::plan::ReadingPlan;
use super::read::{self, Raw};
use super::tool_calls::SpanCall;
use super::tree::Tree;
use crate::model::{CallStatus, Content, Effort, Origin, ToolCall};
use crate::value::Value;

/// How many waiting calls of one tool are compared with a span that has no id.
const WINDOW: usize = 64;

/// Steps to read one byte of messages: each object is asked for the keys of every shape.
const STEPS_PER_BYTE: usize = 2;

/// Up to this many calls are looked through rather than looked up.
const FEW_MAX: usize = 16;

/// A call that a model asked for.
pub(super) struct LlmCall<'a> {
    pub(super) call: MessageCall<'a>,
    /// Place of the model's span.
    pub(super) span: u32,
    /// When the model had answered, Unix nanoseconds.
    pub(super) time_ns: u64,
    /// The dialect that read it.
    pub(super) dialect: u16,
    /// A span tells of it too.
    pub(super) on_span: bool,
    /// The message that asked for it.
    pub(super) asked: Asked,
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
}

impl Default for Asked {
    fn default() -> Self {
        Self { order: u32::MAX, message: u32::MAX, time_ns: 0 }
    }
}

impl<'a> LlmCall<'a> {
    fn new(plan: &ReadingPlan, call: MessageCall<'a>, found: &FoundValue<'a>) -> Self {
        let dialect = dialect_of(plan, found);
        let (span, time_ns) = (found.span, found.end_ns);
        Self { call, span, time_ns, dialect, on_span: false, asked: Asked::default() }
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

    /// Whether it is a call of its own. `names` are the tools that have spans in this trace.
    pub(super) fn role(&self, names: &SpanToolNames<'_, '_>, handoff: bool) -> RequestedAs {
        if self.on_span {
            RequestedAs::OnSpan
        } else if handoff && self.call.name.starts_with("transfer_to_") {
            RequestedAs::Handoff
        } else if names.contains(&self.call.name) {
            RequestedAs::HasSpans
        } else {
            RequestedAs::Call
        }
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
            status: CallStatus::Unknown,
            span_id: tree.get(self.span).map_or_else(Default::default, |it| it.record.span_id),
            dialect: dialect.map_or("", |dialect| &dialect.name),
            start_ns: self.time_ns,
            ..ToolCall::default()
        }
    }
}

/// The dialect whose source found it.
fn dialect_of(plan: &ReadingPlan, found: &FoundValue<'_>) -> u16 {
    plan.sources.get(usize::from(found.source)).map_or(u16::MAX, |source| source.dialect)
}

/// The names of the tools that have spans in a trace.
pub(super) enum SpanToolNames<'c, 'a> {
    /// Few enough to look through.
    Few(&'c [SpanCall<'a>]),
    /// In order.
    Many(Vec<&'c str>),
}

impl<'c, 'a> SpanToolNames<'c, 'a> {
    pub(super) fn new(calls: &'c [SpanCall<'a>]) -> Self {
        if calls.len() <= FEW_MAX {
            return Self::Few(calls);
        }
        let mut names: Vec<&str> = calls.iter().map(|call| &*call.call.name).collect();
        names.sort_unstable();
        names.dedup();
        Self::Many(names)
    }

    fn contains(&self, name: &str) -> bool {
        match self {
            Self::Few(calls) => calls.iter().any(|call| call.call.name == name),
            Self::Many(names) => names.binary_search(&name).is_ok(),
        }
    }
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

/// The calls that models asked for, in the order of their answers; each id once.
pub(super) fn requested<'a>(
    plan: &'a ReadingPlan,
    gathered: &mut Gathered<'a>,
    effort: &Effort,
) -> Vec<LlmCall<'a>> {
    let mut outputs = std::mem::take(&mut gathered.model_outputs);
    outputs.retain(|output| output.calls.is_some() || may_hold_call(&output.found));
    outputs.sort_by_key(|ModelOutput { found, .. }| (found.end_ns, found.start_ns, found.source));
    let mut calls: Vec<LlmCall<'a>> = Vec::new();
    let mut places: HashMap<Cow<'a, str>, usize> = HashMap::new();
    let (mut message, mut last) = (0, None);
    // The record whose calls came last, the source that gave them, and the first of them.
    let mut answer = ((u32::MAX, 0), u16::MAX, 0);
    for ModelOutput { found, calls: known } in outputs {
        let (span, start_ns, time_ns) = (found.span, found.start_ns, found.end_ns);
        let source = found.source;
        let dialect = dialect_of(plan, &found);
        let read = || read_messages(plan, found, effort).map(|messages| messages.calls);
        for call in known.or_else(read).unwrap_or_default() {
            if answer.0 != (span, start_ns) {
                answer = ((span, start_ns), source, calls.len());
            }
            if answer.1 != source && says_again(calls.get_mut(answer.2..), &call) {
                continue;
            }
            if let Some(id) = call.id.as_ref().or(call.item_id.as_ref()) {
                let other = places.get(id).and_then(|at| calls.get(*at));
                if other.is_some_and(|other| !other.is_other(&call, span, time_ns)) {
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
            let key = (span, start_ns, call.turn);
            message += u32::from(last.replace(key) != Some(key));
            let asked = Asked { order: calls.len() as u32, message, time_ns };
            calls.push(LlmCall { call, span, time_ns, dialect, on_span: false, asked });
        }
    }
    calls
}

/// Whether another source has given the same call of the same answer, which takes what it lacks.
fn says_again<'a>(calls: Option<&mut [LlmCall<'a>]>, call: &MessageCall<'a>) -> bool {
    let is_same = |known: &&mut LlmCall<'a>| {
        known.call.name == call.name
            && match (&known.call.id, &call.id) {
                (Some(id), Some(other)) => id == other,
                _ => known.call.arguments == call.arguments,
            }
    };
    let Some(known) = calls.unwrap_or_default().iter_mut().find(is_same) else { return false };
    if known.call.id.is_none() {
        known.call.id.clone_from(&call.id);
    }
    if known.call.arguments == Decoded::Value(Value::Null) {
        known.call.arguments.clone_from(&call.arguments);
    }
    true
}

/// Whether a text may hold a tool call; every shape of call has one of these words.
pub(super) fn may_hold_call(found: &FoundValue<'_>) -> bool {
    let Raw::Any(value) = &found.raw else { return true };
    let Some(text) = value.as_str() else { return true };
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

/// Finds for each call on a span the call that the model asked for, and takes from it what the
/// span lacks; first among the calls of outputs, then among those that inputs repeat.
pub(super) fn join<'a>(
    plan: &'a ReadingPlan,
    model_inputs: &[FoundValue<'a>],
    calls: &mut [SpanCall<'a>],
    requested: &mut [LlmCall<'a>],
    effort: &Effort,
) {
    join_with(calls, requested, effort);
    if model_inputs.is_empty() || !(calls.iter().any(lacks) || requested.iter().any(lacks_id)) {
        return;
    }
    let mut inputs: Vec<_> = model_inputs.iter().filter(|found| may_hold_call(found)).collect();
    inputs.sort_by_key(|found| (found.start_ns, found.end_ns));
    // What was given to a model before this trace made a call was asked for before this trace.
    let starts = calls.iter().map(|call| call.call.start_ns);
    let first_call = starts.chain(requested.iter().map(|call| call.time_ns)).min().unwrap_or(0);
    let later = inputs.partition_point(|found| found.start_ns < first_call);
    let mut before: HashSet<Cow<'a, str>> = HashSet::new();
    for found in inputs.iter().take(later) {
        let messages = read_messages(plan, (*found).clone(), effort).unwrap_or_default();
        before.extend(messages.calls.into_iter().filter_map(|call| call.id));
    }
    let mut seen: HashSet<Cow<'a, str>> =
        requested.iter().filter_map(|call| call.call.id.clone()).collect();
    for found in inputs.iter().skip(later).rev() {
        let Some(messages) = read_messages(plan, (*found).clone(), effort) else { continue };
        let fresh = messages.calls.into_iter().filter(|call| {
            call.id.as_ref().is_some_and(|id| !before.contains(id) && seen.insert(id.clone()))
        });
        let mut repeated: Vec<LlmCall<'a>> =
            fresh.map(|call| LlmCall::new(plan, call, found)).collect();
        if repeated.is_empty() {
            continue;
        }
        if !effort.spend(calls.len() + requested.len()) {
            return;
        }
        join_with(calls, &mut repeated, effort);
        name_by_repetition(requested, &mut repeated, effort);
        if !(calls.iter().any(lacks) || requested.iter().any(lacks_id)) {
            return;
        }
    }
}

/// Whether messages may tell more of a call on a span.
fn lacks(call: &SpanCall<'_>) -> bool {
    let no_arguments = matches!(call.call.arguments, Content::NotRecorded | Content::Redacted);
    call.part_of.is_none() && (call.call.id.is_none() || call.bare_arguments || no_arguments)
}

/// Whether the id of the call is not known, or only that of the model's output item.
fn lacks_id(call: &LlmCall<'_>) -> bool {
    !call.on_span && call.call.id.is_none()
}

/// Takes the ids of calls from inputs that repeat them.
fn name_by_repetition<'a>(
    requested: &mut [LlmCall<'a>],
    repeated: &mut [LlmCall<'a>],
    effort: &Effort,
) {
    let mut free: VecDeque<usize> =
        (0..repeated.len()).filter(|at| !repeated[*at].on_span).collect();
    for call in requested.iter_mut().filter(|call| lacks_id(call)) {
        let same = free.iter().take(WINDOW).position(|at| {
            let known = &repeated[*at].call;
            known.name == call.call.name
                && effort.spend(weight(&known.arguments))
                && known.arguments == call.call.arguments
        });
        if let Some(at) = same.and_then(|place| free.remove(place)) {
            repeated[at].on_span = true;
            call.call.id = repeated[at].call.id.clone();
        }
    }
}

fn join_with<'a>(calls: &mut [SpanCall<'a>], requested: &mut [LlmCall<'a>], effort: &Effort) {
    if requested.is_empty() {
        return;
    }
    if calls.iter().any(|call| call.call.id.is_some()) {
        join_by_id(calls, requested);
    }
    // Some spans have an id of their own making, which no message knows.
    let is_foreign = |call: &SpanCall<'_>| call.call.id.is_some() && call.asked.message == u32::MAX;
    let has_ids = requested.iter().any(|call| !call.on_span && call.call.id.is_some());
    let waits = |call: &SpanCall<'_>, exact: bool| {
        let foreign = exact && has_ids && is_foreign(call);
        call.part_of.is_none() && (call.call.id.is_none() || foreign)
    };
    if !calls.iter().any(|call| waits(call, true)) {
        return;
    }
    let mut waiting = Waiting::new(requested);
    let has_arguments = |call: &LlmCall<'_>| call.call.arguments != Decoded::Value(Value::Null);
    let passes: &[bool] =
        if requested.iter().any(has_arguments) { &[true, false] } else { &[false] };
    let mut joined = vec![false; calls.len()];
    for &exact in passes {
        for (call, joined) in calls.iter_mut().zip(&mut joined) {
            if !waits(call, exact) || *joined {
                continue;
            }
            let fits = |requested: &LlmCall<'a>| {
                let is_within = || effort.spend(weight(&requested.call.arguments));
                !exact || is_within() && same_arguments(call, requested)
            };
            let Some(at) = waiting.take(requested, &call.call.name, fits) else { continue };
            requested[at].on_span = true;
            if requested[at].call.id.is_some() {
                call.call.id = requested[at].call.id.clone();
            }
            call.asked = requested[at].asked;
            *joined = true;
            take_arguments(call, &requested[at]);
        }
    }
}

/// The calls that no span has taken.
enum Waiting<'a> {
    /// So few that they are looked through.
    Few,
    /// By tool, in order.
    Many(HashMap<Cow<'a, str>, VecDeque<usize>>),
}

impl<'a> Waiting<'a> {
    fn new(requested: &[LlmCall<'a>]) -> Self {
        if requested.len() <= FEW_MAX {
            return Self::Few;
        }
        let mut waiting: HashMap<Cow<'a, str>, VecDeque<usize>> = HashMap::new();
        for (at, call) in requested.iter().enumerate().filter(|(_, call)| !call.on_span) {
            waiting.entry(call.call.name.clone()).or_default().push_back(at);
        }
        Self::Many(waiting)
    }

    /// The first of the next few calls of a tool that fits; from now on it does not wait.
    fn take(
        &mut self,
        requested: &[LlmCall<'a>],
        name: &str,
        fits: impl Fn(&LlmCall<'a>) -> bool,
    ) -> Option<usize> {
        match self {
            Self::Few => requested
                .iter()
                .position(|call| !call.on_span && call.call.name == name && fits(call)),
            Self::Many(waiting) => {
                let list = waiting.get_mut(name)?;
                let place = list.iter().take(WINDOW).position(|at| fits(&requested[*at]))?;
                list.remove(place)
            }
        }
    }
}

fn join_by_id<'a>(calls: &mut [SpanCall<'a>], requested: &mut [LlmCall<'a>]) {
    let mut by_id: HashMap<Cow<'a, str>, usize> = HashMap::new();
    for (at, call) in requested.iter().enumerate() {
        for id in [&call.call.id, &call.call.item_id].into_iter().flatten() {
            by_id.entry(id.clone()).or_insert(at);
        }
    }
    for call in calls {
        let Some(&at) = call.call.id.as_ref().and_then(|id| by_id.get(id)) else { continue };
        requested[at].on_span = true;
        call.asked = requested[at].asked;
        take_arguments(call, &requested[at]);
    }
}

fn same_arguments(call: &SpanCall<'_>, requested: &LlmCall<'_>) -> bool {
    // What the span holds is decoded only if there is anything to compare it with.
    let own = match &requested.call.arguments {
        Decoded::Value(Value::Null) => None,
        _ => call.call.arguments.value(),
    };
    match (&requested.call.arguments, own) {
        (Decoded::Value(wanted), Some(own)) => wanted == own,
        (Decoded::Value(Value::Map(map)), None) if call.bare_arguments => {
            // A tool of one argument, recorded without its name.
            let Content::Unreadable(text) = &call.call.arguments else { return false };
            let mut entries = map.iter();
            match (entries.next(), entries.next()) {
                (Some((_, Value::String(only))), None) => only == text,
                (Some((_, only)), None) => only.to_string() == **text,
                _ => false,
            }
        }
        _ => false,
    }
}

/// Steps to compare arguments.
fn weight(arguments: &Decoded<'_>) -> usize {
    fn of(value: &Value<'_>) -> usize {
        match value {
            Value::String(text) => 2 + text.len() / 16,
            Value::List(items) => items.iter().fold(2, |sum, item| sum + of(item)),
            Value::Map(map) => map.iter().fold(2, |sum, (_, value)| sum + 4 + of(value)),
            _ => 2,
        }
    }
    match arguments {
        Decoded::Value(value) => of(value),
        Decoded::Unreadable(text) => 2 + text.len() / 16,
    }
}

fn take_arguments<'a>(call: &mut SpanCall<'a>, requested: &LlmCall<'a>) {
    let lacks = matches!(call.call.arguments, Content::NotRecorded | Content::Redacted);
    if !lacks && !call.bare_arguments {
        return;
    }
    if let Decoded::Value(value @ Value::Map(_)) = &requested.call.arguments {
        call.call.arguments = Content::ready(value.clone());
        call.bare_arguments = false;
    }
}
