//! Conversion of OpenAPI and Gemini schemas to JSON Schema: types in capitals, and `nullable`.

use std::borrow::Cow;

use spanscore_base::value::{Map, Value};

/// Types of JSON Schema.
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
/// Keywords that allow null besides the type.
const NULLABLE: [&str; 2] = ["nullable", "x-nullable"];
/// Keywords with schemas by name.
const BY_NAME: [&str; 5] =
    ["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"];
/// Keywords with a schema, or a list of them.
const SCHEMAS: [&str; 11] = [
    "items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if", "then",
    "else", "contains",
];

/// Returns the schema as JSON Schema; `None` if it already is.
pub(super) fn as_json_schema(schema: &Value<'_>) -> Option<Value<'static>> {
    if !is_foreign(schema) {
        return None;
    }
    Some(rewritten(schema))
}

/// Returns true if a schema, at any level, has a word of another dialect.
fn is_foreign(schema: &Value<'_>) -> bool {
    match schema {
        Value::List(list) => list.iter().any(is_foreign),
        Value::Map(map) => {
            is_nullable(map)
                || map.get("type").is_some_and(has_capitals)
                || map.iter().any(|(key, value)| match value {
                    Value::Map(named) if BY_NAME.contains(&key) => {
                        named.iter().any(|(_, schema)| is_foreign(schema))
                    }
                    value => SCHEMAS.contains(&key) && is_foreign(value),
                })
        }
        _ => false,
    }
}

fn is_nullable(map: &Map<'_>) -> bool {
    NULLABLE.iter().any(|key| map.get(key).and_then(Value::as_bool) == Some(true))
}

fn has_capitals(kind: &Value<'_>) -> bool {
    match kind {
        Value::String(text) => plain_type(text).is_some_and(|plain| plain != &**text),
        Value::List(list) => list.iter().any(has_capitals),
        _ => false,
    }
}

fn plain_type(text: &str) -> Option<&'static str> {
    TYPES.into_iter().find(|plain| plain.eq_ignore_ascii_case(text))
}

fn rewritten(schema: &Value<'_>) -> Value<'static> {
    match schema {
        Value::List(list) => Value::List(list.iter().map(rewritten).collect()),
        Value::Map(map) => rewritten_map(map),
        other => other.clone().into_owned(),
    }
}

fn rewritten_map(map: &Map<'_>) -> Value<'static> {
    let may_be_null = is_nullable(map);
    let has_type = map.get("type").is_some_and(|kind| !kind.is_null());
    let entry = |(key, value): (&str, &Value<'_>)| {
        let value = match value {
            value if key == "type" => types(value, may_be_null),
            Value::List(allowed)
                if key == "enum" && may_be_null && !allowed.contains(&Value::Null) =>
            {
                let allowed = allowed.iter().map(|value| value.clone().into_owned());
                Value::List(allowed.chain([Value::Null]).collect())
            }
            Value::Map(named) if BY_NAME.contains(&key) => {
                let named = named.iter().map(|(name, schema)| (owned(name), rewritten(schema)));
                Value::Map(named.collect())
            }
            value if SCHEMAS.contains(&key) => rewritten(value),
            value => value.clone().into_owned(),
        };
        (owned(key), value)
    };
    let kept = map.iter().filter(|(key, _)| !NULLABLE.contains(key));
    let plain = Value::Map(kept.map(entry).collect());
    if may_be_null && !has_type {
        return null_or(plain);
    }
    plain
}

fn owned(key: &str) -> Cow<'static, str> {
    Cow::Owned(key.to_owned())
}

/// Converts a type or a list of types; adds `null` if allowed.
fn types(kind: &Value<'_>, may_be_null: bool) -> Value<'static> {
    let plain = |kind: &Value<'_>| match kind.as_str().and_then(plain_type) {
        Some(plain) => Value::from(plain),
        None => kind.clone().into_owned(),
    };
    let null = Value::from("null");
    match kind {
        Value::List(list) => {
            let mut all: Vec<Value<'static>> = list.iter().map(plain).collect();
            if may_be_null && !all.contains(&null) {
                all.push(null);
            }
            Value::List(all.into_iter().collect())
        }
        kind if may_be_null => Value::List([plain(kind), null].into_iter().collect()),
        kind => plain(kind),
    }
}

/// Wraps a schema without a type, such as a reference or alternatives.
fn null_or(schema: Value<'static>) -> Value<'static> {
    let null = Map::from([("type", Value::from("null"))]);
    let either = Value::List([schema, Value::Map(null)].into_iter().collect());
    Value::Map(Map::from([("anyOf", either)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(schema: &str, expected: &str) {
        let schema = json::parse(schema).unwrap();
        let found = as_json_schema(&schema).map(|schema| schema.to_string());
        assert_eq!(found.as_deref().unwrap_or("the same"), expected, "{schema}");
    }

    #[test]
    fn other_dialects_become_json_schema() {
        check(r#"{"type":["string","null"],"properties":{"type":{"type":"string"}}}"#, "the same");
        check(r#"{"properties":{"nullable":{"type":"boolean"}}}"#, "the same");
        check(r#"{"default":{"nullable":true},"enum":["STRING"]}"#, "the same");
        check(
            r#"{"type":"OBJECT","properties":{"type":{"type":"STRING","nullable":true}}}"#,
            r#"{"type":"object","properties":{"type":{"type":["string","null"]}}}"#,
        );
        check(
            r##"{"properties":{"n":{"$ref":"#/$defs/N","nullable":true}}}"##,
            r##"{"properties":{"n":{"anyOf":[{"$ref":"#/$defs/N"},{"type":"null"}]}}}"##,
        );
        check(
            r#"{"type":"string","nullable":true,"enum":["a"]}"#,
            r#"{"type":["string","null"],"enum":["a",null]}"#,
        );
        check(r#"{"anyOf":[{"type":"NULL"}]}"#, r#"{"anyOf":[{"type":"null"}]}"#);
    }
}
