//! Attribute values, read from their encoded form without copying.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::wire::{Field, Fields, Malformed, leading_bytes};
use crate::value::{Map, Number, Value};

/// Deepest nesting of lists and maps that is read; what lies deeper reads as `null`.
pub const DEPTH_MAX: usize = 64;

/// A borrowed `opentelemetry.proto.common.v1.AnyValue`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum AnyValue<'a> {
    /// No value is set.
    #[default]
    Empty,
    /// A text.
    String(&'a str),
    /// What was sent as a text and is no UTF-8.
    InvalidText(&'a [u8]),
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A double.
    Double(f64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// The encoded `ArrayValue`.
    Array(&'a [u8]),
    /// The encoded `KeyValueList`.
    KeyValues(&'a [u8]),
}

impl<'a> AnyValue<'a> {
    /// Reads an encoded `AnyValue`; of several values set, the last counts.
    #[inline]
    pub fn read(encoded: &'a [u8]) -> Result<Self, Malformed> {
        if let Some((text, [])) = leading_bytes(encoded, 1) {
            return Ok(Self::text(text));
        }
        Self::walk(encoded)
    }

    #[inline]
    fn text(bytes: &'a [u8]) -> Self {
        simdutf8::basic::from_utf8(bytes).map_or(Self::InvalidText(bytes), Self::String)
    }

    fn walk(encoded: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(encoded);
        let mut value = Self::Empty;
        while let Some((number, field)) = fields.next()? {
            value = match (number, field) {
                (1, Field::Bytes(text)) => Self::text(text),
                (2, Field::Varint(bit)) => Self::Bool(bit != 0),
                (3, Field::Varint(bits)) => Self::Int(bits as i64),
                (4, Field::Fixed64(bits)) => Self::Double(f64::from_bits(bits)),
                (5, Field::Bytes(array)) => Self::Array(array),
                (6, Field::Bytes(list)) => Self::KeyValues(list),
                (7, Field::Bytes(bytes)) => Self::Bytes(bytes),
                _ => value,
            };
        }
        Ok(value)
    }

    /// The text, if it is one.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value in our own form. Bytes are their base64, as in OTLP/JSON; of a text that is no
    /// UTF-8 what cannot be read becomes U+FFFD.
    pub fn to_value(self) -> Value<'a> {
        self.to_value_at(0)
    }

    fn to_value_at(self, depth: usize) -> Value<'a> {
        match self {
            Self::Empty => Value::Null,
            Self::String(text) => Value::from(text),
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Number(Number::Int(value)),
            Self::Double(value) => Value::Number(Number::Float(value)),
            Self::InvalidText(bytes) => Value::String(String::from_utf8_lossy(bytes)),
            Self::Bytes(bytes) => Value::from(STANDARD.encode(bytes)),
            Self::Array(_) | Self::KeyValues(_) if depth >= DEPTH_MAX => Value::Null,
            Self::Array(array) => Value::List(read_array(array, depth).unwrap_or_default()),
            Self::KeyValues(list) => Value::Map(Map::from_entries(
                key_values(list)
                    .map(|(key, value)| (Cow::Borrowed(key), value.to_value_at(depth + 1)))
                    .collect(),
            )),
        }
    }
}

fn read_array(array: &[u8], depth: usize) -> Result<Vec<Value<'_>>, Malformed> {
    let mut fields = Fields::new(array);
    let mut list = Vec::new();
    while let Some((number, field)) = fields.next()? {
        if let (1, Field::Bytes(encoded)) = (number, field) {
            list.push(AnyValue::read(encoded)?.to_value_at(depth + 1));
        }
    }
    Ok(list)
}

/// The items of an encoded `ArrayValue`; those that are malformed are passed over.
pub fn items(array: &[u8]) -> impl Iterator<Item = AnyValue<'_>> {
    let mut fields = Fields::new(array);
    std::iter::from_fn(move || {
        loop {
            match fields.next() {
                Ok(Some((1, Field::Bytes(encoded)))) => {
                    if let Ok(value) = AnyValue::read(encoded) {
                        return Some(value);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(Malformed) => return None,
            }
        }
    })
}

/// The entries of an encoded `KeyValueList` (or of any message whose field 1 is `KeyValue`);
/// entries that are malformed or have a key that is not UTF-8 are passed over.
pub fn key_values(list: &[u8]) -> impl Iterator<Item = (&str, AnyValue<'_>)> {
    let mut fields = Fields::new(list);
    std::iter::from_fn(move || {
        loop {
            match fields.next() {
                Ok(Some((1, Field::Bytes(entry)))) => {
                    if let Ok((key, value)) = key_value(entry)
                        && let Ok(key) = std::str::from_utf8(key)
                        && let Ok(value) = AnyValue::read(value)
                    {
                        return Some((key, value));
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(Malformed) => return None,
            }
        }
    })
}

/// Key and encoded value of an encoded `KeyValue`.
#[inline(always)]
pub fn key_value(encoded: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    if let Some((key, rest)) = leading_bytes(encoded, 1)
        && let Some((value, [])) = leading_bytes(rest, 2)
    {
        return Ok((key, value));
    }
    walk_key_value(encoded)
}

fn walk_key_value(encoded: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut fields = Fields::new(encoded);
    let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => key = bytes,
            (2, Field::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![tag];
        prost::encoding::encode_varint(bytes.len() as u64, &mut field);
        field.extend(bytes);
        field
    }

    #[test]
    fn bytes_are_their_base64_and_texts_stay_texts() {
        let check = |tag, bytes: &[u8], expected: &str| {
            let value = field(tag, bytes);
            assert_eq!(AnyValue::read(&value).unwrap().to_value(), Value::from(expected));
        };
        let (text, bytes) = (0x0a, 0x3a);
        check(bytes, b"{\"a\": 1}", "eyJhIjogMX0=");
        check(bytes, b"\xff\x00", "/wA=");
        check(bytes, b"", "");
        check(text, b"{\"a\": 1}", "{\"a\": 1}");
        check(text, b"\xffound", "\u{fffd}ound");
    }

    proptest! {
        #[test]
        fn the_short_cut_reads_what_the_walk_reads(
            key in proptest::collection::vec(any::<u8>(), 0..300),
            value in proptest::collection::vec(any::<u8>(), 0..300),
            noise in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let entry = [field(0x0a, &key), field(0x12, &value)].concat();
            prop_assert_eq!(key_value(&entry), Ok((&key[..], &value[..])));
            let reversed = [field(0x12, &value), field(0x0a, &key)].concat();
            prop_assert_eq!(key_value(&reversed), Ok((&key[..], &value[..])));
            let noisy = [entry, noise].concat();
            prop_assert_eq!(key_value(&noisy), walk_key_value(&noisy));
            prop_assert_eq!(key_value(&value), walk_key_value(&value));
        }
    }
}
