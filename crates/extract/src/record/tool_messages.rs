//! Filter of a model's messages that retains those about tools.
//!
//! Calls may occur only in messages, so messages are always read; but most of their bytes are prose
//! that no evaluator needs. A retained part may contain a call or its result; a dropped one
//! contains neither, in any known shape.

use std::sync::LazyLock;

use hashbrown::HashMap;
use memchr::memmem::Finder;

use super::rule::{AttributeRule, Rule};
use crate::table::names_tools;
use spanscore_base::otlp::wire::leading_bytes;

/// Longest unread text retained in a message about tools, bytes: a role, an id, a name.
const SHORT_MAX: usize = 66;

/// Returns true if an encoded value may contain a tool call or its result. Prose is recognized by
/// its first byte, since calls are written as JSON, Python literals or structured values. In those,
/// every known shape has one of `tool_calls`, `tool_use`, `tool-call`, `toolUse`, `toolRequest`,
/// `"role":"tool"`, `function_call`, `functionCall`, `"function"` and the like.
pub(crate) fn may_mention_calls(value: &[u8]) -> bool {
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

/// Returns true if an encoded value is an object or list, or a text that starts like one.
pub(crate) fn is_structured_value(value: &[u8]) -> bool {
    match leading_bytes(value, 1) {
        Some((text, _)) => {
            let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
            first.is_some_and(|byte| b"[{".contains(byte))
        }
        None => matches!(value, [0x2a | 0x32, ..]),
    }
}

fn is_structured(text: &[u8]) -> bool {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    first.is_some_and(|byte| b"[{(\"'".contains(byte))
}

/// Message of a span: number of its prefix, and its index. Equal indices after different prefixes
/// are different messages; keys without an index are one.
type MessageKey = (u16, u32);

/// Attribute of a message, such as `llm.input_messages.3.message.role`, described by its key and
/// the message's other keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessagePart {
    /// Sources with a word matched by the key, one bit each.
    pub(crate) words: u32,
    message: MessageKey,
    is_call_id: bool,
    is_role: bool,
    names_tools: bool,
    /// Content of the message by its keys.
    content: MessageContent,
}

/// Content of a message.
#[derive(Clone, Copy, Default, Debug)]
struct MessageContent {
    /// True if it contains a call or its result.
    is_of_tools: bool,
    /// True if it contains a result.
    is_result: bool,
}

impl MessagePart {
    /// Parses a key: the number of its prefix, and the rest that starts with the index.
    pub(crate) fn new(words: u32, prefix: u16, tail: &[u8]) -> Self {
        let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = tail.split_at(digits);
        let index = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        Self {
            words,
            message: (prefix, index.unwrap_or(u32::MAX)),
            is_call_id: rest.ends_with(b"tool_call_id"),
            is_role: rest.ends_with(b"role"),
            names_tools: names_tools(rest),
            content: MessageContent::default(),
        }
    }

    /// Joins the parts of each message of a span.
    pub(crate) fn join(parts: Vec<&mut Self>) {
        let mut contents: HashMap<MessageKey, MessageContent> = HashMap::new();
        for part in &parts {
            let content = contents.entry(part.message).or_default();
            content.is_of_tools |= part.is_of_tools();
            content.is_result |= part.is_call_id;
        }
        for part in parts {
            part.content = contents.get(&part.message).copied().unwrap_or_default();
        }
    }

    fn is_of_tools(&self) -> bool {
        self.is_call_id || self.names_tools
    }

    /// Returns true if the encoded value reveals a call or result that the key does not.
    #[inline]
    fn reveals(&self, value: &[u8]) -> bool {
        !self.is_of_tools() && (self.is_role && is_result_role(value) || may_mention_calls(value))
    }
}

/// Contents of the messages revealed by values instead of keys; usually none.
pub(crate) struct MessageContents(Option<HashMap<MessageKey, MessageContent>>);

impl MessageContents {
    /// Reads the parts of messages among some rules; `value` returns the encoded value at an index.
    #[inline]
    pub(crate) fn read<'a>(rules: &[AttributeRule], value: impl Fn(u32) -> &'a [u8]) -> Self {
        let mut contents: Option<HashMap<MessageKey, MessageContent>> = None;
        for AttributeRule { place, rule } in rules {
            let Rule::Message(part) = rule else { continue };
            let value = value(*place);
            if part.reveals(value) {
                let contents = contents.get_or_insert_default();
                let content = contents.entry(part.message).or_insert(part.content);
                content.is_of_tools = true;
                content.is_result |= part.is_role && is_result_role(value);
            }
        }
        Self(contents)
    }

    /// Returns true if a part is retained: prose only in results.
    #[inline]
    pub(crate) fn keep(&self, part: &MessagePart, value: &[u8]) -> bool {
        let told = self.0.as_ref().and_then(|contents| contents.get(&part.message));
        let content = told.copied().unwrap_or(part.content);
        content.is_result
            || content.is_of_tools
                && (value.len() <= SHORT_MAX || part.is_of_tools() || part.reveals(value))
    }
}

/// Returns true if an encoded value is the role of a message with a result.
fn is_result_role(value: &[u8]) -> bool {
    matches!(value, b"\x0a\x04tool" | b"\x0a\x08function")
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
            assert!(may_mention_calls(&encoded(shape)), "{shape}");
        }
        for prose in ["call the tool_search tool", "[the tool works as a function should]"] {
            assert!(!may_mention_calls(&encoded(prose)), "{prose}");
        }
    }

    #[test]
    fn only_messages_with_calls_or_results_are_kept() {
        let long = [b'x'; 100];
        let parts: [(&str, &[u8], bool); 10] = [
            ("0.message.role", b"\x0a\x04user", false),
            ("0.message.content", &long, false),
            ("1.message.role", b"\x0a\x09assistant", true),
            ("1.message.content", &long, false),
            ("1.message.tool_calls.0.tool_call.id", b"\x0a\x02c1", true),
            ("2.message.content", &long, true),
            ("2.message.role", b"\x0a\x04tool", true),
            ("3.message.content", b"\x0a\x0f[{'tool_use': 1}]", true),
            ("3.message.role", b"\x0a\x04user", true),
            ("4.message.tool_call_id", b"\x0a\x02c1", true),
        ];
        // With and without the messages that only values tell of.
        for count in [5, parts.len()] {
            let parts = &parts[..count];
            let mut rules: Vec<_> = (0..)
                .zip(parts)
                .map(|(place, (key, ..))| {
                    let rule = Rule::Message(MessagePart::new(0, 0, key.as_bytes()));
                    AttributeRule { place, rule }
                })
                .collect();
            MessagePart::join(rules.iter_mut().filter_map(|it| it.rule.message_mut()).collect());
            let contents = MessageContents::read(&rules, |place| parts[place as usize].1);
            for (AttributeRule { rule, .. }, (key, value, wanted)) in rules.iter_mut().zip(parts) {
                let part = rule.message_mut().unwrap();
                assert_eq!(contents.keep(part, value), *wanted, "{key} of {count}");
            }
        }
    }
}
