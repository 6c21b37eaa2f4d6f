//! Which parts of a model's messages speak of tools.
//!
//! Calls may stand only in messages, so messages are looked at whatever is evaluated; but most of
//! their bytes are prose that nobody asked for. What is kept here may hold a call or its result;
//! what is left out holds neither, in any of the known shapes.

use memchr::memmem;

use crate::otlp::wire::leading_bytes;

/// A text of up to this many bytes in a message about tools is kept unread: a role, an id, a name.
const SHORT_MAX: usize = 66;

/// Whether an attribute key names a tool or function call.
pub(super) fn names_tools(key: &[u8]) -> bool {
    let holds = |word: &[u8]| memmem::find(key, word).is_some();
    holds(b"tool") || holds(b"function_call")
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
    let word = |needle: &[u8], first: &[u8], next: &[u8]| {
        memmem::find_iter(text, needle).any(|at| {
            let before = |back: usize| at.checked_sub(back).and_then(|at| text.get(at));
            before(1).is_some_and(|byte| first.contains(byte))
                && (before(2).is_some_and(|byte| b"\"'".contains(byte))
                    || text.get(at + needle.len()).is_some_and(|byte| next.contains(byte)))
        })
    };
    word(b"ool", b"tT", b"_-CUR") || word(b"unction", b"fF", b"_CR")
}

fn is_structured(text: &[u8]) -> bool {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    first.is_some_and(|byte| b"[{(\"'".contains(byte))
}

/// An attribute of a list of messages: `llm.input_messages.3.message.role`.
pub(super) struct MessagePart<'a> {
    /// The number of the prefix: indices behind different prefixes are different messages.
    pub(super) prefix: u16,
    /// What follows the prefix in its key: index and rest.
    pub(super) tail: &'a [u8],
    /// Its encoded value.
    pub(super) value: &'a [u8],
    /// Its encoded `KeyValue`.
    pub(super) entry: &'a [u8],
}

/// A message: the number of its prefix and its index.
pub(super) type MessageKey = (u16, u32);

impl<'a> MessagePart<'a> {
    /// The message, and what follows its index; keys without an index are one message.
    fn message(&self) -> (MessageKey, &'a [u8]) {
        let digits = self.tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.tail.split_at(digits);
        let index = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        ((self.prefix, index.unwrap_or(u32::MAX)), rest)
    }
}

/// Passes on the parts of those messages that hold a call or its result, without their prose.
pub(super) fn keep_tool_messages<'a>(
    parts: &[MessagePart<'a>],
    messages: &mut Vec<(MessageKey, bool)>,
    mut keep: impl FnMut(&'a [u8]),
) {
    messages.clear();
    for part in parts {
        let (message, rest) = part.message();
        let is_result = rest.ends_with(b"tool_call_id")
            || rest.ends_with(b"role")
                && matches!(part.value, b"\x0a\x04tool" | b"\x0a\x08function");
        if is_result || names_tools(rest) || speaks_of_tools(part.value) {
            messages.push((message, is_result));
        }
    }
    // The results first, so that the first entry of a message says whether it is one.
    messages.sort_unstable_by_key(|(message, is_result)| (*message, !is_result));
    messages.dedup_by_key(|(message, _)| *message);
    for part in parts {
        let (message, rest) = part.message();
        let Ok(at) = messages.binary_search_by_key(&message, |(known, _)| *known) else {
            continue;
        };
        let is_result = messages.get(at).is_some_and(|(_, is_result)| *is_result);
        if is_result
            || part.value.len() <= SHORT_MAX
            || names_tools(rest)
            || speaks_of_tools(part.value)
        {
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
        let part = |tail: &'static str, value| MessagePart {
            prefix: 0,
            tail: tail.as_bytes(),
            value,
            entry: tail.as_bytes(),
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
