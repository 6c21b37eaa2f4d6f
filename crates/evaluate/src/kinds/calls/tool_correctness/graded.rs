//! Modes with partial credit for arguments: DeepEval and the Agent Development Kit.

use std::ops::Range;

use super::{ToolCall, WorkBudget, arguments_of, expected_calls, order, ruled};
use crate::shared::arguments::ArgumentMatcher;
use crate::shared::expected_calls::{Comparison, ExpectedCall};
use crate::shared::pairing::heaviest::{self, HeaviestMatching};
use crate::shared::pairing::read_text;
use crate::shared::report;
use spanscore_base::value::Value;

/// DeepEval's similarity of two calls (`confident-ai/deepeval`, `ToolCorrectnessMetric`).
pub(super) struct Graded {
    /// True if arguments count by similarity.
    pub arguments: bool,
    /// True if equality of results counts.
    pub output: bool,
    /// True if a result's text is parsed for the comparison.
    pub reads_texts: bool,
}

impl Graded {
    /// Returns the similarity of an expected and an actual call, by index; `weights` are those of
    /// the expected calls.
    fn similarity(
        &self,
        comparison: &Comparison<'_, '_>,
        weights: &[usize],
        (expected, actual): (usize, usize),
    ) -> f64 {
        let weight = weights[expected];
        let expected = &comparison.expected[expected];
        let actual = comparison.actual[actual];
        if expected.name != actual.name || !comparison.spend(weight, actual) {
            return 0.0;
        }
        if expected.is_name {
            return 1.0;
        }
        if self.output && !self.is_same_output(comparison, expected, actual) {
            return 0.0;
        }
        if !self.arguments {
            return 1.0;
        }
        match &expected.rules {
            Some(rules) => ruled::similarity(rules, arguments_of(actual), comparison.effort()),
            None => similarity(&expected.arguments, arguments_of(actual)),
        }
    }

    /// Returns true if results are equal; texts of JSON are parsed first, on both sides.
    fn is_same_output(
        &self,
        comparison: &Comparison<'_, '_>,
        expected: &ExpectedCall,
        actual: &ToolCall<'_>,
    ) -> bool {
        let wanted = expected.result.as_ref();
        let given = actual.result.value();
        if let Some(rules) = &expected.result_rules {
            return ruled::is_result(rules, given, comparison.effort());
        }
        if wanted == given {
            return true;
        }
        let (true, Some(wanted), Some(given)) = (self.reads_texts, wanted, given) else {
            return false;
        };
        let bytes = [wanted, given].map(|value| value.as_str().map_or(0, str::len));
        if !comparison.effort().spend(bytes.iter().sum()) {
            return false;
        }
        match (read_text(wanted), read_text(given)) {
            (None, None) => false,
            (read, found) => read.as_ref().unwrap_or(wanted) == found.as_ref().unwrap_or(given),
        }
    }

    /// Returns the mean similarity of expected calls and their matches, in any order.
    pub(super) fn mean(
        &self,
        comparison: &Comparison<'_, '_>,
    ) -> Result<f64, expected_calls::TooLarge> {
        mean_of(comparison, |weights| self.best(comparison, weights))
    }

    /// Returns the mean similarity of expected calls and their matches in order.
    pub(super) fn mean_in_order(
        &self,
        comparison: &Comparison<'_, '_>,
    ) -> Result<f64, expected_calls::TooLarge> {
        mean_of(comparison, |weights| self.heaviest_in_order(comparison, weights))
    }

    /// Returns the sum of similarities of a greedy matching: each expected call takes the most
    /// similar unused actual call.
    fn best(&self, comparison: &Comparison<'_, '_>, weights: &[usize]) -> f64 {
        let expected = comparison.expected;
        let actual = comparison.actual;
        if !comparison.is_literal() {
            let mut pairs = HeaviestMatching::new(actual.len());
            for call in 0..expected.len() {
                let worth = |at| self.similarity(comparison, weights, (call, at));
                pairs.add((0..actual.len()).map(worth), comparison.effort());
            }
            return pairs.sum();
        }
        let mut used = vec![false; actual.len()];
        let mut sum = 0.0;
        for call in 0..expected.len() {
            let mut best = (0.0, None);
            for index in (0..actual.len()).filter(|index| !used[*index]) {
                let similarity = self.similarity(comparison, weights, (call, index));
                if similarity > best.0 {
                    best = (similarity, Some(index));
                }
                if similarity >= 1.0 {
                    break;
                }
            }
            if let (similarity, Some(index)) = best {
                sum += similarity;
                used[index] = true;
            }
        }
        sum
    }

    /// Returns the weight of the heaviest common subsequence.
    fn heaviest_in_order(&self, comparison: &Comparison<'_, '_>, weights: &[usize]) -> f64 {
        let weight = |e: usize, a: usize| self.similarity(comparison, weights, (e, a));
        let expected = comparison.expected.len();
        match comparison.groups() {
            Some(groups) => heaviest::in_order(expected, groups, comparison.effort(), weight),
            None => order::weight(expected, comparison.actual.len(), weight),
        }
    }
}

/// Returns the share of keys with equal values in the union of both sides; nested objects count in
/// part.
fn similarity(a: &Value<'_>, b: &Value<'_>) -> f64 {
    let a = a.entries();
    let b = b.entries();
    if a == b {
        return 1.0;
    }
    let others = b.by_key();
    let shared = a.iter().filter(|(key, _)| others.has(key)).count();
    let all = (a.len() + b.len() - shared) as f64;
    let credit = a.iter().map(|(key, value)| match (value, others.get(key)) {
        (_, Some(other)) if value == other => 1.0 / all,
        (Value::Map(_), Some(other @ Value::Map(_))) => similarity(value, other) / all,
        _ => 0.0,
    });
    report::total(credit)
}

/// Aligns the calls by name and order, and scores each expected call by the share of its arguments
/// in the actual one (`google/adk-python`, `_tool_parameter_match_evaluator.py`).
pub(super) fn parameters(comparison: &Comparison<'_, '_>) -> Result<f64, expected_calls::TooLarge> {
    let expected = comparison.expected;
    let actual = comparison.actual;
    if let Some(groups) = comparison.groups() {
        let scores = parameters_of_groups(comparison, groups)?;
        return Ok(report::total(scores) / expected.len() as f64);
    }
    let mut from = 0;
    let scores = expected.iter().map(|call| {
        let Some(found) = actual[from..].iter().position(|other| other.name == call.name) else {
            return 0.0;
        };
        let given = actual[from + found];
        from += found + 1;
        share(call, given, comparison.effort())
    });
    Ok(report::total(scores) / expected.len() as f64)
}

/// Aligns calls with parallel groups. An expected call takes a call from the first group with one
/// of its name, never before the previous call's group. Within a group the heaviest matching
/// decides.
fn parameters_of_groups(
    comparison: &Comparison<'_, '_>,
    groups: &[Range<usize>],
) -> Result<Vec<f64>, expected_calls::TooLarge> {
    let expected = comparison.expected;
    let actual = comparison.actual;
    expected_calls::check_questions(expected.len(), actual.len())?;
    let mut taken = vec![false; actual.len()];
    let mut takers: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
    let mut first = 0;
    for (at, call) in expected.iter().enumerate() {
        let is_free = |place: &usize| !taken[*place] && actual[*place].name == call.name;
        let found = (first..groups.len())
            .find_map(|group| groups[group].clone().find(is_free).map(|place| (group, place)));
        if let Some((group, place)) = found {
            taken[place] = true;
            takers[group].push(at);
            first = group;
        }
    }
    let mut scores = vec![0.0; expected.len()];
    for (group, takers) in groups.iter().zip(takers) {
        let mut pairs = HeaviestMatching::new(group.len());
        for &at in &takers {
            let worth = |place: usize| {
                if actual[place].name == expected[at].name {
                    share(&expected[at], actual[place], comparison.effort())
                } else {
                    0.0
                }
            };
            pairs.add(group.clone().map(worth), comparison.effort());
        }
        takers.iter().enumerate().for_each(|(pair, at)| scores[*at] = pairs.share(pair));
    }
    Ok(scores)
}

/// Returns the share of an expected call's arguments in an actual one.
pub(super) fn share(expected: &ExpectedCall, actual: &ToolCall<'_>, effort: &WorkBudget) -> f64 {
    if let Some(rules) = &expected.rules {
        return ruled::share(rules, arguments_of(actual), effort);
    }
    let wanted = expected.arguments.entries();
    if wanted.is_empty() {
        return 1.0;
    }
    let equal = ArgumentMatcher::default();
    let given = arguments_of(actual).entries().by_key();
    let is_given =
        |(key, value): &(&str, &_)| given.get(key).is_some_and(|it| equal.equal(value, it));
    report::ratio(wanted.iter().filter(is_given).count(), wanted.len())
}

/// Returns the mean, over the expected calls, of a sum of similarities that is computed from their
/// weights.
fn mean_of(
    comparison: &Comparison<'_, '_>,
    sum: impl FnOnce(&[usize]) -> f64,
) -> Result<f64, expected_calls::TooLarge> {
    let Comparison { expected, actual, .. } = comparison;
    if expected.is_empty() {
        return Ok(f64::from(u8::from(actual.is_empty())));
    }
    expected_calls::check_questions(expected.len(), actual.len())?;
    let weights: Vec<usize> = expected.iter().map(expected_calls::weight).collect();
    Ok(sum(&weights) / expected.len() as f64)
}
