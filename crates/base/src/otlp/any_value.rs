//! Attribute values, read from their encoded form without copying.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::wire::{Field, Fields, Malformed, contents, leading_bytes};
use crate::value::{Map, Number, Value};

/// Deepest nesting of lists and maps that is read; a value that nests deeper is [`Unreadable`].
pub const DEPTH_MAX: usize = 64;

/// A value that cannot be read whole: an item or entry is malformed at any depth, a key is not
/// UTF-8, or it exceeds [`DEPTH_MAX`] levels. It counts as not recorded, since its readable part
/// would look complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a malformed attribute value")]
pub struct Unreadable;

impl From<Malformed> for Unreadable {
    fn from(_: Malformed) -> Self {
        Self
    }
}

/// A borrowed `opentelemetry.proto.common.v1.AnyValue`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum AnyValue<'a> {
    /// No value is set.
    #[default]
    Empty,
    /// A text.
    String(&'a str),
    /// A text field that is not UTF-8.
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

    /// Returns the text, if it is one.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Converts it to a [`Value`]. Bytes become their base64, as in OTLP/JSON; in a text that is
    /// not UTF-8, U+FFFD replaces invalid bytes.
    ///
    /// # Errors
    /// [`Unreadable`] if any part of it is.
    pub fn to_value(self) -> Result<Value<'a>, Unreadable> {
        self.to_value_at(0)
    }

    fn to_value_at(self, depth: usize) -> Result<Value<'a>, Unreadable> {
        Ok(match self {
            Self::Array(_) | Self::KeyValues(_) if depth >= DEPTH_MAX => return Err(Unreadable),
            Self::Array(array) => {
                let values = items(array).map(|item| item?.to_value_at(depth + 1));
                Value::List(values.collect::<Result<_, _>>()?)
            }
            Self::KeyValues(list) => {
                let entries = key_values(list).map(|entry| {
                    let (key, value) = entry?;
                    Ok((Cow::Borrowed(key), value.to_value_at(depth + 1)?))
                });
                Value::Map(Map::from_entries(entries.collect::<Result<_, Unreadable>>()?))
            }
            scalar => scalar.scalar_to_value(),
        })
    }

    /// Converts its readable part, for people. `null` replaces an unreadable item or value, and an
    /// entry without a readable key is left out.
    pub fn legible(self) -> Value<'a> {
        self.legible_at(0)
    }

    fn legible_at(self, depth: usize) -> Value<'a> {
        match self {
            Self::Array(_) | Self::KeyValues(_) if depth >= DEPTH_MAX => Value::Null,
            Self::Array(array) => {
                let legible = |item: Self| item.legible_at(depth + 1);
                Value::List(items(array).map(|item| item.map_or(Value::Null, legible)).collect())
            }
            Self::KeyValues(list) => Value::Map(
                key_values(list)
                    .flatten()
                    .map(|(key, value)| (key, value.legible_at(depth + 1)))
                    .collect(),
            ),
            scalar => scalar.scalar_to_value(),
        }
    }

    /// Returns true if [`to_value`](Self::to_value) yields a value, without allocating.
    pub fn is_readable(self) -> bool {
        self.is_readable_at(0)
    }

    fn is_readable_at(self, depth: usize) -> bool {
        let inner = |value: Self| value.is_readable_at(depth + 1);
        match self {
            Self::Array(_) | Self::KeyValues(_) if depth >= DEPTH_MAX => false,
            Self::Array(array) => items(array).all(|item| item.is_ok_and(inner)),
            Self::KeyValues(list) => {
                key_values(list).all(|entry| entry.is_ok_and(|(_, value)| inner(value)))
            }
            _ => true,
        }
    }

    /// Converts a scalar; a list or map becomes `null`.
    fn scalar_to_value(self) -> Value<'a> {
        match self {
            Self::Empty => Value::Null,
            Self::String(text) => Value::from(text),
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Number(Number::Int(value)),
            Self::Double(value) => Value::Number(Number::Float(value)),
            Self::InvalidText(bytes) => Value::String(String::from_utf8_lossy(bytes)),
            Self::Bytes(bytes) => Value::from(STANDARD.encode(bytes)),
            Self::Array(_) | Self::KeyValues(_) => Value::Null,
        }
    }
}

/// Iterates over the items of an encoded `ArrayValue`, with an error for each malformed one. Damage
/// to the array itself ends the iteration with an error.
pub fn items(array: &[u8]) -> impl Iterator<Item = Result<AnyValue<'_>, Malformed>> {
    contents(array, 1).map(|encoded| AnyValue::read(encoded?))
}

/// Iterates over the entries of an encoded `KeyValueList` (or of any message whose field 1 is
/// `KeyValue`), with errors as [`items`] has them; a key that is not UTF-8 is malformed.
pub fn key_values(list: &[u8]) -> impl Iterator<Item = Result<(&str, AnyValue<'_>), Malformed>> {
    contents(list, 1).map(|entry| {
        let (key, value) = key_value(entry?)?;
        Ok((std::str::from_utf8(key).map_err(|_| Malformed)?, AnyValue::read(value)?))
    })
}

/// Returns key and encoded value of an encoded `KeyValue`.
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

    /// Fields of `AnyValue`: string, array, map.
    fn text(text: &str) -> Vec<u8> {
        field(0x0a, text.as_bytes())
    }

    fn list(items: &[Vec<u8>]) -> Vec<u8> {
        field(0x2a, &items.iter().flat_map(|item| field(0x0a, item)).collect::<Vec<_>>())
    }

    fn map(entries: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
        let entry = |(key, value): &(&[u8], Vec<u8>)| {
            field(0x0a, &[field(0x0a, key), field(0x12, value)].concat())
        };
        field(0x32, &entries.iter().flat_map(entry).collect::<Vec<_>>())
    }

    /// Tag of a group, which OTLP does not have.
    const BROKEN: &[u8] = &[0x0b];

    #[track_caller]
    fn check(encoded: &[u8], whole: bool, legible: &str) {
        let value = AnyValue::read(encoded).expect("whole at the top");
        assert_eq!(value.legible().to_string(), legible);
        assert_eq!(value.is_readable(), whole);
        assert_eq!(value.to_value(), if whole { Ok(value.legible()) } else { Err(Unreadable) });
    }

    #[test]
    fn what_is_malformed_never_reads_as_recorded() {
        let broken = || BROKEN.to_vec();
        check(&list(&[]), true, "[]");
        check(&list(&[text("a"), Vec::new()]), true, r#"["a",null]"#);
        check(&list(&[text("a"), broken(), text("b")]), false, r#"["a",null,"b"]"#);
        check(&list(&[broken()]), false, "[null]");
        check(&map(&[(b"a", text("b"))]), true, r#"{"a":"b"}"#);
        check(&map(&[(b"a", text("b")), (b"c", broken())]), false, r#"{"a":"b"}"#);
        check(&map(&[(b"c", broken())]), false, "{}");
        check(&map(&[(b"\xff", text("b"))]), false, "{}");
        let nested = map(&[(b"a", list(&[text("b"), map(&[(b"c", list(&[broken()]))])]))]);
        check(&nested, false, r#"{"a":["b",{"c":[null]}]}"#);
        let torn = |whole: Vec<u8>, tag| field(tag, &[&whole[2..], &[0x0a, 9]].concat());
        check(&torn(list(&[text("a")]), 0x2a), false, r#"["a",null]"#);
        check(&torn(map(&[(b"a", text("b"))]), 0x32), false, r#"{"a":"b"}"#);
    }

    #[test]
    fn a_value_is_read_to_the_limit_and_refused_one_past_it() {
        let nested = |levels| (0..levels).fold(text("x"), |inner, _| list(&[inner]));
        for (levels, whole) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false), (10_000, false)] {
            let encoded = nested(levels);
            let value = AnyValue::read(&encoded).expect("whole at the top");
            assert_eq!((value.to_value().is_ok(), value.is_readable()), (whole, whole));
        }
    }

    #[test]
    fn bytes_are_their_base64_and_texts_stay_texts() {
        let check = |tag, bytes: &[u8], expected: &str| {
            let value = field(tag, bytes);
            assert_eq!(AnyValue::read(&value).unwrap().to_value(), Ok(Value::from(expected)));
        };
        let text = 0x0a;
        let bytes = 0x3a;
        check(bytes, b"{\"a\": 1}", "eyJhIjogMX0=");
        check(bytes, b"\xff\x00", "/wA=");
        check(bytes, b"", "");
        check(text, b"{\"a\": 1}", "{\"a\": 1}");
        check(text, b"\xffound", "\u{fffd}ound");
    }

    proptest! {
        #[test]
        fn readable_is_what_becomes_a_value(bytes in proptest::collection::vec(0..64u8, 0..60)) {
            for kind in [AnyValue::Array(&bytes), AnyValue::KeyValues(&bytes)] {
                prop_assert_eq!(kind.is_readable(), kind.to_value().is_ok());
                if let Ok(value) = kind.to_value() {
                    prop_assert_eq!(value, kind.legible());
                }
            }
        }

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
