//! Spans beside a call: guards, approvals, caches and evaluations name a tool and its arguments
//! under the same keys as the tool's own span. Only their names tell them apart.
//!
//! A span is a call unless its name says otherwise in words of its own (`tool.approval`), or speaks
//! of one (`memory.run`) that another span of the trace plainly is.

use super::super::merge::{equal_arguments, same_tool};
use super::super::tree::Tree;
use super::{NoCall, SpanCall};
use spanscore_base::model::{CallStatus, Content};

/// CallStanding of a detected call, by its span's name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CallStanding {
    /// A call.
    Call,
    /// A call unless another span is this one.
    Doubtful,
    /// The end of a call, if another span began it.
    End,
    /// No call.
    Beside,
}

/// Words for those who decide about a call.
const GUARDS: [&str; 16] = [
    "allowlist", "approval", "approvals", "approved", "authorization", "authz", "blocked",
    "denied", "denylist", "guard", "guardrail", "guardrails", "hook", "hooks", "permission",
    "permissions",
];

/// Words for acts on tools (`tool.validate`), which are also what tools do (`validate`).
const ACTS: [&str; 25] = [
    "approve", "authorize", "cache", "cleanup", "discover", "discovery", "evaluate", "evaluation",
    "evaluator", "heartbeat", "offered", "progress", "register", "registered", "registration",
    "registry", "retries", "retry", "select", "selection", "unregister", "validate", "validation",
    "validator", "verify",
];

/// Words for what is beside a call, and also the business of agents.
const AMBIGUOUS: [&str; 14] = [
    "callback", "decide", "decision", "eval", "lookup", "memory", "policy", "prompt", "requested",
    "resolve", "route", "router", "routing", "wait",
];

/// Words for tools and calls in general.
const TOOLS: [&str; 4] = ["call", "calls", "tool", "tools"];

/// Words for the act of calling.
const CALLING: [&str; 19] = [
    "call", "called", "calling", "calls", "exec", "execute", "executed", "executing", "execution",
    "function", "invocation", "invoke", "invoked", "post", "run", "running", "tool", "tools",
    "use",
];

/// Last words for the end of a call.
const ENDS: [&str; 8] =
    ["complete", "completed", "end", "ended", "finished", "response", "result", "results"];

/// Endings of keys for a tool's name.
const TOOL_NAMES: [&str; 3] = ["tool_name", "tool.name", "toolName"];

/// Prefix of the tools of MCP servers, whose names may have any word.
const SERVED: &str = "mcp__";

/// Limit on the bytes of a name that is searched for words.
const NAME_BYTES_MAX: usize = 128;

/// Limit on the calls on each side searched for the one of which a span speaks.
const WINDOW: usize = 16;

/// Limit on walked ancestors.
const DEPTH_MAX: usize = 64;

/// Returns the standing of a span's call, by the span's name, the tool's, and the key that names
/// the tool.
pub(super) fn standing<'k>(
    span: &str,
    tool: &str,
    mut keys: impl Iterator<Item = &'k str>,
) -> CallStanding {
    let is_long = span.len() > NAME_BYTES_MAX || tool.len() > NAME_BYTES_MAX;
    if is_long || tool.is_empty() || span.starts_with(SERVED) {
        return CallStanding::Call;
    }
    let own = |word: &str| words(tool).any(|other| is_same_word(word, other));
    let has = |known: &[&str]| words(span).any(|word| is_in(known, word) && !own(word));
    let is_guard = has(&GUARDS);
    let is_act = has(&ACTS);
    if !is_guard && !is_act && !has(&AMBIGUOUS) {
        let last = words(span).last().filter(|last| is_in(&ENDS, last) && !own(last));
        return if last.is_some() { CallStanding::End } else { CallStanding::Call };
    }
    let names_tool = words(span).any(|word| own(word) && !is_in(&CALLING, word));
    let is_doubtful = names_tool || ends_in_calling(span);
    let is_on_tools = || is_act && words(span).any(|word| is_in(&TOOLS, word));
    if !is_doubtful && (is_guard || is_on_tools() || keys.any(is_of_other)) {
        CallStanding::Beside
    } else {
        CallStanding::Doubtful
    }
}

/// Returns true if the name of a span that only names a tool is that of a call: it holds the
/// tool's name, or its last word is for calling.
pub(super) fn names_call(span: &str, tool: &str) -> bool {
    let is_there = |word: &str| words(span).any(|other| is_same_word(word, other));
    let ends = |word: &str| is_in(&CALLING, word);
    let is_long = span.len() > NAME_BYTES_MAX || tool.len() > NAME_BYTES_MAX;
    !is_long && (words(span).last().is_some_and(ends) || words(tool).all(is_there))
}

/// Returns true for a key of a tool's name by one who does something about the call:
/// `policy.tool_name`.
fn is_of_other(key: &str) -> bool {
    let is_listed = |word: &str| [&GUARDS[..], &ACTS, &AMBIGUOUS].iter().any(|it| is_in(it, word));
    TOOL_NAMES.iter().any(|end| key.ends_with(end)) && words(key).next().is_some_and(is_listed)
}

/// Returns true if the last part of a span's name is about calling (`memory.execute`), or a class
/// of a tool (`MemoryTool`).
fn ends_in_calling(span: &str) -> bool {
    let divides = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-';
    let part = span.rsplit(divides).find(|part| !part.is_empty()).unwrap_or_default();
    let is_class = part.ends_with("Tool") && part.len() > "Tool".len();
    is_class || words(part).all(|word| is_in(&CALLING, word))
}

/// Removes the calls that are none, given the standing of each call. A call of which others speak
/// takes the arguments that only they have, and what its end tells.
pub(super) fn settle<'a>(
    tree: &Tree<'a>,
    calls: &mut Vec<SpanCall<'a>>,
    mut standings: Vec<CallStanding>,
) -> Vec<(u32, NoCall)> {
    let mut dropped = Vec::new();
    let mut gone = vec![false; calls.len()];
    let mut drop = |calls: &[SpanCall<'a>], at: usize, whole: Option<usize>| {
        let no_call = match whole {
            Some(whole) => NoCall::PartOf(calls[whole].call.span_id),
            None => NoCall::Beside,
        };
        gone[at] = true;
        dropped.push((calls[at].span, no_call));
    };
    let mut ended = vec![false; calls.len()];
    for at in 0..calls.len() {
        if standings[at] != CallStanding::End {
            continue;
        }
        match begun(tree, calls, (&standings, &ended), at) {
            Some(whole) => {
                ended[whole] = true;
                fill(calls, whole, at);
                drop(calls, at, Some(whole));
            }
            None => standings[at] = CallStanding::Call,
        }
    }
    for at in 0..calls.len() {
        if !matches!(standings[at], CallStanding::Doubtful | CallStanding::Beside) {
            continue;
        }
        let whole = spoken_of(tree, calls, &standings, at);
        if let Some(whole) = whole {
            forget_end(&mut calls[at]);
            fill(calls, whole, at);
        }
        if whole.is_some() || standings[at] == CallStanding::Beside {
            drop(calls, at, whole);
        }
    }
    let mut gone = gone.into_iter();
    calls.retain(|_| !gone.next().unwrap_or_default());
    dropped
}

fn fill(calls: &mut [SpanCall<'_>], whole: usize, part: usize) {
    if let Ok([whole, part]) = calls.get_disjoint_mut([whole, part]) {
        whole.fill_from(part);
    }
}

/// Removes the result and failure of who speaks of a call: a guard's are no tool's.
fn forget_end(call: &mut SpanCall<'_>) {
    call.call.result = Content::NotRecorded;
    call.call.status = CallStatus::Unknown;
}

/// Returns the latest call before an end that it may be the end of, and that has none.
fn begun(
    tree: &Tree<'_>,
    calls: &[SpanCall<'_>],
    (standings, ended): (&[CallStanding], &[bool]),
    at: usize,
) -> Option<usize> {
    let end = &calls[at];
    let fits = |begun: usize| {
        let call = &calls[begun];
        let is_it = match (&call.call.id, &end.call.id) {
            (Some(one), Some(other)) => one == other,
            _ => !call.call.result.is_recorded(),
        };
        !ended[begun]
            && is_it
            && parent(tree, call) == parent(tree, end)
            && same_tool(call, end)
            && equal_arguments(call, end)
    };
    let before = at.saturating_sub(WINDOW)..at;
    let latest = |standing| before.clone().rfind(|it| standings[*it] == standing && fits(*it));
    latest(CallStanding::Call).or_else(|| latest(CallStanding::Doubtful))
}

/// Returns the call of which a span speaks: of its id, or near it with the same tool and arguments;
/// the next one rather than an earlier one, since most guards come first.
fn spoken_of(
    tree: &Tree<'_>,
    calls: &[SpanCall<'_>],
    standings: &[CallStanding],
    at: usize,
) -> Option<usize> {
    let speaker = &calls[at];
    let is_it = |other: &usize| {
        let call = &calls[*other];
        let is_same = match (&call.call.id, &speaker.call.id) {
            (Some(one), Some(other)) => one == other,
            _ => is_near(tree, call, speaker) && equal_arguments(call, speaker),
        };
        standings[*other] == CallStanding::Call && is_same && same_tool(call, speaker)
    };
    let mut next = (at + 1..calls.len()).take(WINDOW);
    next.find(is_it).or_else(|| (at.saturating_sub(WINDOW)..at).rfind(is_it))
}

fn parent(tree: &Tree<'_>, call: &SpanCall<'_>) -> Option<u32> {
    tree.get(call.span).map(|span| span.parent)
}

/// Returns true if the spans of two calls are siblings, or one is within the other.
fn is_near(tree: &Tree<'_>, one: &SpanCall<'_>, other: &SpanCall<'_>) -> bool {
    let is_within = |inner: &SpanCall<'_>, outer: &SpanCall<'_>| {
        let above = |at: &u32| tree.get(*at).map(|span| span.parent);
        let mut spans = std::iter::successors(above(&inner.span), above).take(DEPTH_MAX);
        spans.any(|span| span == outer.span)
    };
    parent(tree, one) == parent(tree, other) || is_within(one, other) || is_within(other, one)
}

/// Returns the words of a name: `tool.call`, `tool_call`, `ToolCall`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|letter: char| !letter.is_ascii_alphanumeric()).flat_map(humps)
}

fn humps(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let bytes = rest.as_bytes();
        let begins =
            |at: &usize| bytes[*at].is_ascii_uppercase() && bytes[*at - 1].is_ascii_lowercase();
        let end = (1..bytes.len()).find(begins).unwrap_or(bytes.len());
        let (hump, behind) = rest.split_at(end);
        rest = behind;
        (!hump.is_empty()).then_some(hump)
    })
}

/// Number of letters in which two forms of a word agree: `validate`, `validation`.
const STEM: usize = 4;

/// Returns true for two forms of a word.
fn is_same_word(one: &str, other: &str) -> bool {
    let stem = |word: &str| word.len().min(STEM);
    one[..stem(one)].eq_ignore_ascii_case(&other[..stem(other)])
}

fn is_in(known: &[&str], word: &str) -> bool {
    known.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_spans_tell_what_stands_beside_a_call() {
        use CallStanding::{Beside, Call, Doubtful, End};
        let check = |span: &str, tool: &str, key: &str, expected: CallStanding| {
            let found = standing(span, tool, std::iter::once(key));
            assert_eq!(found, expected, "{span}: {tool} by {key}");
        };
        for (span, tool, key, expected) in [
            ("tool.approval", "find", "tool.name", Beside),
            ("guardrail.tool_args", "find", "tool_name", Beside),
            ("hook PreToolUse", "find", "tool_name", Beside),
            ("tool.cache.lookup", "find", "tool.name", Beside),
            ("validate_tool_call", "find", "tool_name", Beside),
            ("policy.check", "find", "policy.tool_name", Beside),
            ("eval.tool_call_accuracy", "find", "eval.tool_name", Beside),
            // Ambiguous words, and a name that ends in a call's.
            ("policy.check", "find", "tool_name", Doubtful),
            ("evaluate", "calculator", "tool.name", Doubtful),
            ("eval.run", "find", "eval.tool_name", Doubtful),
            ("hook PostToolUse", "find", "tool_name", Doubtful),
            ("AgentRun.ToolCallRequested", "find", "tool_name", Doubtful),
            ("guard.tool_call", "find", "tool_name", Doubtful),
            ("ValidationTool", "check_zip", "tool_name", Doubtful),
            // The tool's own name among the words.
            ("memory.search", "search", "tool_name", Doubtful),
            ("approve order_flour", "order_flour", "tool_name", Doubtful),
            ("ValidateAddress", "validate_address", "tool_name", Call),
            ("tool.validation", "validate_address", "tool_name", Call),
            ("approve", "approve", "tool_name", Call),
            ("mcp__guard__check", "find", "tool_name", Call),
            ("execute_tool find", "find", "tool_name", Call),
            ("agent.tool", "", "tool_name", Call),
            ("", "find", "tool_name", Call),
            ("tool.find.result", "find", "tool_name", End),
            ("ToolCallCompleted", "find", "tool_name", End),
            ("find_results", "find_results", "tool_name", Call),
        ] {
            check(span, tool, key, expected);
        }
        check(&format!("guard {}", "x".repeat(NAME_BYTES_MAX)), "find", "tool_name", Call);
    }

    #[test]
    fn names_of_spans_tell_calls() {
        for (span, tool, expected) in [
            ("session.tool_call", "find", true),
            ("optimizer.CallTool", "find", true),
            ("tool.find", "find", true),
            ("MCP Tool: shop/order_flour", "order_flour", true),
            ("order.process", "order_flour", false),
            ("step_2", "find", false),
            ("tool_generation", "find", false),
            ("chat stream", "find", false),
        ] {
            assert_eq!(names_call(span, tool), expected, "{span}: {tool}");
        }
    }
}
