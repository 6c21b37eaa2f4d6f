//! Spans about a call. A guard, an approval or a cache has the keys of the tool's own span, with
//! its name and input; only the span's name distinguishes it.

use super::super::tree::Tree;
use super::SpanCall;

/// Words in names of spans about a call.
const BESIDE: [&str; 47] = [
    "approval", "approvals", "approve", "approved", "authorization", "authorize", "authz",
    "blocked", "cache", "callback", "decide", "decision", "denied", "denylist", "discover",
    "discovery", "eval", "evaluate", "evaluation", "evaluator", "guard", "guardrail", "guardrails",
    "hook", "hooks", "memory", "offered", "permission", "permissions", "policy", "prompt",
    "register", "registered", "registration", "registry", "requested", "router", "routing",
    "schema", "selection", "selector", "unregister", "validate", "validation", "validator",
    "verify", "whitelist",
];

/// Last words in names of spans that record a call's end.
const ENDS: [&str; 8] =
    ["complete", "completed", "end", "ended", "finished", "response", "result", "results"];

/// Longest examined span name, bytes.
const NAME_BYTES_MAX: usize = 256;

/// Limit on earlier calls searched for the one that a span ends.
const WINDOW: usize = 16;

/// Returns true if a span's name, without the tool's, shows that it is no call.
pub(super) fn is_beside(span: &str, tool: &str) -> bool {
    words(span, tool).any(|word| is_in(&BESIDE, word))
}

/// Returns true if a span records the end of a sibling call, which takes over its content:
/// `tool.find` and `tool.find.result`.
pub(super) fn is_told_again<'a>(
    tree: &Tree<'a>,
    calls: &mut [SpanCall<'a>],
    last: &mut SpanCall<'a>,
) -> bool {
    let span = |call: &SpanCall<'a>| tree.get(call.span);
    let parent = |call: &SpanCall<'a>| span(call).map(|span| span.parent);
    let tells_end = |call: &SpanCall<'a>| {
        let name = span(call).map_or("", |span| span.facts.span_name());
        words(name, &call.call.name).last().is_some_and(|word| is_in(&ENDS, word))
    };
    if last.call.arguments.is_recorded() || !tells_end(last) {
        return false;
    }
    let is_begun = |call: &&mut SpanCall<'a>| {
        call.call.name == last.call.name
            && parent(call) == parent(last)
            && !call.call.result.is_recorded()
            && (call.call.id == last.call.id || last.call.id.is_none())
            && !tells_end(call)
    };
    let recent = calls.len().saturating_sub(WINDOW);
    let begun = calls.iter_mut().skip(recent).find(is_begun);
    begun.is_some_and(|call| {
        call.fill_from(last);
        true
    })
}

/// Returns the words of a span's name without the tool's; none for a long name.
fn words<'n>(span: &'n str, tool: &'n str) -> impl Iterator<Item = &'n str> {
    let span = if span.len() > NAME_BYTES_MAX { "" } else { span };
    // An empty pattern would split the name into letters.
    let tool = if tool.is_empty() { "\0" } else { tool };
    let divides = |letter: char| !letter.is_ascii_alphanumeric();
    span.split(tool).flat_map(move |part| part.split(divides)).flat_map(humps)
}

/// Returns the words of `ToolCallRequested`.
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

fn is_in(known: &[&str], word: &str) -> bool {
    known.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_spans_tell_what_stands_beside_a_call() {
        let check = |span: &str, tool: &str, expected: bool| {
            assert_eq!(is_beside(span, tool), expected, "{span}: {tool}");
        };
        for span in [
            "tool.approval",
            "guardrail.tool_args",
            "hook PreToolUse",
            "tool.find.cache.lookup",
            "AgentRun.ToolCallRequested",
            "eval.tool_call_accuracy",
        ] {
            check(span, "find", true);
        }
        for (span, tool) in [
            ("execute_tool find", "find"),
            ("tool.validate_address", "validate_address"),
            ("approve", "approve"),
            ("ToolCall-find", "find"),
            ("cached_find", "find"),
            ("agent.tool", ""),
            ("", "find"),
        ] {
            check(span, tool, false);
        }
        check(&format!("guard {}", "x".repeat(NAME_BYTES_MAX)), "find", false);
    }
}
