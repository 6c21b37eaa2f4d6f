//! Fast path for tool calls in messages flattened to one attribute per field.
//!
//! Messages not fully understood here are left to [`Messages`](super::super::decode::Messages),
//! which knows every shape but needs the attributes built into a value first; on all others both
//! agree.

use std::borrow::Cow;

use smart_default::SmartDefault;

use super::super::decode::{Decoded, MessageCall, message_arguments};
use crate::record::layout::{self, Attribute};
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::Value;

/// Reads the calls in models' messages with a key prefix, from a span's attributes without slots
/// (keys and encoded values); `None` if anything is not understood.
///
/// The shapes are `INDEX.message.tool_calls.INDEX.tool_call.{id, function.name,
/// function.arguments}` (OpenInference) and `INDEX.tool_calls.INDEX.{id, name, arguments}`
/// (OpenLLMetry).
pub(super) fn calls<'a>(
    prefix: &str,
    attributes: &[Attribute<'a>],
) -> Option<Vec<MessageCall<'a>>> {
    let mut calls = Vec::new();
    let mut message = FlatMessage::default();
    let mut call = FlatCall::default();
    for (key, value) in attributes {
        let Some(tail) = key.strip_prefix(prefix.as_bytes()) else { continue };
        let AnyValue::String(text) = layout::read(value) else { return None };
        let (at, field) = index(tail)?;
        if at != message.at {
            // A later message, or attributes out of order.
            let is_next = at > message.at || message.is_new;
            if !is_next || !message.is_understood() {
                return None;
            }
            calls.extend(std::mem::take(&mut call).finish());
            message = FlatMessage { at, ..FlatMessage::default() };
        }
        message.is_new = false;
        match field.strip_prefix(b"message.").unwrap_or(field) {
            b"role" => message.has_author = Some(matches!(text, "assistant" | "model" | "ai")),
            b"content" => message.has_text = true,
            b"finish_reason" => {}
            field => {
                let (at, field) = index(field.strip_prefix(b"tool_calls.")?)?;
                if at != call.at {
                    if at < call.at && !call.is_new {
                        return None;
                    }
                    calls.extend(std::mem::take(&mut call).finish());
                    call.at = at;
                }
                call.take(field, text)?;
            }
        }
    }
    calls.extend(call.finish());
    message.is_understood().then_some(calls)
}

/// Splits `3.rest` into its number and `rest`.
fn index(tail: &[u8]) -> Option<(u32, &[u8])> {
    let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = tail.split_at(digits);
    let number = match number {
        [digit] => u32::from(digit - b'0'),
        _ => std::str::from_utf8(number).ok()?.parse().ok()?,
    };
    Some((number, rest.strip_prefix(b".")?))
}

#[derive(SmartDefault)]
struct FlatMessage {
    at: u32,
    #[default = true]
    is_new: bool,
    /// True for a model's message, false for another author's; `None` before the author is read.
    has_author: Option<bool>,
    has_text: bool,
}

impl FlatMessage {
    /// Returns true if the message is understood. A model's text has no calls other than those in
    /// fields; another author's may.
    fn is_understood(&self) -> bool {
        self.has_author.unwrap_or(!self.has_text)
    }
}

#[derive(SmartDefault)]
struct FlatCall<'a> {
    at: u32,
    #[default = true]
    is_new: bool,
    /// True if its fields are within `tool_call`, which marks a call with any fields.
    is_named: bool,
    id: Option<&'a str>,
    name: Option<&'a str>,
    arguments: Option<&'a str>,
}

impl<'a> FlatCall<'a> {
    fn take(&mut self, field: &[u8], text: &'a str) -> Option<()> {
        let (is_named, field) = match field.strip_prefix(b"tool_call.") {
            Some(b"id") => (true, &b"id"[..]),
            Some(field) => (true, field.strip_prefix(b"function.")?),
            None => (false, field),
        };
        if !self.is_new && is_named != self.is_named {
            return None;
        }
        (self.is_new, self.is_named) = (false, is_named);
        let place = match field {
            b"id" => &mut self.id,
            b"name" => &mut self.name,
            b"arguments" => &mut self.arguments,
            _ => return None,
        };
        // The last of repeated fields counts, as in a map.
        *place = Some(text);
        Some(())
    }

    fn finish(self) -> Option<MessageCall<'a>> {
        if !self.is_named && self.arguments.is_none() {
            return None;
        }
        let name = self.name.filter(|name| !name.is_empty())?;
        let id = self.id.filter(|id| !id.is_empty()).map(Cow::Borrowed);
        // Items of OpenAI's Responses API have an id in addition to `call_id`, prefixed `fc_`.
        let (id, item_id) = match id {
            Some(id) if id.starts_with("fc_") => (None, Some(id)),
            id => (id, None),
        };
        let arguments = self.arguments.map_or(Decoded::Value(Value::Null), |arguments| {
            message_arguments(Value::from(arguments))
        });
        Some(MessageCall { id, item_id, name: Cow::Borrowed(name), arguments, turn: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::decode::Messages;
    use super::super::unflatten::unflatten;
    use super::*;

    fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
        [&[tag, bytes.len() as u8], bytes].concat()
    }

    /// Reads attributes in both ways, compares, and returns true if this reader understood them.
    fn check(attributes: &[(&str, &str)]) -> bool {
        let owned: Vec<_> = attributes
            .iter()
            .map(|(tail, text)| (format!("p.{tail}").into_bytes(), field(0x0a, text.as_bytes())))
            .collect();
        let encoded: Vec<_> = owned.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let entries = attributes.iter().map(|(tail, text)| (*tail, Value::from(*text)));
        let whole = unflatten(entries).map(Messages::read).unwrap_or_default();
        let calls = calls("p.", &encoded);
        if let Some(calls) = &calls {
            assert_eq!(*calls, whole.calls, "{attributes:?}");
        }
        calls.is_some()
    }

    #[test]
    fn calls_are_those_of_the_reader_that_knows_every_shape() {
        for understood in [
            &[][..],
            &[("0.message.role", "assistant"), ("0.message.content", "[{\"tool_call\": {}}]")],
            &[
                ("0.message.role", "assistant"),
                ("0.message.tool_calls.0.tool_call.id", "c1"),
                ("0.message.tool_calls.0.tool_call.function.name", "search"),
                ("0.message.tool_calls.0.tool_call.function.arguments", "{\"q\": 1}"),
                ("0.message.tool_calls.1.tool_call.function.name", "send"),
                ("1.message.tool_calls.0.tool_call.id", "fc_2"),
                ("1.message.tool_calls.0.tool_call.function.name", "send"),
                ("1.message.tool_calls.0.tool_call.function.arguments", ""),
            ],
            &[("3.message.tool_calls.2.tool_call.id", "c1")],
            &[("0.message.tool_calls.0.tool_call.function.name", "")],
            &[
                ("0.finish_reason", "tool_calls"),
                ("0.tool_calls.0.id", "c1"),
                ("0.tool_calls.0.name", "search"),
                ("0.tool_calls.0.arguments", "not JSON"),
                ("0.tool_calls.1.name", "no arguments, no call"),
            ],
        ] {
            assert!(check(understood), "{understood:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left_to_it() {
        for left in [
            &[("message.role", "assistant")][..],
            &[("0.message.contents.0.message_content.text", "x")],
            &[("0.message.content", "[{\"type\": \"tool_use\", \"name\": \"a\", \"input\": {}}]")],
            &[("0.message.role", "tool"), ("0.message.content", "x")],
            &[("1.message.role", "assistant"), ("0.message.role", "assistant")],
            &[
                ("0.message.tool_calls.1.tool_call.id", "c1"),
                ("0.message.tool_calls.0.tool_call.id", "c2"),
            ],
            &[
                ("0.message.tool_calls.0.tool_call.id", "c1"),
                ("0.message.tool_calls.0.name", "mixed"),
            ],
            &[("0.message.tool_calls.0.tool_call.name", "x")],
        ] {
            assert!(!check(left), "{left:?}");
        }
    }
}
