//! Word lists for attribute keys, by fact.

/// Words for a tool.
pub(super) const TOOLS: &[&str] = &["tool", "function", "toolcall", "toolname"];
/// Words that may mean a tool, without a better one.
pub(super) const ACTIONS: &[&str] =
    &["action", "skill", "plugin", "command", "capability", "ability", "activity"];
/// Words next to those in the name of a span kind: `execute_tool`, `tool-use`.
pub(super) const CALLING: &[&str] =
    &["call", "calls", "calling", "execute", "execution", "use", "run", "invoke", "invocation"];
/// Words in the keys of span kinds.
pub(super) const KINDS: &[&str] =
    &["kind", "type", "operation", "op", "category", "step", "event", "role", "class"];
pub(super) const ARGUMENTS: &[&str] =
    &["arguments", "args", "argument", "arg", "parameters", "params", "kwargs"];
pub(super) const INPUTS: &[&str] = &["input", "inputs", "in"];
pub(super) const REQUESTS: &[&str] = &["request", "payload", "query", "body"];
pub(super) const RESULTS: &[&str] =
    &["result", "results", "output", "outputs", "response", "return", "returned", "returns"];
pub(super) const ANSWERS: &[&str] = &["out", "observation", "answer", "reply", "completion"];
/// Words after that of a fact without a meaning of their own: `input.value`.
pub(super) const HOLDERS: &[&str] =
    &["value", "json", "text", "raw", "content", "data", "str", "string", "message", "full"];
/// Words of keys that describe a fact instead of holding it.
pub(super) const ABOUT: &[&str] = &[
    "type", "mime", "format", "schema", "tokens", "token", "count", "size", "length", "len",
    "hash", "id", "ids", "name", "names", "truncated", "definition", "definitions", "description",
    "choice", "available", "time", "duration", "cost", "reason", "reasons", "finish", "version",
    "index", "status", "model", "encoding", "bytes", "ms", "count", "redacted",
];
pub(super) const SESSIONS: &[&str] = &["session", "conversation", "thread", "chat", "dialog"];
pub(super) const AGENTS: &[&str] = &["agent", "assistant", "bot", "persona", "crew"];
pub(super) const MODELS: &[&str] =
    &["llm", "model", "chat", "generation", "completion", "generate", "inference"];
/// Kinds of spans around a whole run.
pub(super) const RUNS: &[&str] =
    &["agent", "workflow", "chain", "run", "turn", "crew", "graph", "task", "session", "root"];
pub(super) const ERRORS: &[&str] = &["error", "exception", "failure", "failed"];
/// Words after that of an error in the key of its text.
pub(super) const SAYINGS: &[&str] =
    &["message", "msg", "text", "reason", "description", "detail", "details"];
pub(super) const OUTCOMES: &[&str] = &["status", "state", "outcome"];
pub(super) const QUESTIONS: &[&str] = &["question", "prompt", "query", "ask"];

/// Splits a key into lower-case words: `acme.toolCall_id` is acme, tool, call, id.
pub(super) fn words(key: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for char in key.chars() {
        let begins = char.is_uppercase() && !last.is_uppercase();
        if char.is_alphanumeric() {
            match words.last_mut() {
                Some(word) if last.is_alphanumeric() && !begins => word.extend(char.to_lowercase()),
                _ => words.push(char.to_lowercase().collect()),
            }
        }
        last = char;
    }
    words
}

pub(super) fn is_in(word: &str, list: &[&str]) -> bool {
    list.contains(&word)
}

pub(super) fn any_in(words: &[String], list: &[&str]) -> bool {
    words.iter().any(|word| is_in(word, list))
}

/// Returns true if a text only means a tool call: `execute_tool`, `TOOL_CALL`.
pub(super) fn is_tool_kind(text: &str, tools: &[&str]) -> bool {
    let words = words(text);
    any_in(&words, tools)
        && words.iter().all(|word| {
            is_in(word, tools) || is_in(word, CALLING) || is_in(word, &["span", "step", "node"])
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_parted_into_words() {
        for (key, expected) in [
            ("acme.toolCall_id", vec!["acme", "tool", "call", "id"]),
            ("TOOL_CALL", vec!["tool", "call"]),
            ("ai.response.0.toolName", vec!["ai", "response", "0", "tool", "name"]),
            ("", vec![]),
        ] {
            assert_eq!(words(key), expected, "{key}");
        }
    }

    #[test]
    fn kinds_of_tools_name_nothing_else() {
        for (text, expected) in [
            ("tool", true),
            ("EXECUTE_TOOL", true),
            ("toolCall", true),
            ("tools list", false),
            ("llm", false),
            ("tool_choice", false),
        ] {
            assert_eq!(is_tool_kind(text, TOOLS), expected, "{text}");
        }
    }
}
