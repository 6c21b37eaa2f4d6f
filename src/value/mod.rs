//! JSON-like values with exact numbers, and readers and printers for them.
//!
//! Arguments and results of tool calls are compared as values: integers are exact at any size, an
//! integer is told from a fraction, objects keep their order. `serde_json::Value` does neither
//! beyond 64 bits, refuses more than 128 levels, and copies every string; this one borrows.

mod by_key;
mod deserialize;
mod hash;
pub mod json;
pub mod number;
pub mod python;

use std::borrow::Cow;
use std::fmt;

pub use by_key::ByKey;
pub use number::Number;

/// Objects up to this size are searched, larger ones indexed.
const SEARCHED_MAX: usize = 16;

/// A decoded value. Strings borrow from the text they were read from where they can.
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

/// An object in insertion order; keys are unique.
#[derive(Clone, Debug, Default)]
pub struct Map<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Map<'a> {
    /// An empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// The entry of `key`.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Puts an entry; an earlier one of that key keeps its place and takes the new value.
    ///
    /// It looks for the key among all, so only keys that the code names are put one by one: what a
    /// stranger named is collected ([`from_entries`](Self::from_entries)).
    pub fn insert(&mut self, key: &'static str, value: impl Into<Value<'a>>) {
        self.put(Cow::Borrowed(key), value.into());
    }

    fn put(&mut self, key: Cow<'a, str>, value: Value<'a>) {
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// Builds an object from entries; of a repeated key the first place and the last value count.
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

    /// Takes an entry out.
    pub fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        let index = self.0.iter().position(|(k, _)| k == key)?;
        Some(self.0.remove(index).1)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(k, v)| (&**k, v))
    }

    /// The entries in order, by value.
    pub fn into_entries(self) -> Vec<(Cow<'a, str>, Value<'a>)> {
        self.0
    }
}

/// Equal when both have the same keys with equal values, in any order.
impl PartialEq for Map<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if self.0.iter().zip(&other.0).all(|((a, _), (b, _))| a == b) {
            // The same keys in the same order, as two calls of one tool mostly have them.
            return self.0.iter().zip(&other.0).all(|((_, a), (_, b))| a == b);
        }
        let other = other.by_key();
        self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<'a> Value<'a> {
    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The object, if it is one.
    pub fn as_map(&self) -> Option<&Map<'a>> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The list, if it is one.
    pub fn as_list(&self) -> Option<&[Value<'a>]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The entry of an object.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.as_map()?.get(key)
    }

    /// How many values there are, this one and all within.
    pub fn node_count(&self) -> usize {
        match self {
            Self::List(list) => 1 + list.iter().map(Value::node_count).sum::<usize>(),
            Self::Map(map) => 1 + map.iter().map(|(_, value)| value.node_count()).sum::<usize>(),
            _ => 1,
        }
    }

    /// The same with the entries of all objects ordered by key, so that equal values are written
    /// the same.
    #[must_use]
    pub fn in_key_order(&self) -> Self {
        match self {
            Self::List(items) => Self::List(items.iter().map(Self::in_key_order).collect()),
            Self::Map(map) => {
                let mut entries: Vec<_> = map.clone().into_entries();
                entries.sort_by(|(a, _), (b, _)| a.cmp(b));
                Self::Map(entries.into_iter().map(|(k, v)| (k, v.in_key_order())).collect())
            }
            scalar => scalar.clone(),
        }
    }

    /// A copy that borrows from nothing.
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

/// Compact JSON.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        json::write(self, f)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::String(Cow::Owned(text))
    }
}

impl<'a> From<Cow<'a, str>> for Value<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Number(Number::Int(value))
    }
}

impl From<i32> for Value<'_> {
    fn from(value: i32) -> Self {
        Self::Number(Number::Int(i64::from(value)))
    }
}

impl From<usize> for Value<'_> {
    fn from(value: usize) -> Self {
        Self::Number(Number::from(value as u64))
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Self::Number(Number::from(value))
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Number(Number::Float(value))
    }
}

impl<'a> From<Vec<Value<'a>>> for Value<'a> {
    fn from(list: Vec<Value<'a>>) -> Self {
        Self::List(list)
    }
}

impl<'a> From<Map<'a>> for Value<'a> {
    fn from(map: Map<'a>) -> Self {
        Self::Map(map)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
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
