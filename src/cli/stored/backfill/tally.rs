//! Counts of a backfill: verdicts before and now, by evaluator.

use std::collections::BTreeMap;

use serde::Serialize;

/// Limit on listed reasons of one evaluator; others are counted as `other`.
const REASONS_MAX: usize = 20;

/// Verdict on a target, as a word.
pub(in crate::cli) type VerdictWord = &'static str;

/// Number of verdicts by word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct BackfillCounts {
    pub(super) pass: u64,
    pub(super) fail: u64,
    pub(super) not_evaluable: u64,
    pub(super) failed: u64,
}

impl BackfillCounts {
    fn add(&mut self, verdict: VerdictWord) {
        match verdict {
            "pass" => self.pass += 1,
            "fail" => self.fail += 1,
            "not_evaluable" => self.not_evaluable += 1,
            _ => self.failed += 1,
        }
    }

    /// Returns the number of passes and fails.
    pub(super) fn judged(&self) -> u64 {
        self.pass + self.fail
    }

    /// Returns the share of passes among passes and fails.
    pub(super) fn pass_rate(&self) -> Option<f64> {
        (self.judged() > 0).then(|| self.pass as f64 / self.judged() as f64)
    }
}

/// Counts of one evaluator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(in crate::cli) struct EvaluatorTally {
    /// Full name of the evaluator.
    pub(super) evaluator: String,
    /// Runs that it judged.
    pub(in crate::cli) runs: u64,
    /// Runs excluded by `when` or `sample`.
    pub(super) unselected: u64,
    /// Stored verdicts on the targets that it judged.
    pub(super) before: BackfillCounts,
    /// Its verdicts.
    pub(super) now: BackfillCounts,
    /// Targets that passed, and now fail.
    pub(super) newly_failing: u64,
    /// Targets that failed, and now pass.
    pub(super) newly_passing: u64,
    /// Targets whose verdict changes in another way.
    pub(super) otherwise_changed: u64,
    /// Targets without a stored verdict.
    pub(super) without_earlier: u64,
    /// Runs that it cannot judge, by reason.
    pub(super) not_judged: BTreeMap<String, u64>,
}

impl EvaluatorTally {
    pub(in crate::cli) fn new(evaluator: &str) -> Self {
        Self { evaluator: evaluator.to_owned(), ..Self::default() }
    }

    /// Counts a verdict; returns true if it is to be reported, as a change or a new fail.
    pub(super) fn add(&mut self, before: Option<VerdictWord>, now: VerdictWord) -> bool {
        self.now.add(now);
        let Some(before) = before else {
            self.without_earlier += 1;
            return now == "fail";
        };
        self.before.add(before);
        match (before, now) {
            ("pass", "fail") => self.newly_failing += 1,
            ("fail", "pass") => self.newly_passing += 1,
            _ => self.otherwise_changed += u64::from(before != now),
        }
        before != now
    }

    /// Counts runs that it cannot judge.
    pub(in crate::cli) fn add_not_judged(&mut self, reason: &str, runs: u64) {
        let is_known = self.not_judged.contains_key(reason);
        let is_full = !is_known && self.not_judged.len() >= REASONS_MAX;
        let reason = if is_full { "other" } else { reason };
        *self.not_judged.entry(reason.to_owned()).or_default() += runs;
    }

    /// Returns the number of runs that it cannot judge.
    pub(super) fn not_judged_runs(&self) -> u64 {
        self.not_judged.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_counted_by_what_becomes_of_them() {
        let mut tally = EvaluatorTally::new("tool_error");
        let mut check = |before: Option<VerdictWord>, now, is_told: bool| {
            assert_eq!(tally.add(before, now), is_told, "{before:?} {now}");
        };
        check(Some("pass"), "pass", false);
        check(Some("pass"), "fail", true);
        check(Some("fail"), "pass", true);
        check(Some("fail"), "not_evaluable", true);
        check(None, "pass", false);
        check(None, "fail", true);
        let counts = (tally.newly_failing, tally.newly_passing, tally.otherwise_changed);
        assert_eq!((counts, tally.without_earlier), ((1, 1, 1), 2));
        assert_eq!((tally.before.pass, tally.before.fail), (2, 2));
        assert_eq!(tally.now.pass_rate(), Some(0.6));
        (0..30).for_each(|it| tally.add_not_judged(&it.to_string(), 2));
        assert_eq!((tally.not_judged.len(), tally.not_judged_runs()), (REASONS_MAX + 1, 60));
    }
}
