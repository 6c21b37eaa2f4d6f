//! Answers, made the same way by every kind.

use std::fmt::Write as _;

use spanscore_base::model::{Explanation, Outcome, Reason, Score, Want};
use spanscore_base::value::{Map, Value};

/// Names that an explanation spells out before it says how many more there are.
const NAMES_MAX: usize = 5;

/// A score, with only those words and details that somebody wants. Words of which nothing is said
/// may be content: see [`Explanation`].
pub fn scored<E: Into<Explanation>>(
    value: f64,
    want: Want,
    explanation: impl FnOnce() -> E,
    details: impl FnOnce() -> Map<'static>,
) -> Outcome {
    Outcome::Scored(Score {
        value,
        explanation: if want.explanation { explanation().into() } else { Explanation::default() },
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

/// The sum of scores or weights: that of none is 0, which [`Iterator::sum`] takes for `-0.0`.
pub fn total(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |sum, value| sum + value)
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
            let precision = ratio(shared, actual);
            let recall = ratio(shared, expected);
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

/// Names for a sentence, each once, with how often it comes where that is more than once.
pub fn names_with_counts<'n>(all: impl IntoIterator<Item = &'n str>) -> String {
    let mut counts: hashbrown::HashMap<&str, usize> = hashbrown::HashMap::new();
    let mut order = Vec::new();
    for name in all {
        let count = counts.entry(name).or_default();
        *count += 1;
        if *count == 1 {
            order.push(name);
        }
    }
    let shown = |name: &&str| match counts.get(name) {
        Some(count) if *count > 1 => format!("{name} ({count} times)"),
        _ => (*name).to_owned(),
    };
    let first: Vec<String> = order.iter().take(NAMES_MAX).map(shown).collect();
    let more = order.len().saturating_sub(NAMES_MAX);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    first.join(", ") + &and_more
}

/// Things that [`few`] tells one by one.
const TOLD_MAX: usize = 3;

/// Appends what is told of the first few things, each after a `;`, then how many more there are.
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
        // Writing to words cannot fail.
        let _ = write!(words, "; and {} more", count - TOLD_MAX);
    }
}

/// Names as a list for the details.
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
