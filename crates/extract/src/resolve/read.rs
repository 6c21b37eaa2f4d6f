//! Reading and decoding of a source's values in a record.

use std::borrow::Cow;
use std::cell::Cell;

use super::super::decode::{Decoded, Shortcut, looks_whole, may_hold};
use super::super::dialect::{FactSource, OnlyIf, Scalar};
use super::plan::{FactPlace, PlannedSource};
use super::unflatten::{is_placed, unflatten};
use crate::record::layout::FactsReader;
use crate::table::KeySlot;
use spanscore_base::model::tool_call::Lazy;
use spanscore_base::model::{Content, WorkBudget};
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::{Map, Value};

/// Placeholders for content that was redacted.
const REDACTED: [&str; 2] = ["<REDACTED>", "__REDACTED__"];

/// Prefix of the placeholder by Logfire's scrubbing.
const SCRUBBED: &str = "[Scrubbed due to ";

/// Returns true if a text is a placeholder for redacted content.
pub(super) fn is_redacted(text: &str) -> bool {
    REDACTED.contains(&text) || text.starts_with(SCRUBBED)
}

/// Placeholders for absent content.
const NO_CONTENT: [&str; 3] = ["N/A", "None", "<not serializable>"];

/// Returns true for JavaScript's form of an object without `toString`: `[object Object]`.
fn is_printed_object(text: &str) -> bool {
    let class = text.strip_prefix("[object ").and_then(|rest| rest.strip_suffix(']'));
    class.is_some_and(|class| class.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Returns true if a text is a placeholder for absent content.
fn is_no_content(text: &str) -> bool {
    NO_CONTENT.contains(&text) || is_printed_object(text)
}

/// Placeholders for an absent id or agent name.
const NO_ID: [&str; 2] = ["<not specified>", "unknown"];

/// Member of an event's object with the event's name.
const EVENT_NAME: &str = "event.name";

/// Limit on the bytes of a text that is decoded immediately: a prediction would cost as much.
const DECODED_AT_ONCE_MAX: usize = 512;

/// Value of a source on a record, before decoding.
#[derive(Clone)]
pub(super) enum Raw<'a> {
    /// Value as recorded.
    Any(AnyValue<'a>),
    /// Value built from several attributes.
    Made(Value<'a>),
    /// Attributes with a key prefix, built into a value on demand: most are model inputs, which
    /// repeat all earlier messages and are rarely needed.
    Behind(&'a str, FactsReader<'a>),
    /// Readable part of a malformed value.
    Broken(Value<'a>),
}

impl<'a> Raw<'a> {
    /// Returns the value; `Err` has the readable part of a malformed one.
    fn into_value(self) -> Result<Value<'a>, Value<'a>> {
        match self {
            Self::Any(value) => value.to_value().map_err(|_| value.legible()),
            Self::Made(value) => Ok(value),
            Self::Behind(prefix, facts) => put_together(facts.behind(prefix)),
            Self::Broken(value) => Err(value),
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Any(value) => value.as_str(),
            Self::Made(value) => value.as_str(),
            Self::Behind(..) | Self::Broken(_) => None,
        }
    }
}

/// Marker words of failed results: messages with a failure have one of the first list, or both of
/// the second.
const FAILURE_MARKS: [&str; 3] = ["error", "isError", "retry-prompt"];
const NO_SUCCESS: [&str; 2] = ["success", "alse"];

impl<'a> Raw<'a> {
    /// Returns true if messages in it may report a failed call.
    pub(super) fn may_fail(&self) -> bool {
        let may_hold = |mark: &str| self.may_hold(mark);
        FAILURE_MARKS.iter().any(|mark| may_hold(mark))
            || NO_SUCCESS.iter().all(|mark| may_hold(mark))
    }

    /// Returns true if a text in it may contain a word.
    pub(super) fn may_hold(&self, word: &str) -> bool {
        self.searched().is_none_or(|bytes| may_hold(bytes, word))
    }

    /// Returns the bytes searched by [`Self::may_hold`]; `None` if it searches none.
    pub(super) fn searched(&self) -> Option<&[u8]> {
        match self {
            Self::Any(AnyValue::String(text)) => Some(text.as_bytes()),
            Self::Any(AnyValue::Array(bytes) | AnyValue::KeyValues(bytes)) => Some(bytes),
            Self::Behind(_, facts) => Some(facts.bytes()),
            Self::Any(_) | Self::Made(_) | Self::Broken(_) => None,
        }
    }
}

/// Builds the value described by attributes and their keys; `Err` has the readable part if one is
/// malformed.
fn put_together<'a>(
    entries: impl Iterator<Item = (&'a str, AnyValue<'a>)>,
) -> Result<Value<'a>, Value<'a>> {
    let mut is_broken = false;
    let mut read = |value: AnyValue<'a>| {
        value.to_value().unwrap_or_else(|_| {
            is_broken = true;
            value.legible()
        })
    };
    let value = unflatten(entries.map(|(tail, value)| (tail, read(value)))).unwrap_or_default();
    if is_broken { Err(value) } else { Ok(value) }
}

/// Returns all values of a source on a record in order: several if a span has several events.
pub(super) fn raws<'a>(
    source: &'a PlannedSource,
    facts: FactsReader<'a>,
    found: &mut Vec<Raw<'a>>,
) {
    let is_broken = Cell::new(false);
    let read = |value: AnyValue<'a>| {
        value.to_value().unwrap_or_else(|_| {
            is_broken.set(true);
            value.legible()
        })
    };
    // One malformed attribute makes the whole value broken.
    let made = |value| if is_broken.get() { Raw::Broken(value) } else { Raw::Made(value) };
    match &source.read {
        FactPlace::Attr(slot) | FactPlace::LogAttr(slot) => {
            found.extend(facts.attribute(*slot).map(Raw::Any));
        }
        FactPlace::Prefix => {
            let prefix = source.source.key.as_str();
            if facts.behind(prefix).any(|(tail, _)| is_placed(tail)) {
                found.push(Raw::Behind(prefix, facts));
            }
        }
        FactPlace::Ending => found.extend(facts.bodies(&source.source.key).map(Raw::Any)),
        FactPlace::Numbered => {
            found.extend(facts.numbered(&source.source.key).into_iter().filter_map(|list| {
                is_broken.set(false);
                unflatten(list.into_iter().map(|(tail, value)| (tail, read(value)))).map(made)
            }));
        }
        FactPlace::WordMatch(words, slots) => {
            let entries: Vec<_> = facts.word_matches(words, slots).collect();
            match entries.iter().find(|(tail, _)| tail.is_empty()) {
                Some((_, whole)) => found.push(Raw::Any(*whole)),
                None => {
                    let parts = entries.into_iter().map(|(tail, value)| (tail, read(value)));
                    found.extend(unflatten(parts).map(made));
                }
            }
        }
        FactPlace::Object(slots) => {
            let entries = object(source, slots, |slot| facts.attribute(*slot).map(read));
            if !entries.is_empty() {
                found.push(made(Value::Map(entries)));
            }
        }
        FactPlace::Event(slot) => {
            let events = facts.events_like(&source.source.event);
            let events = events.filter(|event| source.reads_event(event.name));
            found.extend(events.filter_map(|event| event.attribute(*slot).map(Raw::Any)));
        }
        FactPlace::EventObject(slots) => {
            let events = facts.events_like(&source.source.event);
            let events = events.filter(|event| source.reads_event(event.name));
            found.extend(events.map(|event| {
                is_broken.set(false);
                let mut whole = object(source, slots, |slot| event.attribute(*slot).map(read));
                whole.insert(EVENT_NAME, event.name);
                made(Value::Map(whole))
            }));
        }
        FactPlace::SpanName => {
            let name = Some(facts.span_name()).filter(|name| !name.is_empty());
            found.extend(name.map(|name| Raw::Any(AnyValue::String(name))));
        }
        FactPlace::LogBody => found.extend(facts.log_body().map(Raw::Any)),
        FactPlace::Status => {}
    }
}

/// Builds an object from a source's attributes by their slots.
fn object<'a>(
    source: &'a PlannedSource,
    slots: &[KeySlot],
    value: impl Fn(&KeySlot) -> Option<Value<'a>>,
) -> Map<'a> {
    let members = source.source.keys.iter().zip(slots);
    members.filter_map(|(key, slot)| Some((key.clone(), value(slot)?))).collect()
}

/// Reads a short text: a name, an id. Placeholders, and values other than text and number, give
/// `None`.
pub(super) fn text<'a>(source: &FactSource, raw: Raw<'a>) -> Option<Cow<'a, str>> {
    if let Raw::Any(AnyValue::String(text)) = raw
        && source.is_plain()
    {
        return (!text.is_empty()).then_some(Cow::Borrowed(text));
    }
    let text = match decoded(source, raw)? {
        Decoded::Value(Value::String(text)) => text,
        Decoded::Value(value @ Value::Number(_)) => Cow::Owned(value.to_string()),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// Reads an id; placeholders give `None`.
pub(super) fn id<'a>(source: &FactSource, raw: Raw<'a>) -> Option<Cow<'a, str>> {
    text(source, raw).filter(|id| !NO_ID.contains(&&**id) && !is_redacted(id))
}

/// Reads an agent's name; placeholders give `None`.
pub(super) fn name<'a>(source: &FactSource, raw: Raw<'a>) -> Option<Cow<'a, str>> {
    text(source, raw).filter(|name| !NO_ID.contains(&&**name))
}

/// Decodes a source's value, and strips its prefix and suffix.
pub(super) fn decoded<'a>(source: &FactSource, raw: Raw<'a>) -> Option<Decoded<'a>> {
    let found = any_decoded(source, raw)?;
    if source.only_if == Some(OnlyIf::NotAJsonSchema)
        && matches!(&found, Decoded::Value(value) if is_json_schema(value))
    {
        return None;
    }
    Some(found)
}

/// Returns the JSON Schema found in place of a source's arguments.
pub(super) fn schema<'a>(source: &FactSource, raw: Raw<'a>) -> Option<Value<'a>> {
    any_decoded(source, raw)?.value().filter(is_json_schema)
}

/// Decodes a source's value, ignoring its requirement.
fn any_decoded<'a>(source: &FactSource, raw: Raw<'a>) -> Option<Decoded<'a>> {
    let shortcut = match raw {
        Raw::Any(AnyValue::String(text)) => source.decode.shortcut(text),
        _ => Shortcut::Unknown,
    };
    let decoded = match shortcut {
        Shortcut::Decoded(decoded) => decoded,
        Shortcut::Nothing => return None,
        Shortcut::Unknown => match raw.into_value() {
            Ok(value) => source.decode.apply(value)?,
            Err(legible) => Decoded::Unreadable(Cow::Owned(legible.to_string())),
        },
    };
    let value = match decoded {
        Decoded::Value(Value::String(text)) => Value::String(strip(source, text)?),
        Decoded::Value(value) => value,
        unreadable => return Some(unreadable),
    };
    Some(Decoded::Value(value))
}

/// Returns true if a model's finish reasons include tool calls.
pub(super) fn asks_for_tools(source: &FactSource, raw: Raw<'_>) -> bool {
    match decoded(source, raw) {
        Some(Decoded::Value(Value::List(reasons))) => reasons.iter().any(is_for_tools),
        Some(Decoded::Value(value)) => is_for_tools(&value),
        _ => false,
    }
}

/// Finish reasons for tool calls, by their letters.
const FOR_TOOLS: [&str; 4] = ["toolcalls", "toolcall", "tooluse", "functioncall"];

fn is_for_tools(reason: &Value<'_>) -> bool {
    let Some(reason) = reason.as_str() else { return false };
    let letters = || reason.bytes().filter(u8::is_ascii_alphabetic);
    FOR_TOOLS.iter().any(|word| letters().map(|byte| byte.to_ascii_lowercase()).eq(word.bytes()))
}

fn strip<'a>(source: &FactSource, text: Cow<'a, str>) -> Option<Cow<'a, str>> {
    if source.strip_prefix.is_empty() && source.strip_suffix.is_empty() {
        return Some(text);
    }
    let strip = |text: &str| -> Option<(usize, usize)> {
        let rest = text.strip_prefix(source.strip_prefix.as_str())?;
        let rest = if source.strip_prefix.is_empty() { rest } else { rest.trim_start() };
        let end = rest.strip_suffix(source.strip_suffix.as_str()).unwrap_or(rest);
        Some((text.len() - rest.len(), text.len() - rest.len() + end.len()))
    };
    let (from, to) = strip(&text)?;
    Some(match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[from..to]),
        Cow::Owned(text) => Cow::Owned(text[from..to].to_owned()),
    })
}

/// Returns true for a JSON Schema of an object, false for arguments.
fn is_json_schema(value: &Value<'_>) -> bool {
    let Some(map) = value.as_map() else { return false };
    let object = map.get("type").and_then(Value::as_str) == Some("object");
    let properties = map.get("properties").is_some_and(|inner| inner.as_map().is_some());
    // CrewAI, smolagents: map from argument names to {type, description}.
    let typed = |value: &Value<'_>| {
        value.get("type").is_some_and(|kind| kind.as_str().is_some())
            && (value.get("description").is_some() || value.get("title").is_some())
    };
    properties || object || (!map.is_empty() && map.iter().all(|(_, value)| typed(value)))
}

/// Returns the content of a source; `None` if the next source is to be tried.
///
/// Decoding is deferred until the value is needed, if its outcome is predictable.
pub(super) fn content<'a>(source: &'a FactSource, raw: Raw<'a>) -> Option<Content<'a>> {
    if let Some(text) = raw.as_str() {
        if is_redacted(text) {
            return Some(Content::Redacted);
        }
        if is_no_content(text) {
            return None;
        }
        if text.len() > DECODED_AT_ONCE_MAX
            && source.decode.is_plain_json()
            && source.only_if.is_none()
            && looks_whole(text)
            && let Raw::Any(value) = raw
        {
            return Some(Content::Recorded(Lazy::new(move || decode_late(source, value))));
        }
    }
    if let Raw::Any(value @ AnyValue::KeyValues(_)) = raw
        && source.decode.is_plain_json()
        && source.only_if.is_none()
        && value.is_readable()
    {
        return Some(Content::Recorded(Lazy::new(move || decode_late(source, value))));
    }
    Some(match decoded(source, raw)? {
        Decoded::Value(Value::String(text)) if is_redacted(&text) => Content::Redacted,
        Decoded::Value(Value::String(text)) if is_no_content(&text) => return None,
        Decoded::Value(value) => Content::ready(value),
        Decoded::Unreadable(text) => Content::Unreadable(text),
    })
}

/// Decodes a deferred value. One that proves unreadable is wrapped under `_raw`, so that it equals
/// nothing.
fn decode_late<'a>(source: &FactSource, value: AnyValue<'a>) -> Value<'a> {
    match decoded(source, Raw::Any(value)) {
        Some(Decoded::Value(value)) => value,
        Some(Decoded::Unreadable(text)) => raw_text(text),
        None => Value::Null,
    }
}

/// Returns `{"_raw": text}`, the form of an unreadable text.
pub fn raw_text(text: Cow<'_, str>) -> Value<'_> {
    Value::Map(Map::from([("_raw", Value::String(text))]))
}

/// Returns true if a value equals a source's failure value, ignoring case.
pub(super) fn equals(value: &Value<'_>, scalar: &Scalar) -> bool {
    match (value, scalar) {
        (Value::String(text), Scalar::String(wanted)) => text.eq_ignore_ascii_case(wanted),
        (Value::Bool(value), Scalar::Bool(wanted)) => value == wanted,
        (Value::Number(number), Scalar::Int(wanted)) => number.as_i64() == Some(*wanted),
        // Exporters limited to texts write `true` and `false`.
        (Value::String(text), Scalar::Bool(wanted)) => {
            text.eq_ignore_ascii_case(if *wanted { "true" } else { "false" })
        }
        _ => false,
    }
}

/// Steps to copy a byte, which limits all copies of a trace to a quarter of its steps, in bytes.
const STEPS_PER_COPIED_BYTE: usize = 4;

/// Copies a text for one of the calls that share it. Each copy is charged, since a sender may cause
/// arbitrarily many. `None` if the budget does not suffice. A text borrowed from the trace is free.
pub(super) fn copied<'a>(text: &Cow<'a, str>, effort: &WorkBudget) -> Option<Cow<'a, str>> {
    let bytes = match text {
        Cow::Borrowed(_) => 0,
        Cow::Owned(text) => text.len(),
    };
    effort.spend(bytes.saturating_mul(STEPS_PER_COPIED_BYTE)).then(|| text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_end_where_the_steps_do() {
        let effort = WorkBudget::new(100);
        let text = Cow::Owned("x".repeat(20));
        assert_eq!(copied(&text, &effort), Some(text.clone()));
        assert_eq!(copied(&text, &effort), None);
        assert_eq!(copied(&Cow::Borrowed("free"), &WorkBudget::new(0)), Some("free".into()));
    }

    #[test]
    fn what_javascript_prints_of_an_object_is_no_content() {
        for text in ["[object Object]", "[object ToolMessage]"] {
            assert!(is_no_content(text), "{text}");
        }
        for text in ["[object of desire]", "[object", "object Object", "[]", "[1]"] {
            assert!(!is_no_content(text), "{text}");
        }
    }
}
