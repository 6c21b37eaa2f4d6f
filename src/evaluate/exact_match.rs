//! `exact_match`: whether the final output equals the expected one.
//!
//! Texts are compared without regard to case unless `case_sensitive`; numbers are equal by value.

use schemars::JsonSchema;
use serde::Deserialize;

use super::final_output::{self, FinalOutput, Method, Parts, Target};
use super::uipath::{self, Definition, Flag, UiPathCompat};
use super::{Evaluator, Kind};
use crate::settings::{Node, SettingsError};
use crate::value::Value;

/// The kind.
pub static KIND: Kind = Kind {
    name: "exact_match",
    about: "Whether the final output equals the expected one.",
    also_known_as: &[("uipath-exact-match", "UiPath"), ("ExactMatchEvaluator", "UiPath")],
    threshold: 1.0,
    needs_criteria: true,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
exact_match/total:
  target_output_key: total
  criteria: {expected_output: {total: 42}}
",
};

/// Settings of `exact_match`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// How settings are read: `uipath` for as leniently as the UiPath package does.
    compat: Option<UiPathCompat>,
    /// Whether the case of letters counts.
    #[serde(alias = "caseSensitive")]
    case_sensitive: bool,
    /// Turns the verdict round.
    negated: bool,
    /// Which part of the final output is judged: `*` for all of it, a path such as
    /// `result.items[0].name`, or a list of paths.
    #[serde(alias = "targetOutputKey")]
    target_output_key: Target,
    /// Whether each line of a text is judged by itself; the score is their mean.
    #[serde(alias = "lineByLineEvaluator")]
    line_by_line_evaluator: bool,
    /// What stands between lines.
    #[serde(alias = "lineDelimiter")]
    line_delimiter: String,
    /// What is expected.
    criteria: Option<Criteria>,
    /// What is expected where `criteria` is not given.
    #[serde(alias = "defaultEvaluationCriteria")]
    default_evaluation_criteria: Option<Criteria>,
    /// Ignored; so that a UiPath definition can be pasted.
    name: Option<String>,
    /// Ignored; so that a UiPath definition can be pasted.
    description: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            compat: None,
            case_sensitive: false,
            negated: false,
            target_output_key: Target::default(),
            line_by_line_evaluator: false,
            line_delimiter: "\n".to_owned(),
            criteria: None,
            default_evaluation_criteria: None,
            name: None,
            description: None,
        }
    }
}

/// What is expected.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// An object, or a text.
    #[serde(alias = "expectedOutput")]
    expected_output: Expected,
}

/// An object or a text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "Value<'static>")]
#[schemars(with = "Value<'static>")]
struct Expected(Value<'static>);

impl TryFrom<Value<'static>> for Expected {
    type Error = &'static str;

    fn try_from(value: Value<'static>) -> Result<Self, Self::Error> {
        match value {
            Value::Map(_) | Value::String(_) => Ok(Self(value)),
            _ => Err("`expected_output` must be an object or a text"),
        }
    }
}

fn build(node: &Node) -> Result<Box<dyn Evaluator>, SettingsError> {
    let definition = Definition::read(node, "exact-match")?;
    if definition.is_compat()? {
        let parts = final_output::read_compat(&definition)?;
        let method = Method::Exact {
            case_sensitive: definition.flag(Flag("case_sensitive", "caseSensitive"))?,
            negated: definition.flag(Flag("negated", "negated"))?,
        };
        let expected = definition.criteria(final_output::read_expected)?;
        return Ok(Box::new(FinalOutput::new(method, parts, expected)));
    }
    let settings: Settings = definition.body.read()?;
    let delimiter = final_output::delimiter(
        settings.line_by_line_evaluator,
        settings.line_delimiter,
        definition.body.place,
    )?;
    let criteria = settings.criteria.or(settings.default_evaluation_criteria);
    let criteria = criteria.ok_or_else(|| uipath::no_criteria(node))?;
    let method =
        Method::Exact { case_sensitive: settings.case_sensitive, negated: settings.negated };
    let parts = Parts { target: settings.target_output_key, delimiter };
    Ok(Box::new(FinalOutput::new(method, parts, criteria.expected_output.0)))
}
