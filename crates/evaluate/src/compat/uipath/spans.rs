//! Tool calls as found by the package: spans with a true `tool.name`.

use std::borrow::Cow;

use spanscore_base::model::Trajectory;
use spanscore_base::otlp::{AnyValue, any_value};
use spanscore_base::value::Number;
use spanscore_base::value::python::{PyError, PyStr, PyValue, json, literal};

/// Deepest parsed nesting of attribute values.
const DEPTH_MAX: usize = any_value::DEPTH_MAX;
/// Longest name for matching calls, bytes.
const NAME_MAX: usize = 64;

/// Tool call as seen by the package.
pub(super) struct UipathCall<'a> {
    /// Name as text.
    pub(super) name: Cow<'a, str>,
    /// Id as text.
    pub(super) id: Option<Cow<'a, str>>,
    input: Option<AnyValue<'a>>,
    output: Option<AnyValue<'a>>,
}

/// Returns the tool calls in order of their ends.
pub(super) fn calls<'a>(trajectory: &Trajectory<'a>) -> Vec<UipathCall<'a>> {
    let mut calls = Vec::with_capacity(trajectory.kept_spans.len());
    calls.extend(trajectory.kept_spans.iter().filter_map(|span| read_call(&span.attributes)));
    calls
}

fn read_call<'a>(attributes: &[(&'a str, AnyValue<'a>)]) -> Option<UipathCall<'a>> {
    let [mut name, mut id, mut synthesized, mut input, mut output] = [None; 5];
    for (key, value) in attributes {
        let part = match *key {
            "tool.name" => &mut name,
            "tool.id" => &mut id,
            "tool.synthesized" => &mut synthesized,
            "input.value" => &mut input,
            "output.value" => &mut output,
            _ => continue,
        };
        *part = Some(*value);
    }
    let name = name.filter(|name| is_true(*name))?;
    if synthesized.is_some_and(is_true) {
        return None;
    }
    let id = id.filter(|id| *id != AnyValue::Empty).and_then(|id| to_text(id).ok());
    Some(UipathCall { name: to_text(name).ok()?, id, input, output })
}

impl<'a> UipathCall<'a> {
    /// Parses the arguments: a dict with text keys.
    pub(super) fn args(&self) -> Result<PyValue<'a>, PyError> {
        let read = match self.input {
            Some(AnyValue::KeyValues(_)) => self.input.map_or(Ok(PyValue::None), to_python),
            Some(AnyValue::String(text)) => match json::parse(text) {
                Err(PyError::Invalid) => literal::parse(text),
                other => other,
            },
            _ => Err(PyError::Invalid),
        };
        match read {
            Ok(PyValue::Dict(entries)) => with_text_keys(entries),
            Ok(_) | Err(PyError::Invalid) => Ok(PyValue::Dict(Vec::new())),
            Err(error) => Err(error),
        }
    }

    /// Returns the result as text: the `content` of an object, otherwise the whole text.
    pub(super) fn output(&self) -> Result<PyStr<'a>, PyError> {
        let content = match self.output {
            None => return Ok(PyStr::default()),
            Some(AnyValue::String(text)) => match json::entry(text, "content") {
                Ok(Some(content)) => content.unwrap_or_default(),
                Ok(None) | Err(PyError::Invalid) => PyValue::text(text),
                Err(error) => return Err(error),
            },
            Some(value @ AnyValue::KeyValues(_)) => match to_python(value)? {
                PyValue::Dict(entries) => content_of(entries),
                _ => PyValue::None,
            },
            Some(value) => return Ok(PyStr::from(to_text(value)?.into_owned())),
        };
        Ok(match content {
            PyValue::Str(text) => text,
            other if other.is_true() => PyStr::from(other.repr()),
            _ => PyStr::default(),
        })
    }

    /// Returns the match key of the call.
    pub(super) fn key(&self) -> MatchKey<'_> {
        match &self.id {
            Some(id) => MatchKey { is_id: true, text: Cow::Borrowed(id) },
            None => MatchKey { is_id: false, text: sanitize(&self.name) },
        }
    }
}

/// Match key of a call: its id if present, which then never gives way to its name.
pub(super) struct MatchKey<'a> {
    /// True for an id; ids and names never match each other.
    pub(super) is_id: bool,
    /// Id, or sanitized name.
    pub(super) text: Cow<'a, str>,
}

/// Match keys of an expected call: one for calls with an id, one for calls without.
pub(super) struct ExpectedKey {
    id: String,
    name: String,
}

impl ExpectedKey {
    /// Builds the keys from the expected name and, if given, the id.
    pub(super) fn new(name: &str, id: Option<&str>) -> Self {
        Self { id: id.unwrap_or(name).to_owned(), name: sanitize(name).into_owned() }
    }

    /// Returns true if a call with that key matches.
    pub(super) fn matches(&self, actual: &MatchKey<'_>) -> bool {
        actual.text == if actual.is_id { self.id.as_str() } else { self.name.as_str() }
    }
}

/// Sanitizes a name: replaces white space by `_`, keeps only ASCII letters, digits, `_` and `-`.
pub(super) fn sanitize(name: &str) -> Cow<'_, str> {
    let is_kept = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if name.len() <= NAME_MAX && name.bytes().all(is_kept) {
        return Cow::Borrowed(name);
    }
    let mut out = String::new();
    for (index, word) in name.split(is_space).filter(|word| !word.is_empty()).enumerate() {
        if index > 0 {
            out.push('_');
        }
        out.extend(word.bytes().filter(|b| is_kept(*b)).map(char::from));
        if out.len() > NAME_MAX {
            break;
        }
    }
    out.truncate(NAME_MAX);
    Cow::Owned(out)
}

/// Returns true for the white space of Python's `str.split`.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn content_of<'a>(mut entries: Vec<(PyValue<'a>, PyValue<'a>)>) -> PyValue<'a> {
    let is_content =
        |key: &PyValue<'_>| matches!(key, PyValue::Str(key) if key.as_bytes() == b"content");
    match entries.iter().position(|(key, _)| is_content(key)) {
        Some(at) => entries.swap_remove(at).1,
        None => PyValue::None,
    }
}

/// Converts keys as Pydantic does: texts stay, bytes must be UTF-8, others are errors.
fn with_text_keys<'a>(
    mut entries: Vec<(PyValue<'a>, PyValue<'a>)>,
) -> Result<PyValue<'a>, PyError> {
    let mut changed = false;
    for (key, _) in &mut entries {
        match key {
            PyValue::Str(_) => {}
            PyValue::Bytes(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| PyError::KeyNotText)?;
                *key = PyValue::Str(PyStr::from(text.to_owned()));
                changed = true;
            }
            _ => return Err(PyError::KeyNotText),
        }
    }
    if changed { PyValue::dict(entries) } else { Ok(PyValue::Dict(entries)) }
}

/// Returns Python's truth value of an attribute.
fn is_true(value: AnyValue<'_>) -> bool {
    match value {
        AnyValue::Empty => false,
        AnyValue::String(text) => !text.is_empty(),
        AnyValue::Bool(value) => value,
        AnyValue::Int(value) => value != 0,
        AnyValue::Double(value) => value != 0.0,
        AnyValue::InvalidText(bytes)
        | AnyValue::Bytes(bytes)
        | AnyValue::Array(bytes)
        | AnyValue::KeyValues(bytes) => !bytes.is_empty(),
    }
}

/// Returns Python's `str` of an attribute.
fn to_text(value: AnyValue<'_>) -> Result<Cow<'_, str>, PyError> {
    Ok(match value {
        AnyValue::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(to_python(other)?.to_text()),
    })
}

fn to_python(value: AnyValue<'_>) -> Result<PyValue<'_>, PyError> {
    to_python_at(value, 0)
}

fn to_python_at(value: AnyValue<'_>, depth: usize) -> Result<PyValue<'_>, PyError> {
    Ok(match value {
        AnyValue::Empty => PyValue::None,
        AnyValue::String(text) => PyValue::text(text),
        AnyValue::Bool(value) => PyValue::Bool(value),
        AnyValue::Int(value) => PyValue::Number(Number::Int(value)),
        AnyValue::Double(value) => PyValue::Number(Number::Float(value)),
        AnyValue::InvalidText(bytes) | AnyValue::Bytes(bytes) => {
            PyValue::Bytes(Cow::Borrowed(bytes))
        }
        AnyValue::Array(_) | AnyValue::KeyValues(_) if depth >= DEPTH_MAX => {
            return Err(PyError::TooDeep);
        }
        AnyValue::Array(array) => PyValue::List(
            any_value::items(array)
                .map(|item| to_python_at(item.map_err(|_| PyError::Malformed)?, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        AnyValue::KeyValues(list) => {
            let entries = any_value::key_values(list)
                .map(|entry| {
                    let (key, value) = entry.map_err(|_| PyError::Malformed)?;
                    Ok((PyValue::text(key), to_python_at(value, depth + 1)?))
                })
                .collect::<Result<_, _>>()?;
            PyValue::dict(entries)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_malformed_is_an_error_and_never_empty() {
        // A list and a map whose only field is a group, a wire type that OTLP does not use.
        let list = AnyValue::Array(b"\x0a\x01\x0b");
        let map = AnyValue::KeyValues(b"\x0a\x01\x0b");
        let name = ("tool.name", AnyValue::String("find"));
        for output in [list, map] {
            let call = read_call(&[name, ("input.value", map), ("output.value", output)]);
            let call = call.expect("a call");
            assert_eq!(call.args().err(), Some(PyError::Malformed));
            assert_eq!(call.output().err(), Some(PyError::Malformed));
        }
        assert!(read_call(&[("tool.name", list)]).is_none());
    }
}
