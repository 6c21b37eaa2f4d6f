//! Spans beside a call. A guard, an approval or a cache names the tool and what it was given under
//! the same keys as the span of the tool itself; by its own name alone it says what it is.

use super::super::tree::Tree;
use super::SpanCall;

/// Words in the names of spans that speak of a call and are none.
const BESIDE: [&str; 47] = [
    "approval", "approvals", "approve", "approved", "authorization", "authorize", "authz",
    "blocked", "cache", "callback", "decide", "decision", "denied", "denylist", "discover",
    "discovery", "eval", "evaluate", "evaluation", "evaluator", "guard", "guardrail", "guardrails",
    "hook", "hooks", "memory", "offered", "permission", "permissions", "policy", "prompt",
    "register", "registered", "registration", "registry", "requested", "router", "routing",
    "schema", "selection", "selector", "unregister", "validate", "validation", "validator",
    "verify", "whitelist",
];

/// Words at the end of the names of spans that tell how a call ended.
const ENDS: [&str; 8] =
    ["complete", "completed", "end", "ended", "finished", "response", "result", "results"];

/// Longest name of a span that is looked at, in bytes: longer ones say too much to be believed.
const NAME_BYTES_MAX: usize = 256;

/// Most calls among which the one is looked for whose end a span tells.
const WINDOW: usize = 16;

/// Returns true if the name of a span, without that of the tool, says that the span is no call.
pub(super) fn is_beside(span: &str, tool: &str) -> bool {
    words(span, tool).any(|word| is_in(&BESIDE, word))
}

/// Returns true if the span of a call tells of the end of a call beside it, which takes what the
/// call holds: `tool.find` and `tool.find.result`.
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

/// Returns the words of a span's name that are not the tool's name; none of a name that is too
/// long.
fn words<'n>(span: &'n str, tool: &'n str) -> impl Iterator<Item = &'n str> {
    let span = if span.len() > NAME_BYTES_MAX { "" } else { span };
    // A pattern that is empty divides a name into its letters.
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
