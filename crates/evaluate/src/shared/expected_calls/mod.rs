//! Expected calls, and how actual ones relate to them.
//!
//! Two calls are the same when their names are equal and the matcher of that tool says that the
//! arguments match, with the expected call on the expected side. What the calls return is not
//! looked at. Where "matches" can be hashed, calls are numbered first, so that comparing two of
//! them costs nothing.

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

/// Up to this many pairs, calls are compared as they are; beyond, they are numbered first.
const COMPARED_MAX: usize = 256;

/// Steps of each call of either side: to number it and to look its name up.
const STEPS_PER_CALL: usize = 96;

/// Entries of arguments that are compared one-sidedly; a call with more is not evaluable. Every
/// other comparison costs no more than the expected side is large.
const ENTRIES_MAX: usize = 1000;

/// Matchers of arguments by tool.
#[derive(Clone, Debug, Default)]
pub struct CallMatcher {
    /// For every tool without one of its own.
    pub default: ArgumentMatcher,
    /// By tool name.
    pub by_name: BTreeMap<String, ArgumentMatcher>,
    /// True if arguments that are not recorded count as none.
    pub absent_is_empty: bool,
    /// True if calls that were made together are taken in the order in which they are listed.
    pub is_listed: bool,
}

static NO_ARGUMENTS: Value<'static> = Value::Null;

impl CallMatcher {
    /// The matcher of a tool.
    pub fn of(&self, name: &str) -> &ArgumentMatcher {
        if self.by_name.is_empty() {
            &self.default
        } else {
            self.by_name.get(name).unwrap_or(&self.default)
        }
    }

    /// Returns true if any matcher looks at arguments.
    pub fn reads_arguments(&self) -> bool {
        self.default.reads_arguments() || self.by_name.values().any(|m| m.reads_arguments())
    }

    /// Returns true if the arguments of a call are those of an expected call of its tool.
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

    /// The answer where the arguments of a call that matters are not recorded or too many.
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
        // Who sends the calls may send what is expected too, and as many.
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

/// The arguments of a call; `Null` where they are not recorded.
pub fn arguments_of<'c, 'a>(call: &'c ToolCall<'a>) -> &'c Value<'a> {
    call.arguments.value().unwrap_or(&NO_ARGUMENTS)
}

/// The calls of a trajectory, without those that failed by the rules, where these are given.
pub(crate) fn counted<'c, 'a>(
    calls: &'c [ToolCall<'a>],
    exclude_failed: Option<&FailureRules>,
    effort: &WorkBudget,
) -> Vec<&'c ToolCall<'a>> {
    let failed = |call: &ToolCall<'_>| exclude_failed.and_then(|rules| rules.failed(call, effort));
    let counts = |call: &&ToolCall<'_>| failed(call) != Some(true);
    calls.iter().filter(counts).collect()
}

/// Lists the calls of each group by what they were given and, where it is asked for, by what they
/// returned: for modes in which the first of several that fit equally well counts.
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

/// The comparison would cost more than a trajectory may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// Pairing the calls.
    #[error(transparent)]
    MatchContext(#[from] MatchingTooLarge),
    /// Finding what is common in order.
    #[error(transparent)]
    Lcs(#[from] order::TableTooLarge),
    /// Comparing arguments.
    #[error("comparing the arguments would take more than {STEPS_MAX} steps")]
    Arguments,
}

/// Refuses to compare each of so many calls with each of so many others.
pub fn check_questions(expected: usize, actual: usize) -> Result<(), TooLarge> {
    match expected.checked_mul(actual) {
        Some(questions) if questions <= pairing::QUESTIONS_MAX => Ok(()),
        _ => Err(MatchingTooLarge.into()),
    }
}

/// The answer to a trajectory that is too large.
pub fn too_large(error: TooLarge, want: Want) -> Outcome {
    report::not_evaluable(Reason::TrajectoryTooLarge, want, || error.to_string())
}

/// Comparison of the actual calls of one trajectory with the expected ones.
pub struct Comparison<'c, 'a> {
    matcher: &'c CallMatcher,
    /// The expected calls, in order.
    pub expected: &'c [ExpectedCall],
    /// The actual calls, in order.
    pub actual: &'c [&'c ToolCall<'a>],
    /// Ranges of the groups among the actual calls, if any were made together and that matters.
    groups: Option<Vec<Range<usize>>>,
    by: ComparedBy,
    effort: &'c WorkBudget,
}

/// Facts found once for the comparison of many pairs.
enum ComparedBy {
    /// Nothing: the pairs are few.
    Themselves,
    /// Numbers of equal calls.
    Calls(CallNumbers),
    /// Numbers of equal names, and the number of values in each expected call.
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

    /// Returns true if the actual call is the expected one.
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

    /// Returns true if matchers stand in the expected calls: then calls pair as best they can.
    pub fn has_rules(&self) -> bool {
        self.expected.iter().any(|call| call.rules.is_some() || call.result_rules.is_some())
    }

    /// Returns true if every expected call says what it expects literally; otherwise one actual
    /// call may be what several unlike ones expect.
    pub fn is_literal(&self) -> bool {
        !self.has_rules() && self.expected.iter().all(ExpectedCall::is_literal)
    }

    /// Takes the steps of one comparison with an actual call; `false` where there are none left.
    pub fn spend(&self, weight: usize, actual: &ToolCall<'_>) -> bool {
        let entries = arguments_of(actual).as_map().map_or(0, Map::len);
        self.effort.spend(1 + (weight + entries) / 4)
    }

    /// Takes the steps of a search; fails where there are none left.
    pub fn work(&self, steps: usize) -> Result<(), TooLarge> {
        if self.effort.spend(steps) { Ok(()) } else { Err(TooLarge::Arguments) }
    }

    /// Returns the work budget of the comparisons.
    pub(crate) fn effort(&self) -> &'c WorkBudget {
        self.effort
    }

    /// Fails where the comparisons took more steps than there are: their answers are then void.
    pub fn check(&self) -> Result<(), TooLarge> {
        if self.effort.is_spent() { Err(TooLarge::Arguments) } else { Ok(()) }
    }

    /// Returns the number of expected calls that pair with distinct actual ones.
    pub fn pairs(&self) -> Result<usize, TooLarge> {
        if let Some(pairs) = self.pairs_by_number() {
            return Ok(pairs);
        }
        let expected = self.expected.len();
        let actual = self.actual.len();
        Ok(pairing::pairs(expected, actual, |e, a| self.same(e, a))?)
    }

    /// The same where the calls are numbered: then every way of pairing them is the best.
    pub fn pairs_by_number(&self) -> Option<usize> {
        self.numbers().map(CallNumbers::shared)
    }

    fn numbers(&self) -> Option<&CallNumbers> {
        match &self.by {
            ComparedBy::Calls(numbers) => Some(numbers),
            ComparedBy::Themselves | ComparedBy::Names(..) => None,
        }
    }

    /// Distinct calls: those of both sides, those of the actual ones, those of the expected ones.
    /// Only where "matches" is symmetric and all is literal; otherwise each call is distinct.
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

    /// Ranges of the groups among the actual calls, if any were made together and that matters.
    pub fn groups(&self) -> Option<&[Range<usize>]> {
        self.groups.as_deref()
    }

    /// Returns the groups as ranges of the actual calls; each call by itself where there are none
    /// that matter.
    pub fn groups_or_singles(&self) -> Vec<Range<usize>> {
        self.groups.clone().unwrap_or_else(|| order::singles(self.actual.len()))
    }

    /// Returns the expected calls and the groups of the actual ones in order.
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

    /// Length of the longest common subsequence.
    pub fn in_order(&self) -> Result<usize, TooLarge> {
        Ok(self.ordered().length()?)
    }

    /// Returns true if the actual calls are the expected ones, one by one.
    pub fn is_exact(&self) -> Result<bool, TooLarge> {
        Ok(self.actual.len() == self.expected.len() && self.ordered().exact()?)
    }

    /// Counts the expected calls that equal some actual one, and the actual ones that equal some
    /// expected one; each may serve many.
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

    /// Returns true if the expected calls stand among the actual ones in their order.
    pub fn is_subsequence(&self) -> Result<bool, TooLarge> {
        Ok(self.ordered().whole()?)
    }
}

#[cfg(test)]
mod tests;
