//! `exact_match`: equality of the final output, or of arguments or results of tools, with the
//! expected value.
//!
//! Texts are compared without regard to case unless `case_sensitive`; numbers are equal by value.

use schemars::JsonSchema;
use serde::Deserialize;

use super::comparison::{self, Comparer, ComparisonSettings, Method, TextSettings};
use crate::compat::uipath::Definition;
use crate::evaluator::{Evaluator, Kind};
use spanscore_base::settings::{Node, SettingsError, schema_of_both};
use spanscore_base::value::Value;

/// Registry entry of `exact_match`.
pub static KIND: Kind = Kind {
    name: "exact_match",
    about: "Whether the final output, or what tools were given or returned, equals what is \
            expected.",
    also_known_as: &[("uipath-exact-match", "UiPath"), ("ExactMatchEvaluator", "UiPath")],
    threshold: 1.0,
    needs_criteria: true,
    early: false,
    schema: schema_of_both::<TextSettings, ComparisonSettings<Criteria>>,
    build,
    example: "\
exact_match/order:
  target: tool_arguments
  tools: [issue_refund]
  path: order.id
  criteria: {expected_output: A-17}
",
};

/// Expected value.
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
        let method = method(&TextSettings::read_compat(&definition)?);
        let expected = definition.criteria(comparison::read_expected)?;
        return Ok(Box::new(Comparer::new(method, parts, expected)));
    }
    let (text, settings): (TextSettings, ComparisonSettings<Criteria>) =
        definition.body.read_both()?;
    let (parts, criteria) = settings.into_parts(&definition, node)?;
    Ok(Box::new(Comparer::new(method(&text), parts, criteria.expected_output)))
}

fn method(settings: &TextSettings) -> Method {
    let TextSettings { case_sensitive, negated } = *settings;
    Method::Exact { case_sensitive, negated }
}
