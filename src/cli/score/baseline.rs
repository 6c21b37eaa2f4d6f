//! Comparison of a run's scores with those of an earlier run.
//!
//! Scores are paired by evaluator and case; a trace's case holds for all its evaluators, whichever
//! dataset names it. Without a case they are paired by trace, as for the same recording judged
//! again. Unpaired scores are omitted and counted. Without any pair, the runs are compared as
//! samples.

use std::collections::BTreeMap;

use super::repeats::{CaseRuns, RepeatedRuns};
use super::rows::ScoreRow;
use spanscore_base::model::GivenVerdict;
use spanscore_base::statistics::{MeanDifference, PAIRS_MIN, ScoreEvidence};
use spanscore_base::value::Value;

/// Limit on subjects named one by one.
pub(super) const NAMED_MAX: usize = 10;

/// Scores of one evaluator on one subject, a case or a trace.
#[derive(Clone, Debug, Default)]
struct SubjectScores {
    scores: Vec<f64>,
    passed: usize,
    failed: usize,
    /// Runs of a case.
    runs: CaseRuns,
}

impl SubjectScores {
    fn add(&mut self, row: &ScoreRow) {
        self.scores.extend(row.score);
        match row.verdict() {
            GivenVerdict::Pass => self.passed += 1,
            GivenVerdict::Fail | GivenVerdict::Failed => self.failed += 1,
            GivenVerdict::NotEvaluable => {}
        }
    }

    fn mean(&self) -> Option<f64> {
        let count = self.scores.len();
        (count > 0).then(|| self.scores.iter().sum::<f64>() / count as f64)
    }
}

/// Scores of one run, by evaluator and subject.
#[derive(Clone, Debug, Default)]
pub(super) struct RunScores {
    by_evaluator: BTreeMap<String, BTreeMap<String, SubjectScores>>,
    /// Rows of the current trace, held back since the last one may name the case of all.
    waiting: Vec<ScoreRow>,
}

impl RunScores {
    /// Adds a row; rows of one trace must be adjacent.
    pub(super) fn add(&mut self, row: ScoreRow) {
        if self.waiting.last().is_some_and(|last| last.trace_id != row.trace_id) {
            self.finish();
        }
        // Only scores are compared: explanations and details would fill memory.
        self.waiting.push(ScoreRow { details: Value::Null, words: String::new(), ..row });
    }

    /// Adds the rows held back; called after the last row.
    pub(super) fn finish(&mut self) {
        let case = self.waiting.iter().find_map(|row| row.case.clone());
        let mut runs: BTreeMap<(String, String), bool> = BTreeMap::new();
        for mut row in self.waiting.drain(..) {
            row.case = row.case.or_else(|| case.clone());
            let subjects = self.by_evaluator.entry(row.evaluator.clone()).or_default();
            // Runs of a case count together, as do the calls of one run: their spans are new in
            // each run.
            let subject = row.case.clone().unwrap_or_else(|| row.subject());
            if let Some(case) = &row.case
                && row.verdict() != GivenVerdict::NotEvaluable
            {
                let passed = runs.entry((row.evaluator.clone(), case.clone())).or_insert(true);
                *passed &= row.verdict() == GivenVerdict::Pass;
            }
            subjects.entry(subject).or_default().add(&row);
        }
        for ((evaluator, case), passed) in runs {
            let subjects = self.by_evaluator.entry(evaluator).or_default();
            let CaseRuns { runs, passed: passes } = &mut subjects.entry(case).or_default().runs;
            *runs += 1;
            *passes += usize::from(passed);
        }
    }

    /// Summarises the cases with several runs, by evaluator.
    pub(super) fn repeated(&self) -> Vec<RepeatedRuns> {
        let evaluators = self.by_evaluator.iter();
        evaluators.filter_map(|(name, subjects)| repeated(name, subjects)).collect()
    }
}

/// Comparison of one evaluator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ComparedEvaluator {
    pub(super) name: String,
    /// Mean of the compared scores of the baseline.
    pub(super) old: f64,
    /// Mean of the compared scores of this run.
    pub(super) new: f64,
    pub(super) difference: MeanDifference,
    pub(super) evidence: ScoreEvidence,
    /// Number of pairs; `None` for a comparison as samples.
    pub(super) pairs: Option<usize>,
    /// Subjects with scores in only one run.
    pub(super) unpaired: usize,
    /// Subjects that passed in the baseline and fail in this run.
    pub(super) broken: Vec<String>,
    /// Cases with several runs, in the baseline and in this run.
    pub(super) repeated: Option<(RepeatedRuns, RepeatedRuns)>,
}

impl ComparedEvaluator {
    /// Formats the difference, like `-0.250 (95 %: -0.410 to -0.090)`.
    pub(super) fn change(&self) -> String {
        let mean = self.difference.mean;
        match self.difference.interval {
            Some((low, high)) => format!("{mean:+.3} (95 %: {low:+.3} to {high:+.3})"),
            None => format!("{mean:+.3}"),
        }
    }

    /// Formats the kind of comparison and its counts.
    pub(super) fn basis(&self) -> String {
        let unpaired = match self.unpaired {
            0 => String::new(),
            count => format!(", {count} without a partner"),
        };
        match self.pairs {
            Some(pairs) => format!("{pairs} pairs{unpaired}"),
            None => "unpaired".to_owned(),
        }
    }

    /// Formats the comparison as one line.
    pub(super) fn sentence(&self) -> String {
        let few = match (self.evidence, self.difference.interval) {
            (ScoreEvidence::None, None) => format!(" (fewer than {PAIRS_MIN} scores show nothing)"),
            _ => String::new(),
        };
        let broken = if self.broken.is_empty() {
            String::new()
        } else {
            format!("; passed before and not now: {}", listed(&self.broken))
        };
        let repeated = self.repeated.as_ref().map(|(old, new)| old.change_to(new));
        let repeated = repeated.map(|change| format!("; {change}")).unwrap_or_default();
        format!(
            "{}: {}{few}: {:.3} -> {:.3}, {}, {}{repeated}{broken}",
            self.name,
            self.evidence.as_str(),
            self.old,
            self.new,
            self.change(),
            self.basis(),
        )
    }
}

/// Lists the first few names, then the number of others.
pub(super) fn listed(all: &[String]) -> String {
    named(all.iter().map(|name| format!("`{name}`")), NAMED_MAX)
}

/// Joins the first names, with the number of the others.
pub(super) fn named(all: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let tail = and_more(all.len().saturating_sub(most));
    all.take(most).collect::<Vec<_>>().join(", ") + &tail
}

/// Formats the number of unnamed others.
pub(super) fn and_more(count: usize) -> String {
    if count > 0 { format!(" and {count} more") } else { String::new() }
}

/// Pairs the entries of both.
pub(super) fn both<'a, V>(
    old: &'a BTreeMap<String, V>,
    new: &'a BTreeMap<String, V>,
) -> impl Iterator<Item = (&'a String, &'a V, &'a V)> {
    old.iter().filter_map(|(name, old)| Some((name, old, new.get(name)?)))
}

/// Compares every evaluator with scores in both runs.
pub(super) fn compare(old: &RunScores, new: &RunScores) -> Vec<ComparedEvaluator> {
    let compared = both(&old.by_evaluator, &new.by_evaluator).filter_map(|(name, old, new)| {
        let repeated = repeated(name, old).zip(repeated(name, new));
        Some(ComparedEvaluator { repeated, ..compare_one(name, old, new)? })
    });
    compared.collect()
}

fn repeated(name: &str, subjects: &BTreeMap<String, SubjectScores>) -> Option<RepeatedRuns> {
    let runs = subjects.iter().map(|(case, scores)| (case.as_str(), scores.runs));
    RepeatedRuns::of(name, runs)
}

/// Returns the subjects that passed in every run of the baseline and fail in any of this one, by
/// evaluator.
pub(super) fn newly_failing(old: &RunScores, new: &RunScores) -> Vec<(String, Vec<String>)> {
    let both = both(&old.by_evaluator, &new.by_evaluator);
    let failing = both.map(|(name, old, new)| (name.clone(), broken(old, new)));
    failing.filter(|(_, subjects)| !subjects.is_empty()).collect()
}

fn broken(
    old: &BTreeMap<String, SubjectScores>,
    new: &BTreeMap<String, SubjectScores>,
) -> Vec<String> {
    let broken =
        both(old, new).filter(|(_, old, new)| old.passed > 0 && old.failed == 0 && new.failed > 0);
    broken.map(|(subject, ..)| subject.clone()).collect()
}

fn compare_one(
    name: &str,
    old: &BTreeMap<String, SubjectScores>,
    new: &BTreeMap<String, SubjectScores>,
) -> Option<ComparedEvaluator> {
    let scored = |it: &BTreeMap<String, SubjectScores>| {
        it.values().filter(|it| !it.scores.is_empty()).count()
    };
    let broken = broken(old, new);
    let pairs = both(old, new).filter_map(|(_, old, new)| old.mean().zip(new.mean()));
    let pairs: Vec<_> = pairs.collect();
    if pairs.is_empty() {
        let all = |it: &BTreeMap<String, SubjectScores>| -> Vec<f64> {
            it.values().flat_map(|it| it.scores.iter().copied()).collect()
        };
        return compare_samples(name, &all(old), &all(new), broken);
    }
    let differences: Vec<f64> = pairs.iter().map(|(old, new)| new - old).collect();
    let difference = MeanDifference::paired(&differences);
    let is_same = differences.iter().all(|difference| *difference == 0.0);
    let count = pairs.len() as f64;
    Some(ComparedEvaluator {
        name: name.to_owned(),
        old: pairs.iter().map(|(old, _)| old).sum::<f64>() / count,
        new: pairs.iter().map(|(_, new)| new).sum::<f64>() / count,
        evidence: if is_same { ScoreEvidence::Same } else { difference.evidence() },
        difference,
        unpaired: scored(old) + scored(new) - 2 * pairs.len(),
        pairs: Some(pairs.len()),
        broken,
        repeated: None,
    })
}

fn compare_samples(
    name: &str,
    old: &[f64],
    new: &[f64],
    broken: Vec<String>,
) -> Option<ComparedEvaluator> {
    if old.is_empty() || new.is_empty() {
        return None;
    }
    let difference = MeanDifference::unpaired(old, new);
    Some(ComparedEvaluator {
        name: name.to_owned(),
        old: old.iter().sum::<f64>() / old.len() as f64,
        new: new.iter().sum::<f64>() / new.len() as f64,
        evidence: difference.evidence(),
        difference,
        pairs: None,
        unpaired: 0,
        broken,
        repeated: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scores: &[(&str, f64)]) -> RunScores {
        let mut run = RunScores::default();
        for (trace, (case, score)) in scores.iter().enumerate() {
            run.add(ScoreRow {
                trace_id: trace.to_string(),
                evaluator: "e".to_owned(),
                case: Some((*case).to_owned()),
                outcome: "scored".to_owned(),
                score: Some(*score),
                label: Some(if *score >= 0.5 { "pass" } else { "fail" }.to_owned()),
                ..ScoreRow::default()
            });
        }
        run.finish();
        run
    }

    fn check(old: &[(&str, f64)], new: &[(&str, f64)], expected: &str) {
        let compared = compare(&run(old), &run(new));
        let sentences: Vec<_> = compared.iter().map(ComparedEvaluator::sentence).collect();
        assert_eq!(sentences.join("\n"), expected);
    }

    #[test]
    fn cases_are_paired_and_evidence_is_told_from_chance() {
        let cases = ["a", "b", "c", "d", "f"];
        let all = |score: f64| cases.map(|case| (case, score));
        check(
            &all(1.0),
            &all(1.0),
            "e: same: 1.000 -> 1.000, +0.000 (95 %: +0.000 to +0.000), 5 pairs",
        );
        check(
            &all(1.0),
            &all(0.0),
            "e: worse: 1.000 -> 0.000, -1.000 (95 %: -1.000 to -1.000), 5 pairs; passed before and \
             not now: `a`, `b`, `c`, `d`, `f`",
        );
        check(
            &[("a", 1.0), ("b", 1.0)],
            &[("a", 0.0), ("c", 0.0)],
            "e: no evidence (fewer than 5 scores show nothing): 1.000 -> 0.000, -1.000, 1 pairs, 2 \
             without a partner; passed before and not now: `a`",
        );
        check(
            &[("a", 1.0), ("a", 0.5), ("b", 1.0)],
            &[("a", 0.75), ("b", 1.0)],
            "e: same: 0.875 -> 0.875, +0.000, 2 pairs",
        );
        check(
            &[("a", 1.0)],
            &[("b", 0.5)],
            "e: no evidence (fewer than 5 scores show nothing): \
             1.000 -> 0.500, -0.500, unpaired",
        );
    }

    #[test]
    fn an_evaluator_without_a_dataset_is_paired_by_the_case_of_its_trace() {
        let run = |traces: [&str; 5], score: f64| {
            let mut run = RunScores::default();
            for (case, trace) in ["a", "b", "c", "d", "f"].iter().zip(traces) {
                for (evaluator, case) in [("plain", None), ("golden", Some(*case))] {
                    run.add(ScoreRow {
                        trace_id: trace.to_owned(),
                        evaluator: evaluator.to_owned(),
                        case: case.map(str::to_owned),
                        outcome: "scored".to_owned(),
                        score: Some(score),
                        ..ScoreRow::default()
                    });
                }
            }
            run.finish();
            run
        };
        let old = run(["1", "2", "3", "4", "5"], 1.0);
        let new = run(["6", "7", "8", "9", "0"], 0.5);
        let compared = compare(&old, &new);
        let pairs: Vec<_> = compared.iter().map(|it| (it.name.as_str(), it.pairs)).collect();
        assert_eq!(pairs, [("golden", Some(5)), ("plain", Some(5))]);
        assert!(compared.iter().all(|it| it.evidence == ScoreEvidence::Worse));
    }
}
