//! Selection of the judged part of a value: all of it, one path, or several paths.
//!
//! A path names keys with dots between and list items in brackets: `result.items[0].name`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use spanscore_base::settings::{Node, NodeKind, SettingsError};
use spanscore_base::value::python::PyValue;
use spanscore_base::value::{Map, Value};

/// Judged part of the final output, and of the expected one: UiPath's `target_output_key`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum OutputKey {
    /// Whole value.
    #[default]
    Whole,
    /// Value at a path.
    Path(String),
    /// Object of the values at each path.
    Paths(Vec<String>),
}

/// Path of the compared part of a value, such as `order.items[0].id`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) struct Path(String);

impl Path {
    /// Returns the value at the path; `None` if there is none.
    pub(super) fn find<'v>(&self, value: &Value<'v>) -> Option<Value<'v>> {
        resolve(value, &self.0).ok()
    }

    /// Returns the path as written.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Path {
    type Error = String;

    fn try_from(path: String) -> Result<Self, Self::Error> {
        if path == "*" || steps(&path).next().is_none() {
            return Err(format!(
                "`{path}` is no path; write keys and indices, such as `order.items[0].id`"
            ));
        }
        Ok(Self(path))
    }
}

enum PathStep<'p> {
    Key(&'p str),
    Index(&'p str),
}

impl OutputKey {
    /// Reads a path or a list of paths.
    pub(super) fn read(node: &Node) -> Result<Self, SettingsError> {
        let error =
            "not a UiPath configuration: `target_output_key` must be a text or a list of texts";
        let text = |value: &Value<'_>| value.as_str().map(str::to_owned);
        let target = match &node.kind {
            NodeKind::Scalar(value) => text(value).map(|path| match path.as_str() {
                "*" => Self::Whole,
                _ => Self::Path(path),
            }),
            NodeKind::List(items) => items
                .iter()
                .map(|item| text(&item.to_value()))
                .collect::<Option<_>>()
                .map(Self::Paths),
            _ => None,
        };
        target.ok_or_else(|| SettingsError::new(error).at(node.place))
    }

    /// Returns true for a list of paths.
    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::Paths(_))
    }

    /// Returns true if all of the output is judged.
    pub(super) fn is_whole(&self) -> bool {
        *self == Self::Whole
    }

    /// Selects the part of an output; error messages equal the package's.
    pub(super) fn take<'v>(&self, output: &Value<'v>) -> Result<Value<'v>, String> {
        match self {
            Self::Whole => Ok(output.clone()),
            Self::Path(path) => resolve(output, path),
            Self::Paths(_) if output.as_map().is_none() => Err(format!("Got {}", kind(output))),
            Self::Paths(paths) => {
                let entry = |path: &String| Ok((path.clone(), resolve(output, path)?));
                Ok(Value::Map(paths.iter().map(entry).collect::<Result<Map<'_>, String>>()?))
            }
        }
    }

    /// Returns the value to split into lines: an object's value under the judged key, else the
    /// value itself.
    pub(super) fn unwrap<'v, 'a>(&self, value: &'v PyValue<'a>) -> &'v PyValue<'a> {
        match self {
            Self::Path(path) if !path.is_empty() => value.get(path).unwrap_or(value),
            _ => value,
        }
    }

    /// Checks that a line stored under the judged key is found at the judged path.
    pub(super) fn takes_lines(&self) -> Result<(), String> {
        let Self::Path(path) = self else { return Ok(()) };
        let line: Map<'_> = [(path.as_str(), "")].into_iter().collect();
        resolve(&Value::Map(line), path).map(|_| ())
    }
}

fn resolve<'v>(output: &Value<'v>, path: &str) -> Result<Value<'v>, String> {
    if path == "*" {
        return Ok(output.clone());
    }
    let mut steps = steps(path).peekable();
    if steps.peek().is_none() {
        return Err(format!("Invalid path: '{path}'"));
    }
    let mut at = output;
    for step in steps {
        at = match (step, at) {
            (PathStep::Key(key), Value::Map(map)) => {
                map.get(key).ok_or_else(|| format!("Error: {}", PyValue::text(key).repr()))?
            }
            (PathStep::Key(key), other) => {
                return Err(format!("Error: Cannot access key '{key}' on {}", kind(other)));
            }
            (PathStep::Index(digits), Value::List(items)) => {
                let item = digits.parse::<usize>().ok().and_then(|index| items.get(index));
                item.ok_or("Error: list index out of range")?
            }
            (PathStep::Index(digits), other) => {
                let digits = digits.trim_start_matches('0');
                let kind = kind(other);
                let index = if digits.is_empty() { "0" } else { digits };
                return Err(format!(
                    "Error: Cannot index into {kind} with integer index [{index}]"
                ));
            }
        };
    }
    Ok(at.clone())
}

/// Splits a path into keys and `[digits]`; other characters are skipped.
fn steps(path: &str) -> impl Iterator<Item = PathStep<'_>> {
    let mut rest = path;
    std::iter::from_fn(move || {
        while let Some(first) = rest.chars().next() {
            if let Some(inner) = rest.strip_prefix('[')
                && let Some((digits, after)) = inner.split_once(']')
                && !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit())
            {
                rest = after;
                return Some(PathStep::Index(digits));
            }
            if matches!(first, '.' | '[' | ']') {
                rest = &rest[1..];
                continue;
            }
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
            let (key, after) = rest.split_at(end);
            rest = after;
            return Some(PathStep::Key(key));
        }
        None
    })
}

/// Returns Python's type name of a value.
fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_integer() => "int",
        Value::Number(_) => "float",
        Value::String(_) => "str",
        Value::List(_) => "list",
        Value::Map(_) => "dict",
    }
}

impl<'de> Deserialize<'de> for OutputKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let target = Self::read(&Node::from_value(&value))
            .map_err(|_| D::Error::custom("expected a path or a list of paths"))?;
        let paths = match &target {
            Self::Whole => &[],
            Self::Path(path) => std::slice::from_ref(path),
            Self::Paths(paths) => paths.as_slice(),
        };
        match paths.iter().find(|path| *path != "*" && steps(path).next().is_none()) {
            Some(path) => Err(D::Error::custom(format!(
                "`{path}` is no path; write keys and indices, such as `order.items[0].id`"
            ))),
            None => Ok(target),
        }
    }
}

impl JsonSchema for OutputKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OutputKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "array"], "items": {"type": "string"}})
    }
}
