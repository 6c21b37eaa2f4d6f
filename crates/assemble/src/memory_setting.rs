//! Setting of the memory limit: mebibytes, or what the container allows.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Mebibytes without a container's limit.
const DEFAULT_MIB: u32 = 1024;

/// Mebibytes of all that senders' data occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemorySetting {
    /// As many as the container allows; 1024 without a limit.
    #[default]
    Auto,
    /// This many.
    Mib(u32),
}

impl MemorySetting {
    /// Returns the mebibytes in a process of which no container is known.
    pub fn mib(self) -> u32 {
        match self {
            Self::Auto => DEFAULT_MIB,
            Self::Mib(mib) => mib,
        }
    }
}

impl<'de> Deserialize<'de> for MemorySetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MemoryVisitor)
    }
}

struct MemoryVisitor;

impl Visitor<'_> for MemoryVisitor {
    type Value = MemorySetting;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("`auto`, or a whole number of mebibytes from 1")
    }

    fn visit_u64<E: Error>(self, mib: u64) -> Result<MemorySetting, E> {
        match u32::try_from(mib) {
            Ok(0) => Err(E::custom("must be above zero")),
            Ok(mib) => Ok(MemorySetting::Mib(mib)),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(mib), &self)),
        }
    }

    fn visit_i64<E: Error>(self, mib: i64) -> Result<MemorySetting, E> {
        match u64::try_from(mib) {
            Ok(mib) => self.visit_u64(mib),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(mib), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<MemorySetting, E> {
        match text {
            "auto" => Ok(MemorySetting::Auto),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
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
