//! Steps of a trajectory: single calls or groups of parallel calls.

use std::ops::Range;

use crate::shared::arguments::ArgumentMatcher;
use crate::shared::expected_calls::{self, CallMatcher, arguments_of};
use crate::shared::failure::FailureRules;
use crate::shared::order;
use spanscore_base::model::{ToolCall, WorkBudget};
use spanscore_base::value::Value;

/// Results without progress, and their number.
const FAILED: &str = "failed";
const NOT_RECORDED: &str = "not recorded";
const STILL: usize = 2;

/// Calls of a trajectory as steps.
pub(super) struct Steps<'c, 'a> {
    pub(super) calls: &'c [ToolCall<'a>],
    /// Range of calls of each step; empty if each call is a step.
    ranges: Vec<Range<usize>>,
    /// Numbers of the calls of each step, ascending: equal numbers for equal calls. Empty if the
    /// matcher is not symmetric.
    pub(super) numbers: Vec<Vec<u32>>,
    /// Numbers of the calls' results: equal numbers for equal results. Empty if results do not
    /// count.
    results: Vec<u32>,
    pub(super) effort: &'c WorkBudget,
}

impl<'c, 'a> Steps<'c, 'a> {
    pub(super) fn new(
        calls: &'c [ToolCall<'a>],
        matcher: &ArgumentMatcher,
        effort: &'c WorkBudget,
    ) -> Self {
        let mut steps =
            Self { calls, ranges: Vec::new(), numbers: Vec::new(), results: Vec::new(), effort };
        if !order::is_grouped(calls) {
            return steps;
        }
        steps.ranges = order::groups(&calls.iter().collect::<Vec<_>>());
        if matcher.is_symmetric() {
            let matcher = CallMatcher { default: matcher.clone(), ..CallMatcher::default() };
            let named = calls.iter().map(|call| (&*call.name, arguments_of(call)));
            let numbers = expected_calls::number(&matcher, named);
            let sorted = |range: &Range<usize>| {
                let mut numbers = numbers[range.clone()].to_vec();
                numbers.sort_unstable();
                numbers
            };
            steps.numbers = steps.ranges.iter().map(sorted).collect();
        }
        steps
    }

    pub(super) fn len(&self) -> usize {
        if self.ranges.is_empty() { self.calls.len() } else { self.ranges.len() }
    }

    pub(super) fn range(&self, step: usize) -> Range<usize> {
        self.ranges.get(step).cloned().unwrap_or(step..step + 1)
    }

    pub(super) fn get(&self, step: usize) -> &'c [ToolCall<'a>] {
        &self.calls[self.range(step)]
    }

    /// Returns true if two steps call the same tools.
    pub(super) fn is_alike(&self, one: usize, other: usize) -> bool {
        let names = |step: usize| {
            let mut names: Vec<&str> = self.get(step).iter().map(|call| &*call.name).collect();
            names.sort_unstable();
            names
        };
        match (self.get(one), self.get(other)) {
            ([one], [other]) => one.name == other.name,
            (group, others) => group.len() == others.len() && names(one) == names(other),
        }
    }

    /// Reads the results, so that equal steps need equal results. All failed calls share one
    /// result, and so do all without a recorded one.
    pub(super) fn read_results(&mut self, failures: &FailureRules) {
        let nothing = &Value::Null;
        let effort = self.effort;
        let result = |call: &'c ToolCall<'a>| match call.result.value() {
            _ if failures.failed(call, effort) == Some(true) => (FAILED, nothing),
            None => (NOT_RECORDED, nothing),
            Some(result) => {
                effort.spend(result.node_count() + result.as_str().map_or(0, str::len) / 8);
                ("", result)
            }
        };
        // The two results without progress have the first numbers.
        let still = [(FAILED, nothing), (NOT_RECORDED, nothing)].into_iter();
        let all = still.chain(self.calls.iter().map(result));
        self.results = expected_calls::number(&CallMatcher::default(), all).split_off(STILL);
    }

    /// Returns true if two steps with the same calls have the same results.
    pub(super) fn has_same_results(&self, one: usize, other: usize) -> bool {
        let results = |step: usize| {
            let mut numbers = self.results[self.range(step)].to_vec();
            numbers.sort_unstable();
            numbers
        };
        self.results.is_empty() || results(one) == results(other)
    }

    /// Returns true if the results of a step are recorded and successful: those may change next
    /// time.
    pub(super) fn may_progress(&self, step: usize) -> bool {
        let mut results = self.results.get(self.range(step)).unwrap_or_default().iter();
        !self.results.is_empty() && results.all(|number| *number as usize >= STILL)
    }
}
