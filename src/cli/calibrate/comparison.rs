//! Comparison of two candidates on the same labelled runs.

use serde_json::json;

use super::result::ComparedRun;
use crate::cli::{CommandError, output};
use spanscore_base::statistics::MeanDifference;
use spanscore_base::statistics::agreement::{Agreement, RatedPair, agreement};
use spanscore_base::visible;

/// Difference of a candidate to the first.
pub(super) struct CandidateComparison {
    first: String,
    name: String,
    runs: usize,
    /// Difference of accuracy, run by run.
    accuracy: MeanDifference,
    /// Agreement of the two with each other.
    mutual: Option<Agreement>,
}

impl CandidateComparison {
    /// Compares a candidate with the first, on the runs that both answered.
    pub(super) fn of(
        (first, of_first): (&str, &[ComparedRun<'_>]),
        (name, of_other): (&str, &[ComparedRun<'_>]),
    ) -> Self {
        let mut differences = Vec::new();
        let mut mutual: Vec<RatedPair> = Vec::new();
        for old in of_first {
            let new = of_other.iter().find(|new| new.line == old.line);
            let Some(new) = new.filter(|new| new.pairs.len() == old.pairs.len()) else { continue };
            if let (Some(before), Some(after)) = (agreement(old.pairs.iter()), new.agreement()) {
                differences.push(after.accuracy - before.accuracy);
            }
            mutual.extend(old.pairs.iter().zip(&new.pairs).map(|(old, new)| (old.1, new.1)));
        }
        Self {
            first: first.to_owned(),
            name: name.to_owned(),
            runs: differences.len(),
            accuracy: MeanDifference::paired(&differences),
            mutual: agreement(mutual.iter()),
        }
    }

    pub(super) fn print(&self) -> Result<(), CommandError> {
        let Self { first, name, runs, accuracy, mutual } = self;
        let interval = accuracy.interval;
        let interval = interval.map_or_else(
            || "no interval of so few runs".to_owned(),
            |(low, high)| format!("95% {low:+.3} to {high:+.3}"),
        );
        output::line(format_args!(
            "\n{} against {}: accuracy {:+.3} ({interval}) over {runs} runs, {}",
            visible::line(name),
            visible::line(first),
            accuracy.mean,
            accuracy.evidence().as_str(),
        ))?;
        let Some(mutual) = mutual else { return Ok(()) };
        let kappa = mutual.kappa.map_or_else(|| "-".to_owned(), |kappa| format!("{kappa:.3}"));
        output::line(format_args!(
            "the share of equal answers is {:.3} of {}, kappa {kappa}",
            mutual.accuracy, mutual.count
        ))
    }

    pub(super) fn record(&self) -> serde_json::Value {
        json!({
            "with": self.first,
            "runs": self.runs,
            "accuracy_difference": self.accuracy.mean,
            "accuracy_difference_interval": self.accuracy.interval.map(|(low, high)| [low, high]),
            "evidence": self.accuracy.evidence().as_str(),
            "same_answers": self.mutual.map(|it| it.accuracy),
            "mutual_kappa": self.mutual.and_then(|it| it.kappa),
        })
    }
}
