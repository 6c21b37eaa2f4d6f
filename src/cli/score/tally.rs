//! Counts of evaluations, over all and by evaluator.
//!
//! Evaluations arrive in the order in which threads finish, so nothing here depends on it.

use std::collections::BTreeMap;

use super::classes::ClassCounts;
use spanscore_base::model::{Evaluation, GivenVerdict};
use spanscore_evaluate::engine::run::Configured;

/// Units of a score in sums: a sum of integers does not depend on the order, unlike one of floats.
const PARTS: f64 = (1_u64 << 60) as f64;

/// Counted part of an evaluation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tallied {
    pub(super) verdict: GivenVerdict,
    pub(super) score: Option<f64>,
    /// True if its trace certainly has gaps.
    pub(super) is_partial: bool,
    /// Duration of the run.
    pub(super) duration_ns: u64,
}

impl Tallied {
    pub(super) fn of(evaluation: &Evaluation) -> Self {
        let score = evaluation.outcome.score().map(|score| score.value);
        let score = score.filter(|value| value.is_finite());
        let target = &evaluation.target;
        let duration_ns = target.ended_ns.saturating_sub(target.started_ns);
        Self { verdict: evaluation.verdict(), score, is_partial: target.is_partial, duration_ns }
    }
}

/// Counts of evaluations by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OutcomeTally {
    pub(super) pass: usize,
    pub(super) fail: usize,
    pub(super) not_evaluable: usize,
    pub(super) failed: usize,
    /// Evaluations of any outcome whose trace certainly has gaps.
    pub(super) partial: usize,
    /// Sum of the scores, in [`PARTS`].
    sum: i128,
    duration_ns: u128,
}

impl OutcomeTally {
    fn add(&mut self, one: Tallied) {
        self.partial += usize::from(one.is_partial);
        match one.verdict {
            GivenVerdict::NotEvaluable => self.not_evaluable += 1,
            GivenVerdict::Failed => self.failed += 1,
            GivenVerdict::Pass => self.pass += 1,
            GivenVerdict::Fail => self.fail += 1,
        }
        let parts = (one.score.unwrap_or_default() * PARTS).round() as i128;
        self.sum = self.sum.saturating_add(parts);
        self.duration_ns += u128::from(one.duration_ns);
    }

    fn merge(&mut self, other: Self) {
        self.pass += other.pass;
        self.fail += other.fail;
        self.not_evaluable += other.not_evaluable;
        self.failed += other.failed;
        self.partial += other.partial;
        self.sum = self.sum.saturating_add(other.sum);
        self.duration_ns += other.duration_ns;
    }

    /// Returns the total duration of the judged runs, seconds.
    pub(super) fn seconds(self) -> f64 {
        self.duration_ns as f64 / 1e9
    }

    pub(super) fn count(self) -> usize {
        self.scored() + self.not_evaluable + self.failed
    }

    pub(super) fn scored(self) -> usize {
        self.pass + self.fail
    }

    /// Returns true if there is a score or a failure.
    pub(super) fn is_answered(self) -> bool {
        self.scored() + self.failed > 0
    }

    /// Returns the mean score, if any.
    pub(super) fn mean(self) -> Option<f64> {
        (self.scored() > 0).then(|| self.sum as f64 / PARTS / self.scored() as f64)
    }

    /// Returns the share of passes among scored and failed evaluations, if any.
    pub(super) fn pass_rate(self) -> Option<f64> {
        let all = self.scored() + self.failed;
        (all > 0).then(|| self.pass as f64 / all as f64)
    }

    pub(super) fn sentence(self) -> String {
        if self.count() == 0 {
            return "nothing was judged: no trace that any evaluator sees".to_owned();
        }
        let plural = if self.count() == 1 { "" } else { "s" };
        let partial = match self.partial {
            0 => String::new(),
            count => format!("; {count} of traces that lack something"),
        };
        format!(
            "{} evaluation{plural}: {} pass, {} fail, {} not evaluable, {} failed{partial}",
            self.count(),
            self.pass,
            self.fail,
            self.not_evaluable,
            self.failed
        )
    }
}

/// Counts over all evaluations, and by evaluator in the order of the config.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    pub(super) all: OutcomeTally,
    pub(super) by_evaluator: Vec<(String, OutcomeTally)>,
    /// Classes of the runs, by classifying evaluator.
    pub(super) classes: BTreeMap<String, ClassCounts>,
}

impl Tallies {
    /// Returns empty counts for these evaluators.
    pub(super) fn new(evaluators: &[Configured]) -> Self {
        let mut empty = Self::default();
        for configured in evaluators {
            let name = &configured.info.name;
            empty.by_evaluator.push((name.clone(), OutcomeTally::default()));
            let classes = configured.classes().map(ClassCounts::new);
            empty.classes.extend(classes.map(|classes| (name.clone(), classes)));
        }
        empty
    }

    /// Counts an evaluation.
    pub(super) fn add_evaluation(&mut self, evaluation: &Evaluation) {
        let name = &evaluation.evaluator.name;
        self.add(name, Tallied::of(evaluation));
        if let Some(classes) = self.classes.get_mut(name) {
            classes.add(evaluation);
        }
    }

    pub(super) fn add(&mut self, evaluator: &str, one: Tallied) {
        let mut tally = OutcomeTally::default();
        tally.add(one);
        self.merge_one(evaluator, tally);
    }

    /// Returns the counts of one evaluator.
    pub(super) fn of(&self, evaluator: &str) -> Option<OutcomeTally> {
        self.by_evaluator.iter().find(|(name, _)| name == evaluator).map(|(_, tally)| *tally)
    }

    /// Adds the counts of another thread.
    pub(super) fn merge(&mut self, other: &Self) {
        other.by_evaluator.iter().for_each(|(name, tally)| self.merge_one(name, *tally));
        for (name, classes) in &other.classes {
            if let Some(own) = self.classes.get_mut(name) {
                own.merge(classes);
            }
        }
    }

    fn merge_one(&mut self, evaluator: &str, own: OutcomeTally) {
        self.all.merge(own);
        match self.by_evaluator.iter_mut().find(|(name, _)| name == evaluator) {
            Some((_, tally)) => tally.merge(own),
            None => self.by_evaluator.push((evaluator.to_owned(), own)),
        }
    }
}

/// Formats a share as a percentage with one digit, or as `-`.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Formats a mean with three digits, or as `-`.
pub(super) fn mean_text(mean: Option<f64>) -> String {
    mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_scored_counts_neither_in_the_mean_nor_as_a_pass() {
        let one = |verdict, score| Tallied { verdict, score, is_partial: false, duration_ns: 0 };
        let unused = ("unused".to_owned(), OutcomeTally::default());
        let mut tallies = Tallies { by_evaluator: vec![unused], ..Tallies::default() };
        assert_eq!((tallies.all.mean(), tallies.all.pass_rate()), (None, None));
        for one in [
            one(GivenVerdict::Pass, Some(1.0)),
            one(GivenVerdict::Fail, Some(0.5)),
            one(GivenVerdict::NotEvaluable, None),
            one(GivenVerdict::Failed, None),
        ] {
            tallies.add("e", one);
        }
        let (name, tally) = &tallies.by_evaluator[1];
        assert_eq!((name.as_str(), tally.count()), ("e", 4));
        assert_eq!((tally.mean(), tally.pass_rate()), (Some(0.75), Some(1.0 / 3.0)));
        let mut merged = tallies.clone();
        merged.merge(&tallies);
        assert_eq!((merged.all.count(), merged.all.mean()), (8, Some(0.75)));
        assert_eq!(merged.by_evaluator.len(), 2);
    }

    #[test]
    fn a_mean_is_the_same_in_any_order() {
        let scores: Vec<f64> = (1..1000).map(|at| 1.0 / f64::from(at)).collect();
        let mean = |scores: &mut dyn Iterator<Item = &f64>| {
            let mut tally = OutcomeTally::default();
            scores.for_each(|score| {
                let verdict = GivenVerdict::Pass;
                let score = Some(*score);
                tally.add(Tallied { verdict, score, is_partial: false, duration_ns: 0 });
            });
            tally.mean()
        };
        assert_eq!(mean(&mut scores.iter()), mean(&mut scores.iter().rev()));
        let plain = scores.iter().sum::<f64>() / scores.len() as f64;
        assert!(mean(&mut scores.iter()).is_some_and(|mean| (mean - plain).abs() < 1e-15));
    }
}
