//! Basic schema check, compatible with Dokimos: top-level parameters, their types and enumerations.
//! Nested values and all other keywords are ignored.

use super::Problem;
use crate::shared::arguments::equal_numbers;
use crate::shared::definitions::{InvalidDefinition, required};
use crate::shared::difference::ANOTHER_ARGUMENT;
use spanscore_base::model::Explanation;
use spanscore_base::value::{Map, Number, Value};

/// Error in a parameter; names it, never its value.
enum ParameterProblem<'p> {
    Missing(&'p str),
    Unexpected(&'p str),
    Null(&'p str, &'p Value<'p>),
    Type(&'p str, &'p Value<'p>),
    NotAllowed(&'p str),
}

impl Problem for ParameterProblem<'_> {
    /// Describes the error; all names except an unexpected parameter's come from the schema.
    fn words(&self) -> Explanation {
        Explanation::plain(match self {
            Self::Missing(name) => format!("`{name}` is missing"),
            Self::Unexpected(name) => {
                let mut words = Explanation::default();
                words.hide(&format!("`{name}`"), ANOTHER_ARGUMENT);
                words.push(" is not declared");
                return words;
            }
            Self::Null(name, kind) => format!("`{name}` is null instead of {kind}"),
            Self::Type(name, kind) => format!("`{name}` is not of type {kind}"),
            Self::NotAllowed(name) => format!("`{name}` is none of the allowed values"),
        })
    }
}

/// Options of the check.
#[derive(Clone, Copy)]
pub(super) struct BasicRules {
    /// True if undeclared parameters are errors.
    pub(super) strict: bool,
    /// True if lists of types are ignored, as in Dokimos.
    pub(super) dokimos: bool,
}

/// Returns the cost in steps of [`check`]: names are searched for and lists traversed.
pub(super) fn steps(schema: &Value<'_>, arguments: &Value<'_>) -> usize {
    let entries = |value: Option<&Value<'_>>| match value {
        Some(Value::Map(map)) => map.len(),
        Some(Value::List(list)) => list.len(),
        _ => 0,
    };
    let given = entries(Some(arguments));
    let declared = schema.get("properties");
    let lists = declared.and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let listed: usize = lists.take(given).map(|(_, property)| entries(property.get("enum"))).sum();
    let required = entries(schema.get("required"));
    1 + given.saturating_mul(1 + required + entries(declared)) / 4 + listed
}

/// Checks arguments against a schema.
pub(super) fn check(
    schema: &Value<'_>,
    arguments: &Value<'_>,
    rules: BasicRules,
    error: &mut dyn FnMut(&dyn Problem),
) -> Result<(), InvalidDefinition> {
    let arguments = arguments.entries();
    let given = arguments.by_key();
    for name in required(schema)? {
        if !given.has(&name) {
            error(&ParameterProblem::Missing(&name));
        }
    }
    let properties = schema.get("properties").unwrap_or(&Value::Null).entries();
    let closed =
        rules.strict || matches!(schema.get("additionalProperties"), Some(Value::Bool(false)));
    let known = properties.by_key();
    for (name, value) in arguments.iter() {
        match known.get(name) {
            Some(Value::Map(property)) => check_property(name, value, property, rules, error),
            Some(_) => {}
            None if closed && !properties.is_empty() => error(&ParameterProblem::Unexpected(name)),
            None => {}
        }
    }
    Ok(())
}

fn check_property(
    name: &str,
    value: &Value<'_>,
    property: &Map<'_>,
    rules: BasicRules,
    error: &mut dyn FnMut(&dyn Problem),
) {
    match property.get("type") {
        Some(kind) if !kind.is_null() => {
            let kinds = kind.as_list().filter(|_| !rules.dokimos);
            if kinds.is_some_and(|kinds| is_one_of(value, kinds))
                || (!rules.dokimos && is_null_type(value, kind))
            {
                // As declared.
            } else if value.is_null() {
                error(&ParameterProblem::Null(name, kind));
            } else if kinds.is_some() || !is_of_type(value, kind) {
                error(&ParameterProblem::Type(name, kind));
            }
        }
        _ => {}
    }
    if let Some(Value::List(allowed)) = property.get("enum")
        && !allowed.iter().any(|allowed| is_allowed(value, allowed))
    {
        error(&ParameterProblem::NotAllowed(name));
    }
}

/// Returns true if a value has one of several types.
fn is_one_of(value: &Value<'_>, kinds: &[Value<'_>]) -> bool {
    kinds.iter().any(|kind| {
        is_null_type(value, kind)
            || (!value.is_null() && kind.as_str() != Some("null") && is_of_type(value, kind))
    })
}

fn is_null_type(value: &Value<'_>, kind: &Value<'_>) -> bool {
    value.is_null() && kind.as_str() == Some("null")
}

/// Returns true if a value other than null has a type; unknown types allow everything.
fn is_of_type(value: &Value<'_>, kind: &Value<'_>) -> bool {
    match kind.as_str() {
        Some("string") => matches!(value, Value::String(_)),
        Some("number") => matches!(value, Value::Number(_)),
        Some("integer") => value.as_number().is_some_and(is_whole),
        Some("boolean") => matches!(value, Value::Bool(_)),
        Some("array") => matches!(value, Value::List(_)),
        Some("object") => matches!(value, Value::Map(_)),
        _ => true,
    }
}

/// Returns true if a number has no fraction and is in the range of a double.
fn is_whole(number: &Number) -> bool {
    let double = number.as_f64();
    double.is_finite() && (number.is_integer() || double.fract() == 0.0)
}

/// Returns true if a value equals the allowed one. Top-level numbers are compared by value; nested
/// integers and floats differ.
fn is_allowed(value: &Value<'_>, allowed: &Value<'_>) -> bool {
    match (value, allowed) {
        (Value::Number(a), Value::Number(b)) => equal_numbers(a, b),
        _ => is_identical(value, allowed),
    }
}

fn is_identical(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Number(Number::Float(a)), Value::Number(Number::Float(b))) => {
            a.to_bits() == b.to_bits()
        }
        (Value::Number(a), Value::Number(b)) => a.is_integer() == b.is_integer() && a == b,
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_identical(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let others = b.by_key();
            let is_same = |(key, value)| others.get(key).is_some_and(|b| is_identical(value, b));
            a.len() == b.len() && a.iter().all(is_same)
        }
        (a, b) => a == b,
    }
}
