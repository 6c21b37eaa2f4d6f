//! Gate of a CI run: decides from counts, comparison and missing judgements.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::baseline::{ComparedEvaluator, RunScores, compare, listed, newly_failing};
use super::rows;
use super::silence::Silence;
use super::tally::{Tallies, percent};
use crate::cli::{CommandError, misused};
use spanscore_base::statistics::ScoreEvidence;

/// Options of `score` and `run` for the report and the gate.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct GateArgs {
    /// Format of the scores
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: ReportFormat,
    /// Writes the scores to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Shows the inputs of each score after the table: expected and actual calls beside each other.
    /// With junit and markdown, only of failed ones
    #[arg(long)]
    pub(super) details: bool,
    /// Shows whole trace ids in the table
    #[arg(long)]
    pub(super) full_ids: bool,
    /// Opens the judged runs in the browser, on a free port, until Ctrl-C
    #[arg(long)]
    pub(super) open: bool,
    /// Outcomes that shut the gate [default: fail,failed,nothing,untested; failed,nothing,untested
    /// with --min-pass-rate or --baseline]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "OUTCOME")]
    fail_on: Vec<FailOn>,
    /// Shuts the gate if fewer scores pass: a share for each evaluator (0.9 or 90%), or for one
    /// (tool_error=0.9). May be repeated
    #[arg(long, value_name = "[EVALUATOR=]SHARE", value_delimiter = ',')]
    min_pass_rate: Vec<PassRate>,
    /// Shuts the gate if an evaluator became significantly worse than in these scores of an
    /// earlier run (`--format jsonl`)
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

/// Report format of `score` and `run`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(super) enum ReportFormat {
    /// A row per score, for people
    #[default]
    Table,
    /// One JSON object per line
    Jsonl,
    /// XML that CI systems read as test results
    Junit,
    /// Annotations of GitHub Actions, and Markdown in the job's summary
    Github,
    /// A comment on a pull request
    Markdown,
    /// Mean and pass rate of each evaluator
    Summary,
}

/// Outcome that shuts the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum FailOn {
    /// A score below its threshold
    Fail,
    /// An evaluation that failed, since an evaluator or its judge did
    Failed,
    /// A trace that an evaluator could not judge
    NotEvaluable,
    /// No evaluation at all, as with an empty recording
    Nothing,
    /// Expectations in the config without any score, or a dataset whose cases occur in no trace
    Untested,
    /// No score at all, whatever the config expects
    NothingScored,
    /// An evaluator without any evaluation, since its `when` selected no trace
    UnusedEvaluator,
    /// A test case of a dataset without a trace
    UnusedCase,
    /// A trace without a test case, if evaluators have datasets
    UnexpectedTrace,
    /// A trace without a span of a tool, an agent or a model
    NoAgent,
    /// A trace with missing spans, such as a parent of other spans
    Partial,
    /// A case that passed in some of its runs and failed in others, by any evaluator
    Flaky,
    /// A case that passed in the --baseline and fails now, by any evaluator
    NewlyFailing,
    /// Nothing: the gate stays open
    Never,
}

/// Outcomes that mean that nothing was tested; reported on standard error in every format.
const UNTESTED: [FailOn; 3] = [FailOn::Nothing, FailOn::Untested, FailOn::NothingScored];

/// Least pass rate, of one evaluator or of each.
#[derive(Clone, Debug, PartialEq)]
struct PassRate {
    evaluator: Option<String>,
    share: f64,
}

impl FromStr for PassRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (evaluator, share) = match text.rsplit_once('=') {
            Some((evaluator, share)) => (Some(evaluator.trim().to_owned()), share),
            None => (None, text),
        };
        let (digits, unit) = match share.trim().strip_suffix('%') {
            Some(digits) => (digits, 100.0),
            None => (share.trim(), 1.0),
        };
        let share = digits.trim().parse::<f64>().map_err(|_| "not a number")? / unit;
        if !(0.0..=1.0).contains(&share) {
            let percent = if unit == 1.0 && (0.0..=100.0).contains(&share) {
                format!(": write {share}%")
            } else {
                String::new()
            };
            return Err(format!("must be between 0 and 1, or 0% and 100%{percent}"));
        }
        Ok(Self { evaluator, share })
    }
}

/// Gate with its baseline loaded.
pub(in crate::cli) struct ScoreGate {
    pub(super) args: GateArgs,
    baseline: Option<RunScores>,
}

/// Decision of the gate.
#[derive(Debug, Default)]
pub(super) struct GateVerdict {
    /// Reasons why it is shut; empty if open.
    pub(super) reasons: Vec<String>,
    /// Comparison with the baseline, by evaluator.
    pub(super) compared: Vec<ComparedEvaluator>,
    /// True if it is shut because nothing was tested.
    pub(super) is_untested: bool,
    /// True if there is a baseline.
    pub(super) has_baseline: bool,
    /// True if a least pass rate was given.
    pub(super) has_rates: bool,
}

impl GateArgs {
    /// Adds cases without a run to the default outcomes that shut the gate, if `is_golden`.
    pub(super) fn or_every_case(mut self, is_golden: bool) -> Self {
        if is_golden && self.fail_on.is_empty() {
            self.fail_on = self.fail_on().to_vec();
            self.fail_on.push(FailOn::UnusedCase);
        }
        self
    }

    /// Loads the baseline, so that a mistake is reported before the work.
    pub(in crate::cli) fn prepare(&self) -> Result<ScoreGate, CommandError> {
        if self.fail_on.contains(&FailOn::NewlyFailing) && self.baseline.is_none() {
            return misused(
                "--fail-on newly_failing needs --baseline FILE, the scores of an earlier run",
            );
        }
        let baseline = self.baseline.as_deref().map(|path| -> anyhow::Result<_> {
            let mut scores = RunScores::default();
            rows::read_baseline(path, |row| scores.add(row))?;
            scores.finish();
            Ok(scores)
        });
        Ok(ScoreGate { args: self.clone(), baseline: baseline.transpose()? })
    }

    fn fail_on(&self) -> &[FailOn] {
        const EACH: [FailOn; 4] = [FailOn::Fail, FailOn::Failed, FailOn::Nothing, FailOn::Untested];
        let is_by_share = !self.min_pass_rate.is_empty() || self.baseline.is_some();
        match self.fail_on.as_slice() {
            [] if is_by_share => &EACH[1..],
            [] => &EACH,
            own => own,
        }
    }
}

impl ScoreGate {
    /// Checks that the evaluators of `--min-pass-rate` exist.
    pub(super) fn check(&self, names: &[&str]) -> Result<(), CommandError> {
        let requested = self.args.min_pass_rate.iter().filter_map(|rate| rate.evaluator.as_deref());
        let mut unknown = requested.filter(|name| !names.contains(name));
        match unknown.next() {
            None => Ok(()),
            Some(name) => Err(CommandError::Usage(format!(
                "--min-pass-rate {name}: no evaluator has this name; there are {}",
                names.join(", ")
            ))),
        }
    }

    /// Returns true if this run is compared with a baseline.
    pub(super) fn compares(&self) -> bool {
        self.baseline.is_some()
    }

    /// Decides.
    pub(super) fn decide(
        &self,
        tallies: &Tallies,
        silence: &Silence,
        scores: &RunScores,
    ) -> GateVerdict {
        let old = self.baseline.as_ref();
        let compared = old.map(|old| compare(old, scores)).unwrap_or_default();
        let mut verdict = GateVerdict {
            reasons: Vec::new(),
            compared,
            is_untested: false,
            has_baseline: old.is_some(),
            has_rates: !self.args.min_pass_rate.is_empty(),
        };
        let fail_on = self.args.fail_on();
        if fail_on.contains(&FailOn::Never) {
            return verdict;
        }
        verdict.is_untested = UNTESTED
            .iter()
            .any(|what| fail_on.contains(what) && happened(*what, tallies, silence).is_some());
        let reasons = &mut verdict.reasons;
        reasons.extend(fail_on.iter().filter_map(|what| happened(*what, tallies, silence)));
        if let Some(old) = old.filter(|_| fail_on.contains(&FailOn::NewlyFailing)) {
            reasons.extend(newly_failing(old, scores).into_iter().map(|(name, cases)| {
                format!("{name}: passed in the baseline and fails now: {}", listed(&cases))
            }));
        }
        if fail_on.contains(&FailOn::Flaky) {
            let repeated = scores.repeated().into_iter().filter(|runs| !runs.flaky.is_empty());
            reasons.extend(
                repeated.map(|it| format!("{}: flaky: {}", it.evaluator, listed(&it.flaky))),
            );
        }
        reasons.extend(self.low_rates(tallies));
        let worse = verdict.compared.iter().filter(|it| it.evidence == ScoreEvidence::Worse);
        reasons.extend(worse.map(|it| format!("{} got worse: {}", it.name, it.change())));
        verdict
    }

    fn low_rates(&self, tallies: &Tallies) -> Vec<String> {
        let own = |name: &str| {
            let rates = &self.args.min_pass_rate;
            let named = rates.iter().rev().find(|rate| rate.evaluator.as_deref() == Some(name));
            named.or_else(|| rates.iter().rev().find(|rate| rate.evaluator.is_none()))
        };
        let low = tallies.by_evaluator.iter().filter_map(|(name, tally)| {
            let least = own(name)?.share;
            let rate = tally.pass_rate()?;
            let rate = Some(rate).filter(|rate| *rate < least)?;
            let wanted = percent(Some(least));
            Some(format!("{name}: {} pass, {wanted} must", percent(Some(rate))))
        });
        low.collect()
    }
}

/// Describes an outcome that occurred; `None` if it did not.
fn happened(what: FailOn, tallies: &Tallies, silence: &Silence) -> Option<String> {
    let all = tallies.all;
    let count = |count: usize, words: &str| (count > 0).then(|| format!("{count} {words}"));
    let any = |said: &[String]| (!said.is_empty()).then(|| said.join("; "));
    match what {
        FailOn::Fail => count(all.fail, "fail"),
        FailOn::Failed => count(all.failed, "evaluations broke"),
        FailOn::NotEvaluable => count(all.not_evaluable, "not evaluable"),
        FailOn::Nothing => (all.count() == 0).then(|| "nothing was judged".to_owned()),
        FailOn::Untested => any(&silence.untested),
        FailOn::NothingScored => (!all.is_answered()).then(|| "nothing was scored".to_owned()),
        FailOn::UnusedEvaluator => any(&silence.evaluators),
        FailOn::UnusedCase => any(&silence.cases),
        FailOn::UnexpectedTrace => any(&silence.unexpected),
        FailOn::NoAgent => any(&silence.traces),
        FailOn::Partial => count(all.partial, "of traces that lack something"),
        // Decided by the scores of cases.
        FailOn::Flaky | FailOn::NewlyFailing | FailOn::Never => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::score::tally::Tallied;
    use spanscore_base::model::GivenVerdict;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        gate: GateArgs,
    }

    fn check(args: &[&str], verdicts: &[(&str, usize)], reasons: &[&str]) {
        let args = [&["gate"], args].concat();
        let gate = Parsed::parse_from(args.clone()).gate.prepare().expect("a gate");
        let mut tallies = Tallies::default();
        for (label, count) in verdicts {
            let verdict = match *label {
                "pass" => GivenVerdict::Pass,
                "fail" => GivenVerdict::Fail,
                "failed" => GivenVerdict::Failed,
                _ => GivenVerdict::NotEvaluable,
            };
            let one = Tallied { verdict, score: None, is_partial: false, duration_ns: 0 };
            (0..*count).for_each(|_| tallies.add("e", one));
        }
        let silence = Silence { cases: vec!["a case".to_owned()], ..Silence::default() };
        let verdict = gate.decide(&tallies, &silence, &RunScores::default());
        assert_eq!(verdict.reasons, reasons, "{args:?}");
    }

    #[test]
    fn the_gate_shuts_for_what_is_named() {
        check(&[], &[("pass", 3)], &[]);
        check(&[], &[("pass", 3), ("fail", 1)], &["1 fail"]);
        check(&[], &[("pass", 3), ("failed", 2)], &["2 evaluations broke"]);
        check(&[], &[("not_evaluable", 2)], &[]);
        check(&[], &[], &["nothing was judged"]);
        check(&["--fail-on", "unused_case"], &[("fail", 1)], &["a case"]);
        check(&["--fail-on", "not_evaluable,fail"], &[("not_evaluable", 2)], &["2 not evaluable"]);
        check(&["--fail-on", "nothing_scored"], &[("not_evaluable", 2)], &["nothing was scored"]);
        check(&["--fail-on", "nothing_scored"], &[("pass", 1), ("not_evaluable", 2)], &[]);
        check(&["--fail-on", "never,fail"], &[("fail", 2)], &[]);
    }

    #[test]
    fn a_share_that_must_pass_stands_in_for_single_fails() {
        let most = [("pass", 3), ("fail", 1), ("not_evaluable", 9)];
        check(&["--min-pass-rate", "0.75"], &most, &[]);
        check(&["--min-pass-rate", "80%"], &most, &["e: 75.0 % pass, 80.0 % must"]);
        check(&["--min-pass-rate", "0.8", "--min-pass-rate", "e=0.5"], &most, &[]);
        check(&["--min-pass-rate", "0.5", "--fail-on", "fail"], &most, &["1 fail"]);
        assert!("1.2".parse::<PassRate>().is_err() && "x=".parse::<PassRate>().is_err());
    }
}
