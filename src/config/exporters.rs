//! The `exporters:` map in the config's struct.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

/// Stands for the map in the config's struct: `emit` reads its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExportersConfig;

impl<'de> Deserialize<'de> for ExportersConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(serde::de::IgnoredAny).map(|_| Self)
    }
}

impl JsonSchema for ExportersConfig {
    fn schema_name() -> Cow<'static, str> {
        "Exporters".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        super::schema::exporters(generator)
    }
}
