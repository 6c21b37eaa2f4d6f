//! Decoders: conversion of values from an instrumentation's encoding to their original form.
//!
//! A [`Decode`] is data: the `decode` of a [`FactSource`](super::dialect::FactSource). It never
//! fails: a malformed text is [`Decoded::Unreadable`], an absent value gives nothing.

mod answers;
mod api;
mod command;
mod cut;
mod definitions;
mod langchain4j;
mod listed;
mod messages;
mod repr;
mod shapes;
mod shortcut;
mod spelled;
mod told_call;
mod waiting;
mod wrapped_call;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

pub(super) use answers::told_object;
pub(super) use command::result_of as commanded_result;
pub(super) use cut::is_cut;
pub(crate) use definitions::{FoundDefinitions, tool_definitions};
pub(crate) use messages::{MessageCall, MessageResult, Messages};
pub(super) use shapes::{is_failed, message_arguments};
pub(super) use shortcut::Shortcut;
pub(super) use spelled::may_hold;
pub(super) use wrapped_call::without_envelope;

use self::shortcut::{OfJson, OfWords, is_words};

use spanscore_base::settings::meant_or;
use spanscore_base::value::{Value, json, python, read_scalar};

/// Compiled decoder expression: a decoder or a chain of them (`a→b`), with alternatives
/// (`a | b`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decode {
    /// Chains in order of precedence; none means the unchanged value.
    alternatives: Vec<Vec<DecodeStep>>,
    words: OfWords,
    json: OfJson,
}

/// Outcome of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<'a> {
    /// Decoded value.
    Value(Value<'a>),
    /// Truncated or malformed text.
    Unreadable(Cow<'a, str>),
}

impl<'a> Decoded<'a> {
    /// Returns the value; `None` for an unreadable text.
    pub fn value(self) -> Option<Value<'a>> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unreadable(_) => None,
        }
    }

    /// Returns the value, or the unreadable text.
    pub fn value_or_text(self) -> Value<'a> {
        match self {
            Self::Value(value) => value,
            Self::Unreadable(text) => Value::String(text),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum DecodeStep {
    Value,
    Json,
    JsonOrText,
    JsonOrPyliteral,
    JsonOrPyOrText,
    Path(Vec<Segment>),
    Part {
        kind: String,
        field: String,
    },
    Role(String),
    /// Index of an entry of [`DECODERS`].
    Named(usize),
    Unwrap,
    UnwrapResult,
    ContentText,
    ToolMessage,
    ToolMessageId,
    ToolMessageError,
    ToolMessageName,
    ToolOutput,
}

#[derive(Clone, Debug, PartialEq)]
enum Segment {
    Key(String),
    Index(usize),
}

/// Decoder in a file of its own: returns `None` for a value of another form.
type Decoder = for<'a> fn(Value<'a>) -> Option<Decoded<'a>>;

/// Decoders that only need the value, by name: new ones are added here.
const DECODERS: &[(&str, Decoder)] = &[
    ("user_text", answers::user_text),
    ("assistant_text", answers::assistant_text),
    ("listed_calls", listed::listed_calls),
    ("last_turn", answers::last_turn),
    ("event_message", shapes::event_message),
    ("only_output", shapes::only_output),
    ("sole_output", shapes::sole_output),
    ("only_value", shapes::only_value),
    ("tool_return", shapes::tool_return),
    ("object_or_text", object_or_text),
    ("wrapped_call", wrapped_call::wrapped_call),
    ("only_message", shapes::only_message),
    ("told_call", told_call::told_call),
    ("qualified_name", shapes::qualified_name),
    ("printed_fields", shapes::printed_fields),
    ("json_members", shapes::json_members),
    ("printed_messages", langchain4j::printed_messages),
    ("said_by_user", answers::said_by_user),
    ("said_by_model", answers::said_by_model),
];

/// Decoders with a predictable outcome for plain words or JSON.
const WORDS: &[(&str, DecodeStep)] = &[
    ("value", DecodeStep::Value),
    ("json", DecodeStep::Json),
    ("json_or_text", DecodeStep::JsonOrText),
    ("json_or_pyliteral", DecodeStep::JsonOrPyliteral),
    ("json_or_py_or_text", DecodeStep::JsonOrPyOrText),
    ("unwrap", DecodeStep::Unwrap),
    ("unwrap_result", DecodeStep::UnwrapResult),
    ("content_text", DecodeStep::ContentText),
    ("tool_message", DecodeStep::ToolMessage),
    ("tool_message.tool_call_id", DecodeStep::ToolMessageId),
    ("tool_message.error", DecodeStep::ToolMessageError),
    ("tool_message.name", DecodeStep::ToolMessageName),
    ("tool_output", DecodeStep::ToolOutput),
];

impl Decode {
    /// Parses a decoder expression; the error names the mistake and a probable remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        let chain = |chain: &str| chain.split('→').map(|word| step(word.trim())).collect();
        let alternatives = text.split('|').map(chain).collect::<Result<Vec<Vec<_>>, _>>()?;
        let words = OfWords::of(&alternatives);
        let json = OfJson::of(&alternatives);
        Ok(Self { alternatives, words, json })
    }

    /// Returns the result of [`apply`](Self::apply) for a text, if predictable without decoding.
    pub fn shortcut<'a>(&self, text: &'a str) -> Shortcut<'a> {
        if matches!(text.as_bytes(), [b'{' | b'[', ..]) {
            return match self.of_json(text) {
                Some(value) => Shortcut::Decoded(Decoded::Value(value)),
                None => Shortcut::Unknown,
            };
        }
        self.of_words(text)
    }

    fn of_json<'a>(&self, text: &'a str) -> Option<Value<'a>> {
        match self.json {
            OfJson::Kept => json::parse(text).ok(),
            OfJson::Unwrapped => json::parse(text).ok().map(shapes::unwrap),
            OfJson::Other => None,
        }
    }

    /// Returns the shortcut for plain words.
    fn of_words<'a>(&self, text: &'a str) -> Shortcut<'a> {
        if !is_words(text) {
            return Shortcut::Unknown;
        }
        match self.words {
            OfWords::Kept => Shortcut::Decoded(Decoded::Value(Value::from(text))),
            OfWords::Nothing => Shortcut::Nothing,
            OfWords::Other => Shortcut::Unknown,
        }
    }

    /// Returns true if the result is the value itself.
    pub fn is_plain(&self) -> bool {
        self.alternatives.iter().all(|chain| matches!(chain[..], [DecodeStep::Value]))
    }

    /// Returns true if a text that starts like a JSON object or list always decodes to that: its
    /// decoding can then be deferred.
    pub fn is_plain_json(&self) -> bool {
        self.json != OfJson::Other
    }

    /// Returns true if it decodes the failure in a tool's message.
    pub fn is_message_error(&self) -> bool {
        self.alternatives.iter().flatten().any(|step| *step == DecodeStep::ToolMessageError)
    }

    /// Returns true if it decodes values as messages of a tool (`role:tool`).
    pub fn is_of_tools(&self) -> bool {
        let is_tool = |step: &DecodeStep| matches!(step, DecodeStep::Role(role) if role == "tool");
        self.alternatives.iter().any(|chain| chain.iter().any(is_tool))
    }

    /// Decodes a value: the first alternative with a result, else the first unreadable text.
    pub fn apply<'a>(&self, value: Value<'a>) -> Option<Decoded<'a>> {
        match &self.alternatives[..] {
            [] => Some(Decoded::Value(value)),
            [chain] => run(chain, value),
            chains => {
                let mut unreadable = None;
                for chain in chains {
                    match run(chain, value.clone()) {
                        Some(Decoded::Unreadable(text)) => {
                            unreadable.get_or_insert(text);
                        }
                        Some(found) => return Some(found),
                        None => {}
                    }
                }
                unreadable.map(Decoded::Unreadable)
            }
        }
    }
}

fn step(word: &str) -> Result<DecodeStep, String> {
    if let Some(path) = word.strip_prefix("json:") {
        return Ok(DecodeStep::Path(segments(path)?));
    }
    if let Some(part) = word.strip_prefix("messages:") {
        let (kind, field) =
            part.split_once('.').ok_or_else(|| format!("`{word}` lacks the field of its part"))?;
        return Ok(DecodeStep::Part { kind: kind.to_owned(), field: field.to_owned() });
    }
    if let Some(role) = word.strip_prefix("role:") {
        return Ok(DecodeStep::Role(role.to_owned()));
    }
    if let Some((_, step)) = WORDS.iter().find(|(known, _)| *known == word) {
        return Ok(step.clone());
    }
    if let Some(at) = DECODERS.iter().position(|(known, _)| *known == word) {
        return Ok(DecodeStep::Named(at));
    }
    let words = || {
        let decoders = DECODERS.iter().map(|(known, _)| *known);
        WORDS.iter().map(|(known, _)| *known).chain(decoders)
    };
    let known = || {
        let words = words().collect::<Vec<_>>().join(", ");
        format!("known are {words}, json:$.path, messages:part.field, role:name")
    };
    Err(format!("unknown decoder `{word}` ({})", meant_or(word, words(), known)))
}

/// Parses a path such as `$.key.key[0]`; keys have no dots or brackets.
fn segments(path: &str) -> Result<Vec<Segment>, String> {
    let bad = || format!("`{path}` is not a path such as `$.output.items[0]`");
    let rest = path.strip_prefix('$').ok_or_else(bad)?;
    let mut found = Vec::new();
    for (at, part) in rest.split('.').enumerate() {
        let (key, indices) = part.split_once('[').unwrap_or((part, ""));
        if key.is_empty() != (at == 0) {
            return Err(bad());
        }
        if at > 0 {
            found.push(Segment::Key(key.to_owned()));
        }
        for index in indices.split('[').filter(|index| !index.is_empty()) {
            let index = index.strip_suffix(']').and_then(|digits| digits.parse().ok());
            found.push(Segment::Index(index.ok_or_else(bad)?));
        }
    }
    Ok(found)
}

fn run<'a>(chain: &[DecodeStep], value: Value<'a>) -> Option<Decoded<'a>> {
    let mut value = value;
    for step in chain {
        match apply(step, value)? {
            Decoded::Value(next) => value = next,
            unreadable => return Some(unreadable),
        }
    }
    Some(Decoded::Value(value))
}

fn apply<'a>(step: &DecodeStep, value: Value<'a>) -> Option<Decoded<'a>> {
    Some(Decoded::Value(match step {
        DecodeStep::Value => value,
        DecodeStep::Json => return read_json(value),
        DecodeStep::JsonOrText => json_or_text(value),
        DecodeStep::JsonOrPyliteral => {
            return match read_json(value)? {
                Decoded::Unreadable(text) => Some(match python_literal(text) {
                    Ok(value) => Decoded::Value(value),
                    Err(text) => Decoded::Unreadable(text),
                }),
                found => Some(found),
            };
        }
        DecodeStep::JsonOrPyOrText => json_or_py_or_text(value),
        DecodeStep::Path(path) => follow(structured(value)?, path)?,
        DecodeStep::Part { kind, field } => shapes::part_field(structured(value)?, kind, field)?,
        DecodeStep::Role(role) => shapes::with_role(json_or_text(value), role),
        DecodeStep::Named(at) => return DECODERS.get(*at).and_then(|(_, decode)| decode(value)),
        DecodeStep::Unwrap => shapes::unwrap(value),
        DecodeStep::UnwrapResult => shapes::unwrap_result(value),
        DecodeStep::ContentText => shapes::content_text(value),
        DecodeStep::ToolMessage => shapes::tool_message(value),
        // Most results are no messages, and need not be parsed without a marker word.
        DecodeStep::ToolMessageId if !holds_any(&value, shapes::ID_MARKS) => return None,
        DecodeStep::ToolMessageName if !holds_any(&value, shapes::NAME_MARKS) => return None,
        DecodeStep::ToolMessageError if !holds_any(&value, shapes::ERROR_MARKS) => return None,
        DecodeStep::ToolMessageId => shapes::tool_message_text(value, "tool_call_id")?,
        DecodeStep::ToolMessageName => shapes::tool_message_text(value, "name")?,
        DecodeStep::ToolMessageError => shapes::tool_message_error(value)?,
        DecodeStep::ToolOutput => shapes::tool_output(value),
    }))
}

/// Returns true if a value may contain any of some words: a text is searched for them, other values
/// always may.
fn holds_any(value: &Value<'_>, words: &[&str]) -> bool {
    value.as_str().is_none_or(|text| words.iter().any(|word| may_hold(text.as_bytes(), word)))
}

/// Parses a text as JSON, and again if that gives a text of an object or list.
fn read_json(value: Value<'_>) -> Option<Decoded<'_>> {
    let Value::String(text) = value else { return Some(Decoded::Value(value)) };
    if text.trim().is_empty() {
        return None;
    }
    Some(match parse_text(text) {
        Ok(Value::String(inner)) if is_bracketed(&inner) => {
            Decoded::Value(parse_text(inner).unwrap_or_else(Value::String))
        }
        Ok(value) => Decoded::Value(value),
        Err(text) => Decoded::Unreadable(text),
    })
}

/// Parses a text like `json`; other texts stay unchanged.
pub(super) fn json_or_text(value: Value<'_>) -> Value<'_> {
    match value {
        Value::String(text) if text.trim().is_empty() => Value::String(text),
        value => read_json(value).map_or(Value::Null, Decoded::value_or_text),
    }
}

/// Parses a text of a JSON object or list; others stay unchanged, including the text of a number.
fn object_or_text(value: Value<'_>) -> Option<Decoded<'_>> {
    Some(Decoded::Value(match value {
        Value::String(text) if is_bracketed(&text) => json_or_text(Value::String(text)),
        value => value,
    }))
}

/// Parses a text like `json_or_text`; a bracketed Python literal becomes its value, and a printed
/// dictionary with other objects becomes its members.
pub(super) fn json_or_py_or_text(value: Value<'_>) -> Value<'_> {
    match json_or_text(value) {
        Value::String(text) if is_bracketed(&text) || text.starts_with('(') => python_literal(text)
            .unwrap_or_else(|text| {
                repr::members(&text).map_or_else(|| Value::String(text), Value::Map)
            }),
        value => value,
    }
}

/// Parses a JSON text; others give nothing.
fn structured(value: Value<'_>) -> Option<Value<'_>> {
    read_json(value)?.value()
}

/// Returns the value at a path; `None` for `null`.
fn follow<'a>(mut value: Value<'a>, path: &[Segment]) -> Option<Value<'a>> {
    for segment in path {
        value = match (segment, value) {
            (Segment::Key(key), Value::Map(mut map)) => map.remove(key)?,
            (Segment::Index(index), Value::List(mut list)) if *index < list.len() => {
                list.swap_remove(*index)
            }
            _ => return None,
        };
    }
    (!value.is_null()).then_some(value)
}

/// Parses a text, borrowing from it if it is borrowed; returns it unchanged if it is not JSON.
fn parse_text(text: Cow<'_, str>) -> Result<Value<'_>, Cow<'_, str>> {
    match text {
        Cow::Borrowed(text) => json::parse(text).map_err(|_| Cow::Borrowed(text)),
        Cow::Owned(text) => match json::parse(&text) {
            Ok(value) => Ok(value.into_owned()),
            Err(_) => Err(Cow::Owned(text)),
        },
    }
}

/// Returns true if a text starts like an object or a list.
fn is_bracketed(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Returns true if a text that starts like JSON also ends like it, with equal numbers of brackets.
/// A text with unequal ones may still be complete, with brackets in strings.
pub(super) fn looks_whole(text: &str) -> bool {
    let bytes = text.trim_ascii().as_bytes();
    let close = match bytes.first() {
        Some(b'{') => b'}',
        Some(b'[') => b']',
        _ => return false,
    };
    let count = |byte| memchr::memchr_iter(byte, bytes).count();
    bytes.last() == Some(&close) && count(b'{') == count(b'}') && count(b'[') == count(b']')
}

/// Parses a Python literal, as `repr` and `str` print containers, borrowing from a borrowed text;
/// returns the text unchanged if it is none.
fn python_literal(text: Cow<'_, str>) -> Result<Value<'_>, Cow<'_, str>> {
    match text {
        Cow::Borrowed(text) => python::parse_literal(text).ok_or(Cow::Borrowed(text)),
        Cow::Owned(text) => {
            let value = python::parse_literal(&text).map(Value::into_owned);
            value.ok_or(Cow::Owned(text))
        }
    }
}

impl<'de> Deserialize<'de> for Decode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a decoder such as `json` or `json:$.output | json_or_text`";
        read_scalar(deserializer, expected, |value| value.as_str().map(Self::parse))
    }
}

impl JsonSchema for Decode {
    fn schema_name() -> Cow<'static, str> {
        "Decode".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Decoder of a value. `a→b` applies b to the result of a; `a | b` uses \
                            b if a has no result."
        })
    }
}

#[cfg(test)]
mod tests;
