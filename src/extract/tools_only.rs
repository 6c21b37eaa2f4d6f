//! Which parts of a model's messages speak of tools.
//!
//! Calls may stand only in messages, so messages are looked at whatever is evaluated; but most of
//! their bytes are prose that nobody asked for. What is kept here may hold a call or its result;
//! what is left out holds neither, in any of the known shapes.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::otlp::wire::leading_bytes;

/// A text of up to this many bytes in a message about tools is kept unread: a role, an id, a name.
const SHORT_MAX: usize = 66;

/// Whether an attribute key names a tool or function call.
pub(super) fn names_tools(key: &[u8]) -> bool {
    // Keys are short: a search would take longer to set up than to run.
    (0..key.len()).any(|at| match key[at..].first_chunk() {
        Some(b"tool") => true,
        Some(b"func") => key[at..].starts_with(b"function_call"),
        _ => false,
    })
}

/// Whether an encoded value may hold a tool call or its result. Prose is told by its first byte,
/// since calls stand in JSON, Python literals or structured values; in those every known shape has
/// one of `tool_calls`, `tool_use`, `tool-call`, `toolUse`, `toolRequest`, `"role":"tool"`,
/// `function_call`, `functionCall`, `"function"` and the like.
pub(super) fn speaks_of_tools(value: &[u8]) -> bool {
    let text = match leading_bytes(value, 1) {
        Some((text, _)) if !is_structured(text) => return false,
        _ => value,
    };
    let word = |needle: &Finder<'_>, first: &[u8], next: &[u8]| {
        needle.find_iter(text).any(|at| {
            let before = |back: usize| at.checked_sub(back).and_then(|at| text.get(at));
            before(1).is_some_and(|byte| first.contains(byte))
                && (before(2).is_some_and(|byte| b"\"'".contains(byte))
                    || text.get(at + needle.needle().len()).is_some_and(|byte| next.contains(byte)))
        })
    };
    word(&TOOL, b"tT", b"_-CUR") || word(&FUNCTION, b"fF", b"_CR")
}

static TOOL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("ool"));
static FUNCTION: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("unction"));

fn is_structured(text: &[u8]) -> bool {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    first.is_some_and(|byte| b"[{(\"'".contains(byte))
}

/// What a key such as `llm.input_messages.3.message.role` says of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MessageField {
    message: MessageKey,
    is_call_id: bool,
    is_role: bool,
    names_tools: bool,
}

/// A message: the number of its prefix and its index. Indices behind different prefixes are
/// different messages; keys without an index are one.
pub(super) type MessageKey = (u16, u32);

impl MessageField {
    /// The number of a prefix, and what follows that in the key: index and rest.
    pub(super) fn new(prefix: u16, tail: &[u8]) -> Self {
        let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = tail.split_at(digits);
        let index = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        Self {
            message: (prefix, index.unwrap_or(u32::MAX)),
            is_call_id: rest.ends_with(b"tool_call_id"),
            is_role: rest.ends_with(b"role"),
            names_tools: names_tools(rest),
        }
    }

    /// The number of its prefix.
    pub(super) fn prefix(self) -> u16 {
        self.message.0
    }
}

/// An attribute of a list of messages.
pub(super) struct MessagePart<'a> {
    message: MessageKey,
    is_result: bool,
    is_of_tools: bool,
    is_short: bool,
    /// Its encoded `KeyValue`.
    entry: &'a [u8],
}

impl<'a> MessagePart<'a> {
    /// What the key says, the encoded value, and both as an encoded attribute.
    pub(super) fn new(field: MessageField, value: &[u8], entry: &'a [u8]) -> Self {
        let says_result = || matches!(value, b"\x0a\x04tool" | b"\x0a\x08function");
        let is_result = field.is_call_id || field.is_role && says_result();
        Self {
            message: field.message,
            is_result,
            is_of_tools: is_result || field.names_tools || speaks_of_tools(value),
            is_short: value.len() <= SHORT_MAX,
            entry,
        }
    }
}

/// Passes on the parts of those messages that hold a call or its result, without their prose.
pub(super) fn keep_tool_messages<'a>(
    parts: &[MessagePart<'a>],
    messages: &mut Vec<(MessageKey, bool)>,
    mut keep: impl FnMut(&'a [u8]),
) {
    messages.clear();
    let of_tools = parts.iter().filter(|part| part.is_of_tools);
    messages.extend(of_tools.map(|part| (part.message, part.is_result)));
    if messages.is_empty() {
        return;
    }
    // The results first, so that the first entry of a message says whether it is one.
    messages.sort_unstable_by_key(|(message, is_result)| (*message, !is_result));
    messages.dedup_by_key(|(message, _)| *message);
    for part in parts {
        let at = messages.binary_search_by_key(&part.message, |(known, _)| *known);
        let Some((_, is_result)) = at.ok().and_then(|at| messages.get(at)) else { continue };
        if *is_result || part.is_short || part.is_of_tools {
            keep(part.entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an `AnyValue` of a short text.
    fn encoded(text: &str) -> Vec<u8> {
        [&[0x0a, text.len() as u8], text.as_bytes()].concat()
    }

    #[test]
    fn known_shapes_speak_of_tools_and_prose_does_not() {
        for shape in [
            r#"[{"role":"assistant","tool_calls":[{"id":"1"}]}]"#,
            r#"[{"type":"tool_use"}]"#,
            r#"[{"toolUse":{}}]"#,
            r#"{"role": "tool", "content": "x"}"#,
            r#"{"parts":[{"function_call":{}}]}"#,
            r#"{"parts":[{"functionResponse":{}}]}"#,
            r#"[{"type":"tool-call"}]"#,
            "[{'role': 'tool'}]",
        ] {
            assert!(speaks_of_tools(&encoded(shape)), "{shape}");
        }
        for prose in ["call the tool_search tool", "[the tool works as a function should]"] {
            assert!(!speaks_of_tools(&encoded(prose)), "{prose}");
        }
    }

    #[test]
    fn only_messages_with_calls_or_results_are_kept() {
        let long = [b'x'; 100];
        let part = |tail: &'static str, value| {
            MessagePart::new(MessageField::new(0, tail.as_bytes()), value, tail.as_bytes())
        };
        let parts = [
            part("0.message.role", b"\x0a\x04user"),
            part("0.message.content", &long),
            part("1.message.role", b"\x0a\x09assistant"),
            part("1.message.content", &long),
            part("1.message.tool_calls.0.tool_call.id", b"\x0a\x02c1"),
            part("2.message.content", &long),
            part("2.message.role", b"\x0a\x04tool"),
        ];
        let mut kept = Vec::new();
        keep_tool_messages(&parts, &mut Vec::new(), |entry| kept.push(entry));
        let wanted = ["1.message.role", "1.message.tool_calls.0.tool_call.id"]
            .into_iter()
            .chain(["2.message.content", "2.message.role"]);
        assert_eq!(kept, wanted.map(str::as_bytes).collect::<Vec<_>>());
    }
}
