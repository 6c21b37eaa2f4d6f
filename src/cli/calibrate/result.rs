//! Result of one candidate: confusion, agreement by part, wrong answers, and the number of runs for
//! a narrower interval.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::candidates::CalibrationCandidate;
use super::runs::{ANSWERS, VERDICTS};
use crate::cli::{CommandError, output};
use spanscore_base::model::{Evaluation, Outcome};
use spanscore_base::statistics::Share;
use spanscore_base::statistics::agreement::{
    Agreement, RatedPair, agreement, false_answers, interval, runs_for_width,
};
use spanscore_base::visible;
use spanscore_evaluate::judged::labelled::LabelledRun;

/// One run with its label, its evaluation and the answers side by side.
pub(super) struct ComparedRun<'l> {
    /// Line in the file.
    pub(super) line: usize,
    pub(super) run: &'l LabelledRun,
    pub(super) evaluation: Evaluation,
    pub(super) pairs: Vec<RatedPair>,
}

impl ComparedRun<'_> {
    pub(super) fn agreement(&self) -> Option<Agreement> {
        agreement(self.pairs.iter())
    }

    /// Returns the number of correct verdicts on the run and its calls.
    fn verdicts_as_labelled(&self) -> usize {
        if self.run.items.is_empty() {
            return self.pairs.iter().filter(|(label, said)| label == said).count();
        }
        usize::from(self.evaluation.verdict().as_str() == self.run.verdict)
    }

    /// Returns the number of labelled verdicts.
    fn labelled_verdicts(&self) -> usize {
        self.run.verdicts().count() + self.run.calls.iter().flatten().count()
    }
}

/// Result of a calibration.
pub(super) struct Calibration {
    all: Option<Agreement>,
    interval: Option<(f64, f64)>,
    /// Correct verdicts, and all labelled ones.
    verdicts: (usize, usize),
    runs: usize,
    failed: usize,
    requests: usize,
    cost_usd: f64,
    confusion: BTreeMap<RatedPair, usize>,
    /// Possible labels: answers to statements, or verdicts.
    answers: &'static [&'static str],
    /// Label, opposite answer, and its share.
    wrong: [(&'static str, &'static str, Share); 2],
    /// Width of an interval, and the number of runs that it needs.
    needed: (f64, Option<usize>),
    /// Agreement by kind, then by tag.
    parts: Vec<(String, Agreement)>,
}

impl Calibration {
    pub(super) fn of(compared: &[ComparedRun<'_>], requests: usize, width: f64) -> Self {
        let pairs: Vec<Vec<RatedPair>> = compared.iter().map(|one| one.pairs.clone()).collect();
        let mut confusion = BTreeMap::new();
        for pair in pairs.iter().flatten() {
            *confusion.entry(*pair).or_default() += 1;
        }
        let by_verdict = compared.iter().all(|one| one.run.items.is_empty());
        let sides = if by_verdict {
            [("fail", "pass"), ("pass", "fail")]
        } else {
            [("no", "yes"), ("yes", "no")]
        };
        let is_failed =
            |one: &&ComparedRun<'_>| matches!(one.evaluation.outcome, Outcome::Failed { .. });
        let cost =
            |one: &ComparedRun<'_>| one.evaluation.judge.as_ref().map_or(0.0, |it| it.cost_usd);
        let interval = interval(&pairs);
        let needed = interval.and_then(|interval| runs_for_width(pairs.len(), interval, width));
        Self {
            all: agreement(pairs.iter().flatten()),
            interval,
            verdicts: (
                compared.iter().map(ComparedRun::verdicts_as_labelled).sum(),
                compared.iter().map(ComparedRun::labelled_verdicts).sum(),
            ),
            runs: compared.len(),
            failed: compared.iter().filter(is_failed).count(),
            requests,
            cost_usd: compared.iter().map(cost).sum(),
            confusion,
            answers: if by_verdict { &VERDICTS } else { &ANSWERS },
            wrong: sides.map(|(label, said)| (label, said, false_answers(&pairs, label, said))),
            needed: (width, needed),
            parts: parts(compared),
        }
    }

    /// Returns true if there is a kappa, high enough, and every run was answered.
    pub(super) fn is_good(&self, kappa_min: f64) -> bool {
        let kappa = self.all.and_then(|all| all.kappa);
        self.failed == 0 && kappa.is_some_and(|kappa| kappa >= kappa_min)
    }

    pub(super) fn print(
        &self,
        name: &str,
        compared: &[ComparedRun<'_>],
    ) -> Result<(), CommandError> {
        for one in compared {
            if let Outcome::Failed { error_type, error } = &one.evaluation.outcome {
                let line = format!("{}: {error_type}: {error}", one.run.id);
                output::note(format_args!("spanscore: {}", visible::line(line)));
            }
        }
        output::line(format_args!("{}\n", visible::line(name)))?;
        let Some(all) = self.all else {
            return output::line("no statement was answered");
        };
        self.print_tables()?;
        let kappa = match (all.kappa, self.interval) {
            (Some(kappa), Some((low, high))) => {
                format!("kappa {kappa:.3} (95% {low:.3} to {high:.3})")
            }
            (Some(kappa), None) => format!("kappa {kappa:.3}"),
            (None, _) => "no kappa, since all labels are the same: label runs of the other kind, \
                          too"
            .to_owned(),
        };
        output::line(format_args!(
            "\n{kappa}, accuracy {:.3} over {} answers",
            all.accuracy, all.count
        ))?;
        for (label, said, share) in &self.wrong {
            output::line(wrong(label, said, share))?;
        }
        if let (width, Some(runs)) = self.needed {
            let now = self.runs;
            output::line(format_args!(
                "an interval of kappa {width} wide takes some {runs} runs; there are {now}"
            ))?;
        }
        output::line(format_args!(
            "{} of {} verdicts as labelled, {} failed; {} asked, USD {:.4}",
            self.verdicts.0, self.verdicts.1, self.failed, self.requests, self.cost_usd
        ))
    }

    fn print_tables(&self) -> Result<(), CommandError> {
        let header: Vec<&str> =
            std::iter::once("LABEL").chain(self.answers.iter().copied()).collect();
        let mut table = output::table(header);
        for label in self.answers {
            let count = |said| self.confusion.get(&(*label, said)).copied().unwrap_or(0);
            let counts = self.answers.iter().map(|said| count(*said).to_string());
            table.add_row(std::iter::once((*label).to_owned()).chain(counts));
        }
        output::line(table.trim_fmt())?;
        let mut table = output::table(["PART", "STATEMENTS", "ACCURACY", "KAPPA"]);
        for (name, part) in &self.parts {
            let cells = [
                visible::line(name).to_string(),
                part.count.to_string(),
                format!("{:.3}", part.accuracy),
                part.kappa.map_or_else(|| "-".to_owned(), |kappa| format!("{kappa:.3}")),
            ];
            table.add_row(cells);
        }
        output::line(format_args!("\n{}", table.trim_fmt()))
    }

    pub(super) fn record(&self, candidate: &CalibrationCandidate) -> Value {
        let part = |it: &Agreement| {
            let Agreement { accuracy, kappa, count } = it;
            json!({"statements": count, "accuracy": accuracy, "kappa": kappa})
        };
        let parts = self.parts.iter().map(|(name, it)| (name.clone(), part(it)));
        let confusion = self
            .confusion
            .iter()
            .map(|((label, said), count)| json!({"label": label, "judge": said, "count": count}));
        let wrong = self.wrong.iter().map(|(label, said, share)| {
            json!({
                "label": label,
                "judge": said,
                "count": share.hits as u64,
                "of": share.count as u64,
                "interval": share.interval().map(|(low, high)| [low, high]),
            })
        });
        let (width, needed) = self.needed;
        json!({
            "name": candidate.name,
            "judge": candidate.judge,
            "all": self.all.as_ref().map(part),
            "kappa_interval": self.interval.map(|(low, high)| [low, high]),
            "false_answers": wrong.collect::<Vec<_>>(),
            "runs_for_width": {"width": width, "runs": needed},
            "runs": self.runs,
            "verdicts_as_labelled": self.verdicts.0,
            "verdicts": self.verdicts.1,
            "failed": self.failed,
            "asked": self.requests,
            "cost_usd": self.cost_usd,
            "confusion": confusion.collect::<Vec<_>>(),
            "parts": parts.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Formats the share of one kind of wrong answers with its interval.
fn wrong(label: &str, said: &str, share: &Share) -> String {
    let Share { hits, count } = share;
    let Some((low, high)) = share.interval() else {
        return format!("false {said}: nothing is labelled {label}");
    };
    let percent = |part: f64| 100.0 * part;
    format!(
        "false {said}: {hits} of {count} labelled {label}, {:.1}% (95% {:.1}% to {:.1}%)",
        percent(hits / count),
        percent(low),
        percent(high)
    )
}

/// Computes the agreement by kind and by tag.
fn parts(compared: &[ComparedRun<'_>]) -> Vec<(String, Agreement)> {
    let mut kinds: BTreeMap<&str, Vec<RatedPair>> = BTreeMap::new();
    let mut tags: BTreeMap<&str, Vec<RatedPair>> = BTreeMap::new();
    for one in compared {
        kinds.entry(&one.run.evaluator).or_default().extend(&one.pairs);
        for tag in &one.run.tags {
            tags.entry(tag).or_default().extend(&one.pairs);
        }
    }
    let kinds = kinds.iter().map(|(name, pairs)| ((*name).to_owned(), pairs));
    let tags = tags.iter().map(|(name, pairs)| (format!("tag {name}"), pairs));
    kinds.chain(tags).filter_map(|(name, pairs)| Some((name, agreement(pairs.iter())?))).collect()
}
