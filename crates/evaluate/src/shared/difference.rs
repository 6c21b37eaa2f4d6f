//! Differences between expected and actual calls, as text and as a list.
//!
//! They explain a score to a person. They cover the first [`CALLS_MAX`] calls on each side and
//! their arguments within [`STEPS_MAX`] steps, charged to the trace. Numbers of calls per tool
//! cover all calls.

mod words;

pub use words::{ANOTHER_ARGUMENT, argument_words};

use std::ops::Range;

use super::arguments::ArgumentMatcher;
use super::expected_calls::{CallMatcher, Comparison, ExpectedCall, arguments_of};
use super::order;
use spanscore_base::model::{Explanation, ToolCall, WorkBudget};
use spanscore_base::value::{Map, Value};

/// Limit on the compared calls on each side.
const CALLS_MAX: usize = 64;
/// Limit on the steps to compare their arguments.
const STEPS_MAX: u64 = 1_000_000;
/// Steps per call on each side, to count it by name.
const STEPS_PER_CALL: usize = 32;

/// Differences that count in a mode.
#[derive(Clone, Copy, Debug)]
pub struct CountedDifferences {
    /// True if the order counts.
    pub order: bool,
    /// True if missing expected calls count.
    pub missing: bool,
    /// True if unexpected calls count.
    pub extra: bool,
    /// Setting that allows additional arguments, such as `subset: true`.
    pub allows_more: &'static str,
}

/// Alignment step of expected and actual calls, by index from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// As expected.
    Same { expected: usize, actual: usize },
    /// The same tool with different arguments.
    Differs { expected: usize, actual: usize },
    /// As expected, at another position.
    Moved { expected: usize, actual: usize },
    /// Expected, not made.
    Missing { expected: usize },
    /// Made, not expected.
    Extra { actual: usize },
}

/// Alignment of expected and actual calls.
pub struct Difference<'c, 'a> {
    matcher: &'c CallMatcher,
    expected: &'c [ExpectedCall],
    actual: &'c [&'c ToolCall<'a>],
    counted: CountedDifferences,
    steps: Vec<Step>,
}

impl<'c, 'a> Difference<'c, 'a> {
    /// Aligns calls.
    pub fn new(
        matcher: &'c CallMatcher,
        expected: &'c [ExpectedCall],
        actual: &'c [&'c ToolCall<'a>],
        counted: CountedDifferences,
        trace_effort: &WorkBudget,
    ) -> Self {
        let first = &expected[..expected.len().min(CALLS_MAX)];
        let second = &actual[..actual.len().min(CALLS_MAX)];
        let effort = WorkBudget::new(STEPS_MAX);
        let comparison = Comparison::new(matcher, first, second, &effort);
        let same = |e: usize, a: usize| comparison.same(e, a);
        let groups = if matcher.is_listed { Vec::new() } else { order::groups(second) };
        let alike = |e: usize, a: usize| first[e].name == second[a].name;
        let sizes = (first.len(), second.len());
        let steps = if counted.order {
            in_order(sizes, &groups, same, alike)
        } else {
            in_any_order(sizes, same, alike)
        };
        let compared = usize::try_from(effort.taken()).unwrap_or(usize::MAX);
        trace_effort.spend(compared + (expected.len() + actual.len()) * STEPS_PER_CALL);
        Self { matcher, expected, actual, counted, steps }
    }

    /// Describes the differences: `search was called 3 times, expected 1; pay (call 2): ...`. Empty
    /// without differences.
    pub fn words(&self) -> Explanation {
        words::of(self)
    }

    /// Returns each step, for the details.
    pub fn list(&self) -> Value<'static> {
        let steps = self.steps.iter().filter(|step| match step {
            Step::Missing { .. } => self.counted.missing,
            Step::Extra { .. } => self.counted.extra,
            _ => true,
        });
        Value::List(steps.map(|step| self.entry(*step)).collect())
    }

    fn entry(&self, step: Step) -> Value<'static> {
        let (word, expected, actual) = match step {
            Step::Same { expected, actual } => ("same", Some(expected), Some(actual)),
            Step::Differs { expected, actual } => ("differs", Some(expected), Some(actual)),
            Step::Moved { expected, actual } => ("moved", Some(expected), Some(actual)),
            Step::Missing { expected } => ("missing", Some(expected), None),
            Step::Extra { actual } => ("extra", None, Some(actual)),
        };
        let mut entry = Map::new();
        entry.insert("is", word);
        let name = expected.map(|at| self.expected[at].name.clone());
        let name = name.or_else(|| actual.map(|at| self.actual[at].name.to_string()));
        entry.insert("name", name);
        if let Some(at) = expected {
            entry.insert("place", at + 1);
            entry.insert("expected", self.expected[at].arguments.clone());
        }
        if let Some(at) = actual {
            let call = self.actual[at];
            entry.insert("call", at + 1);
            // Arguments that do not count may have been decoded for another evaluator.
            if self.matcher(&call.name).reads_arguments() {
                entry.insert("actual", arguments_of(call).clone().into_owned());
            }
        }
        Value::Map(entry)
    }

    fn matcher(&self, name: &str) -> &'c ArgumentMatcher {
        self.matcher.of(name)
    }
}

/// Returns the steps in an ordered mode, along the longest common subsequence.
fn in_order(
    (expected, actual): (usize, usize),
    groups: &[Range<usize>],
    same: impl Fn(usize, usize) -> bool,
    alike: impl Fn(usize, usize) -> bool,
) -> Vec<Step> {
    // Parallel calls take the expected order.
    let mut order: Vec<usize> = (0..actual).collect();
    for group in groups {
        let place = |call: &usize| (0..expected).position(|e| same(e, *call)).unwrap_or(expected);
        if let Some(calls) = order.get_mut(group.clone()) {
            calls.sort_by_cached_key(place);
        }
    }
    let mut lengths = vec![vec![0u32; actual + 1]; expected + 1];
    let mut is_same = vec![vec![false; actual]; expected];
    for e in (0..expected).rev() {
        for a in (0..actual).rev() {
            is_same[e][a] = same(e, order[a]);
            lengths[e][a] = if is_same[e][a] {
                lengths[e + 1][a + 1] + 1
            } else {
                lengths[e + 1][a].max(lengths[e][a + 1])
            };
        }
    }
    let mut kept = vec![None; expected];
    let mut e = 0;
    let mut a = 0;
    while e < expected && a < actual {
        if is_same[e][a] {
            kept[e] = Some(order[a]);
            (e, a) = (e + 1, a + 1);
        } else if lengths[e + 1][a] >= lengths[e][a + 1] {
            e += 1;
        } else {
            a += 1;
        }
    }
    let moved = |expected, actual| Step::Moved { expected, actual };
    rest((expected, actual), &kept, moved, &same, &alike)
}

/// Returns the steps in an unordered mode.
fn in_any_order(
    (expected, actual): (usize, usize),
    same: impl Fn(usize, usize) -> bool,
    alike: impl Fn(usize, usize) -> bool,
) -> Vec<Step> {
    let moved = |expected, actual| Step::Same { expected, actual };
    rest((expected, actual), &vec![None; expected], moved, &same, &alike)
}

/// Adds the other steps: expected calls not in `kept` are moved, differ from a call of the same
/// tool, or are missing; remaining actual calls are extra.
fn rest(
    (expected, actual): (usize, usize),
    kept: &[Option<usize>],
    elsewhere: impl Fn(usize, usize) -> Step,
    same: &impl Fn(usize, usize) -> bool,
    alike: &impl Fn(usize, usize) -> bool,
) -> Vec<Step> {
    let mut is_free = vec![true; actual];
    kept.iter().flatten().for_each(|at| is_free[*at] = false);
    let mut steps: Vec<Option<Step>> =
        (0..expected).map(|e| kept[e].map(|actual| Step::Same { expected: e, actual })).collect();
    let mut take = |steps: &mut [Option<Step>], fits: &dyn Fn(usize, usize) -> Option<Step>| {
        for (e, step) in steps.iter_mut().enumerate().filter(|(_, step)| step.is_none()) {
            let free = (0..actual).filter(|a| is_free[*a]);
            let found = free.filter_map(|a| Some((a, fits(e, a)?))).next();
            if let Some((a, found)) = found {
                is_free[a] = false;
                *step = Some(found);
            }
        }
    };
    take(&mut steps, &|e, a| same(e, a).then(|| elsewhere(e, a)));
    take(&mut steps, &|e, a| alike(e, a).then_some(Step::Differs { expected: e, actual: a }));
    let steps = (0..).zip(steps);
    let steps = steps.map(|(expected, step)| step.unwrap_or(Step::Missing { expected }));
    let extra = (0..actual).filter(|at| is_free[*at]).map(|actual| Step::Extra { actual });
    steps.chain(extra).collect()
}

#[cfg(test)]
mod tests;
