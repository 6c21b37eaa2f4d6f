//! Name of a tool in the name of its span: `tool.find`, `agents.run.tool.find`,
//! `execute_tool find`, `Tool: find`.

use super::Decoded;
use spanscore_base::value::Value;

/// Words before the name of a tool, each a part of the span's name.
const BEFORE: [&str; 12] = [
    "tool",
    "tools",
    "mcp_tool",
    "tool_call",
    "toolcall",
    "tool_use",
    "call_tool",
    "run_tool",
    "use_tool",
    "invoke_tool",
    "execute_tool",
    "executetool",
];

/// Words that tell of a tool's call or of tools, and are no tool's name.
const NO_NAMES: [&str; 42] = [
    "approval",
    "blocked",
    "blocked_on_user",
    "cache",
    "call",
    "calls",
    "completed",
    "debug",
    "discover",
    "discovery",
    "dispatch",
    "end",
    "error",
    "exec",
    "execute",
    "executed",
    "execution",
    "executions",
    "finish",
    "hook",
    "input",
    "invocation",
    "invoke",
    "list",
    "name",
    "names",
    "node",
    "output",
    "permission",
    "registry",
    "register",
    "request",
    "response",
    "result",
    "results",
    "run",
    "schema",
    "selection",
    "start",
    "unregister",
    "use",
    "withdraw",
];

/// Longest name that is one.
const NAME_BYTES_MAX: usize = 128;

/// Returns the tool's name behind the last word for tools in the name of a span; `None` where none
/// stands there.
pub(crate) fn tool_in_name(span: &str) -> Option<&str> {
    let mut found = None;
    let mut rest = span;
    while let Some(at) = rest.find(is_divider) {
        let (part, behind) = rest.split_at(at);
        let behind = behind.trim_start_matches(is_divider);
        if BEFORE.iter().any(|word| part.eq_ignore_ascii_case(word)) {
            found = Some(behind);
        }
        rest = behind;
    }
    let name = found?.split('(').next()?.trim_end();
    let first = name.split(is_divider).next()?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
    let is_plain = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_name);
    let is_none = NO_NAMES.iter().any(|word| first.eq_ignore_ascii_case(word));
    (is_plain && !is_none).then_some(name)
}

/// Returns the name of a tool in the name of its span, or all of it if it speaks of nothing but
/// the tool.
pub(super) fn name_of_tool(value: Value<'_>) -> Option<Decoded<'_>> {
    let Value::String(span) = value else { return None };
    let speaks_of_tools = |part: &str| {
        BEFORE.iter().any(|word| part.eq_ignore_ascii_case(word))
            || ["toolsnode", "toolnode", "tool_node", "tools_node", "tool-call", "mcp-tool-call"]
                .iter()
                .any(|word| part.eq_ignore_ascii_case(word))
    };
    let name = match tool_in_name(&span) {
        Some(name) => Value::from(name.to_owned()),
        None if span.split(is_divider).any(speaks_of_tools) => return None,
        None => Value::String(span),
    };
    Some(Decoded::Value(name))
}

fn is_divider(char: char) -> bool {
    matches!(char, '.' | ':' | '/' | ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_named_behind_a_word_for_tools() {
        for (span, behind, whole) in [
            ("tool.find", Some("find"), Some("find")),
            ("agents.run.tool.find", Some("find"), Some("find")),
            ("agent.Clerk.tools.find", Some("find"), Some("find")),
            ("execute_tool shop.find", Some("shop.find"), Some("shop.find")),
            ("Tool: find", Some("find"), Some("find")),
            ("tool/find(city=Brno)", Some("find"), Some("find")),
            ("tools/call find", None, None),
            ("find", None, Some("find")),
            ("search_tool", None, Some("search_tool")),
            ("acme.tool.execution", None, None),
            ("AG2 tool execution", None, None),
            ("mcp.tool.call", None, None),
            ("tool", None, None),
            ("ToolsNode", None, None),
            ("tool. ", None, None),
            ("tool: what is the weather", None, None),
            ("tool_server.start", None, Some("tool_server.start")),
            ("", None, Some("")),
        ] {
            assert_eq!(tool_in_name(span), behind, "{span}");
            let named = match name_of_tool(Value::from(span)) {
                Some(Decoded::Value(value)) => value.as_str().map(str::to_owned),
                _ => None,
            };
            assert_eq!(named.as_deref(), whole, "{span}");
        }
    }
}
