//! Classes of the entries of maps and lists: a value's class depends on its key and its context.
//!
//! - Below a secret key all texts are secrets, except names beside them (`user`).
//! - A JSON schema below such a key describes it; only examples and defaults are secrets.
//! - `{"name": "password", "value": ...}`, `["authorization", "Bearer ..."]` and
//!   `["--password", ...]` have the key in a value.

use super::keys::{UnderKey, is_harmless, looks_secret};
use spanscore_base::value::{Map, Value};

/// Keys of the name in a map for one entry.
const NAMES: [&str; 6] = ["name", "key", "field", "header", "parameter", "variable"];
/// Keys of the value that belongs to a name.
const VALUES: [&str; 12] = [
    "value", "values", "val", "content", "data", "text", "plain", "raw", "actual", "expected",
    "default", "current",
];
/// Keys of a JSON schema that hold values.
const SCHEMA_VALUES: [&str; 5] = ["default", "const", "example", "examples", "enum"];
/// Types of a JSON schema.
const SCHEMA_TYPES: [&str; 7] =
    ["string", "number", "integer", "boolean", "object", "array", "null"];

/// Facts about a map that classify its entries.
pub(super) struct MapFacts {
    above: UnderKey,
    /// Class that a name in the map gives to its value.
    named: UnderKey,
    /// True for a JSON schema below a secret key.
    is_schema: bool,
    /// True for a model's answer token with its probability.
    is_model_token: bool,
}

impl MapFacts {
    pub(super) fn of(map: &Map<'_>, above: UnderKey) -> Self {
        let name = NAMES.iter().find_map(|name| map.get(name).and_then(Value::as_str));
        Self {
            above,
            named: name.map_or(UnderKey::Plain, UnderKey::of),
            is_schema: above.is_certain() && is_schema(map),
            is_model_token: map.get("logprob").is_some(),
        }
    }

    /// Returns the class of the value under a key.
    pub(super) fn class(&self, key: &str) -> UnderKey {
        let own = UnderKey::of(key);
        let is_value = VALUES.contains(&key);
        if self.is_schema {
            let holds = SCHEMA_VALUES.contains(&key);
            return if holds { self.above } else { UnderKey::Plain };
        }
        if self.named.is_certain() && is_value {
            return self.named;
        }
        match own {
            UnderKey::Word if self.is_model_token => UnderKey::Plain,
            UnderKey::Plain if is_value => self.above,
            UnderKey::Plain if self.above == UnderKey::Plain || is_harmless(key) => UnderKey::Plain,
            own if own.is_certain() => own,
            own => match self.above.below() {
                UnderKey::Plain => own,
                above => above,
            },
        }
    }
}

/// Returns true if a map is a JSON schema of a parameter.
fn is_schema(map: &Map<'_>) -> bool {
    let is_type = |value: &Value<'_>| value.as_str().is_some_and(|it| SCHEMA_TYPES.contains(&it));
    map.get("type")
        .is_some_and(|it| is_type(it) || it.as_list().is_some_and(|it| it.iter().all(is_type)))
        || ["$ref", "anyOf", "oneOf", "allOf", "properties"]
            .iter()
            .any(|key| map.get(key).is_some())
}

/// Returns the class that an item of a list gives to the next one.
pub(super) fn class_of_next(items: usize, item: &Value<'_>, next: &Value<'_>) -> UnderKey {
    let (Some(item), Some(next)) = (item.as_str(), next.as_str()) else { return UnderKey::Plain };
    let is_option = item.starts_with('-') && !next.starts_with('-');
    let is_pair = || items == 2 && looks_secret(next);
    if is_option || is_pair() { UnderKey::of(item) } else { UnderKey::Plain }
}

/// Returns the class of each item of a list, in order.
pub(super) fn classes_of_items(items: &[Value<'_>], above: UnderKey) -> Vec<UnderKey> {
    let mut classes = vec![above; items.len()];
    if above == UnderKey::Plain {
        for (at, pair) in items.windows(2).enumerate() {
            classes[at + 1] = class_of_next(items.len(), &pair[0], &pair[1]);
        }
    }
    classes
}
