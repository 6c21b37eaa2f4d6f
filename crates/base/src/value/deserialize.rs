//! Deserialisation of values through `serde`, for literal arguments and schemas in settings.
//!
//! `serde` has no integers beyond 128 bits. The settings pass such an integer as decimal digits to
//! a visitor that asks for bytes, and as the nearest double to others.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use super::{Map, Number, Value};

impl<'de> Deserialize<'de> for Value<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Asking for bytes tells the settings that this visitor accepts the digits of a large
        // integer.
        deserializer.deserialize_bytes(ValueVisitor)
    }
}

/// Any value.
impl JsonSchema for Value<'_> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}

/// Deserializes a scalar by `read`, which returns `None` for a value that is not as `expected`.
///
/// # Errors
/// Another value, or the error of `read`.
pub fn read_scalar<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    read: impl FnOnce(&Value<'_>) -> Option<Result<T, String>>,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    if let Some(read) = read(&value) {
        return read.map_err(D::Error::custom);
    }
    let text = value.to_string();
    let found = match &value {
        Value::Null => Unexpected::Unit,
        Value::String(text) => Unexpected::Str(text),
        Value::List(_) => Unexpected::Seq,
        Value::Map(_) => Unexpected::Map,
        Value::Bool(_) | Value::Number(_) => Unexpected::Other(&text),
    };
    Err(D::Error::invalid_type(found, &expected))
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.to_owned().into())
    }

    fn visit_bytes<E: Error>(self, digits: &[u8]) -> Result<Self::Value, E> {
        let number = std::str::from_utf8(digits).ok().and_then(Number::from_decimal);
        number.map(Value::Number).ok_or_else(|| E::custom("not an integer"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<String, _>()? {
            map.push((Cow::Owned(key), value));
        }
        Ok(Value::Map(Map::from_entries(map)))
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::Node;
    use crate::value::{Value, json};

    #[test]
    fn settings_read_back_as_the_value_they_are() {
        let text = r#"{"a":[1,2.5,null,true,"x",-7],"b":{"c":123456789012345678901234567890}}"#;
        let value = json::parse(text).unwrap();
        let read: Value<'static> = Node::from_value(&value).read().unwrap();
        assert_eq!(read.to_string(), text);
    }

    #[test]
    fn integer_beyond_64_bits_is_refused_where_an_integer_is_asked_for() {
        let node = Node::from_value(&json::parse("123456789012345678901234567890").unwrap());
        assert!(node.read::<u64>().is_err());
        assert_eq!(node.read::<f64>(), Ok(123_456_789_012_345_678_901_234_567_890.0));
    }
}
