//! Setting for the paths of a signal: one, or a list.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Paths of one signal; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPaths(Vec<String>);

impl UrlPaths {
    /// Returns the setting with one path.
    pub(crate) fn one(path: &str) -> Self {
        Self(vec![path.to_owned()])
    }

    /// Returns the paths in configured order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<'de> Deserialize<'de> for UrlPaths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PathsVisitor)
    }
}

struct PathsVisitor;

impl<'de> Visitor<'de> for PathsVisitor {
    type Value = UrlPaths;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a path such as `/v1/traces`, or a list of them")
    }

    fn visit_str<E: Error>(self, path: &str) -> Result<UrlPaths, E> {
        checked(path).map(UrlPaths::one)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut paths: A) -> Result<UrlPaths, A::Error> {
        let mut all = Vec::new();
        while let Some(path) = paths.next_element::<String>()? {
            checked(&path)?;
            all.push(path);
        }
        if all.is_empty() {
            return Err(A::Error::custom("name one path or more"));
        }
        Ok(UrlPaths(all))
    }
}

/// Returns a path that requests can have.
fn checked<E: Error>(path: &str) -> Result<&str, E> {
    if path.starts_with('/') { Ok(path) } else { Err(E::custom("a path begins with `/`")) }
}

impl JsonSchema for UrlPaths {
    fn schema_name() -> Cow<'static, str> {
        "UrlPaths".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let path = json_schema!({"type": "string", "pattern": "^/"});
        json_schema!({"anyOf": [path, {"type": "array", "items": path, "minItems": 1}]})
    }
}
