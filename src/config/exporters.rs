//! The `exporters:` and `forward:` maps in the config's struct.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

/// Placeholder for the map of exporters: `emit` reads its entries.
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

/// Placeholder for the map of forwards: `emit` reads its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForwardConfig;

impl<'de> Deserialize<'de> for ForwardConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(serde::de::IgnoredAny).map(|_| Self)
    }
}

impl JsonSchema for ForwardConfig {
    fn schema_name() -> Cow<'static, str> {
        "Forward".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        super::schema::forward(generator)
    }
}
