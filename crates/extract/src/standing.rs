//! Standing of a detected call, by the words in the names of its span and of its tool.

use super::table::is_tool_name;

/// Standing of a detected call, by its span's name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CallStanding {
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
const AMBIGUOUS: [&str; 15] = [
    "callback", "decide", "decision", "eval", "lookup", "memory", "policy", "pre", "prompt",
    "requested", "resolve", "route", "router", "routing", "wait",
];

/// Words for tools and calls in general.
const TOOLS: [&str; 5] = ["call", "calls", "function", "tool", "tools"];

/// Words for the act of calling.
const CALLING: [&str; 21] = [
    "ainvoke", "async", "call", "called", "calling", "calls", "dispatch", "exec", "execute",
    "executed", "executing", "execution", "function", "invocation", "invoke", "invoked", "run",
    "running", "tool", "tools", "use",
];

/// First words for the act of calling, before a word for tools: `execute_tool`.
const VERBS: [&str; 7] = ["ainvoke", "call", "dispatch", "exec", "execute", "invoke", "run"];

/// Words for acts of guards that are tools', too: `permission.check` is none of `check_stock`.
const VETTING: [&str; 5] = ["check", "request", "review", "validate", "verify"];

/// Last words for the end of a call.
const ENDS: [&str; 8] =
    ["complete", "completed", "end", "ended", "finished", "response", "result", "results"];

/// Prefix of the tools of MCP servers, whose names may have any word.
const SERVED: &str = "mcp__";

/// Limit on the bytes of a name that is searched for words.
const NAME_BYTES_MAX: usize = 128;

/// Returns the standing of a span's call, by the span's name, the tool's, and the key that names
/// the tool.
pub(crate) fn standing<'k>(
    span: &str,
    tool: &str,
    mut keys: impl Iterator<Item = &'k str>,
) -> CallStanding {
    let is_long = span.len() > NAME_BYTES_MAX || tool.len() > NAME_BYTES_MAX;
    if is_long || tool.is_empty() || span.starts_with(SERVED) {
        return CallStanding::Call;
    }
    let is_whole = holds(span, tool);
    let is_kin = |word: &str| words(tool).any(|other| shares_stem(word, other));
    let is_word = |word: &str| words(tool).any(|other| other.eq_ignore_ascii_case(word));
    let own = |word: &str| is_word(word) || is_whole && is_kin(word);
    let has = |known: &[&str]| of_act(span).any(|word| is_in(known, word) && !own(word));
    let is_guard = has(&GUARDS);
    let is_act = has(&ACTS);
    if !is_guard && !is_act && !has(&AMBIGUOUS) {
        let last = of_act(span).last().filter(|last| is_in(&ENDS, last) && !own(last));
        return if last.is_some() { CallStanding::End } else { CallStanding::Call };
    }
    let names = |word: &str| is_word(word) && !is_in(&CALLING, word) && !is_in(&VETTING, word);
    let is_named = is_whole && !words(tool).all(|word| is_in(&CALLING, word));
    let is_doubtful =
        is_named || words(span).any(|word| names(word) || is_kin(word)) || calls(span);
    let is_on_tools = || is_act && words(span).any(|word| is_in(&TOOLS, word));
    if !is_doubtful && (is_guard || is_on_tools() || keys.any(is_of_other)) {
        CallStanding::Beside
    } else {
        CallStanding::Doubtful
    }
}

/// Returns true if the name of a span that only names a tool is that of a call: it holds the
/// tool's name, or a word for tools and at its end one for calling.
pub(crate) fn names_call(span: &str, tool: &str) -> bool {
    let ends = |word: &str| is_in(&CALLING, word);
    let is_on_tools = || words(span).any(|word| is_in(&TOOLS[2..], word));
    let is_long = span.len() > NAME_BYTES_MAX || tool.len() > NAME_BYTES_MAX;
    !is_long && (of_act(span).last().is_some_and(ends) && is_on_tools() || holds(span, tool))
}

/// Returns true if a span's name holds all words of a tool's.
fn holds(span: &str, tool: &str) -> bool {
    if !tool.is_ascii() {
        return span.contains(tool);
    }
    let is_there = |word: &str| words(span).any(|it| is_same_word(word, it));
    words(tool).next().is_some() && words(tool).all(is_there)
}

/// Returns true for a key of a tool's name by one who does something about the call:
/// `policy.tool_name`.
fn is_of_other(key: &str) -> bool {
    let is_listed = |word: &str| [&GUARDS[..], &ACTS, &AMBIGUOUS].iter().any(|it| is_in(it, word));
    is_tool_name(key.as_bytes()) && words(key).next().is_some_and(is_listed)
}

/// Returns true if a span's name begins by calling (`execute_tool`), its last part is about that
/// (`memory.execute`), or a class of a tool (`MemoryTool`).
pub(crate) fn calls(span: &str) -> bool {
    let mut first = words(span);
    let is_verb = first.next().is_some_and(|word| is_in(&VERBS, word));
    if is_verb && first.next().is_some_and(|word| is_in(&TOOLS, word)) {
        return true;
    }
    let divides = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-';
    let part = span.rsplit(divides).find(|part| !part.is_empty()).unwrap_or_default();
    let is_class = part.ends_with("Tool") && part.len() > "Tool".len();
    is_class || words(part).all(|word| is_in(&CALLING, word))
}

/// Returns the words of a span's name before one that tells with what it acts:
/// `execute_tool_with_retry`.
fn of_act(span: &str) -> impl Iterator<Item = &str> {
    let begins = |(at, word): &(usize, &str)| *at == 0 || !word.eq_ignore_ascii_case("with");
    words(span).enumerate().take_while(begins).map(|(_, word)| word)
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

/// Number of letters in which two forms of a word agree: `validate`, `validation`. With four,
/// `retry` was `retrieve`.
const STEM: usize = 6;

/// Returns true for one word, or two forms of it.
fn is_same_word(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other) || shares_stem(one, other)
}

/// Returns true for two forms of a word, neither of which is the other's beginning: `author` is
/// none of `authorization`.
fn shares_stem(one: &str, other: &str) -> bool {
    let letters = one.bytes().zip(other.bytes());
    let shared = letters.take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count();
    shared >= STEM && shared < one.len().min(other.len())
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
            ("hook PostToolUse", "find", "tool_name", Beside),
            ("PreToolUse", "find", "tool_name", Doubtful),
            ("cache.get", "find", "tool_name", Doubtful),
            ("PostToolUse", "find", "tool_name", Call),
            ("AgentRun.ToolCallRequested", "find", "tool_name", Doubtful),
            ("guard.tool_call", "find", "tool_name", Doubtful),
            ("ValidationTool", "check_zip", "tool_name", Doubtful),
            // The tool's own name among the words.
            ("memory.search", "search", "tool_name", Doubtful),
            ("approve order_flour", "order_flour", "tool_name", Doubtful),
            ("ValidateAddress", "validate_address", "tool_name", Call),
            ("tool.validation", "validate_address", "tool_name", Doubtful),
            ("AddressValidation", "validate_address", "tool_name", Call),
            ("tool.approval", "approve_refund", "tool_name", Doubtful),
            ("approval.submit", "submit_expense", "tool_name", Doubtful),
            ("guard.validate", "validate_order", "tool_name", Beside),
            // Words that only begin like the tool's, or one of several.
            ("tool.retry", "retrieve_docs", "tool.name", Beside),
            ("tool.authorization", "get_author", "tool.name", Beside),
            ("permission.check", "check_stock", "tool_name", Beside),
            ("ToolCallRequested", "request_refund", "tool_name", Doubtful),
            // Names that begin by calling, and what they do it with.
            ("execute_tool_with_retry", "find", "tool_name", Call),
            ("run_tool_with_approval", "find", "tool_name", Call),
            ("run_tool_approval", "find", "tool_name", Doubtful),
            ("with_approval", "find", "tool_name", Beside),
            ("ToolRegistry.InvokeAsync", "find", "tool.name", Doubtful),
            ("ToolRegistry.dispatch", "find", "tool.name", Doubtful),
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
            ("tool.查询", "查询", true),
            ("execute_tool_with_retry", "find", true),
            ("POST", "find", false),
            ("llm.call", "find", false),
            ("agent.run", "find", false),
            ("gradle build", "查询", false),
            ("build", "-", false),
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
