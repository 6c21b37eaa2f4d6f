//! Python values: literals, `json.loads`, equality and printed forms.
//!
//! Instrumentations of Python programs write arguments as literals (`{'a': True}`), and evaluators
//! ported from Python must compare and print as Python does. Texts come in; [`PyValue`]s or plain
//! [`Value`]s go out. Readers are linear in the text, do not recurse, and refuse deeper nesting
//! than CPython: [`literal::DEPTH_MAX`] for literals, [`json::DEPTH_MAX`] for JSON.
//!
//! The rules are those of CPython 3.11: its lexical reference, `ast.literal_eval`, `json.loads` and
//! `repr`.

mod equal;
pub mod json;
pub mod literal;
mod number;
mod printable;
mod repr;
mod strings;
mod text;

use std::borrow::Cow;

pub use text::PyStr;

use super::{Number, Value};

/// Python value of a literal or JSON text.
///
/// `==` is Python's: `1 == 1.0 == True`, a NaN equals nothing, a tuple never equals a list.
#[derive(Clone, Debug, Default)]
pub enum PyValue<'a> {
    /// `None`.
    #[default]
    None,
    /// `True` or `False`: equal to 1 and 0.
    Bool(bool),
    /// An `int` of any size, or a `float` ([`Number::Float`]).
    Number(Number),
    /// A `complex`: real and imaginary part.
    Complex(f64, f64),
    /// A `str`.
    Str(PyStr<'a>),
    /// A `bytes`.
    Bytes(Cow<'a, [u8]>),
    /// A `list`.
    List(Vec<PyValue<'a>>),
    /// A `tuple`.
    Tuple(Vec<PyValue<'a>>),
    /// A `set`, in the order written; members are unique.
    Set(Vec<PyValue<'a>>),
    /// A `dict` in insertion order; keys are unique.
    Dict(Vec<(PyValue<'a>, PyValue<'a>)>),
    /// `...`.
    Ellipsis,
}

/// Error of a text without a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PyError {
    /// Python refuses the text as a `SyntaxError` or a `ValueError`.
    #[error("not a Python value")]
    Invalid,
    /// A list, set or dict where Python requires a hashable value: `TypeError`.
    #[error("unhashable value as a dict key or set member")]
    Unhashable,
    /// Nested deeper than the limit: Python's `RecursionError`.
    #[error("nested too deeply")]
    TooDeep,
    /// An integer of more than 4,300 digits, which Python reads but refuses to print or convert.
    #[error("integer too large to print")]
    TooLarge,
    /// An attribute in a form that no telemetry library writes.
    #[error("malformed attribute value")]
    Malformed,
    /// A dict with a key that is not a text where Pydantic requires one.
    #[error("a key is not a text")]
    KeyNotText,
}

/// Reads the text of a Python literal that is plain data: `None`, booleans, numbers, texts, lists
/// and tuples (both become lists), and dicts with text keys. `None` for any other text.
///
/// Linear in the text; deeper nesting than 200 levels, Python's limit, is refused. Lone surrogates
/// become U+FFFD.
pub fn parse_literal(text: &str) -> Option<Value<'_>> {
    literal::parse_plain(text).ok()?.into_value()
}

impl<'a> PyValue<'a> {
    /// Returns a text.
    pub fn text(text: &'a str) -> Self {
        Self::Str(PyStr::from(text))
    }

    /// Returns the entry of a text key, if this is a dict that has one.
    pub fn get(&self, key: &str) -> Option<&PyValue<'a>> {
        self.get_text(&PyStr::from(key))
    }

    /// Returns the entry of a text key, if this is a dict that has one.
    pub fn get_text(&self, key: &PyStr<'_>) -> Option<&PyValue<'a>> {
        let Self::Dict(entries) = self else { return None };
        let is_key = |k: &PyValue<'_>| matches!(k, PyValue::Str(k) if k == key);
        entries.iter().find(|(k, _)| is_key(k)).map(|(_, value)| value)
    }

    /// Returns Python's truth value: false for `None`, zero and empty values.
    pub fn is_true(&self) -> bool {
        match self {
            Self::None => false,
            Self::Bool(value) => *value,
            Self::Number(number) => *number != Number::Int(0),
            Self::Complex(re, im) => *re != 0.0 || *im != 0.0,
            Self::Str(text) => !text.as_bytes().is_empty(),
            Self::Bytes(bytes) => !bytes.is_empty(),
            Self::List(items) | Self::Tuple(items) | Self::Set(items) => !items.is_empty(),
            Self::Dict(entries) => !entries.is_empty(),
            Self::Ellipsis => true,
        }
    }

    /// Returns true if Python accepts it as a dict key or a set member.
    pub fn is_hashable(&self) -> bool {
        match self {
            Self::List(_) | Self::Set(_) | Self::Dict(_) => false,
            Self::Tuple(items) => items.iter().all(Self::is_hashable),
            _ => true,
        }
    }

    /// Converts it to plain data; `None` if a part has no JSON form.
    pub fn into_value(self) -> Option<Value<'a>> {
        Some(match self {
            Self::None => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number),
            Self::Str(text) => Value::String(text.into_text()),
            Self::List(items) | Self::Tuple(items) => {
                Value::List(items.into_iter().map(Self::into_value).collect::<Option<_>>()?)
            }
            Self::Dict(entries) => Value::Map(super::Map::from_entries(
                entries
                    .into_iter()
                    .map(|(key, value)| match key {
                        Self::Str(key) => Some((key.into_text(), value.into_value()?)),
                        _ => None,
                    })
                    .collect::<Option<_>>()?,
            )),
            Self::Complex(..) | Self::Bytes(_) | Self::Set(_) | Self::Ellipsis => return None,
        })
    }

    /// Builds a dict from entries; a repeated key has its first place and its last value.
    pub fn dict(entries: Vec<(PyValue<'a>, PyValue<'a>)>) -> Result<Self, PyError> {
        equal::unique_entries(entries).map(Self::Dict)
    }

    /// Builds a set from members; the first of equal ones stays.
    pub(crate) fn set(members: Vec<PyValue<'a>>) -> Result<Self, PyError> {
        let entries = members.into_iter().map(|member| (member, PyValue::None)).collect();
        let unique = equal::unique_entries(entries)?;
        Ok(Self::Set(unique.into_iter().map(|(member, _)| member).collect()))
    }
}

/// Converts plain data: objects become dicts, lists stay lists.
impl<'a> From<Value<'a>> for PyValue<'a> {
    fn from(value: Value<'a>) -> Self {
        match value {
            Value::Null => Self::None,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::Str(PyStr::from(text)),
            Value::List(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Map(map) => {
                let entry = |(key, value)| (Self::Str(PyStr::from(key)), Self::from(value));
                Self::Dict(map.into_entries().into_iter().map(entry).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests;
