//! `word_overlap`: words of the final output, or of tools' arguments or results, in common with the
//! expected text, in any order (ROUGE-1).

use schemars::JsonSchema;
use serde::Deserialize;

use super::comparison::{
    Comparer, ComparisonSubject, ComparisonTarget, Method, NumberReading, OutputKey, Parts, Path,
};
use crate::evaluator::{Evaluator, Kind};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::Value;

/// Registry entry of `word_overlap`.
pub static KIND: Kind = Kind {
    name: "word_overlap",
    about: "Words that the final output, or arguments or results of tools, share with the expected \
            text, in whatever order: ROUGE-1, of stems.",
    also_known_as: &[("response_match_score", "Agent Development Kit"), ("rouge1", "rouge-score")],
    threshold: 0.8,
    needs_criteria: true,
    early: false,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
word_overlap/answer:
  threshold: 0.8
  criteria: {expected_output: Your order A-17 was refunded.}
",
};

/// Settings of `word_overlap`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Judged content: `final_output` (default), or the `tool_arguments` or `tool_results` of tool
    /// calls. Each call is compared by itself; the score is their mean.
    #[serde(default)]
    target: ComparisonTarget,
    /// With `target: tool_arguments` or `tool_results`: only the calls of these tools; empty stands
    /// for all.
    #[serde(default)]
    tools: Vec<String>,
    /// Path in it to the compared text, such as `order.note`; all of it by default.
    path: Option<Path>,
    /// Expected text.
    criteria: Criteria,
}

/// Expected text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// The text.
    expected_output: String,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let Settings { target, tools, path, criteria } = node.read()?;
    let key = OutputKey::Whole;
    let subject = ComparisonSubject { target, tools, path }.checked(&key, node.place)?;
    let parts = Parts { subject, key, numbers: NumberReading::AsWritten, delimiter: None };
    let expected = Value::from(criteria.expected_output);
    Ok(Evaluator::code(Comparer::new(Method::Words, parts, expected)))
}
