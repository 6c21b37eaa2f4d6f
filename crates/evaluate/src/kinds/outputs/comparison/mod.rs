//! Comparison of outputs with expected values, shared by `exact_match`, `contains`,
//! `json_similarity` and `word_overlap`.
//!
//! The input is a trajectory: its final output, or each of its tool calls' arguments or results.
//! Semantics are those of UiPath's output evaluators (`UiPath/uipath-python`, package `uipath` 2.11
//! to 2.14): numbers are printed as doubles, objects as Python prints them, and a text may be
//! judged line by line. Without `compat: uipath`, integers that no double represents stay exact
//! ([`NumberReading`]). Comparing texts is charged to the trace's [`WorkBudget`].

mod calls;
mod key;
mod lines;
mod parts;
mod ruled;
mod settings;
mod similarity;
mod stem;
mod subject;
mod words;

use std::borrow::Cow;

pub(crate) use key::{OutputKey, Path};
pub(crate) use settings::{ComparisonSettings, ExpectedValue, TextComparison, TextSettings};
pub(crate) use subject::{ComparisonSubject, ComparisonTarget};

use crate::compat::uipath::{Definition, Flag};
use crate::evaluator::CodeEvaluator;
use crate::shared::matcher::Expected;
use crate::shared::pairing::read_text;
use crate::shared::report;
use spanscore_base::model::{
    Explanation, Facts, Outcome, Reason, Trajectory, Want, WorkBudget, shown_percent,
};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::python::{PyValue, json};
use spanscore_base::value::{Map, Number, Value};

/// Method of comparison with the expected value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Method {
    /// Equality, optionally ignoring case.
    Exact {
        /// True if the case of letters counts.
        case_sensitive: bool,
        /// True if equality is wrong.
        negated: bool,
    },
    /// Search for the expected text.
    Contains {
        /// True if the case of letters counts.
        case_sensitive: bool,
        /// True if finding the text is wrong.
        negated: bool,
    },
    /// Similarity of each leaf.
    Similar,
    /// Words common to both texts.
    Words,
}

impl Method {
    /// Returns true if scores between 0 and 1 are possible.
    fn is_graded(self) -> bool {
        matches!(self, Self::Similar | Self::Words)
    }

    /// Returns true if a match is wrong.
    fn is_negated(self) -> bool {
        matches!(self, Self::Exact { negated: true, .. } | Self::Contains { negated: true, .. })
    }
}

/// Conversion of numbers before the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberReading {
    /// All become doubles, as in the package: 2^53 + 1 becomes 2^53.
    Doubles,
    /// Numbers that doubles represent become doubles; other integers stay exact.
    Exact,
    /// All stay as written, to be read as text.
    AsWritten,
}

/// Evaluator that compares final outputs, or calls' arguments or results.
pub(crate) struct Comparer {
    method: Method,
    subject: ComparisonSubject,
    key: OutputKey,
    numbers: NumberReading,
    /// Delimiter of lines, if these are judged separately.
    delimiter: Option<String>,
    /// Expected value, or the error that prevents the comparison.
    expected: Result<PyValue<'static>, String>,
    /// Object or list parsed from an expected text.
    expected_in_text: Option<PyValue<'static>>,
    /// Expected value, if it contains matchers.
    rules: Option<Expected>,
}

/// Settings common to all kinds.
pub(crate) struct Parts {
    /// Judged content.
    pub(crate) subject: ComparisonSubject,
    /// Judged part of the final output, and of the expected one.
    pub(crate) key: OutputKey,
    /// Conversion of numbers.
    pub(crate) numbers: NumberReading,
    /// Delimiter of lines, if these are judged separately.
    pub(crate) delimiter: Option<String>,
}

/// Reads the settings as the package does.
pub(crate) fn read_compat(definition: &Definition) -> Result<Parts, SettingsError> {
    let key = match definition.setting("target_output_key", "targetOutputKey") {
        Some(node) => OutputKey::read(node)?,
        None => OutputKey::default(),
    };
    let by_line = definition.flag(Flag("line_by_line_evaluator", "lineByLineEvaluator"))?;
    let delimiter = definition.text_setting("line_delimiter", "lineDelimiter")?;
    let delimiter = delimiter.unwrap_or_else(|| "\n".to_owned());
    let delimiter = by_line.then_some(delimiter);
    Ok(Parts {
        subject: ComparisonSubject::default(),
        key,
        numbers: NumberReading::Doubles,
        delimiter,
    })
}

/// Reads an expected output as the package does: an object or a text.
pub(crate) fn read_expected(criteria: &Node) -> Result<Value<'static>, SettingsError> {
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

/// Result of a comparison: the score, and the details shown by the package.
struct Compared {
    score: f64,
    details: Map<'static>,
}

/// Reason for a comparison without a score.
enum ComparisonFailure {
    /// Error caught by the package as an exception.
    Error(String),
    /// The texts exceed the budget.
    TooLarge,
}

impl ComparisonFailure {
    fn outcome(self, error_type: &'static str) -> Outcome {
        match self {
            Self::Error(error) => {
                let error = format!("Exception thrown by evaluator: {error}");
                Outcome::Failed { error_type, error }
            }
            Self::TooLarge => Outcome::NotEvaluable {
                reason: Reason::TextTooLarge,
                explanation: "the texts are too long to be compared".to_owned(),
            },
        }
    }
}

impl Comparer {
    /// Builds an evaluator that expects a value (or, for [`Method::Contains`], a text).
    pub(crate) fn new(method: Method, parts: Parts, expected: Value<'static>) -> Self {
        let Parts { subject, key, numbers, delimiter } = parts;
        let expected = match method {
            Method::Contains { .. } => Ok(PyValue::from(expected)),
            _ => expected_part(&key, expected, numbers),
        };
        let delimiter = delimiter.filter(|_| !key.is_list());
        let text = match &expected {
            Ok(PyValue::Str(_)) => expected.as_ref().ok().map(PyValue::to_text),
            _ => None,
        };
        let in_text = text.and_then(|text| read_text(&Value::from(text)).map(Value::into_owned));
        let expected_in_text = in_text.and_then(|value| numbers.of(value).ok());
        let rules = None;
        Self { method, subject, key, numbers, delimiter, expected, expected_in_text, rules }
    }

    fn compare(
        &self,
        expected: &PyValue<'_>,
        actual: &PyValue<'_>,
        effort: &WorkBudget,
    ) -> Result<Compared, ComparisonFailure> {
        let (shown_expected, shown_actual, score) = match self.method {
            Method::Similar => {
                let leaves = similarity::compare(expected, actual, effort)
                    .ok_or(ComparisonFailure::TooLarge)?;
                let mut details = texts(expected.to_text(), actual.to_text());
                details.insert("matched_leaves", leaves.matched);
                details.insert("total_leaves", leaves.total);
                return Ok(Compared { score: leaves.share(), details });
            }
            Method::Words => {
                let both = texts(expected.to_text(), actual.to_text());
                return shared_words(both, effort);
            }
            Method::Exact { case_sensitive, negated } => {
                let wanted = expected.to_text();
                let found = actual.to_text();
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
        Ok(Compared { score, details: texts(shown_expected, shown_actual) })
    }

    /// Returns the expected value, and the part of an output to be compared with it.
    fn both<'v>(
        &self,
        output: &Value<'v>,
    ) -> Result<(&PyValue<'static>, PyValue<'v>), ComparisonFailure> {
        let actual = self.key.take(output).and_then(|part| self.numbers.of(part));
        let actual = actual.map_err(ComparisonFailure::Error)?;
        let mut expected =
            self.expected.as_ref().map_err(|error| ComparisonFailure::Error(error.clone()))?;
        if !self.is_compat()
            && !matches!(actual, PyValue::Str(_))
            && let Some(in_text) = &self.expected_in_text
        {
            expected = in_text;
        }
        Ok((expected, actual))
    }

    /// Judges one content; a missing value at the path scores worst.
    fn judge(
        &self,
        content: &Value<'_>,
        effort: &WorkBudget,
    ) -> Result<Compared, ComparisonFailure> {
        if let Some(rules) = &self.rules {
            return self.judge_rules(rules, content, effort);
        }
        let expects_text = matches!(self.expected, Ok(PyValue::Str(_))) && self.key.is_whole();
        let Some(part) = self.subject.part(content, expects_text || self.is_compat()) else {
            return Ok(self.nothing());
        };
        match &self.delimiter {
            Some(delimiter) => self.by_line(&part, delimiter, effort),
            None => {
                let (expected, actual) = self.both(&part)?;
                self.compare(expected, &actual, effort)
            }
        }
    }

    /// Returns true if texts are treated as in the package.
    fn is_compat(&self) -> bool {
        self.numbers == NumberReading::Doubles
    }

    /// Returns the result for a missing value.
    fn nothing(&self) -> Compared {
        let expected = self.expected.as_ref().map(PyValue::to_text).unwrap_or_default();
        let details = [("expected", Value::from(expected)), ("actual", Value::Null)];
        Compared {
            score: if self.method.is_negated() { 1.0 } else { 0.0 },
            details: details.into_iter().collect(),
        }
    }
}

/// Selects the expected part: texts are parsed as JSON if a part of them is selected.
fn expected_part(
    key: &OutputKey,
    expected: Value<'static>,
    numbers: NumberReading,
) -> Result<PyValue<'static>, String> {
    let expected = match expected {
        Value::String(text) if !key.is_whole() => json::parse(&text)
            .ok()
            .and_then(PyValue::into_value)
            .map(Value::into_owned)
            .ok_or("Error: the expected output is not JSON")?,
        other => other,
    };
    key.take(&expected).and_then(|part| numbers.of(part)).map(own)
}

/// Copies a value without borrows.
fn own(value: PyValue<'_>) -> PyValue<'static> {
    value.into_value().map_or(PyValue::None, |value| PyValue::from(value.into_owned()))
}

impl NumberReading {
    /// Converts all numbers in a value.
    fn of(self, value: Value<'_>) -> Result<PyValue<'_>, String> {
        Ok(match value {
            Value::Number(number) => PyValue::Number(self.number(number)?),
            Value::List(items) => {
                PyValue::List(items.into_iter().map(|v| self.of(v)).collect::<Result<_, _>>()?)
            }
            Value::Map(map) => PyValue::Dict(
                map.into_entries()
                    .into_iter()
                    .map(|(key, value)| Ok((PyValue::from(Value::from(key)), self.of(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
            other => PyValue::from(other),
        })
    }

    fn number(self, number: Number) -> Result<Number, String> {
        if self == Self::AsWritten {
            return Ok(number);
        }
        let double = number.as_f64();
        if self == Self::Exact && number.is_integer() && number != Number::Float(double) {
            return Ok(number);
        }
        if number.is_integer() && double.is_infinite() {
            return Err("int too large to convert to float".to_owned());
        }
        Ok(Number::Float(double))
    }
}

fn texts(expected: String, actual: String) -> Map<'static> {
    Map::from([("expected", Value::from(expected)), ("actual", actual.into())])
}

/// Counts the words of both texts in the details.
fn shared_words(
    mut details: Map<'static>,
    effort: &WorkBudget,
) -> Result<Compared, ComparisonFailure> {
    let side = |side| details.get(side).and_then(Value::as_str).unwrap_or_default();
    let found = words::compare(side("expected"), side("actual"), effort)
        .ok_or(ComparisonFailure::TooLarge)?;
    details.insert("precision", found.of(found.actual));
    details.insert("recall", found.of(found.expected));
    Ok(Compared { score: found.f_measure(), details })
}

fn fold(text: &str, case_sensitive: bool) -> Cow<'_, str> {
    if case_sensitive { Cow::Borrowed(text) } else { Cow::Owned(text.to_lowercase()) }
}

impl CodeEvaluator for Comparer {
    fn reads_calls(&self) -> bool {
        self.subject.target != ComparisonTarget::FinalOutput
    }

    fn facts(&self) -> Facts {
        self.subject.facts()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        if self.subject.target != ComparisonTarget::FinalOutput {
            return self.evaluate_calls(trajectory, want);
        }
        let Some(output) = trajectory.final_output.value() else {
            return Outcome::NotEvaluable {
                reason: Reason::FinalOutputNotRecorded,
                explanation: "the final output is not recorded".to_owned(),
            };
        };
        match self.judge(output, &trajectory.effort) {
            Ok(Compared { score, details }) => {
                report::scored(score, want, || self.explain(output, score), || details)
            }
            Err(failure) => failure.outcome(self.error_type()),
        }
    }
}

impl Comparer {
    /// Returns the error type. In line mode, the package raises errors outside single lines that it
    /// catches otherwise.
    fn error_type(&self) -> &'static str {
        if self.delimiter.is_some() { "criteria_error" } else { "evaluator_error" }
    }

    fn explain(&self, output: &Value<'_>, score: f64) -> Explanation {
        let mut words = Explanation::plain(self.sentence(score));
        let names_parts =
            matches!(self.method, Method::Exact { negated: false, .. } | Method::Similar);
        if score < 1.0 && names_parts && self.delimiter.is_none() {
            words.append(&self.differing(output));
        }
        words
    }

    /// Describes the differences of an output.
    fn differing(&self, output: &Value<'_>) -> Explanation {
        if let Some(rules) = &self.rules {
            return self.broken_rules(rules, output);
        }
        let expects_text = matches!(self.expected, Ok(PyValue::Str(_))) && self.key.is_whole();
        let Some(part) = self.subject.part(output, expects_text || self.is_compat()) else {
            return Explanation::plain("; it is not there");
        };
        match self.both(&part) {
            Ok((expected, actual)) => {
                parts::differing(expected, &actual, self.method != Method::Similar)
            }
            Err(_) => Explanation::default(),
        }
    }

    fn sentence(&self, score: f64) -> String {
        let passed = score >= 1.0;
        let verb = if passed != self.method.is_negated() { "does" } else { "does not" };
        let what = match &self.subject.path {
            Some(path) => format!("`{}` of the final output", path.as_str()),
            None => "the final output".to_owned(),
        };
        match (self.method, &self.delimiter) {
            (Method::Similar, _) => {
                format!("{what} is {} similar to the expected one", shown_percent(score))
            }
            (Method::Words, _) => {
                let share = shown_percent(score);
                format!("{what} and the expected one have {share} of their words in common")
            }
            (_, Some(_)) => format!("{} of the lines are as expected", shown_percent(score)),
            (Method::Exact { .. }, _) => format!("{what} {verb} equal the expected one"),
            (Method::Contains { .. }, _) => format!("{what} {verb} hold the text"),
        }
    }
}

#[cfg(test)]
mod tests;
