//! Kind of a span by an attribute of an unknown vendor: `acme.span.kind: TOOL`.
//!
//! Most instrumentations mark their spans so, each under a key of its vendor, and write the same
//! few words there. Keys and values are compared by their letters: `spanKind`, `span_kind` and
//! `span.kind` are one, so are `tool_call` and `ToolCall`.

use memchr::memmem;

use super::super::dialect::SpanKindSaid;

/// Ends of keys that speak of a span's kind and of nothing else.
const KINDS: [&str; 9] = [
    "spankind", "spantype", "eventtype", "observationtype", "runtype", "nodetype", "typenode",
    "steptype", "operationtype",
];
/// Ends of keys that may speak of many things: only words count that can mean nothing else.
const VAGUE_KINDS: [&str; 4] = ["kind", "type", "category", "operation"];
/// Most parts of a key that may be vague: one deeper than a vendor's `acme.kind` describes
/// something on the span.
const VAGUE_PARTS_MAX: usize = 2;

/// Ends of keys that hold the id of a tool's call.
const CALL_IDS: [&str; 2] = ["toolcallid", "functioncallid"];
/// The key of the conventions, which spans of models hold too.
const CALL_ID_OF_CONVENTIONS: &[u8] = b"gen_ai.tool.call.id";

/// End of keys that hold the name of a tool.
const TOOL_NAME: &[u8] = b"toolname";
/// Ends of keys that hold what a tool was given or gave back.
const TOOL_CONTENT: [&str; 13] = [
    "toolarguments", "toolargs", "toolinput", "toolinputs", "toolparameters", "toolparams",
    "toolpayload", "toolresult", "tooloutput", "toolresponse", "toolcallarguments", "toolcallargs",
    "toolcallresult",
];
/// Beginnings of keys of conventions, whose own rules know them.
const CONVENTIONS: [&[u8]; 3] = [b"gen_ai.", b"tool.", b"mcp."];

/// Words for the call of a tool that mean nothing else.
const TOOL_CALLS: [&str; 13] = [
    "toolcall", "callingtool", "calltool", "tooluse", "toolrun", "runtool", "executetool",
    "toolexecution", "toolinvocation", "invoketool", "mcptoolcall", "functioncall", "toolspan",
];
const TOOLS: [&str; 3] = ["tool", "mcptool", "functiontool"];
const AGENTS: [&str; 8] = [
    "agent", "agentrun", "runagent", "invokeagent", "agentinvocation", "agentexecution",
    "agentspan", "agentturn",
];
const MODELS: [&str; 12] = [
    "llm", "llmcall", "llmgeneration", "llmspan", "model", "modelcall", "modelinvocation",
    "generation", "chat", "chatmodel", "chatcompletion", "completion",
];
const RUNS: [&str; 10] = [
    "chain", "workflow", "run", "session", "task", "crew", "graph", "turn", "conversation",
    "pipeline",
];

/// Longest key or value that is looked at, in letters: none of the words is longer.
const LETTERS_MAX: usize = 64;

/// Returns true if the key may hold the kind of a span.
pub(in super::super) fn is_kind_key(key: &[u8]) -> bool {
    let mut buffer = [0; LETTERS_MAX];
    let letters = letters(key, &mut buffer);
    // What is beneath a kind is no kind of span, nor is that of an item in a list: a span of a
    // model holds messages of any type.
    if letters.ends_with(b"subtype") || has_number(key) {
        return false;
    }
    let ends = |words: &[&str]| words.iter().any(|word| letters.ends_with(word.as_bytes()));
    ends(&KINDS)
        || is_call_id(key, letters)
        || letters.ends_with(TOOL_NAME)
        || is_content(key, letters)
        || key.split(|byte| *byte == b'.').count() <= VAGUE_PARTS_MAX && ends(&VAGUE_KINDS)
}

/// Returns true if a key, with these letters, holds the id of a tool's call.
fn is_call_id(key: &[u8], letters: &[u8]) -> bool {
    key != CALL_ID_OF_CONVENTIONS && CALL_IDS.iter().any(|end| letters.ends_with(end.as_bytes()))
}

/// Returns true if a key, with these letters, holds what a tool was given or gave back.
fn is_content(key: &[u8], letters: &[u8]) -> bool {
    TOOL_CONTENT.iter().any(|end| letters.ends_with(end.as_bytes()))
        && !CONVENTIONS.iter().any(|prefix| key.starts_with(prefix))
}

/// Returns true if a part of a key is a number.
fn has_number(key: &[u8]) -> bool {
    key.split(|byte| *byte == b'.').any(|part| part.iter().all(u8::is_ascii_digit))
}

/// Returns true if a name tells the kind of a span rather than a tool: `acme.tool.execution`.
pub(in super::super) fn names_kind(name: &str) -> bool {
    let mut buffer = [0; LETTERS_MAX];
    let letters = letters(name.as_bytes(), &mut buffer);
    TOOL_CALLS.iter().any(|word| letters.ends_with(word.as_bytes()))
}

/// Returns the kind of a span with this value under this key.
pub(super) fn span_kind(key: &[u8], value: &[u8]) -> Option<SpanKindSaid> {
    let mut buffer = [0; LETTERS_MAX];
    let name = key;
    let key = letters(key, &mut buffer);
    if is_call_id(name, key) {
        return (!value.is_empty()).then_some(SpanKindSaid::ToolCallId);
    }
    if key.ends_with(TOOL_NAME) {
        return (!value.is_empty()).then_some(SpanKindSaid::ToolName);
    }
    if is_content(name, key) {
        return Some(SpanKindSaid::ToolContent);
    }
    let is_clear = KINDS.iter().any(|word| key.ends_with(word.as_bytes()));
    let mut buffer = [0; LETTERS_MAX];
    let whole = letters(value, &mut buffer);
    let is_in = |words: &[&str]| words.iter().any(|word| word.as_bytes() == whole);
    // `SpanType.TOOL` is how some languages print the word.
    let last = value.rsplit(|byte| *byte == b'.').next().filter(|last| last.len() < value.len());
    let is_last = |words: &[&str]| last.is_some_and(|last| is_word(last, words));
    if is_in(&TOOL_CALLS) || is_clear && (is_in(&TOOLS) || is_last(&TOOLS)) {
        return Some(SpanKindSaid::Tool);
    }
    if !is_clear {
        return None;
    }
    let said = [
        (&AGENTS[..], SpanKindSaid::Agent),
        (&MODELS[..], SpanKindSaid::Model),
        (&RUNS[..], SpanKindSaid::Run),
    ]
    .into_iter()
    .find_map(|(words, kind)| (is_in(words) || is_last(words)).then_some(kind));
    let is_other = || {
        let speaks_of = |word: &str| memmem::find(whole, word.as_bytes()).is_some();
        !whole.is_empty() && !speaks_of("tool") && !speaks_of("function")
    };
    said.or_else(|| is_other().then_some(SpanKindSaid::Other))
}

fn is_word(value: &[u8], words: &[&str]) -> bool {
    let mut buffer = [0; LETTERS_MAX];
    let letters = letters(value, &mut buffer);
    words.iter().any(|word| word.as_bytes() == letters)
}

/// The letters and digits of a text, in small letters; of a long one those at its end.
fn letters<'b>(text: &[u8], buffer: &'b mut [u8; LETTERS_MAX]) -> &'b [u8] {
    let mut from = LETTERS_MAX;
    let mut letters = text.iter().rev().filter(|byte| byte.is_ascii_alphanumeric());
    while from > 0
        && let Some(letter) = letters.next()
    {
        from -= 1;
        buffer[from] = letter.to_ascii_lowercase();
    }
    &buffer[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_says_what_it_is_under_any_instrumentations_key() {
        use SpanKindSaid::{Agent, Model, Other, Run, Tool, ToolCallId, ToolContent, ToolName};
        for (key, value, expected) in [
            ("acme.span.kind", "TOOL", Some(Tool)),
            ("acme.span_kind", "tool", Some(Tool)),
            ("acme_event_type", "tool_call", Some(Tool)),
            ("acme.spanType", "SpanType.TOOL", Some(Tool)),
            ("acme.type.node", "Agent", Some(Agent)),
            ("acme.observation.type", "generation", Some(Model)),
            ("acme.run_type", "chain", Some(Run)),
            ("acme.kind", "execute_tool", Some(Tool)),
            ("acme.tool.call_id", "call_1", Some(ToolCallId)),
            ("acme.toolCallId", "call_1", Some(ToolCallId)),
            ("acme.tool.call_id", "", None),
            ("acme.toolName", "find", Some(ToolName)),
            ("tool_name", "", None),
            ("acme.gen_ai.tool.arguments", "{}", Some(ToolContent)),
            ("acme_tool_output", "", Some(ToolContent)),
            ("gen_ai.tool.call.arguments", "{}", None),
            ("acme.tools.0.tool.name", "find", None),
            // Spans of models hold ids of calls too.
            ("gen_ai.tool.call.id", "call_1", None),
            ("llm.input_messages.2.message.tool_call_id", "call_1", None),
            // A shop sells tools, an exchange has agents.
            ("product.type", "tool", None),
            ("enduser.type", "agent", None),
            ("acme.span.kind", "toolbox", None),
            ("acme.span.kind", "GUARDRAIL", Some(Other)),
            ("acme.kind", "guardrail", None),
            ("acme.span.kind", "", None),
            ("acme.span.color", "tool", None),
            ("acme.span.subtype", "tool_call", None),
            ("acme.messages.0.type", "tool_call", None),
            ("acme.state.step.kind", "tool_call", None),
        ] {
            let kind = span_kind(key.as_bytes(), value.as_bytes());
            assert_eq!(kind.filter(|_| is_kind_key(key.as_bytes())), expected, "{key}: {value}");
        }
    }
}
