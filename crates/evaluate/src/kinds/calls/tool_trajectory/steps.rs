//! Expected steps: groups of calls in one message of the model, in order. A step is compared with a
//! group of actual calls as a whole.

use std::ops::Range;

use super::{Matched, ToolTrajectory, TrajectoryMatchMode};
use crate::shared::expected_calls::{self, CallMatcher, ExpectedCall, TooLarge};
use crate::shared::order::{self, InOrder};
use crate::shared::pairing;
use crate::shared::report;
use spanscore_base::model::{Explanation, Outcome, ToolCall, Want, WorkBudget};
use spanscore_base::value::{Map, Value};

/// Expected steps and the groups of actual calls.
struct ExpectedSteps<'c, 'a> {
    matcher: &'c CallMatcher,
    expected: &'c [Vec<ExpectedCall>],
    actual: &'c [&'c ToolCall<'a>],
    groups: Vec<Range<usize>>,
    effort: &'c WorkBudget,
}

impl ExpectedSteps<'_, '_> {
    /// Returns true if a group has the calls of a step, in any order.
    fn same(&self, step: usize, group: usize) -> bool {
        let wanted = &self.expected[step];
        let made = &self.actual[self.groups[group].clone()];
        let weights: usize = wanted.iter().map(expected_calls::weight).sum();
        let cost = 1 + weights.saturating_mul(made.len());
        if wanted.len() != made.len() || !self.effort.spend(cost) {
            return false;
        }
        let fits = |e: usize, a: usize| {
            let wanted = &wanted[e];
            wanted.name == made[a].name
                && (wanted.is_name || self.matcher.matches(wanted, made[a], self.effort))
        };
        pairing::pairs(wanted.len(), made.len(), fits) == Ok(wanted.len())
    }

    fn matched(&self, mode: TrajectoryMatchMode) -> Result<Matched, TooLarge> {
        use TrajectoryMatchMode::{InOrder as Common, InOrderF1, InOrderMatch, Strict};
        let e = self.expected.len();
        let a = self.groups.len();
        let ordered = InOrder {
            groups: order::singles(a),
            expected: e,
            questions_max: pairing::QUESTIONS_MAX,
            effort: self.effort,
            fits: |group: usize, step: usize| self.same(step, group),
        };
        let all_or_none = |all: bool| if all { e } else { 0 };
        let count = match mode {
            Strict => all_or_none(a == e && ordered.exact()?),
            Common | InOrderF1 => ordered.length()?,
            InOrderMatch => all_or_none(ordered.whole()?),
            _ => pairing::pairs(e, a, |step, group| self.same(step, group))?,
        };
        if self.effort.is_spent() { Err(TooLarge::Arguments) } else { Ok(Matched::both(count)) }
    }
}

impl ToolTrajectory {
    /// Judges a trajectory against expected steps.
    pub(super) fn judge_steps(
        &self,
        expected: &[Vec<ExpectedCall>],
        calls: &[ToolCall<'_>],
        effort: &WorkBudget,
        want: Want,
    ) -> Outcome {
        let actual = expected_calls::counted(calls, self.exclude_failed.as_ref(), effort);
        for step in expected {
            if let Some(obstacle) = self.matcher.obstacle(step, &actual, want) {
                return obstacle;
            }
        }
        let groups = order::groups(&actual);
        let steps =
            ExpectedSteps { matcher: &self.matcher, expected, actual: &actual, groups, effort };
        let matched = match steps.matched(self.mode) {
            Ok(matched) => matched,
            Err(error) => return expected_calls::too_large(error, want),
        };
        let a = steps.groups.len();
        let e = expected.len();
        let explain = || {
            let met = matched.expected;
            Explanation::plain(format!(
                "{met} of {e} expected steps made, each with its calls together, among {a} actual"
            ))
        };
        let details = || -> Map<'static> {
            let made = steps.groups.iter().map(|group| {
                report::name_list(actual[group.clone()].iter().map(|call| &*call.name))
            });
            let wanted = expected.iter();
            let wanted = wanted.map(|step| report::name_list(step.iter().map(|call| &*call.name)));
            Map::from([
                ("matched_count", Value::from(matched.expected)),
                ("actual_steps", Value::List(made.collect())),
                ("expected_steps", Value::List(wanted.collect())),
            ])
        };
        report::scored(self.score(&matched, a, e), want, explain, details)
    }
}
