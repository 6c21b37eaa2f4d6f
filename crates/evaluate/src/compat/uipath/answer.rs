//! Outcomes and details in the form and wording of the package's evaluators.

use crate::shared::{report, step_limit};
use spanscore_base::model::{Explanation, Outcome, Reason, Want};
use spanscore_base::value::python::PyValue;
use spanscore_base::value::{Map, Value};

/// Limit on the entries of `explained_...`: a call may be compared with every expected one.
pub(super) const EXPLAINED_MAX: usize = 10_000;
/// Bytes of those entries after which no more are added.
const EXPLAINED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Returns the score with an explanation without content, and the package's details: `expected`,
/// `actual` and `explained`.
pub(super) fn scored(
    value: f64,
    want: Want,
    explanation: impl FnOnce() -> String,
    details: impl FnOnce() -> [(&'static str, Value<'static>); 3],
) -> Outcome {
    let explanation = || Explanation::plain(explanation());
    report::scored(value, want, explanation, || details().into_iter().collect())
}

/// Returns the outcome for an exception caught by the package.
pub(super) fn failed(error: impl std::fmt::Display) -> Outcome {
    Outcome::Failed {
        error_type: "evaluator_error",
        error: format!("Exception thrown by evaluator: {error}"),
    }
}

/// Returns the outcome for a trajectory beyond its work budget.
pub(super) fn too_large(want: Want) -> Outcome {
    report::not_evaluable(Reason::TrajectoryTooLarge, want, step_limit::words)
}

/// Returns the score and the `explained` details if one side of the comparison is empty.
pub(super) fn empty(
    expected_is_empty: bool,
    actual_is_empty: bool,
    what: &str,
) -> Option<(f64, Value<'static>)> {
    let (score, which) = match (expected_is_empty, actual_is_empty) {
        (false, false) => return None,
        (true, true) => (1.0, "Both"),
        _ => (0.0, "Either"),
    };
    let joint = if score > 0.0 { "and" } else { "or" };
    let text = format!("{which} expected {joint} actual tool calls{what} are empty");
    Some((score, Value::Map(Map::from([("_result", Value::from(text))]))))
}

/// Entries that explain a comparison, keyed by tool name and number: `search_0`, `search_1`.
#[derive(Default)]
pub(super) struct Explained {
    counts: hashbrown::HashMap<String, usize>,
    entries: Vec<(String, Value<'static>)>,
    bytes: usize,
}

impl Explained {
    /// Adds an entry; drops it beyond [`EXPLAINED_MAX`] or [`EXPLAINED_BYTES_MAX`].
    pub(super) fn add(&mut self, name: &str, text: impl FnOnce() -> String) {
        if self.entries.len() < EXPLAINED_MAX && self.bytes < EXPLAINED_BYTES_MAX {
            let count = self.counts.entry_ref(name).or_insert(0);
            let text = text();
            self.bytes += text.len();
            self.entries.push((format!("{name}_{count}"), Value::from(text)));
            *count += 1;
        }
    }

    /// Returns the last entry.
    pub(super) fn last(mut self) -> Value<'static> {
        Value::Map(self.entries.pop().into_iter().collect())
    }

    /// Returns all entries.
    pub(super) fn all(self) -> Value<'static> {
        Value::Map(self.entries.into_iter().collect())
    }
}

/// Writes `Kind(name='t', field=..., id=None)`, as the package prints its models.
pub(super) fn write_model(
    out: &mut String,
    (kind, field): (&str, &str),
    name: &str,
    content: &PyValue<'_>,
    id: Option<&str>,
) {
    let id = id.map_or(PyValue::None, PyValue::text);
    out.push_str(kind);
    out.push_str("(name=");
    // Writing to a `String` cannot fail.
    let _ = PyValue::text(name).write_repr(out);
    out.push_str(", ");
    out.push_str(field);
    out.push('=');
    let _ = content.write_repr(out);
    out.push_str(", id=");
    let _ = id.write_repr(out);
    out.push(')');
}

/// Formats a list of models, each written by `write`.
pub(super) fn list_of<T>(
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) -> Value<'static> {
    let mut out = String::from("[");
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write(&mut out, item);
    }
    out.push(']');
    Value::from(out)
}

/// Returns `1.0` or `0.0`.
pub(super) fn mark(matches: bool) -> &'static str {
    if matches { "1.0" } else { "0.0" }
}
