//! `tool_call_output` with the package's scores.
//!
//! Results are compared as text. With `strict`, the first unused call of an expected name must
//! match.

use super::contents::{ContentKind, Contents};
use super::definition::{Definition, Flag, expected_list, missing, required_text};
use crate::evaluator::Evaluator;
use spanscore_base::settings::SettingsError;
use spanscore_base::value::python::{PyStr, PyValue};

/// Builds the evaluator.
pub(crate) fn build(definition: &Definition) -> Result<Evaluator, SettingsError> {
    let strict = definition.flag(Flag("strict", "strict"))?;
    let expected = definition.criteria(|criteria| {
        expected_list(criteria, ("tool_outputs", "toolOutputs"), |item| {
            let output = item.get("output").ok_or_else(|| missing("output", item))?;
            let output = required_text(output, "output")?;
            Ok((output.len(), PyValue::Str(PyStr::from(output))))
        })
    })?;
    let kind = ContentKind {
        model: ("ToolOutput", "output"),
        plural: " outputs",
        explained: "explained_tool_calls_outputs",
        told: "expected results were returned",
        read: |call| call.output().map(PyValue::Str),
        cost: |expected, actual| {
            let PyValue::Str(actual) = actual else { return 1 };
            // Texts of different lengths are different without a comparison.
            let is_read = actual.as_bytes().len() == expected.weight;
            1 + if is_read { expected.weight / 16 } else { 0 }
        },
        fits: |actual, expected| actual == expected,
        shown: |output| output.to_text(),
    };
    Ok(Evaluator::code(Contents { kind, strict, first_decides: strict, expected }))
}
