//! Answers, made the same way by every kind.

use std::fmt::Write as _;

use crate::model::{Outcome, Reason, Score, Want};
use crate::value::{Map, Value};

/// Names that an explanation spells out before it says how many more there are.
const NAMES_MAX: usize = 5;

/// A score, with only those words and details that somebody wants.
pub fn scored(
    value: f64,
    want: Want,
    explanation: impl FnOnce() -> String,
    details: impl FnOnce() -> Map<'static>,
) -> Outcome {
    Outcome::Scored(Score {
        value,
        explanation: if want.explanation { explanation() } else { String::new() },
        details: if want.details { Value::Map(details()) } else { Value::Null },
        label: None,
    })
}

/// No score, and why.
pub fn not_evaluable(reason: Reason, want: Want, explanation: impl FnOnce() -> String) -> Outcome {
    let explanation = if want.explanation { explanation() } else { String::new() };
    Outcome::NotEvaluable { reason, explanation }
}

/// The answer to a trajectory without a tool call.
pub fn no_tool_calls(want: Want) -> Outcome {
    not_evaluable(Reason::NoToolCalls, want, || "no tool was called".to_owned())
}

/// `part / whole` as a fraction of 1.
pub fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// Harmonic mean of `shared / actual` and `shared / expected`: 1 where both are empty, 0 where one
/// is. Computed in this order, since `2 * shared / (actual + expected)` differs in the last digit.
pub fn f1(shared: usize, actual: usize, expected: usize) -> f64 {
    match (actual, expected) {
        (0, 0) => 1.0,
        _ if shared == 0 => 0.0,
        _ => {
            let (precision, recall) = (ratio(shared, actual), ratio(shared, expected));
            2.0 * precision * recall / (precision + recall)
        }
    }
}

/// Names for a sentence: the first few, then how many more.
pub fn names<'n>(all: impl IntoIterator<Item = &'n str>) -> String {
    let mut out = String::new();
    let mut count = 0;
    for name in all {
        count += 1;
        if count <= NAMES_MAX {
            if count > 1 {
                out.push_str(", ");
            }
            out.push_str(name);
        }
    }
    if count > NAMES_MAX {
        // Writing to a string cannot fail.
        let _ = write!(out, " and {} more", count - NAMES_MAX);
    }
    out
}

/// Names as a list for the details.
pub fn name_list<'n>(all: impl IntoIterator<Item = &'n str>) -> Value<'static> {
    Value::List(all.into_iter().map(|name| Value::from(name.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn long_lists_of_names_are_cut_and_counted() {
        assert_eq!(names(["a", "b"]), "a, b");
        assert_eq!(names(["a"; 5]), "a, a, a, a, a");
        assert_eq!(names(["a"; 7]), "a, a, a, a, a and 2 more");
    }
}
