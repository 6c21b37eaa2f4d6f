//! Construction of outcomes and their texts, common to all kinds.

use std::fmt::Write as _;

use spanscore_base::model::{Explanation, Label, Outcome, Reason, Score, Want};
use spanscore_base::tally::{distinct, tally};
use spanscore_base::value::{Map, Value};

/// Limit on the names in an explanation, before the number of others.
const NAMES_MAX: usize = 5;

/// Returns a score, with explanation and details only if wanted. Unlabelled texts may be content:
/// see [`Explanation`].
pub fn scored<E: Into<Explanation>>(
    value: f64,
    want: Want,
    explanation: impl FnOnce() -> E,
    details: impl FnOnce() -> Map<'static>,
) -> Outcome {
    labelled(None, value, want, explanation, details)
}

/// Returns a score, with a label in place of that by the threshold if given.
pub fn labelled<E: Into<Explanation>>(
    label: Option<Label>,
    value: f64,
    want: Want,
    explanation: impl FnOnce() -> E,
    details: impl FnOnce() -> Map<'static>,
) -> Outcome {
    Outcome::Scored(Score {
        value,
        explanation: if want.explanation { explanation().into() } else { Explanation::default() },
        details: if want.details { Value::Map(details()) } else { Value::Null },
        label,
    })
}

/// Returns an outcome without a score, with its reason.
pub fn not_evaluable(reason: Reason, want: Want, explanation: impl FnOnce() -> String) -> Outcome {
    let explanation = if want.explanation { explanation() } else { String::new() };
    Outcome::NotEvaluable { reason, explanation }
}

/// Returns the outcome for a trajectory without tool calls.
pub fn no_tool_calls(want: Want) -> Outcome {
    not_evaluable(Reason::NoToolCalls, want, || "no tool was called".to_owned())
}

/// Returns the sum of scores or weights, 0 if empty, for which [`Iterator::sum`] returns `-0.0`.
pub fn total(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |sum, value| sum + value)
}

/// Returns `part / whole` as a fraction.
pub fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// Returns the harmonic mean of `shared / actual` and `shared / expected`: 1 if both are empty, 0
/// if one is. It is computed in this order, since `2 * shared / (actual + expected)` differs in the
/// last digit.
pub fn f1(shared: usize, actual: usize, expected: usize) -> f64 {
    match (actual, expected) {
        (0, 0) => 1.0,
        _ if shared == 0 => 0.0,
        _ => {
            let precision = ratio(shared, actual);
            let recall = ratio(shared, expected);
            2.0 * precision * recall / (precision + recall)
        }
    }
}

/// Returns the first `most` names for a sentence, and the number of others.
pub fn first_names<N: ToString>(all: impl IntoIterator<Item = N>, most: usize) -> (String, usize) {
    let mut all = all.into_iter();
    let first: Vec<String> = all.by_ref().take(most).map(|name| name.to_string()).collect();
    (first.join(", "), all.count())
}

/// Lists the first `most` names for a sentence, then the number of others.
pub fn some_names<N: ToString>(all: impl IntoIterator<Item = N>, most: usize) -> String {
    match first_names(all, most) {
        (first, 0) => first,
        (first, more) => format!("{first} and {more} more"),
    }
}

/// Lists the first few names for a sentence, then the number of others.
pub fn names<N: ToString>(all: impl IntoIterator<Item = N>) -> String {
    some_names(all, NAMES_MAX)
}

/// Lists distinct names for a sentence, with their number if above one.
pub fn names_with_counts<'n>(all: impl IntoIterator<Item = &'n str>) -> String {
    let all: Vec<&str> = all.into_iter().collect();
    let counts = tally(&all);
    names(distinct(all.iter().copied()).into_iter().map(|name| match counts[&name] {
        1 => name.to_owned(),
        count => format!("{name} ({count} times)"),
    }))
}

/// Limit on the items described by [`few`].
const TOLD_MAX: usize = 3;

/// Appends descriptions of the first few items, each after a `;`, then the number of others.
pub fn few<T>(
    words: &mut Explanation,
    all: impl IntoIterator<Item = T>,
    mut tell: impl FnMut(&mut Explanation, T),
) {
    let mut count = 0;
    for thing in all {
        count += 1;
        if count <= TOLD_MAX {
            words.push("; ");
            tell(words, thing);
        }
    }
    if count > TOLD_MAX {
        // Writing to a string cannot fail.
        let _ = write!(words, "; and {} more", count - TOLD_MAX);
    }
}

/// Returns names as a list for the details.
pub fn name_list<'n>(all: impl IntoIterator<Item = &'n str>) -> Value<'static> {
    Value::List(all.into_iter().map(|name| Value::from(name.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::{names, total};

    #[test]
    fn long_lists_of_names_are_cut_and_counted() {
        assert_eq!(names(["a", "b"]), "a, b");
        assert_eq!(names(["a"; 5]), "a, a, a, a, a");
        assert_eq!(names(["a"; 7]), "a, a, a, a, a and 2 more");
    }

    #[test]
    fn the_sum_of_nothing_has_no_sign() {
        assert_eq!(total([]).to_string(), "0");
        assert_eq!(total([0.5, 0.25]).to_string(), "0.75");
    }
}
