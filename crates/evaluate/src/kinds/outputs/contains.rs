//! `contains`: search for a text in the final output, or in arguments or results of tools.
//!
//! An object is searched in the form in which Python prints it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::comparison::{self, Comparer, ComparisonSettings, Method, TextSettings};
use crate::compat::uipath::{self, Definition};
use crate::evaluator::{Evaluator, Kind};
use spanscore_base::settings::{Node, SettingsError, schema_of_both};
use spanscore_base::value::Value;

/// Registry entry of `contains`.
pub static KIND: Kind = Kind {
    name: "contains",
    about: "Whether the final output, or what tools were given or returned, holds a text.",
    also_known_as: &[("uipath-contains", "UiPath"), ("ContainsEvaluator", "UiPath")],
    threshold: 1.0,
    needs_criteria: true,
    early: false,
    schema: schema_of_both::<TextSettings, ComparisonSettings<Criteria>>,
    build,
    example: "\
contains/apology:
  target_output_key: answer
  criteria: {search_text: sorry}
",
};

/// Expected text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// The text to look for.
    #[serde(alias = "searchText")]
    search_text: String,
}

fn build(node: &Node) -> Result<Box<dyn Evaluator>, SettingsError> {
    let definition = Definition::read(node, "contains")?;
    if definition.is_compat()? {
        let parts = comparison::read_compat(&definition)?;
        let method = method(&TextSettings::read_compat(&definition)?);
        let expected = definition.criteria(|criteria| {
            let key = "search_text";
            let node = criteria.get("searchText").or_else(|| criteria.get(key));
            let node = node.ok_or_else(|| uipath::missing(key, criteria))?;
            uipath::required_text(node, key).map(Value::from)
        })?;
        return Ok(Box::new(Comparer::new(method, parts, expected)));
    }
    let (text, settings): (TextSettings, ComparisonSettings<Criteria>) =
        definition.body.read_both()?;
    let (parts, criteria) = settings.into_parts(&definition, node)?;
    Ok(Box::new(Comparer::new(method(&text), parts, Value::from(criteria.search_text))))
}

fn method(settings: &TextSettings) -> Method {
    let TextSettings { case_sensitive, negated } = *settings;
    Method::Contains { case_sensitive, negated }
}
