//! `contains`: search for a text in the final output, or in tools' arguments or results.
//!
//! An object is searched in Python's printed form.

use schemars::JsonSchema;
use serde::Deserialize;

use super::comparison::{ComparisonSettings, Method, TextComparison, TextSettings};
use crate::compat::uipath;
use crate::evaluator::Kind;
use spanscore_base::settings::schema_of_both;
use spanscore_base::value::Value;

/// Registry entry of `contains`.
pub static KIND: Kind = Kind {
    name: "contains",
    about: "Searches the final output, or the arguments or results of tools, for a text.",
    also_known_as: &[("uipath-contains", "UiPath"), ("ContainsEvaluator", "UiPath")],
    needs_criteria: true,
    schema: schema_of_both::<TextSettings, ComparisonSettings<Criteria>>,
    build: |node| COMPARISON.build(node),
    example: "\
contains/apology:
  target_output_key: answer
  criteria: {search_text: sorry}
",
    ..Kind::PLAIN
};

/// Expected text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// Text that must occur.
    #[serde(alias = "searchText")]
    search_text: String,
}

static COMPARISON: TextComparison<Criteria> = TextComparison {
    type_id: "contains",
    method: |TextSettings { case_sensitive, negated }| Method::Contains { case_sensitive, negated },
    expected: |criteria| Value::from(criteria.search_text),
    compat: |criteria| {
        let key = "search_text";
        let node = criteria.get("searchText").or_else(|| criteria.get(key));
        let node = node.ok_or_else(|| uipath::missing(key, criteria))?;
        uipath::required_text(node, key).map(Value::from)
    },
};
