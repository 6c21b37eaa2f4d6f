//! `json_similarity`: similarity of the final output, or of tools' arguments or results, to the
//! expected value, leaf by leaf.
//!
//! Only the expected leaves count; texts and numbers may match in part.

use super::comparison::{self, Comparer, ComparisonSettings, ExpectedValue, Method};
use crate::compat::uipath::Definition;
use crate::evaluator::{Evaluator, Kind};
use spanscore_base::settings::{Node, SettingsError};

/// Registry entry of `json_similarity`.
pub static KIND: Kind = Kind {
    name: "json_similarity",
    about: "Similarity of the final output, or of the arguments or results of tools, to the \
            expected value, compared leaf by leaf.",
    also_known_as: &[("uipath-json-similarity", "UiPath"), ("JsonSimilarityEvaluator", "UiPath")],
    needs_criteria: true,
    schema: || schemars::schema_for!(ComparisonSettings<ExpectedValue>),
    build,
    example: "\
json_similarity/quote:
  threshold: 0.9
  criteria: {expected_output: {title: Weekly report, pages: 3}}
",
    ..Kind::PLAIN
};

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let definition = Definition::read(node, "json-similarity")?;
    let method = Method::Similar;
    if definition.is_compat()? {
        let parts = comparison::read_compat(&definition)?;
        let expected = definition.criteria(comparison::read_expected)?;
        return Ok(Evaluator::code(Comparer::new(method, parts, expected)));
    }
    let settings: ComparisonSettings<ExpectedValue> = definition.body.read()?;
    let (parts, criteria) = settings.into_parts(&definition, node)?;
    let expected = criteria.expected_output;
    let comparer = Comparer::new(method, parts, expected.clone());
    Ok(Evaluator::code(comparer.with_matchers(expected, &definition.body)?))
}
