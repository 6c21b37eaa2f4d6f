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
    about: "Overlap of the words of the final output, or of the arguments or results of tools, \
            with the expected text, in any order: ROUGE-1 with stemming.",
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
    /// Compared content: `final_output` (default), or `tool_arguments` or `tool_results`, which
    /// compare each call by itself. The score is then the mean over the calls.
    #[serde(default)]
    target: ComparisonTarget,
    /// Tools whose calls are compared, with `target: tool_arguments` or `tool_results`. Default:
    /// all tools.
    #[serde(default)]
    tools: Vec<String>,
    /// Path of the compared text in the content, such as `order.note`. Default: the whole content.
    path: Option<Path>,
    /// Expected text.
    criteria: Criteria,
}

/// Expected text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// Expected text.
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
