//! Merging of the same call on several spans: one is retained, the others fill its gaps.

use hashbrown::HashMap;

use super::tool_calls::SpanCall;
use super::tree::{NONE, Tree};
use spanscore_base::value::Value;

/// Marks the calls that are parts of others, and fills the others from them.
pub(super) fn merge(tree: &Tree<'_>, calls: &mut [SpanCall<'_>]) {
    if calls.len() < 2 {
        return;
    }
    nested(tree, calls);
    nameless(calls);
    same_id(tree, calls);
    let mut passed = Vec::new();
    for at in 0..calls.len() {
        let Some(whole) = outermost(calls, at, &mut passed) else { continue };
        if let Ok([whole, part]) = calls.get_disjoint_mut([whole as usize, at]) {
            whole.fill_from(part);
        }
        calls[at].part_of = Some(whole);
    }
}

/// Returns the call that a call is part of, directly or not. Path compression: calls between become
/// direct parts, so that long chains are walked once.
fn outermost(calls: &mut [SpanCall<'_>], at: usize, passed: &mut Vec<u32>) -> Option<u32> {
    let mut whole = calls[at].part_of?;
    while let Some(next) = calls[whole as usize].part_of {
        // The tree has no cycle, so only ids could make one; the length bounds that walk.
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
    // Shortcut: most calls stand side by side below a root span that is no call.
    let mut place = vec![NONE; tree.spans.len()];
    for (at, call) in calls.iter().enumerate() {
        place[call.span as usize] = at as u32;
    }
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
        let outer_call = &calls[outer as usize];
        let inner = &calls[at];
        let same_name = outer_call.call.name == inner.call.name;
        let other_id = match (&outer_call.call.id, &inner.call.id) {
            (Some(outer), Some(inner)) => outer != inner,
            _ => false,
        };
        if same_name && !other_id && outer as usize != at && !contradict(outer_call, inner) {
            calls[at].part_of = Some(outer);
        }
    }
}

/// Merges a span that only has the id of a call into that call.
fn nameless(calls: &mut [SpanCall<'_>]) {
    if !calls.iter().any(SpanCall::is_nameless) {
        return;
    }
    let mut whole: HashMap<String, u32> = HashMap::new();
    for (at, call) in (0..).zip(calls.iter()).filter(|(_, call)| !call.is_nameless()) {
        if let (Some(id), None) = (&call.call.id, call.part_of) {
            whole.entry(id.to_string()).or_insert(at);
        }
    }
    for call in calls.iter_mut().filter(|call| call.is_nameless()) {
        call.part_of = call.call.id.as_deref().and_then(|id| whole.get(id)).copied();
    }
}

/// Returns true if both record arguments and differ in one of them: a tool that calls itself.
fn contradict(one: &SpanCall<'_>, other: &SpanCall<'_>) -> bool {
    match (one.call.arguments.value(), other.call.arguments.value()) {
        (Some(Value::Map(one)), Some(Value::Map(other))) => {
            let other = other.by_key();
            one.iter().any(|(key, value)| other.get(key).is_some_and(|found| found != value))
        }
        _ => false,
    }
}

/// Merges calls of one id and tool: into the outermost, else into the earliest.
fn same_id(tree: &Tree<'_>, calls: &mut [SpanCall<'_>]) {
    if !repeats(calls) {
        return;
    }
    let mut kept: HashMap<(String, String), u32> = HashMap::new();
    for at in 0..calls.len() {
        let call = &calls[at];
        let (Some(id), None) = (&call.call.id, call.part_of) else { continue };
        let key = (id.to_string(), call.call.name.to_string());
        match kept.get(&key).copied() {
            Some(earlier) if !encloses(tree, calls, at, earlier) => {
                calls[at].part_of = Some(earlier);
            }
            Some(inner) => {
                calls[inner as usize].part_of = Some(at as u32);
                kept.insert(key, at as u32);
            }
            None => {
                kept.insert(key, at as u32);
            }
        }
    }
}

/// Returns true if any id comes twice; most traces have none, and the check is cheap for small
/// ones.
fn repeats(calls: &[SpanCall<'_>]) -> bool {
    const SMALL: usize = 32;
    let ids = || calls.iter().filter_map(|call| call.call.id.as_deref());
    if calls.len() <= SMALL {
        return ids().enumerate().any(|(at, id)| ids().take(at).any(|other| other == id));
    }
    let mut seen = hashbrown::HashSet::with_capacity(calls.len());
    !ids().all(|id| seen.insert(id))
}

/// Returns true if the span of call `outer` is an ancestor of the span of call `inner`.
fn encloses(tree: &Tree<'_>, calls: &[SpanCall<'_>], outer: usize, inner: u32) -> bool {
    let wanted = calls[outer].span;
    let mut at = calls[inner as usize].span;
    for _ in 0..DEPTH_MAX {
        let Some(span) = tree.get(at) else { return false };
        at = span.parent;
        if at == wanted {
            return true;
        }
    }
    false
}

/// Most ancestors that are walked in search of an enclosing span.
const DEPTH_MAX: usize = 64;
