//! JSON-like values with exact numbers, and their readers and writers.
//!
//! Arguments and results of tool calls are compared as values: integers are exact at any size and
//! differ from fractions, and objects keep their order. `serde_json::Value` is not exact beyond 64
//! bits, refuses more than 128 levels, and copies every string; this type borrows.

mod by_key;
mod deserialize;
mod hash;
pub mod json;
pub mod number;
pub mod python;

use std::borrow::Cow;
use std::fmt;

pub use by_key::ByKey;
pub use deserialize::read_scalar;
pub use hash::{hash_entries, mix};
pub use number::Number;

/// Largest object that is scanned; larger ones are indexed.
const SEARCHED_MAX: usize = 16;

/// Decoded value. Strings borrow from the source text where possible.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value<'a> {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`: never equal to a number.
    Bool(bool),
    /// A number; equality is by value, so `1` equals `1.0`.
    Number(Number),
    /// A text.
    String(Cow<'a, str>),
    /// A list.
    List(Vec<Value<'a>>),
    /// An object.
    Map(Map<'a>),
}

/// Object in insertion order; keys are unique.
#[derive(Clone, Debug, Default)]
pub struct Map<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Map<'a> {
    /// Returns an empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Inserts an entry; an existing key keeps its place and takes the new value.
    ///
    /// Scans all keys, so only keys named in the code are inserted one by one. Entries with
    /// untrusted keys are collected ([`from_entries`](Self::from_entries)).
    pub fn insert(&mut self, key: &'static str, value: impl Into<Value<'a>>) {
        self.put(Cow::Borrowed(key), value.into());
    }

    fn put(&mut self, key: Cow<'a, str>, value: Value<'a>) {
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// Builds an object from entries; a repeated key has its first place and its last value.
    pub fn from_entries(entries: Vec<(Cow<'a, str>, Value<'a>)>) -> Self {
        if entries.len() <= SEARCHED_MAX {
            let repeats = |at: usize| entries[..at].iter().any(|(key, _)| *key == entries[at].0);
            if !(1..entries.len()).any(repeats) {
                return Self(entries);
            }
            let mut map = Self(Vec::with_capacity(entries.len()));
            for (key, value) in entries {
                map.put(key, value);
            }
            return map;
        }
        let mut place = hashbrown::HashMap::with_capacity(entries.len());
        let mut kept: Vec<(Cow<'a, str>, Value<'a>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            match place.get(&key) {
                Some(&index) => {
                    let (_, old): &mut (Cow<'a, str>, Value<'a>) = &mut kept[index];
                    *old = value;
                }
                None => {
                    place.insert(key.clone(), kept.len());
                    kept.push((key, value));
                }
            }
        }
        Self(kept)
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        let index = self.0.iter().position(|(k, _)| k == key)?;
        Some(self.0.remove(index).1)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(k, v)| (&**k, v))
    }

    /// Returns the entries in order, by value.
    pub fn into_entries(self) -> Vec<(Cow<'a, str>, Value<'a>)> {
        self.0
    }
}

/// Two objects are equal if both have the same keys with equal values, in any order.
impl PartialEq for Map<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if self.0.iter().zip(&other.0).all(|((a, _), (b, _))| a == b) {
            // Fast path for equal keys in the same order, as two calls of one tool mostly have.
            return self.0.iter().zip(&other.0).all(|((_, a), (_, b))| a == b);
        }
        let other = other.by_key();
        self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<'a> Value<'a> {
    /// Returns the text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the object, if it is one.
    pub fn as_map(&self) -> Option<&Map<'a>> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the list, if it is one.
    pub fn as_list(&self) -> Option<&[Value<'a>]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// Returns the number, if it is one.
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the entries of an object, none of another value.
    pub fn entries(&self) -> &Map<'a> {
        static NONE: Map<'static> = Map(Vec::new());
        self.as_map().unwrap_or(&NONE)
    }

    /// Returns the entries of arguments: `null` is an object without any.
    pub fn as_arguments(&self) -> Option<&Map<'a>> {
        if self.is_null() { Some(self.entries()) } else { self.as_map() }
    }

    /// Returns a text itself, and the compact JSON of another value.
    pub fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::String(text) => Cow::Borrowed(text),
            other => Cow::Owned(other.to_string()),
        }
    }

    /// Returns true if it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the value of `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.as_map()?.get(key)
    }

    /// Counts this value and all nested ones.
    pub fn node_count(&self) -> usize {
        match self {
            Self::List(list) => 1 + list.iter().map(Value::node_count).sum::<usize>(),
            Self::Map(map) => 1 + map.iter().map(|(_, value)| value.node_count()).sum::<usize>(),
            _ => 1,
        }
    }

    /// Returns a copy with all entries sorted by key, so that equal values have equal text.
    #[must_use]
    pub fn in_key_order(&self) -> Self {
        match self {
            Self::List(items) => Self::List(items.iter().map(Self::in_key_order).collect()),
            Self::Map(map) => {
                let ordered =
                    |(key, value): &(Cow<'a, str>, Self)| (key.clone(), value.in_key_order());
                let mut entries: Vec<_> = map.0.iter().map(ordered).collect();
                entries.sort_by(|(a, _), (b, _)| a.cmp(b));
                Self::Map(entries.into_iter().collect())
            }
            scalar => scalar.clone(),
        }
    }

    /// Returns an owned copy.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number),
            Self::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Self::List(list) => Value::List(list.into_iter().map(Value::into_owned).collect()),
            Self::Map(map) => Value::Map(Map(map
                .0
                .into_iter()
                .map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_owned()))
                .collect())),
        }
    }
}

/// Writes compact JSON.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        json::write(self, f)
    }
}

/// Implements conversions from plain data, one type a line; `Self` is the value.
macro_rules! from_data {
    ($($Data:ty: $from:ident => $value:expr;)*) => {$(
        impl<'a> From<$Data> for Value<'a> {
            fn from($from: $Data) -> Self {
                $value
            }
        }
    )*};
}

from_data! {
    &'a str: text => Self::String(Cow::Borrowed(text));
    String: text => Self::String(Cow::Owned(text));
    Cow<'a, str>: text => Self::String(text);
    bool: value => Self::Bool(value);
    i64: value => Self::Number(Number::Int(value));
    i32: value => Self::Number(Number::Int(i64::from(value)));
    usize: value => Self::Number(Number::from(value as u64));
    u64: value => Self::Number(Number::from(value));
    f64: value => Self::Number(Number::Float(value));
    Vec<Value<'a>>: list => Self::List(list);
    Map<'a>: map => Self::Map(map);
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<'a, K, V, const N: usize> From<[(K, V); N]> for Map<'a>
where
    K: Into<Cow<'a, str>>,
    V: Into<Value<'a>>,
{
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<'a, K: Into<Cow<'a, str>>, V: Into<Value<'a>>> FromIterator<(K, V)> for Map<'a> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self::from_entries(entries.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_equal_in_any_order() {
        let a: Map<'_> = [("a", Value::from(1)), ("b", Value::from("x"))].into_iter().collect();
        let b: Map<'_> = [("b", Value::from("x")), ("a", Value::from(1.0))].into_iter().collect();
        assert_eq!(a, b);
    }

    #[test]
    fn repeated_key_keeps_the_first_place_and_the_last_value() {
        let map: Map<'_> =
            (0..40).map(|i| (if i % 2 == 0 { "a" } else { "b" }, Value::from(i))).collect();
        let entries: Vec<_> = map.iter().map(|(k, v)| (k.to_owned(), v.clone())).collect();
        assert_eq!(entries, [("a".into(), Value::from(38)), ("b".into(), Value::from(39))]);
    }

    #[test]
    fn booleans_are_not_numbers() {
        assert_ne!(Value::from(true), Value::from(1));
        assert_ne!(Value::from(false), Value::from(0.0));
    }
}
