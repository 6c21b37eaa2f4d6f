//! Memory limit setting: mebibytes, or derived from the container's limit.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use spanscore_base::value::{Number, Value, read_scalar};

/// Mebibytes without a container's limit.
const DEFAULT_MIB: u32 = 1024;

/// Mebibytes for senders' data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemorySetting {
    /// Derived from the container's limit; 1024 without one.
    #[default]
    Auto,
    /// A fixed number.
    Mib(u32),
}

impl MemorySetting {
    /// Returns the mebibytes outside of a container.
    pub fn mib(self) -> u32 {
        match self {
            Self::Auto => DEFAULT_MIB,
            Self::Mib(mib) => mib,
        }
    }
}

impl<'de> Deserialize<'de> for MemorySetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "`auto`, or a whole number of mebibytes from 1";
        read_scalar(deserializer, expected, |value| match value {
            Value::String(word) if word == "auto" => Some(Ok(Self::Auto)),
            Value::Number(Number::Int(0)) => Some(Err("must be above zero".to_owned())),
            Value::Number(Number::Int(mib)) => Some(Ok(Self::Mib(u32::try_from(*mib).ok()?))),
            _ => None,
        })
    }
}

impl Serialize for MemorySetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Mib(mib) => serializer.serialize_u32(*mib),
        }
    }
}

impl JsonSchema for MemorySetting {
    fn schema_name() -> Cow<'static, str> {
        "MemorySetting".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"const": "auto"},
            {"type": "integer", "format": "uint32", "minimum": 32, "maximum": u32::MAX},
        ]})
    }
}
