//! Join of calls on spans with calls requested by models: by id, else by tool and arguments, else
//! by tool and order.
//!
//! Messages are read only if they may fill a gap. Of the models' inputs, each of which repeats all
//! earlier messages, as few as possible are read, the last first.

use std::borrow::Cow;
use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};

use super::super::decode::Decoded;
use super::gather::FoundValue;
use super::messages::{LlmCall, may_hold_call, read_messages};
use super::plan::ReadingPlan;
use super::read::copied;
use super::tool_calls::SpanCall;
use spanscore_base::model::{CallStatus, Content, WorkBudget};
use spanscore_base::value::Value;

/// Limit on waiting calls of one tool compared with a span without an id.
const WINDOW: usize = 64;

/// Limit on linearly searched calls; more of them are indexed by tool.
const FEW_MAX: usize = 16;

/// Joins each call on a span with the model's request for it, and fills its gaps; first with
/// requests from outputs, then with those repeated in inputs.
pub(super) fn join<'a>(
    plan: &'a ReadingPlan,
    model_inputs: &[FoundValue<'a>],
    calls: &mut [SpanCall<'a>],
    requested: &mut [LlmCall<'a>],
    effort: &WorkBudget,
) {
    join_with(plan, calls, requested, effort);
    if model_inputs.is_empty() || !(calls.iter().any(lacks) || requested.iter().any(lacks_id)) {
        return;
    }
    let mut inputs: Vec<_> =
        model_inputs.iter().filter(|found| may_hold_call(plan, found)).collect();
    inputs.sort_by_key(|found| (found.start_ns, found.end_ns));
    // Calls in inputs from before the trace's first call belong to an earlier trace.
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
        join_with(plan, calls, &mut repeated, effort);
        name_by_repetition(requested, &mut repeated, effort);
        if !(calls.iter().any(lacks) || requested.iter().any(lacks_id)) {
            return;
        }
    }
}

/// Returns true if messages may fill gaps of a call on a span.
fn lacks(call: &SpanCall<'_>) -> bool {
    let no_arguments = call.call.arguments.is_absent();
    call.part_of.is_none() && (call.call.id.is_none() || call.bare_arguments || no_arguments)
}

/// Returns true if a call's id is unknown, or only that of the model's output item is known.
fn lacks_id(call: &LlmCall<'_>) -> bool {
    !call.on_span && call.call.id.is_none()
}

/// Copies the ids of calls from inputs that repeat them.
fn name_by_repetition<'a>(
    requested: &mut [LlmCall<'a>],
    repeated: &mut [LlmCall<'a>],
    effort: &WorkBudget,
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

fn join_with<'a>(
    plan: &ReadingPlan,
    calls: &mut [SpanCall<'a>],
    requested: &mut [LlmCall<'a>],
    effort: &WorkBudget,
) {
    if requested.is_empty() {
        return;
    }
    if calls.iter().any(|call| call.call.id.is_some()) {
        join_by_id(plan, calls, requested, effort);
    }
    join_classes(calls, requested, effort);
    // Some instrumentations invent ids, which are in no message: such spans may join by arguments,
    // but never only by order.
    let is_foreign = |call: &SpanCall<'_>| call.call.id.is_some() && !call.joined;
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
            *joined = true;
            settle(call, &mut requested[at], effort);
        }
    }
    join_served(calls, requested, effort);
    join_retries(calls, requested, effort);
}

/// Joins the failed attempts of a tool that middleware retries: they have no id, and one request
/// caused all of them.
fn join_retries<'a>(
    calls: &mut [SpanCall<'a>],
    requested: &mut [LlmCall<'a>],
    effort: &WorkBudget,
) {
    let is_retried = |call: &SpanCall<'_>| {
        let is_alone = !call.joined && call.part_of.is_none() && call.call.id.is_none();
        is_alone && call.call.status == CallStatus::Error
    };
    for call in calls.iter_mut().filter(|call| is_retried(call)) {
        let fits = |requested: &LlmCall<'a>| {
            let steps = if requested.on_span { weight(&requested.call.arguments) } else { 1 };
            effort.spend(steps)
                && requested.on_span
                && requested.call.name == call.call.name
                && same_arguments(call, requested)
        };
        let Some(at) = requested.iter().rposition(fits) else { continue };
        take(call, &mut requested[at], effort);
    }
}

/// Calls not joined to a span yet.
enum Waiting<'a> {
    /// Few calls, searched linearly.
    Few,
    /// Queues by tool, in order.
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

    /// Removes and returns the first match among the next few calls of a tool.
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

fn join_by_id<'a>(
    plan: &ReadingPlan,
    calls: &mut [SpanCall<'a>],
    requested: &mut [LlmCall<'a>],
    effort: &WorkBudget,
) {
    let mut by_id: HashMap<Cow<'a, str>, Vec<usize>> = HashMap::new();
    for (at, call) in requested.iter().enumerate() {
        for id in [&call.call.id, &call.call.item_id].into_iter().flatten() {
            by_id.entry(id.clone()).or_default().push(at);
        }
    }
    for call in calls {
        let Some(known) = call.call.id.as_ref().and_then(|id| by_id.get(id)) else { continue };
        let at = match known[..] {
            [only] => only,
            _ => meant(call, requested, known, effort),
        };
        requested[at].on_span |= known.len() == 1 || call.part_of.is_none();
        take(call, &mut requested[at], effort);
        rename(plan, call, &mut requested[at], effort);
    }
}

/// Returns the request for a call among those with its id: the first waiting one with its tool and
/// arguments, else the first waiting one with its tool, else the first of all.
fn meant(
    call: &SpanCall<'_>,
    requested: &[LlmCall<'_>],
    known: &[usize],
    effort: &WorkBudget,
) -> usize {
    let waits =
        |at: &&usize| !requested[**at].on_span && requested[**at].call.name == call.call.name;
    let fits = |at: &&usize| {
        let request = &requested[**at];
        effort.spend(weight(&request.call.arguments)) && same_arguments(call, request)
    };
    let waiting = || known.iter().take(WINDOW).filter(waits);
    let found = waiting().find(fits).or_else(|| waiting().next());
    found.or(known.first()).copied().unwrap_or_default()
}

/// Renames a call named only by its span's name, by the request with its id; also replaces the
/// arguments if the span has those of another function. Instrumentations name spans freely, by a
/// class or by a wrapper of the tool; the model knows the tool's name.
fn rename<'a>(
    plan: &ReadingPlan,
    call: &mut SpanCall<'a>,
    requested: &mut LlmCall<'a>,
    effort: &WorkBudget,
) {
    let told = &requested.call;
    if told.name.is_empty() || told.name == call.call.name || !call.is_named_by_span(plan) {
        return;
    }
    let Some(name) = copied(&told.name, effort) else { return };
    call.call.name = name;
    let Decoded::Value(Value::Map(wanted)) = &told.arguments else { return };
    if !effort.spend(wanted.len()) {
        return;
    }
    let has_all = match call.call.arguments.value() {
        Some(Value::Map(own)) => {
            let own = own.by_key();
            wanted.iter().all(|(key, _)| own.has(key))
        }
        _ => false,
    };
    if !has_all && let Some(shared) = requested.shared_arguments() {
        call.call.arguments = Content::shared(shared);
        call.bare_arguments = false;
    }
}

fn same_arguments(call: &SpanCall<'_>, requested: &LlmCall<'_>) -> bool {
    // Decodes the span's arguments only if there is something to compare.
    let own = match &requested.call.arguments {
        Decoded::Value(Value::Null) => None,
        _ => call.call.arguments.value(),
    };
    match (&requested.call.arguments, own) {
        (Decoded::Value(wanted), Some(own)) => wanted == own,
        (Decoded::Value(Value::Map(map)), None) if call.bare_arguments => {
            // Tool with one argument, recorded without its name.
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

/// Returns the steps to compare arguments.
pub(super) fn weight(arguments: &Decoded<'_>) -> usize {
    match arguments {
        Decoded::Value(value) => value_weight(value),
        Decoded::Unreadable(text) => 2 + text.len() / 16,
    }
}

/// Returns the steps to compare a value.
pub(super) fn value_weight(value: &Value<'_>) -> usize {
    match value {
        Value::String(text) => 2 + text.len() / 16,
        Value::List(items) => items.iter().fold(2, |sum, item| sum + value_weight(item)),
        Value::Map(map) => {
            map.iter().fold(2, |sum, (key, value)| sum + 4 + key.len() / 16 + value_weight(value))
        }
        _ => 2,
    }
}

/// Joins a span's call to a waiting request: copies its id, if any, and fills the gaps.
fn settle<'a>(call: &mut SpanCall<'a>, requested: &mut LlmCall<'a>, effort: &WorkBudget) {
    requested.on_span = true;
    if requested.call.id.is_some() {
        call.call.id.clone_from(&requested.call.id);
    }
    take(call, requested, effort);
}

/// Fills the gaps of a span's call from its request.
fn take<'a>(call: &mut SpanCall<'a>, requested: &mut LlmCall<'a>, effort: &WorkBudget) {
    (call.joined, call.asked) = (true, requested.asked);
    if names_class(call)
        && let Some(name) = copied(&requested.call.name, effort)
    {
        call.call.name = name;
    }
    let lacks = call.call.arguments.is_absent();
    if !lacks && !call.bare_arguments {
        return;
    }
    if let Some(shared) = requested.shared_arguments() {
        call.call.arguments = Content::shared(shared);
        call.bare_arguments = false;
    } else if let Decoded::Unreadable(text) = &requested.call.arguments
        && lacks
        && let Some(text) = copied(text, effort)
    {
        call.call.arguments = Content::Unreadable(text);
    }
}

/// Class names of tools, recorded by some instrumentations instead of the tool's name.
const CLASSES: [&str; 5] =
    ["DynamicStructuredTool", "DynamicTool", "StructuredTool", "FunctionTool", "Tool"];

fn names_class(call: &SpanCall<'_>) -> bool {
    CLASSES.contains(&&*call.call.name)
}

/// Joins calls with only a tool class on their span to requests with equal arguments.
fn join_classes<'a>(
    calls: &mut [SpanCall<'a>],
    requested: &mut [LlmCall<'a>],
    effort: &WorkBudget,
) {
    for call in calls.iter_mut().filter(|call| !call.joined && names_class(call)) {
        if effort.is_spent() {
            return;
        }
        let fits = |requested: &LlmCall<'a>| {
            let steps = if requested.on_span { 1 } else { weight(&requested.call.arguments) };
            effort.spend(steps) && !requested.on_span && same_arguments(call, requested)
        };
        let Some(at) = requested.iter().position(fits) else { continue };
        settle(call, &mut requested[at], effort);
    }
}

/// Joins calls of MCP servers, with a tool's bare name, to requests with the server's prefix
/// (`shop__find`, `mcp__shop__find`).
fn join_served<'a>(calls: &mut [SpanCall<'a>], requested: &mut [LlmCall<'a>], effort: &WorkBudget) {
    let waits = |call: &SpanCall<'_>| {
        !call.joined && call.part_of.is_none() && call.call.id.is_none() && !call.is_nameless()
    };
    for call in calls.iter_mut().filter(|call| waits(call)) {
        if !effort.spend(requested.len()) {
            return;
        }
        let name = call.call.name.clone();
        if requested.iter().any(|requested| requested.call.name == name) {
            continue;
        }
        let any = call.call.arguments.is_absent();
        let fits = |requested: &LlmCall<'a>| {
            let is_its = !requested.on_span && is_served(&requested.call.name, &name);
            let is_within = || effort.spend(weight(&requested.call.arguments));
            is_its && (any || is_within() && same_arguments(call, requested))
        };
        let Some(at) = requested.iter().position(fits) else { continue };
        call.call.name.clone_from(&requested[at].call.name);
        settle(call, &mut requested[at], effort);
    }
}

/// Returns true if a requested tool is a server's prefix followed by this bare name.
pub(super) fn is_served(asked: &str, name: &str) -> bool {
    let server = asked.strip_suffix(name).unwrap_or_default();
    let name_of = server.trim_end_matches(|last: char| !last.is_alphanumeric());
    !name_of.is_empty() && name_of.len() < server.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_a_server_stands_behind_its_name() {
        for asked in ["shop__find", "mcp__shop__find", "shop.find", "shop-find", "shop/find"] {
            assert!(is_served(asked, "find"), "{asked}");
        }
        for asked in ["find", "pathfind", "_find", "find_shop", "shop__find_all", ""] {
            assert!(!is_served(asked, "find"), "{asked}");
        }
    }
}
