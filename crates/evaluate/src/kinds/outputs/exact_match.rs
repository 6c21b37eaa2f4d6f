//! `exact_match`: equality of the final output, or of tools' arguments or results, with the
//! expected value.
//!
//! Texts are compared ignoring case unless `case_sensitive`; numbers are compared by value.

use super::comparison::{
    ComparisonSettings, ExpectedValue, Method, TextComparison, TextSettings, read_expected,
};
use crate::evaluator::Kind;
use spanscore_base::settings::schema_of_both;

/// Registry entry of `exact_match`.
pub static KIND: Kind = Kind {
    name: "exact_match",
    about: "Checks that the final output, or the arguments or results of tools, equal the expected \
            value.",
    also_known_as: &[
        ("uipath-exact-match", "UiPath"),
        ("ExactMatchEvaluator", "UiPath"),
        ("equals", "Promptfoo"),
    ],
    needs_criteria: true,
    schema: schema_of_both::<TextSettings, ComparisonSettings<ExpectedValue>>,
    build: |node| COMPARISON.build(node),
    example: "\
exact_match/order:
  target: tool_arguments
  tools: [issue_refund]
  path: order.id
  criteria: {expected_output: A-17}
",
    ..Kind::PLAIN
};

static COMPARISON: TextComparison<ExpectedValue> = TextComparison {
    type_id: "exact-match",
    method: |TextSettings { case_sensitive, negated }| Method::Exact { case_sensitive, negated },
    expected: |criteria| criteria.expected_output,
    compat: read_expected,
};
