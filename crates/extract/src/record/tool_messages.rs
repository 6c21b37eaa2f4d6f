//! Which parts of a model's messages speak of tools.
//!
//! Calls may stand only in messages, so messages are looked at whatever is evaluated; but most of
//! their bytes are prose that nobody asked for. What is kept here may hold a call or its result;
//! what is left out holds neither, in any of the known shapes.

use std::sync::LazyLock;

use hashbrown::HashMap;
use memchr::memmem::Finder;

use crate::table::names_tools;
use spanscore_base::otlp::wire::leading_bytes;

/// A text of up to this many bytes in a message about tools is kept unread: a role, an id, a name.
const SHORT_MAX: usize = 66;

/// Whether an encoded value may hold a tool call or its result. Prose is told by its first byte,
/// since calls stand in JSON, Python literals or structured values; in those every known shape has
/// one of `tool_calls`, `tool_use`, `tool-call`, `toolUse`, `toolRequest`, `"role":"tool"`,
/// `function_call`, `functionCall`, `"function"` and the like.
pub(crate) fn speaks_of_tools(value: &[u8]) -> bool {
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

/// Whether an encoded value is an object or list, or a text that begins like one.
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

/// What a key such as `llm.input_messages.3.message.role` says of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MessageField {
    message: MessageKey,
    is_call_id: bool,
    is_role: bool,
    names_tools: bool,
}

/// A message: the number of its prefix and its index. Indices behind different prefixes are
/// different messages; keys without an index are one.
pub(crate) type MessageKey = (u16, u32);

impl MessageField {
    /// The number of a prefix, and what follows that in the key: index and rest.
    pub(crate) fn new(prefix: u16, tail: &[u8]) -> Self {
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

    fn is_of_tools(self) -> bool {
        self.is_call_id || self.names_tools
    }
}

/// An attribute of a list of messages, as its key and those beside it tell of it.
#[derive(Clone, Copy)]
pub(crate) struct MessagePart {
    /// The place of the attribute among those of its span.
    pub(crate) place: u32,
    /// By the words of which sources its key is worded.
    pub(crate) words: u32,
    field: MessageField,
    /// What the keys alone say of its message.
    message: MessageContent,
}

/// What is known of a message.
#[derive(Clone, Copy, Default)]
struct MessageContent {
    /// It holds a call or its result.
    is_of_tools: bool,
    /// It holds a result.
    is_result: bool,
}

impl MessagePart {
    /// The parts of the messages of a span.
    pub(crate) fn all(fields: &[(u32, MessageField, u32)]) -> Vec<Self> {
        let mut messages: HashMap<MessageKey, MessageContent> = HashMap::new();
        for (_, field, _) in fields {
            let message = messages.entry(field.message).or_default();
            message.is_of_tools |= field.is_of_tools();
            message.is_result |= field.is_call_id;
        }
        let message = |field: &MessageField| messages.get(&field.message).copied();
        let part = |(place, field, words): &(u32, MessageField, u32)| Self {
            place: *place,
            words: *words,
            field: *field,
            message: message(field).unwrap_or_default(),
        };
        fields.iter().map(part).collect()
    }

    /// Whether the encoded value says that the message holds a call or a result, though the key
    /// does not.
    #[inline]
    fn tells(&self, value: &[u8]) -> bool {
        !self.field.is_of_tools()
            && (self.field.is_role && says_result(value) || speaks_of_tools(value))
    }

    /// Whether to keep the part of a message: no prose, but of results.
    fn is_kept(&self, message: MessageContent, value: &[u8]) -> bool {
        message.is_result
            || message.is_of_tools
                && (value.len() <= SHORT_MAX || self.field.is_of_tools() || self.tells(value))
    }
}

/// Whether an encoded value is the role of a message with a result.
fn says_result(value: &[u8]) -> bool {
    matches!(value, b"\x0a\x04tool" | b"\x0a\x08function")
}

/// Passes on the parts of those messages that hold a call or its result, without
/// their prose; `value` gives the encoded value at a place. Mostly the keys tell them.
pub(crate) fn keep_tool_messages<'a>(
    parts: &[MessagePart],
    value: impl Fn(u32) -> &'a [u8],
    mut keep: impl FnMut(&MessagePart),
) {
    let told = |part: &&MessagePart| part.tells(value(part.place));
    let Some(first) = parts.iter().position(|part| told(&part)) else {
        let kept = parts.iter().filter(|part| part.is_kept(part.message, value(part.place)));
        return kept.for_each(keep);
    };
    let mut messages: HashMap<MessageKey, MessageContent> = HashMap::new();
    for part in parts[first..].iter().filter(told) {
        let message = messages.entry(part.field.message).or_insert(part.message);
        message.is_of_tools = true;
        message.is_result |= part.field.is_role && says_result(value(part.place));
    }
    for part in parts {
        let message = messages.get(&part.field.message).copied().unwrap_or(part.message);
        if part.is_kept(message, value(part.place)) {
            keep(part);
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
            let fields = parts.iter().map(|(key, ..)| MessageField::new(0, key.as_bytes()));
            let fields: Vec<_> = (0..).zip(fields).map(|(at, field)| (at, field, 0)).collect();
            let mut kept = vec![false; count];
            let value = |place: u32| parts[place as usize].1;
            keep_tool_messages(&MessagePart::all(&fields), value, |part| {
                kept[part.place as usize] = true;
            });
            for ((key, _, wanted), kept) in parts.iter().zip(kept) {
                assert_eq!(kept, *wanted, "{key} of {count}");
            }
        }
    }
}
