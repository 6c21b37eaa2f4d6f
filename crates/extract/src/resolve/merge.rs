//! Merging of one call on several spans: one is retained, the others fill its gaps.

use hashbrown::HashMap;

use super::join::is_served;
use super::messages::LlmCall;
use super::tool_calls::SpanCall;
use super::tree::{NONE, Tree};
use crate::decode::is_failed;
use spanscore_base::model::{CallStatus, Content};
use spanscore_base::value::Value;

/// Marks the calls that are parts of others, and fills the others from them; `requested` are the
/// calls requested by models.
pub(super) fn merge(tree: &Tree<'_>, calls: &mut [SpanCall<'_>], requested: &[LlmCall<'_>]) {
    if calls.len() < 2 {
        return;
    }
    nested(tree, calls);
    nameless(tree, calls);
    same_id(tree, calls, requested);
    let mut passed = Vec::new();
    for at in 0..calls.len() {
        let Some(whole) = outermost(calls, at, &mut passed) else { continue };
        if let Ok([whole, part]) = calls.get_disjoint_mut([whole as usize, at]) {
            whole.fill_from(part);
        }
        calls[at].part_of = Some(whole);
    }
}

/// Returns the outermost call of which a call is a part. Path compression makes intermediate calls
/// direct parts, so that long chains are walked once.
fn outermost(calls: &mut [SpanCall<'_>], at: usize, passed: &mut Vec<u32>) -> Option<u32> {
    let mut whole = calls[at].part_of?;
    while let Some(next) = calls[whole as usize].part_of {
        // The tree has no cycle, so only ids could form one; the length bounds that walk.
        if next as usize == at || passed.len() > calls.len() {
            break;
        }
        passed.push(whole);
        whole = next;
    }
    for between in passed.drain(..) {
        calls[between as usize].part_of = Some(whole);
    }
    Some(whole)
}

/// Merges a call inside a call of the same tool, unless their ids differ.
fn nested(tree: &Tree<'_>, calls: &mut [SpanCall<'_>]) {
    let parent = |call: &SpanCall<'_>| tree.get(call.span).map_or(NONE, |span| span.parent);
    // Shortcut: most calls are siblings below a root span that is no call.
    let place = by_span(tree, calls, |_| true);
    let is_flat = |call: &SpanCall<'_>| match tree.get(parent(call)) {
        None => true,
        Some(span) => span.parent == NONE && place[parent(call) as usize] == NONE,
    };
    if calls.iter().all(is_flat) {
        return;
    }
    let nearest = tree.inherit(|at| place.get(at as usize).copied().unwrap_or(NONE));
    for at in 0..calls.len() {
        let outer = nearest.get(parent(&calls[at]) as usize).copied().unwrap_or(NONE);
        if outer == NONE {
            continue;
        }
        let is_same = same_tool(&calls[outer as usize], &calls[at])
            && !has_other_id(&calls[outer as usize], &calls[at])
            && !contradict(&calls[outer as usize], &calls[at]);
        if is_same && outer as usize != at {
            calls[at].part_of = Some(outer);
        }
    }
}

/// Returns for each span the last call on it that counts.
fn by_span(
    tree: &Tree<'_>,
    calls: &[SpanCall<'_>],
    counts: impl Fn(&SpanCall<'_>) -> bool,
) -> Vec<u32> {
    let mut on_span = vec![NONE; tree.spans.len()];
    for (at, call) in (0..).zip(calls).filter(|(_, call)| counts(call)) {
        on_span[call.span as usize] = at;
    }
    on_span
}

/// Returns true if both calls have different ids.
fn has_other_id(one: &SpanCall<'_>, other: &SpanCall<'_>) -> bool {
    match (&one.call.id, &other.call.id) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    }
}

/// Returns true if two calls are of one tool: with equal names, or with the server's bare name and
/// the prefixed one if both record the same arguments.
pub(super) fn same_tool(one: &SpanCall<'_>, other: &SpanCall<'_>) -> bool {
    let names = [&*one.call.name, &*other.call.name];
    let is_served = || is_served(names[0], names[1]) || is_served(names[1], names[0]);
    let record = |call: &SpanCall<'_>| call.call.arguments.is_recorded();
    let are_equal = || record(one) && record(other) && equal_arguments(one, other);
    names[0] == names[1] || is_served() && are_equal()
}

/// Returns true if both calls record the same arguments, or either records none.
pub(super) fn equal_arguments(one: &SpanCall<'_>, other: &SpanCall<'_>) -> bool {
    match (&one.call.arguments, &other.call.arguments) {
        (Content::Unreadable(one), Content::Unreadable(other)) => one == other,
        (one, other) => match (one.value(), other.value()) {
            (Some(one), Some(other)) => one == other,
            _ => !one.is_recorded() || !other.is_recorded(),
        },
    }
}

/// Merges a span with only a call's id into that call.
fn nameless(tree: &Tree<'_>, calls: &mut [SpanCall<'_>]) {
    if !calls.iter().any(SpanCall::is_nameless) {
        return;
    }
    let mut whole: HashMap<String, u32> = HashMap::new();
    for (at, call) in (0..).zip(calls.iter()).filter(|(_, call)| !call.is_nameless()) {
        if let (Some(id), None) = (&call.call.id, call.part_of) {
            whole.entry(id.to_string()).or_insert(at);
        }
    }
    let on_span = by_span(tree, calls, |call| !call.is_nameless());
    for at in 0..calls.len() {
        let Some(id) = calls[at].call.id.as_ref().filter(|_| calls[at].is_nameless()) else {
            continue;
        };
        // Of several calls with the id, the surrounding one.
        let outer = around(tree, calls, &on_span, at, |outer| outer.call.id.as_ref() == Some(id));
        calls[at].part_of = outer.or_else(|| whole.get(&**id).copied());
    }
}

/// Returns true if both record arguments and differ in one of them: a recursive tool.
fn contradict(one: &SpanCall<'_>, other: &SpanCall<'_>) -> bool {
    match (one.call.arguments.value(), other.call.arguments.value()) {
        (Some(Value::Map(one)), Some(Value::Map(other))) => {
            let other = other.by_key();
            one.iter().any(|(key, value)| other.get(key).is_some_and(|found| found != value))
        }
        _ => false,
    }
}

/// Merges calls of one id: a call within another of the same tool, whatever the clocks, and
/// siblings recorded by two instrumentations, or requested once and recorded again in retrospect.
/// Other calls of one id stay separate: caches and recorded models repeat ids, middleware retries
/// tools.
fn same_id(tree: &Tree<'_>, calls: &mut [SpanCall<'_>], requested: &[LlmCall<'_>]) {
    if !repeats(calls) {
        return;
    }
    let once = asked_once(requested);
    let on_span = by_span(tree, calls, |call| call.call.id.is_some());
    for at in 0..calls.len() {
        if calls[at].part_of.is_none() && calls[at].call.id.is_some() {
            calls[at].part_of = enclosing(tree, calls, &on_span, at);
        }
    }
    let mut kept: HashMap<String, Vec<u32>> = HashMap::new();
    for at in 0..calls.len() {
        let (Some(id), None) = (&calls[at].call.id, calls[at].part_of) else { continue };
        let known = kept.entry(id.to_string()).or_default();
        let is_asked_once = once.get(&**id) == Some(&true);
        let is_told = |other: &u32| {
            let other = &calls[*other as usize];
            is_recorded_twice(tree, other, &calls[at])
                || is_asked_once && is_rewritten(tree, other, &calls[at])
        };
        let told = known.iter().rev().take(WINDOW).copied().find(is_told);
        match told {
            Some(other) => calls[at].part_of = Some(other),
            None => known.push(at as u32),
        }
    }
}

/// Returns the requested ids, with true for those of a single request: ids numbered per message are
/// ambiguous.
fn asked_once<'r>(requested: &'r [LlmCall<'_>]) -> HashMap<&'r str, bool> {
    let mut once = HashMap::new();
    for request in requested {
        let Some(id) = request.call.id.as_deref() else { continue };
        once.entry(id).and_modify(|once| *once = false).or_insert(!request.is_asked_again);
    }
    once
}

/// Limit on siblings of one id compared with a call.
const WINDOW: usize = 16;

/// Returns the nearest surrounding call with a call's id and tool.
fn enclosing(tree: &Tree<'_>, calls: &[SpanCall<'_>], on_span: &[u32], at: usize) -> Option<u32> {
    let inner = &calls[at];
    around(tree, calls, on_span, at, |outer| {
        outer.call.id == inner.call.id && same_tool(outer, inner) && !contradict(outer, inner)
    })
}

/// Returns the nearest surrounding call that fits.
fn around(
    tree: &Tree<'_>,
    calls: &[SpanCall<'_>],
    on_span: &[u32],
    at: usize,
    fits: impl Fn(&SpanCall<'_>) -> bool,
) -> Option<u32> {
    let above = |at: &u32| tree.get(*at).map(|span| span.parent);
    let spans = std::iter::successors(above(&calls[at].span), above).take(DEPTH_MAX);
    let mut outer = spans.filter_map(|span| on_span.get(span as usize).copied());
    outer.find(|outer| calls.get(*outer as usize).is_some_and(&fits))
}

/// Returns true if two sibling spans record one call: by different instrumentations, at one time,
/// with the same arguments. Also if either only mentions the call, by another dialect, or each has
/// a half of it.
fn is_recorded_twice(tree: &Tree<'_>, one: &SpanCall<'_>, other: &SpanCall<'_>) -> bool {
    let scope = |call: &SpanCall<'_>| tree.get(call.span).map(|span| span.facts.scope());
    // A span of zero length is at its instant, which on a millisecond clock is often that of
    // another.
    let end = |call: &SpanCall<'_>| call.call.end_ns.saturating_sub(1).max(call.call.start_ns);
    let overlap = one.call.start_ns <= end(other) && other.call.start_ns <= end(one);
    let mentions = |call: &SpanCall<'_>| {
        call.sources.result.is_none() && call.call.status != CallStatus::Error
    };
    // One instrumentation may record two layers of its own, each in a dialect.
    let other_dialect = one.call.dialect != other.call.dialect;
    let is_other = other_dialect || scope(one) != scope(other);
    (is_other && overlap
        || other_dialect && (mentions(one) || mentions(other))
        || are_halves(one, other))
        && same_tool(one, other)
        && equal_arguments(one, other)
}

/// Returns true if the second span records the first one's call in retrospect: at an instant after
/// its duration, or by another instrumentation, with the same arguments and result, and without an
/// error.
fn is_rewritten(tree: &Tree<'_>, one: &SpanCall<'_>, other: &SpanCall<'_>) -> bool {
    let scope = |call: &SpanCall<'_>| tree.get(call.span).map(|span| span.facts.scope());
    let is_failed = |call: &SpanCall<'_>| call.call.status == CallStatus::Error;
    let results = [one.call.result.value(), other.call.result.value()];
    let lasts = |call: &SpanCall<'_>| call.call.end_ns > call.call.start_ns;
    (lasts(one) && !lasts(other) || scope(one) != scope(other))
        && !is_failed(one)
        && !is_failed(other)
        && same_tool(one, other)
        && one.call.arguments.is_recorded()
        && other.call.arguments.is_recorded()
        && equal_arguments(one, other)
        && matches!(results, [Some(one), Some(other)] if one == other && !shows_error(one))
}

/// Returns true if a result has a top-level error, which middleware would retry.
fn shows_error(result: &Value<'_>) -> bool {
    const ERROR: &str = "error";
    match result {
        Value::Map(map) => is_failed(map) || map.get(ERROR).is_some_and(|error| !error.is_null()),
        Value::String(text) => {
            let start = text.trim_start().get(..ERROR.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(ERROR))
        }
        _ => false,
    }
}

/// Returns true if the first has only a tool's input, as the model requested, and the second only
/// its output.
fn are_halves(asked: &SpanCall<'_>, answered: &SpanCall<'_>) -> bool {
    let gives = |call: &SpanCall<'_>| call.call.result.is_recorded();
    let is_given = |call: &SpanCall<'_>| call.call.arguments.is_recorded();
    is_given(asked)
        && !gives(asked)
        && gives(answered)
        && !is_given(answered)
        && asked.call.status != CallStatus::Error
}

/// Returns true if any id repeats; most traces have none, and the check is cheap for small ones.
fn repeats(calls: &[SpanCall<'_>]) -> bool {
    const SMALL: usize = 32;
    let ids = || calls.iter().filter_map(|call| call.call.id.as_deref());
    if calls.len() <= SMALL {
        return ids().enumerate().any(|(at, id)| ids().take(at).any(|other| other == id));
    }
    let mut seen = hashbrown::HashSet::with_capacity(calls.len());
    !ids().all(|id| seen.insert(id))
}

/// Limit on walked ancestors in search of an enclosing span.
const DEPTH_MAX: usize = 64;
