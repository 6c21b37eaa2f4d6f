//! Comparison of expected calls with actual ones.
//!
//! Two calls are equal if their names are equal and the tool's matcher accepts the arguments, with
//! the expected call on the expected side. Results do not count. If matching can be hashed, calls
//! are numbered first, so that each comparison is one of integers.

mod criteria;
mod numbers;
mod rules;

use std::collections::BTreeMap;
use std::ops::Range;

use super::arguments::ArgumentMatcher;
use super::failure::FailureRules;
use super::matcher::MatchContext;
use super::order::{self, InOrder};
use super::pairing::{self, MatchingTooLarge};
use super::report;
use super::step_limit::{STEPS_MAX, WorkBudget};
pub use criteria::{Criteria, ExpectedCall, RightWay, required};
use hashbrown::HashSet;
use numbers::CallNumbers;
pub use numbers::number;
pub use rules::best_of;
use spanscore_base::model::{Outcome, Reason, ToolCall, Want};
use spanscore_base::value::{Map, Value};

/// Number of pairs up to which calls are compared directly; beyond it they are numbered first.
const COMPARED_MAX: usize = 256;

/// Steps per call on each side, to number it and look up its name.
const STEPS_PER_CALL: usize = 96;

/// Limit on the argument entries in a one-sided comparison; a call with more is not evaluable. The
/// cost of other comparisons is bounded by the expected side.
const ENTRIES_MAX: usize = 1000;

/// Argument matchers by tool.
#[derive(Clone, Debug, Default)]
pub struct CallMatcher {
    /// Matcher of tools without their own.
    pub default: ArgumentMatcher,
    /// By tool name.
    pub by_name: BTreeMap<String, ArgumentMatcher>,
    /// True if unrecorded arguments count as empty.
    pub absent_is_empty: bool,
    /// True if parallel calls are taken in listed order.
    pub is_listed: bool,
}

impl CallMatcher {
    /// Returns the matcher of a tool.
    pub fn of(&self, name: &str) -> &ArgumentMatcher {
        if self.by_name.is_empty() {
            &self.default
        } else {
            self.by_name.get(name).unwrap_or(&self.default)
        }
    }

    /// Returns true if any matcher reads arguments.
    pub fn reads_arguments(&self) -> bool {
        self.default.reads_arguments() || self.by_name.values().any(|m| m.reads_arguments())
    }

    /// Returns true if the arguments of a call match an expected call of its tool.
    pub fn matches(
        &self,
        expected: &ExpectedCall,
        actual: &ToolCall<'_>,
        effort: &WorkBudget,
    ) -> bool {
        let options = self.of(&expected.name);
        match &expected.rules {
            Some(rules) => MatchContext { options, effort }.arguments(rules, arguments_of(actual)),
            None => options.matches(&expected.arguments, arguments_of(actual)),
        }
    }

    fn is_symmetric(&self) -> bool {
        self.default.is_symmetric() && self.by_name.values().all(ArgumentMatcher::is_symmetric)
    }

    /// Returns the outcome if a relevant call's arguments are unrecorded or too many.
    pub fn obstacle(
        &self,
        expected: &[ExpectedCall],
        actual: &[&ToolCall<'_>],
        want: Want,
    ) -> Option<Outcome> {
        if !self.is_symmetric() {
            let is_large = |call: &&&ToolCall<'_>| {
                arguments_of(call).as_map().is_some_and(|map| map.len() > ENTRIES_MAX)
            };
            if let Some(call) = actual.iter().find(is_large) {
                return Some(report::not_evaluable(Reason::TrajectoryTooLarge, want, || {
                    format!("`{}` has more than {ENTRIES_MAX} arguments", call.name)
                }));
            }
        }
        if self.absent_is_empty {
            return None;
        }
        if expected.iter().all(|call| call.is_name) {
            return None;
        }
        let is_without = |call: &&&ToolCall<'_>| {
            !call.arguments.is_recorded() && self.of(&call.name).reads_arguments()
        };
        let mut without = actual.iter().filter(is_without).peekable();
        without.peek()?;
        // The sender of the calls may also send as many expected ones.
        let names: HashSet<&str> =
            expected.iter().filter(|it| !it.is_name).map(|expected| &*expected.name).collect();
        let call = without.find(|call| names.contains(&*call.name))?;
        Some(report::not_evaluable(Reason::ArgumentsNotRecorded, want, || {
            format!("the arguments of `{}` are not recorded", call.name)
        }))
    }
}

/// Returns the number of values in an expected call.
pub fn weight(call: &ExpectedCall) -> usize {
    call.arguments.node_count() + call.result.as_ref().map_or(0, Value::node_count)
}

/// Returns the arguments of a call; `Null` if unrecorded.
pub fn arguments_of<'c, 'a>(call: &'c ToolCall<'a>) -> &'c Value<'a> {
    call.arguments.value().unwrap_or(&Value::Null)
}

/// Returns the calls of a trajectory, without failed ones if rules for these are given.
pub(crate) fn counted<'c, 'a>(
    calls: &'c [ToolCall<'a>],
    exclude_failed: Option<&FailureRules>,
    effort: &WorkBudget,
) -> Vec<&'c ToolCall<'a>> {
    let failed = |call: &ToolCall<'_>| exclude_failed.and_then(|rules| rules.failed(call, effort));
    let counts = |call: &&ToolCall<'_>| failed(call) != Some(true);
    calls.iter().filter(counts).collect()
}

/// Sorts the calls of each group by arguments and, if requested, by results, for modes in which the
/// first of several equal matches counts.
pub fn list_by_content(calls: &mut [&ToolCall<'_>], results: bool) {
    let content = |value: &Value<'_>| value.in_key_order().to_string();
    let key = |call: &&ToolCall<'_>| {
        let result = call.result.value().filter(|_| results).map(content);
        (call.name.to_string(), content(arguments_of(call)), result)
    };
    for group in calls.chunk_by_mut(|one, next| one.is_with(next)) {
        if group.len() > 1 {
            group.sort_by_cached_key(key);
        }
    }
}

/// Error for a comparison beyond the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// Matching of the calls.
    #[error(transparent)]
    Matching(#[from] MatchingTooLarge),
    /// Longest common subsequence.
    #[error(transparent)]
    Lcs(#[from] order::TableTooLarge),
    /// Comparison of arguments.
    #[error("comparing the arguments would take more than {STEPS_MAX} steps")]
    Arguments,
}

/// Rejects a comparison of too many pairs.
pub fn check_questions(expected: usize, actual: usize) -> Result<(), TooLarge> {
    match expected.checked_mul(actual) {
        Some(questions) if questions <= pairing::QUESTIONS_MAX => Ok(()),
        _ => Err(MatchingTooLarge.into()),
    }
}

/// Returns the outcome for a trajectory that is too large.
pub fn too_large(error: TooLarge, want: Want) -> Outcome {
    report::not_evaluable(Reason::TrajectoryTooLarge, want, || error.to_string())
}

/// Comparison of one trajectory's calls with the expected ones.
pub struct Comparison<'c, 'a> {
    matcher: &'c CallMatcher,
    /// Expected calls in order.
    pub expected: &'c [ExpectedCall],
    /// Actual calls in order.
    pub actual: &'c [&'c ToolCall<'a>],
    /// Ranges of the groups of actual calls, if any are parallel and that matters.
    groups: Option<Vec<Range<usize>>>,
    by: ComparedBy,
    effort: &'c WorkBudget,
}

/// Data computed once for the comparison of many pairs.
enum ComparedBy {
    /// None, as the pairs are few.
    Themselves,
    /// Numbers, equal for equal calls.
    Calls(CallNumbers),
    /// Numbers, equal for equal names, and the number of values in each expected call.
    Names(CallNumbers, Vec<usize>),
}

impl<'c, 'a> Comparison<'c, 'a> {
    /// Prepares the comparison.
    pub fn new(
        matcher: &'c CallMatcher,
        expected: &'c [ExpectedCall],
        actual: &'c [&'c ToolCall<'a>],
        effort: &'c WorkBudget,
    ) -> Self {
        let is_grouped = !matcher.is_listed && order::is_grouped(actual.iter().copied());
        let groups = is_grouped.then(|| order::groups(actual));
        effort.spend((expected.len() + actual.len()) * STEPS_PER_CALL);
        let pairs = expected.len().saturating_mul(actual.len());
        let by = if pairs <= COMPARED_MAX {
            ComparedBy::Themselves
        } else if matcher.is_symmetric() && expected.iter().all(ExpectedCall::is_literal) {
            ComparedBy::Calls(CallNumbers::of_calls(matcher, expected, actual))
        } else {
            let weights = expected.iter().map(weight).collect();
            ComparedBy::Names(CallNumbers::of_names(expected, actual), weights)
        };
        Self { matcher, expected, actual, groups, by, effort }
    }

    /// Returns true if the actual call equals the expected one.
    pub fn same(&self, expected: usize, actual: usize) -> bool {
        let wanted = expected;
        let made = actual;
        let expected = &self.expected[wanted];
        let actual = self.actual[made];
        let has_name = match &self.by {
            ComparedBy::Themselves => expected.name == actual.name,
            ComparedBy::Calls(numbers) => return numbers.are_same(wanted, made),
            ComparedBy::Names(names, weights) => {
                let has_name = names.are_same(wanted, made);
                let is_left = if has_name {
                    self.spend(weights[wanted], actual)
                } else {
                    self.effort.spend(1)
                };
                has_name && is_left
            }
        };
        has_name && (expected.is_name || self.matcher.matches(expected, actual, self.effort))
    }

    /// Returns true if the expected calls contain matchers: calls are then paired optimally.
    pub fn has_rules(&self) -> bool {
        self.expected.iter().any(|call| call.rules.is_some() || call.result_rules.is_some())
    }

    /// Returns true if every expected call is literal; otherwise one actual call may equal several
    /// different ones.
    pub fn is_literal(&self) -> bool {
        !self.has_rules() && self.expected.iter().all(ExpectedCall::is_literal)
    }

    /// Charges one comparison with an actual call; `false` if the budget is spent.
    pub fn spend(&self, weight: usize, actual: &ToolCall<'_>) -> bool {
        let entries = arguments_of(actual).as_map().map_or(0, Map::len);
        self.effort.spend(1 + (weight + entries) / 4)
    }

    /// Charges a search; fails if the budget is spent.
    pub fn work(&self, steps: usize) -> Result<(), TooLarge> {
        if self.effort.spend(steps) { Ok(()) } else { Err(TooLarge::Arguments) }
    }

    /// Returns the work budget of the comparisons.
    pub(crate) fn effort(&self) -> &'c WorkBudget {
        self.effort
    }

    /// Fails if the comparisons spent the budget, which makes their results void.
    pub fn check(&self) -> Result<(), TooLarge> {
        if self.effort.is_spent() { Err(TooLarge::Arguments) } else { Ok(()) }
    }

    /// Returns the number of expected calls paired with distinct actual ones.
    pub fn pairs(&self) -> Result<usize, TooLarge> {
        if let Some(pairs) = self.pairs_by_number() {
            return Ok(pairs);
        }
        let expected = self.expected.len();
        let actual = self.actual.len();
        Ok(pairing::pairs(expected, actual, |e, a| self.same(e, a))?)
    }

    /// Returns the same for numbered calls, for which any pairing is maximal.
    pub fn pairs_by_number(&self) -> Option<usize> {
        self.numbers().map(CallNumbers::shared)
    }

    fn numbers(&self) -> Option<&CallNumbers> {
        match &self.by {
            ComparedBy::Calls(numbers) => Some(numbers),
            ComparedBy::Themselves | ComparedBy::Names(..) => None,
        }
    }

    /// Returns the number of distinct calls: of both sides, of the actual ones, of the expected
    /// ones. Each call is distinct unless matching is symmetric and all calls are literal.
    pub fn distinct(&self) -> Result<(usize, usize, usize), TooLarge> {
        if !self.matcher.is_symmetric() || !self.is_literal() {
            return Ok((self.pairs()?, self.actual.len(), self.expected.len()));
        }
        let computed;
        let CallNumbers { expected, actual } = match self.numbers() {
            Some(numbers) => numbers,
            None => {
                computed = CallNumbers::of_calls(self.matcher, self.expected, self.actual);
                &computed
            }
        };
        let expected: hashbrown::HashSet<u32> = expected.iter().copied().collect();
        let actual: hashbrown::HashSet<u32> = actual.iter().copied().collect();
        Ok((actual.intersection(&expected).count(), actual.len(), expected.len()))
    }

    /// Returns the ranges of the groups of actual calls, if any are parallel and that matters.
    pub fn groups(&self) -> Option<&[Range<usize>]> {
        self.groups.as_deref()
    }

    /// Returns the ranges of the groups, or of single calls if groups do not matter.
    pub fn groups_or_singles(&self) -> Vec<Range<usize>> {
        self.groups.clone().unwrap_or_else(|| order::singles(self.actual.len()))
    }

    /// Returns the expected calls and the groups of actual ones in order.
    fn ordered(&self) -> InOrder<'_, impl FnMut(usize, usize) -> bool + use<'_, 'c, 'a>> {
        InOrder {
            groups: self.groups_or_singles(),
            expected: self.expected.len(),
            questions_max: self.questions_max(),
            effort: self.effort,
            fits: |actual: usize, expected: usize| self.same(expected, actual),
        }
    }

    /// A comparison of arguments costs many times one of numbers.
    fn questions_max(&self) -> usize {
        if self.numbers().is_some() { order::CELLS_MAX } else { pairing::QUESTIONS_MAX }
    }

    /// Returns the length of the longest common subsequence.
    pub fn in_order(&self) -> Result<usize, TooLarge> {
        Ok(self.ordered().length()?)
    }

    /// Returns true if the actual calls are exactly the expected ones.
    pub fn is_exact(&self) -> Result<bool, TooLarge> {
        Ok(self.actual.len() == self.expected.len() && self.ordered().exact()?)
    }

    /// Counts the expected calls equal to any actual one, and the actual ones equal to any expected
    /// one; each may match several.
    pub fn members(&self) -> Result<(usize, usize), TooLarge> {
        let e = self.expected.len();
        let a = self.actual.len();
        if let Some(CallNumbers { expected, actual }) = self.numbers() {
            return Ok((
                CallNumbers::members(expected, actual),
                CallNumbers::members(actual, expected),
            ));
        }
        check_questions(e, a)?;
        let expected = (0..e).filter(|&e| (0..a).any(|a| self.same(e, a))).count();
        let actual = (0..a).filter(|&a| (0..e).any(|e| self.same(e, a))).count();
        Ok((expected, actual))
    }

    /// Returns true if the expected calls are a subsequence of the actual ones.
    pub fn is_subsequence(&self) -> Result<bool, TooLarge> {
        Ok(self.ordered().whole()?)
    }
}

#[cfg(test)]
mod tests;
