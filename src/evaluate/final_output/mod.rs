//! What the evaluators of a run's final output share: which part of it is judged, and how.
//!
//! Semantics are those of UiPath's output evaluators (`UiPath/uipath-python`, package `uipath`
//! 2.11 to 2.14): every number becomes a double, objects are seen as Python prints them, and an
//! output may be judged line by line. What is not there to compare fails the evaluation.

mod path;
mod similarity;

use std::borrow::Cow;

pub(super) use path::Target;

use super::Evaluator;
use super::uipath::{Definition, Flag};
use crate::model::{Facts, Outcome, Reason, Score, Trajectory, Want};
use crate::settings::{Node, Place, SettingsError};
use crate::value::python::{PyValue, json};
use crate::value::{Map, Number, Value};

/// How an output is compared with what is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Method {
    /// Equal, texts perhaps but for their case.
    Exact {
        /// Whether the case of letters counts.
        case_sensitive: bool,
        /// Whether being equal is wrong.
        negated: bool,
    },
    /// Holds the expected text.
    Contains {
        /// Whether the case of letters counts.
        case_sensitive: bool,
        /// Whether holding it is wrong.
        negated: bool,
    },
    /// Similar, leaf by leaf.
    Similar,
}

/// Judges final outputs.
pub(super) struct FinalOutput {
    method: Method,
    target: Target,
    /// What stands between lines, if they are judged one by one.
    delimiter: Option<String>,
    /// What is expected, or why it cannot be compared with.
    expected: Result<PyValue<'static>, String>,
}

/// A part of the settings that all three kinds have.
pub(super) struct Parts {
    /// Which part of the output is judged.
    pub(super) target: Target,
    /// What stands between lines, if they are judged one by one.
    pub(super) delimiter: Option<String>,
}

/// Reads the settings as the package does.
pub(super) fn read_compat(definition: &Definition) -> Result<Parts, SettingsError> {
    let target = match definition.setting("target_output_key", "targetOutputKey") {
        Some(node) => Target::read(node)?,
        None => Target::default(),
    };
    let by_line = definition.flag(Flag("line_by_line_evaluator", "lineByLineEvaluator"))?;
    let delimiter = definition.text_setting("line_delimiter", "lineDelimiter")?;
    let delimiter = delimiter.unwrap_or_else(|| "\n".to_owned());
    Ok(Parts { target, delimiter: by_line.then_some(delimiter) })
}

/// What stands between lines, if they are judged one by one.
pub(super) fn delimiter(
    by_line: bool,
    text: String,
    place: Place,
) -> Result<Option<String>, SettingsError> {
    if by_line && text.is_empty() {
        return Err(SettingsError::new("`line_delimiter` is empty").at(place));
    }
    Ok(by_line.then_some(text))
}

/// Reads an expected output: an object or a text.
pub(super) fn read_expected(criteria: &Node) -> Result<Value<'static>, SettingsError> {
    let node = criteria.get("expectedOutput").or_else(|| criteria.get("expected_output"));
    let node =
        node.ok_or_else(|| SettingsError::new("`expected_output` is missing").at(criteria.place))?;
    match node.to_value() {
        value @ (Value::Map(_) | Value::String(_)) => Ok(value),
        _ => {
            let message = "`expected_output` must be an object or a text";
            Err(SettingsError::new(message).at(node.place))
        }
    }
}

/// A comparison: score and what the package shows of it.
struct Comparison {
    score: f64,
    details: Map<'static>,
}

/// Why a comparison gave no score.
enum Failure {
    /// What the package catches as an exception.
    Error(String),
    /// The texts are too long to be compared.
    TooLarge,
}

impl FinalOutput {
    /// An evaluator that expects a value (or, for [`Method::Contains`], a text).
    pub(super) fn new(method: Method, parts: Parts, expected: Value<'static>) -> Self {
        let Parts { target, delimiter } = parts;
        let expected = match method {
            Method::Contains { .. } => Ok(PyValue::from(expected)),
            _ => expected_part(&target, expected),
        };
        let delimiter = delimiter.filter(|_| !target.is_list());
        Self { method, target, delimiter, expected }
    }

    fn compare(&self, expected: &PyValue<'_>, actual: &PyValue<'_>) -> Result<Comparison, Failure> {
        let (shown_expected, shown_actual, score) = match self.method {
            Method::Similar => {
                let leaves = similarity::compare(expected, actual).ok_or(Failure::TooLarge)?;
                let mut details = texts(expected.to_text(), actual.to_text());
                details.insert("matched_leaves", leaves.matched);
                details.insert("total_leaves", leaves.total);
                return Ok(Comparison { score: leaves.share(), details });
            }
            Method::Exact { case_sensitive, negated } => {
                let (wanted, found) = (expected.to_text(), actual.to_text());
                let is_text = |value: &PyValue<'_>| matches!(value, PyValue::Str(_));
                let equal = if is_text(expected) || is_text(actual) {
                    fold(&wanted, case_sensitive) == fold(&found, case_sensitive)
                } else {
                    expected == actual
                };
                (wanted, found, equal != negated)
            }
            Method::Contains { case_sensitive, negated } => {
                let wanted = fold(&expected.to_text(), case_sensitive).into_owned();
                let found = fold(&actual.to_text(), case_sensitive).into_owned();
                let holds = found.contains(&wanted);
                (wanted, found, holds != negated)
            }
        };
        let score = if score { 1.0 } else { 0.0 };
        Ok(Comparison { score, details: texts(shown_expected, shown_actual) })
    }

    fn whole(&self, output: &Value<'_>) -> Result<Comparison, Failure> {
        let actual = self.target.take(output).and_then(as_doubles).map_err(Failure::Error)?;
        let expected = self.expected.as_ref().map_err(|error| Failure::Error(error.clone()))?;
        self.compare(expected, &actual)
    }

    /// Judges each line; an error outside the lines is an `Err` of its own class.
    fn by_line(&self, output: &Value<'_>, delimiter: &str) -> Result<Comparison, Failure> {
        let actual = self.target.take(output).and_then(as_doubles).map_err(Failure::Error)?;
        let expected = self.expected.as_ref().map_err(|error| Failure::Error(error.clone()))?;
        if delimiter.is_empty() {
            return Err(Failure::Error("empty separator".to_owned()));
        }
        let [actual_text, expected_text] =
            [&actual, expected].map(|value| self.target.unwrap(value).to_text());
        let [actual_lines, expected_lines] =
            [&actual_text, &expected_text].map(|text| lines(text, delimiter));
        let count = actual_lines.len().max(expected_lines.len());
        let line = |lines: &[&str], at: usize| lines.get(at).copied().unwrap_or("").to_owned();
        let mut results = Vec::new();
        let mut sum = 0.0;
        for at in 0..count {
            let [actual, wanted] = [&actual_lines, &expected_lines].map(|list| line(list, at));
            let (score, details) = match self.one_line(&actual, &wanted, expected)? {
                Ok(Comparison { score, details }) => (score, Value::Map(details)),
                Err(error) => (0.0, format!("Exception thrown by evaluator: {error}").into()),
            };
            sum += score;
            let mut entry = Map::new();
            entry.insert("line_number", at + 1);
            entry.insert("actual", actual);
            entry.insert("expected", wanted);
            entry.insert("score", score);
            entry.insert("details", details);
            results.push(Value::Map(entry));
        }
        let mut details = Map::new();
        details.insert("line_by_line_results", results);
        details.insert("total_lines_actual", actual_lines.len());
        details.insert("total_lines_expected", expected_lines.len());
        details.insert("aggregation_method", "average");
        let score = if count == 0 { 0.0 } else { sum / count as f64 };
        Ok(Comparison { score, details })
    }

    /// A line is judged as an output of its own, under the key that was judged.
    fn one_line(
        &self,
        actual: &str,
        wanted: &str,
        expected: &PyValue<'_>,
    ) -> Result<Result<Comparison, String>, Failure> {
        if let Err(error) = self.target.takes_lines() {
            return Ok(Err(error));
        }
        let wanted = match self.method {
            Method::Contains { .. } => expected.clone(),
            _ => PyValue::text(wanted),
        };
        self.compare(&wanted, &PyValue::text(actual)).map(Ok)
    }
}

/// The expected part: texts are read as JSON where a part of them is asked for.
fn expected_part(target: &Target, expected: Value<'static>) -> Result<PyValue<'static>, String> {
    let expected = match expected {
        Value::String(text) if !target.is_whole() => json::parse(&text)
            .ok()
            .and_then(PyValue::into_value)
            .map(Value::into_owned)
            .ok_or("Error: the expected output is not JSON")?,
        other => other,
    };
    target.take(&expected).and_then(as_doubles).map(own)
}

/// A copy that borrows from nothing.
fn own(value: PyValue<'_>) -> PyValue<'static> {
    value.into_value().map_or(PyValue::None, |value| PyValue::from(value.into_owned()))
}

/// The same value with every number as a double.
fn as_doubles(value: Value<'_>) -> Result<PyValue<'_>, String> {
    Ok(match value {
        Value::Number(number) => {
            let double = number.as_f64();
            if number.is_integer() && double.is_infinite() {
                return Err("int too large to convert to float".to_owned());
            }
            PyValue::Number(Number::Float(double))
        }
        Value::List(items) => {
            PyValue::List(items.into_iter().map(as_doubles).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => PyValue::Dict(
            map.into_entries()
                .into_iter()
                .map(|(key, value)| Ok((PyValue::from(Value::from(key)), as_doubles(value)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => PyValue::from(other),
    })
}

fn texts(expected: String, actual: String) -> Map<'static> {
    [("expected", Value::from(expected)), ("actual", actual.into())].into_iter().collect()
}

fn fold(text: &str, case_sensitive: bool) -> Cow<'_, str> {
    if case_sensitive { Cow::Borrowed(text) } else { Cow::Owned(text.to_lowercase()) }
}

/// The lines that hold more than white space.
fn lines<'t>(text: &'t str, delimiter: &str) -> Vec<&'t str> {
    let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    text.split(delimiter).filter(|line| !line.chars().all(is_space)).collect()
}

impl Evaluator for FinalOutput {
    fn facts(&self) -> Facts {
        Facts { final_output: true, ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let Some(output) = trajectory.final_output.value() else {
            return Outcome::NotEvaluable {
                reason: Reason::FinalOutputNotRecorded,
                explanation: "the final output is not recorded".to_owned(),
            };
        };
        let (compared, error_type) = match &self.delimiter {
            // Outside the lines the package raises what it else catches.
            Some(delimiter) => (self.by_line(output, delimiter), "criteria_error"),
            None => (self.whole(output), "evaluator_error"),
        };
        match compared {
            Ok(Comparison { score, details }) => Outcome::Scored(Score {
                value: score,
                explanation: if want.explanation { self.explain(score) } else { String::new() },
                details: if want.details { Value::Map(details) } else { Value::Null },
                label: None,
            }),
            Err(Failure::Error(error)) => {
                let error = format!("Exception thrown by evaluator: {error}");
                Outcome::Failed { error_type, error }
            }
            Err(Failure::TooLarge) => Outcome::NotEvaluable {
                reason: Reason::TextTooLarge,
                explanation: "the texts are too long to be compared".to_owned(),
            },
        }
    }
}

impl FinalOutput {
    fn explain(&self, score: f64) -> String {
        let passed = score >= 1.0;
        let (does, does_not) = match self.method {
            Method::Exact { negated, .. } | Method::Contains { negated, .. } if negated => {
                ("does not", "does")
            }
            _ => ("does", "does not"),
        };
        let verb = if passed { does } else { does_not };
        match (self.method, &self.delimiter) {
            (Method::Similar, _) => {
                format!("the final output is {:.0}% similar to the expected one", score * 100.0)
            }
            (_, Some(_)) => format!("{:.0}% of the lines are as expected", score * 100.0),
            (Method::Exact { .. }, _) => format!("the final output {verb} equal the expected one"),
            (Method::Contains { .. }, _) => format!("the final output {verb} hold the text"),
        }
    }
}

#[cfg(test)]
mod tests;
