//! Counts of evaluations, all together and by evaluator.

use super::rows::{RowVerdict, ScoreRow};

/// How many evaluations came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OutcomeTally {
    pub(super) pass: usize,
    pub(super) fail: usize,
    pub(super) not_evaluable: usize,
    pub(super) failed: usize,
    /// Of all, those of traces that certainly lacked something.
    pub(super) partial: usize,
    /// Sum of the scores.
    pub(super) sum: f64,
}

impl OutcomeTally {
    pub(super) fn add(&mut self, row: &ScoreRow) {
        self.partial += usize::from(row.partial);
        match row.verdict() {
            RowVerdict::NotEvaluable => self.not_evaluable += 1,
            RowVerdict::Failed => self.failed += 1,
            RowVerdict::Pass => self.pass += 1,
            RowVerdict::Fail => self.fail += 1,
        }
        self.sum += row.score.unwrap_or_default();
    }

    pub(super) fn count(self) -> usize {
        self.scored() + self.not_evaluable + self.failed
    }

    pub(super) fn scored(self) -> usize {
        self.pass + self.fail
    }

    /// Mean of the scores, where there is any.
    pub(super) fn mean(self) -> Option<f64> {
        (self.scored() > 0).then(|| self.sum / self.scored() as f64)
    }

    /// Passes among all that was scored or broke, where there is any.
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

/// Counts of all evaluations, and by evaluator in the order of the config.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    pub(super) all: OutcomeTally,
    pub(super) by_evaluator: Vec<(String, OutcomeTally)>,
}

impl Tallies {
    /// Starts with evaluators that have said nothing yet.
    pub(super) fn new(names: impl Iterator<Item = String>) -> Self {
        let by_evaluator = names.map(|name| (name, OutcomeTally::default())).collect();
        Self { all: OutcomeTally::default(), by_evaluator }
    }

    pub(super) fn add(&mut self, row: &ScoreRow) {
        self.all.add(row);
        match self.by_evaluator.iter_mut().find(|(name, _)| *name == row.evaluator) {
            Some((_, tally)) => tally.add(row),
            None => {
                let mut tally = OutcomeTally::default();
                tally.add(row);
                self.by_evaluator.push((row.evaluator.clone(), tally));
            }
        }
    }
}

/// A share as a percentage with one digit, or `-`.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// A mean with three digits, or `-`.
pub(super) fn mean_text(mean: Option<f64>) -> String {
    mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_scored_counts_neither_in_the_mean_nor_as_a_pass() {
        let row = |outcome: &str, score: Option<f64>, label: Option<&str>| ScoreRow {
            evaluator: "e".to_owned(),
            outcome: outcome.to_owned(),
            score,
            label: label.map(str::to_owned),
            ..ScoreRow::default()
        };
        let mut tallies = Tallies::new(["unused".to_owned()].into_iter());
        assert_eq!((tallies.all.mean(), tallies.all.pass_rate()), (None, None));
        for row in [
            row("scored", Some(1.0), Some("pass")),
            row("scored", Some(0.5), Some("fail")),
            row("not_evaluable", None, None),
            row("failed", None, None),
        ] {
            tallies.add(&row);
        }
        let (name, tally) = &tallies.by_evaluator[1];
        assert_eq!((name.as_str(), tally.count()), ("e", 4));
        assert_eq!((tally.mean(), tally.pass_rate()), (Some(0.75), Some(1.0 / 3.0)));
    }
}
