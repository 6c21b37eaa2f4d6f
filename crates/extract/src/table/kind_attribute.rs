//! Span kind from attributes of unknown vendors: `acme.span.kind: TOOL`.
//!
//! Most instrumentations mark their spans like this, with a vendor's key and common values. Only
//! letters and digits of keys and values count: `spanKind`, `span_kind` and `span.kind` are equal,
//! as are `tool_call` and `ToolCall`.

use memchr::memmem;

use super::super::dialect::SpanKindSaid;

/// Endings of keys for a span's kind only.
const KINDS: [&str; 9] = [
    "spankind", "spantype", "eventtype", "observationtype", "runtype", "nodetype", "typenode",
    "steptype", "operationtype",
];
/// Endings of keys with several meanings, for which only unambiguous values count.
const VAGUE_KINDS: [&str; 4] = ["kind", "type", "category", "operation"];
/// Limit on the parts of a vague key: one deeper than a vendor's `acme.kind` describes something
/// within the span.
const VAGUE_PARTS_MAX: usize = 2;

/// Endings of keys for the id of a tool call.
const CALL_IDS: [&str; 2] = ["toolcallid", "functioncallid"];
/// Key of the conventions, which model spans have too.
const CALL_ID_OF_CONVENTIONS: &[u8] = b"gen_ai.tool.call.id";

/// Ending of keys for the name of a tool.
const TOOL_NAME: &[u8] = b"toolname";
/// Endings of keys for a tool's input or output.
const TOOL_CONTENT: [&str; 13] = [
    "toolarguments", "toolargs", "toolinput", "toolinputs", "toolparameters", "toolparams",
    "toolpayload", "toolresult", "tooloutput", "toolresponse", "toolcallarguments", "toolcallargs",
    "toolcallresult",
];
/// Prefixes of conventional keys, which have their own rules.
const CONVENTIONS: [&[u8]; 3] = [b"gen_ai.", b"tool.", b"mcp."];

/// Unambiguous values for a tool call.
const TOOL_CALLS: [&str; 13] = [
    "toolcall", "callingtool", "calltool", "tooluse", "toolrun", "runtool", "executetool",
    "toolexecution", "toolinvocation", "invoketool", "mcptoolcall", "functioncall", "toolspan",
];
/// Spelling of a call by compilers and ledgers, which is none for the kinds of nodes in a tree and
/// under keys with several meanings.
const FUNCTION_CALL: &[u8] = b"FunctionCall";
const NODE_KINDS: [&str; 2] = ["nodetype", "typenode"];
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

/// Longest compared key or value, letters: no known one is longer.
const LETTERS_MAX: usize = 64;

/// Returns true if the key may state a span's kind.
pub(in super::super) fn is_kind_key(key: &[u8]) -> bool {
    let mut buffer = [0; LETTERS_MAX];
    let letters = letters(key, &mut buffer);
    // A key below a kind does not state a span's kind, nor does one of a list item: a model span
    // has messages of any type.
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

/// Returns true for a key of a tool's name.
pub(in super::super) fn is_tool_name(key: &[u8]) -> bool {
    letters(key, &mut [0; LETTERS_MAX]).ends_with(TOOL_NAME)
}

/// Returns true for a key, given its letters, of a tool call's id.
fn is_call_id(key: &[u8], letters: &[u8]) -> bool {
    key != CALL_ID_OF_CONVENTIONS && CALL_IDS.iter().any(|end| letters.ends_with(end.as_bytes()))
}

/// Returns true for a key, given its letters, of a tool's input or output.
fn is_content(key: &[u8], letters: &[u8]) -> bool {
    TOOL_CONTENT.iter().any(|end| letters.ends_with(end.as_bytes()))
        && !CONVENTIONS.iter().any(|prefix| key.starts_with(prefix))
}

/// Returns true if a part of a key is a number.
fn has_number(key: &[u8]) -> bool {
    key.split(|byte| *byte == b'.').any(|part| part.iter().all(u8::is_ascii_digit))
}

/// Returns true if a name is a kind of span instead of a tool: `acme.tool.execution`.
pub(in super::super) fn names_kind(name: &str) -> bool {
    let mut buffer = [0; LETTERS_MAX];
    let letters = letters(name.as_bytes(), &mut buffer);
    TOOL_CALLS.iter().any(|word| letters.ends_with(word.as_bytes()))
}

/// Returns the kind of span stated by a key and value.
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
    // Some languages print the word as `SpanType.TOOL`.
    let last = value.rsplit(|byte| *byte == b'.').next().filter(|last| last.len() < value.len());
    let is_last = |words: &[&str]| last.is_some_and(|last| is_word(last, words));
    let is_node = || NODE_KINDS.iter().any(|word| key.ends_with(word.as_bytes()));
    let is_of_code = value == FUNCTION_CALL && (!is_clear || is_node());
    if is_in(&TOOL_CALLS) && !is_of_code || is_clear && (is_in(&TOOLS) || is_last(&TOOLS)) {
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
        whole.iter().any(u8::is_ascii_alphabetic) && !speaks_of("tool") && !speaks_of("function")
    };
    said.or_else(|| is_other().then_some(SpanKindSaid::Other))
}

fn is_word(value: &[u8], words: &[&str]) -> bool {
    let mut buffer = [0; LETTERS_MAX];
    let letters = letters(value, &mut buffer);
    words.iter().any(|word| word.as_bytes() == letters)
}

/// Returns the letters and digits of a text in lower case; for a long one the last ones.
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
            ("acme.event_type", "FunctionCall", Some(Tool)),
            ("acme.type", "function_call", Some(Tool)),
            ("graph.node_type", "function_call", Some(Tool)),
            ("ledger.kind", "FunctionCall", None),
            ("ast.node_type", "FunctionCall", None),
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
            // The number of a kind says nothing to others.
            ("acme.event.type", "7", None),
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
