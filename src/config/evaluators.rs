//! Stand-in for the `evaluators:` map in the config's struct.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

/// Placeholder for the map in the config's struct: its entries are read one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvaluatorsConfig;

impl<'de> Deserialize<'de> for EvaluatorsConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(serde::de::IgnoredAny).map(|_| Self)
    }
}

impl JsonSchema for EvaluatorsConfig {
    fn schema_name() -> Cow<'static, str> {
        "Evaluators".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        super::schema::evaluators(generator)
    }
}
