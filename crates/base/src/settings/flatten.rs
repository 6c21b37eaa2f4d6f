//! Flattening: one map read as two structs, the settings shared by several kinds and those of one
//! kind.
//!
//! `serde` can flatten a struct into another, but then no longer reports unknown keys.

use schemars::{JsonSchema, Schema};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Visitor};

use super::de::unknown;
use super::{Node, SettingsError};

impl Node {
    /// Reads a map as two structs without a common key, each of which denies unknown keys.
    ///
    /// # Errors
    /// Those of [`read`](Self::read); an unknown key is reported with the keys of both.
    pub fn read_both<A: DeserializeOwned, B: DeserializeOwned>(
        &self,
    ) -> Result<(A, B), SettingsError> {
        let one = keys_of::<A>();
        let other = keys_of::<B>();
        let all = || one.iter().chain(other).copied();
        if let Some((key, _)) = self.entries().find(|(key, _)| all().all(|known| known != key.text))
        {
            return Err(unknown("setting", &key.text, &all().collect::<Vec<_>>()).at(key.place));
        }
        let (left, right) = self.split(|key| one.contains(&key));
        Ok((left.read()?, right.read()?))
    }
}

/// Returns the keys of a struct with their aliases; empty for another type.
pub fn keys_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut keys: &[&str] = &[];
    // Always an error: the keys are recorded before anything is read.
    let _ = T::deserialize(KeysOf(&mut keys));
    keys
}

/// Deserializer that only records the keys of a struct.
struct KeysOf<'k>(&'k mut &'static [&'static str]);

impl<'de> Deserializer<'de> for KeysOf<'_> {
    type Error = SettingsError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, SettingsError> {
        Err(SettingsError::new("there is nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Returns the JSON Schema of a map [read as both](Node::read_both), with the keys of the first
/// before those of the second.
pub fn schema_of_both<A: JsonSchema, B: JsonSchema>() -> Schema {
    joined(schemars::schema_for!(A), schemars::schema_for!(B))
}

/// Merges two schemas into one with the keys of both.
pub fn joined(first: Schema, second: Schema) -> Schema {
    let first = first.to_value();
    let mut schema = second.to_value();
    for section in ["properties", "$defs"] {
        let part = |schema: &serde_json::Value| schema.get(section)?.as_object().cloned();
        let Some(mut all) = part(&first) else { continue };
        all.extend(part(&schema).unwrap_or_default());
        if let Some(schema) = schema.as_object_mut() {
            schema.insert(section.to_owned(), all.into());
        }
    }
    Schema::try_from(schema).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::json;

    #[derive(serde::Deserialize, Debug, Default, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Own {
        #[serde(alias = "inverse")]
        negated: bool,
    }

    #[derive(serde::Deserialize, Debug, Default, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Shared {
        threshold: f64,
    }

    fn check(text: &str, expected: &str) {
        let node = Node::from_value(&json::parse(text).expect("JSON"));
        let said = match node.read_both::<Own, Shared>() {
            Ok((own, shared)) => format!("{} {}", own.negated, shared.threshold),
            Err(error) => error.to_string(),
        };
        assert_eq!(said, expected, "{text}");
    }

    #[test]
    fn a_map_is_read_as_two_and_a_mistake_is_told_as_of_one() {
        check(r#"{"threshold": 0.5, "negated": true}"#, "true 0.5");
        check(r#"{"inverse": true}"#, "true 0");
        check("{}", "false 0");
        let near =
            |word: &str, meant: &str| format!("unknown setting `{word}` (did you mean `{meant}`?)");
        check(r#"{"treshold": 1}"#, &near("treshold", "threshold"));
        check(r#"{"negatd": true}"#, &near("negatd", "negated"));
        let all = "unknown setting `zzzzzz` (known are inverse, negated, threshold)";
        check(r#"{"zzzzzz": true}"#, all);
        check(r#"{"threshold": "x"}"#, "expected a number, found \"x\"");
        check(
            "[]",
            "expected a map, found a list (write `key: value`, without `- ` or brackets \
                     before it; it takes threshold)",
        );
    }

    #[test]
    fn the_schema_has_the_keys_of_both() {
        let schema = schema_of_both::<Own, Shared>().to_value();
        let properties = schema["properties"].as_object().expect("properties");
        assert_eq!(properties.keys().collect::<Vec<_>>(), ["negated", "threshold"]);
        assert_eq!(schema["additionalProperties"], false);
    }
}
