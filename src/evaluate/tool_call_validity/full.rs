//! The whole of JSON Schema, with limits: patterns take linear time, references to other documents
//! are refused, and a schema that a trace brings is only so large.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{PatternOptions, Validator};

use crate::value::{Map, Number, Value};

/// Bytes of one schema as JSON.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;

/// Compiled schemas that are kept; past it all are compiled anew.
const SCHEMAS_MAX: usize = 512;

/// Bytes that the automaton of one pattern may take.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Why arguments cannot be held against a schema.
#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaError {
    #[error("its {0} bytes are more than {SCHEMA_BYTES_MAX}")]
    TooLarge(usize),
    #[error("{0}")]
    Invalid(String),
}

/// Compiled schemas by their text: traces repeat their definitions.
#[derive(Default)]
pub(super) struct Validators {
    compiled: Mutex<hashbrown::HashMap<String, Result<Arc<Validator>, String>>>,
}

impl Validators {
    /// Holds arguments against a schema; errors name the failing path and keyword.
    pub(super) fn check(
        &self,
        schema: &Value<'_>,
        arguments: &Value<'_>,
        error: &mut dyn FnMut(&dyn fmt::Display),
    ) -> Result<(), SchemaError> {
        let validator = self.validator(schema)?;
        let arguments = to_json(arguments);
        if validator.is_valid(&arguments) {
            return Ok(());
        }
        for problem in validator.iter_errors(&arguments).take(super::ERRORS_MAX) {
            error(&Problem { path: problem.instance_path().to_string(), error: problem });
        }
        Ok(())
    }

    fn validator(&self, schema: &Value<'_>) -> Result<Arc<Validator>, SchemaError> {
        let text = schema.to_string();
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(SchemaError::TooLarge(text.len()));
        }
        // What a panic elsewhere left behind is still a map of compiled schemas.
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(&text) {
            return known.clone().map_err(SchemaError::Invalid);
        }
        if compiled.len() >= SCHEMAS_MAX {
            compiled.clear();
        }
        let result = compile(schema);
        compiled.insert(text, result.clone());
        result.map_err(SchemaError::Invalid)
    }
}

fn compile(schema: &Value<'_>) -> Result<Arc<Validator>, String> {
    let patterns =
        PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    let schema = match schema {
        Value::Null => serde_json::Value::Bool(true),
        schema => to_json(schema),
    };
    jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .build(&schema)
        .map(Arc::new)
        .map_err(|error| format!("{} at `{}`", error.masked(), error.instance_path()))
}

/// One thing wrong, without the value.
struct Problem<'p> {
    path: String,
    error: jsonschema::ValidationError<'p>,
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        write!(f, "{path}: {} ({})", self.error.masked(), self.error.schema_path())
    }
}

fn to_json(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => serde_json::Value::Bool(*value),
        Value::Number(number) => number_to_json(number),
        Value::String(text) => serde_json::Value::String(text.to_string()),
        Value::List(list) => list.iter().map(to_json).collect(),
        Value::Map(map) => serde_json::Value::Object(map_to_json(map)),
    }
}

fn map_to_json(map: &Map<'_>) -> serde_json::Map<String, serde_json::Value> {
    map.iter().map(|(key, value)| (key.to_owned(), to_json(value))).collect()
}

fn number_to_json(number: &Number) -> serde_json::Value {
    match number {
        Number::Int(value) => (*value).into(),
        // Infinities have no form in JSON, so they become null.
        Number::Float(value) => (*value).into(),
        Number::Big(digits) => serde_json::from_str(digits).unwrap_or(serde_json::Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::json;

    fn check(schema: &str, arguments: &str, found: &str) {
        let (schema, arguments) = (json::parse(schema).unwrap(), json::parse(arguments).unwrap());
        let mut errors = Vec::new();
        let result = Validators::default()
            .check(&schema, &arguments, &mut |error| errors.push(error.to_string()));
        match result {
            Ok(()) => assert_eq!(errors.join("; "), found, "{schema}"),
            Err(error) => assert!(error.to_string().contains(found), "{error}"),
        }
    }

    #[test]
    fn errors_name_the_failing_path_and_never_the_value() {
        check(
            r#"{"properties":{"guests":{"items":{"required":["name"]}}}}"#,
            r#"{"guests":[{"name":"x"},{"secret":"y"}]}"#,
            r#"/guests/1: "name" is a required property (/properties/guests/items/required)"#,
        );
        check(
            r#"{"properties":{"city":{"pattern":"^[A-Z]"}}}"#,
            r#"{"city":"secret"}"#,
            r#"/city: value does not match "^[A-Z]" (/properties/city/pattern)"#,
        );
        check(r#"{"type":5}"#, "{}", "");
    }

    #[test]
    fn schemas_that_refer_to_themselves_come_to_an_end() {
        check(r##"{"$ref":"#"}"##, "{}", "");
        check(r##"{"allOf":[{"$ref":"#"}]}"##, r#"{"a":1}"#, "");
        check(
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
            "{}",
            "",
        );
        check(r##"{"properties":{"a":{"$ref":"#"}}}"##, r#"{"a":{"a":{"a":{}}}}"#, "");
    }

    #[test]
    fn patterns_that_would_backtrack_take_linear_time() {
        let text = "a".repeat(5000);
        check(
            r#"{"properties":{"x":{"pattern":"^(a+)+$"}}}"#,
            &format!(r#"{{"x":"{text}!"}}"#),
            r#"/x: value does not match "^(a+)+$" (/properties/x/pattern)"#,
        );
    }
}
