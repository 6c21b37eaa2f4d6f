//! Ragas' ToolCallAccuracy with values compared as JSON: `1` equals `1.0`, and the order of keys is
//! irrelevant.

use std::ops::Range;

use super::{WorkBudget, arguments_of, graded};
use crate::shared::expected_calls::{self, Comparison, ExpectedCall, TooLarge, check_questions};
use crate::shared::pairing::heaviest::HeaviestMatching;
use spanscore_base::model::ToolCall;

/// Returns 0 unless the names are equal; otherwise the sum of each pair's share of expected
/// arguments, divided by the number of expected calls. Parallel calls, and all calls without
/// `strict_order`, are paired for the best score.
pub(super) fn by_value(
    comparison: &Comparison<'_, '_>,
    strict_order: bool,
) -> Result<f64, TooLarge> {
    let count = comparison.expected.len();
    if count == 0 || comparison.actual.is_empty() {
        return Ok(f64::from(u8::from(count == 0 && comparison.actual.is_empty())));
    }
    let mut expected: Vec<&ExpectedCall> = comparison.expected.iter().collect();
    let mut actual: Vec<&ToolCall<'_>> = comparison.actual.to_vec();
    if count != actual.len() {
        return Ok(0.0);
    }
    let mut groups = comparison.groups_or_singles();
    if !strict_order {
        expected.sort_by_key(|call| &*call.name);
        actual.sort_by(|a, b| a.name.cmp(&b.name));
        groups = by_name(&actual);
    }
    let is_aligned = |group: &Range<usize>| {
        let wanted = names(expected[group.clone()].iter().map(|call| &*call.name));
        wanted == names(actual[group.clone()].iter().map(|call| &*call.name))
    };
    if !groups.iter().all(is_aligned) {
        return Ok(0.0);
    }
    let mut sum = 0.0;
    for group in groups {
        sum += pairs(comparison, &expected[group.clone()], &actual[group])?;
    }
    Ok(sum / count as f64)
}

/// Returns the ranges of calls of one name, for calls sorted by name.
fn by_name(calls: &[&ToolCall<'_>]) -> Vec<Range<usize>> {
    let mut from = 0;
    let ranges = calls.chunk_by(|a, b| a.name == b.name).map(|chunk| {
        from += chunk.len();
        from - chunk.len()..from
    });
    ranges.collect()
}

fn names<'n>(all: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut names: Vec<&str> = all.collect();
    names.sort_unstable();
    names
}

/// Sums the shares of a group in the best-scoring pairing.
fn pairs(
    comparison: &Comparison<'_, '_>,
    expected: &[&ExpectedCall],
    actual: &[&ToolCall<'_>],
) -> Result<f64, TooLarge> {
    check_questions(expected.len(), actual.len())?;
    let mut pairs = HeaviestMatching::new(actual.len());
    for expected in expected {
        let weight = expected_calls::weight(expected);
        let worth = |call: &&ToolCall<'_>| {
            if comparison.spend(weight, call) {
                share(expected, call, comparison.effort())
            } else {
                0.0
            }
        };
        pairs.add(actual.iter().map(worth), comparison.effort());
    }
    Ok(pairs.sum())
}

/// Returns the share of the expected arguments that a call has; without expected arguments, 1 only
/// for a call without arguments.
fn share(expected: &ExpectedCall, call: &ToolCall<'_>, effort: &WorkBudget) -> f64 {
    if expected.name != call.name {
        return 0.0;
    }
    if expected.is_name {
        return 1.0;
    }
    if expected.rules.is_none() && expected.arguments.entries().is_empty() {
        return f64::from(u8::from(arguments_of(call).entries().is_empty()));
    }
    graded::share(expected, call, effort)
}
