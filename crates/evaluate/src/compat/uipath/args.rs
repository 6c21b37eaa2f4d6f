//! `tool_call_args` with the package's scores.
//!
//! Each expected call takes the first unused call of its name that has all its arguments; `subset`
//! has no effect.

use super::contents::{ContentKind, Contents};
use super::definition::{Definition, Flag, expected_list, missing, required_map};
use crate::evaluator::Evaluator;
use spanscore_base::settings::SettingsError;
use spanscore_base::value::python::PyValue;

/// Builds the evaluator.
pub(crate) fn build(definition: &Definition) -> Result<Evaluator, SettingsError> {
    let strict = definition.flag(Flag("strict", "strict"))?;
    definition.flag(Flag("subset", "subset"))?;
    let expected = definition.criteria(|criteria| {
        expected_list(criteria, ("tool_calls", "toolCalls"), |item| {
            let args = item.get("args").ok_or_else(|| missing("args", item))?;
            let args = required_map(args, "args")?;
            Ok((args.node_count(), PyValue::from(args)))
        })
    })?;
    let kind = ContentKind {
        model: ("ToolCall", "args"),
        plural: "",
        explained: "explained_tool_calls_args",
        told: "expected calls were made with their arguments",
        read: |call| call.args(),
        // An upper bound: a linear search per expected key, then full comparisons.
        cost: |expected, actual| 1 + expected.weight * (1 + entry_count(actual) / 4) / 2,
        fits: has_all,
        shown: |args| args.repr(),
    };
    Ok(Evaluator::code(Contents { kind, strict, first_decides: false, expected }))
}

fn entry_count(args: &PyValue<'_>) -> usize {
    if let PyValue::Dict(entries) = args { entries.len() } else { 0 }
}

/// Returns true if the actual arguments include all expected ones, by Python's equality.
fn has_all(actual: &PyValue<'_>, expected: &PyValue<'_>) -> bool {
    let PyValue::Dict(expected) = expected else { return false };
    expected.iter().all(|(key, value)| match key {
        PyValue::Str(key) => actual.get_text(key).is_some_and(|found| found == value),
        _ => true,
    })
}
