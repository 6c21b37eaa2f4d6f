//! `exact_match`: whether the final output, or what tools were given or returned, equals what is
//! expected.
//!
//! Texts are compared without regard to case unless `case_sensitive`; numbers are equal by value.

use schemars::JsonSchema;
use serde::Deserialize;

use super::comparison::{
    self, Comparer, ComparisonSubject, ComparisonTarget, Method, NumberReading, OutputKey, Parts,
    Path,
};
use crate::evaluate::compat::uipath::{self, Definition, Flag, UiPathCompat};
use crate::evaluate::evaluator::{Evaluator, Kind};
use crate::settings::{Node, SettingsError};
use crate::value::Value;

/// The kind.
pub static KIND: Kind = Kind {
    name: "exact_match",
    about: "Whether the final output, or what tools were given or returned, equals what is \
            expected.",
    also_known_as: &[("uipath-exact-match", "UiPath"), ("ExactMatchEvaluator", "UiPath")],
    threshold: 1.0,
    needs_criteria: true,
    early: false,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
exact_match/order:
  target: tool_arguments
  tools: [issue_refund]
  path: order.id
  criteria: {expected_output: A-17}
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
    /// What is judged: `final_output` (default), or the `tool_arguments` or `tool_results` of tool
    /// calls. Each call is compared by itself; the score is their mean.
    target: ComparisonTarget,
    /// With `target: tool_arguments` or `tool_results`: only the calls of these tools; empty stands
    /// for all.
    tools: Vec<String>,
    /// Where in it the compared value stands, such as `order.items[0].id`; all of it by default.
    /// Where nothing stands there, nothing is as expected.
    path: Option<Path>,
    /// Which part of the final output is judged: `*` for all of it, a path such as
    /// `result.items[0].name`, or a list of paths. Taken from what is expected, too.
    #[serde(alias = "targetOutputKey")]
    target_output_key: OutputKey,
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
            target: ComparisonTarget::default(),
            tools: Vec::new(),
            path: None,
            target_output_key: OutputKey::default(),
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
    /// Any value.
    #[serde(alias = "expectedOutput")]
    expected_output: Value<'static>,
}

fn build(node: &Node) -> Result<Box<dyn Evaluator>, SettingsError> {
    let definition = Definition::read(node, "exact-match")?;
    if definition.is_compat()? {
        let parts = comparison::read_compat(&definition)?;
        let method = Method::Exact {
            case_sensitive: definition.flag(Flag("case_sensitive", "caseSensitive"))?,
            negated: definition.flag(Flag("negated", "negated"))?,
        };
        let expected = definition.criteria(comparison::read_expected)?;
        return Ok(Box::new(Comparer::new(method, parts, expected)));
    }
    let settings: Settings = definition.body.read()?;
    let delimiter = comparison::delimiter(
        settings.line_by_line_evaluator,
        settings.line_delimiter,
        definition.body.place,
    )?;
    let criteria = settings.criteria.or(settings.default_evaluation_criteria);
    let criteria = criteria.ok_or_else(|| uipath::no_criteria(node))?;
    let method =
        Method::Exact { case_sensitive: settings.case_sensitive, negated: settings.negated };
    let subject =
        ComparisonSubject { target: settings.target, tools: settings.tools, path: settings.path };
    let key = settings.target_output_key;
    let subject = subject.checked(&key, definition.body.place)?;
    let parts = Parts { subject, key, numbers: NumberReading::Exact, delimiter };
    Ok(Box::new(Comparer::new(method, parts, criteria.expected_output)))
}
