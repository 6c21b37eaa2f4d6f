//! Report: scores in one of several formats, then missing judgements and the gate's verdict.

mod github;
mod junit;
mod markdown;
mod out;
mod summary;
mod table;

use super::baseline::ComparedEvaluator;
use super::gate::{GateArgs, GateVerdict, ReportFormat};
use super::repeats::RepeatedRuns;
use super::rows::{ScoreRow, ScoreRows, VerdictSet};
use super::silence::Silence;
use super::tally::Tallies;
use crate::cli::{CommandError, output};
use out::ReportOut;
use spanscore_base::visible;

/// Data of a report.
#[derive(Clone, Copy)]
pub(super) struct Report<'a> {
    pub(super) rows: &'a ScoreRows,
    pub(super) tallies: &'a Tallies,
    pub(super) silence: &'a Silence,
    /// Cases with several runs.
    pub(super) repeated: &'a [RepeatedRuns],
    pub(super) verdict: &'a GateVerdict,
    /// True if a part could not be read, or a trace was only partly judged.
    pub(super) is_broken: bool,
}

/// Remark on an open gate with a non-zero exit code.
const OPEN_BUT_BROKEN: &str = "not everything could be read or judged whole (standard error says \
     what), so the exit code is 1";

/// Prints a line on standard error.
fn note(line: String) {
    output::note(format_args!("spanscore: {}", visible::line(line)));
}

impl Report<'_> {
    /// Prints the report in the selected format and place.
    pub(super) fn print(&self, args: &GateArgs) -> Result<(), CommandError> {
        let mut out = ReportOut::open(args.output.as_deref())?;
        match args.format {
            ReportFormat::Table => table::write(self, args, &mut out)?,
            ReportFormat::Jsonl => self.rows.lines(|lines| out.raw(lines))?,
            ReportFormat::Junit => junit::write(self, args.details, &mut out)?,
            ReportFormat::Github => github::write(self, &mut out)?,
            ReportFormat::Markdown => out.raw(&markdown::text(self, args.details)?)?,
            ReportFormat::Summary => summary::write(self, &mut out)?,
        }
        out.finish()?;
        // In formats for programs these lines would not parse.
        let is_told = matches!(
            args.format,
            ReportFormat::Table | ReportFormat::Summary | ReportFormat::Markdown
        );
        if !is_told {
            let lines = self.silence_lines().chain(self.verdict_lines());
            lines.for_each(note);
        }
        let is_in_lines = !is_told && (self.verdict.has_baseline || self.verdict.has_rates);
        if self.verdict.is_untested && !is_in_lines {
            note(self.gate_line());
        }
        Ok(())
    }

    /// Returns the lines on missing judgements, then on repeated cases, then on classes.
    fn silence_lines(&self) -> impl Iterator<Item = String> {
        let classes = self.tallies.classes.iter().flat_map(|(name, of)| of.lines(name));
        self.silence.lines().chain(self.repeated.iter().map(RepeatedRuns::sentence)).chain(classes)
    }

    /// Returns the lines of comparison and gate; empty if only single scores count.
    fn verdict_lines(&self) -> Vec<String> {
        let compared = self.verdict.compared.iter().map(ComparedEvaluator::sentence);
        let mut lines: Vec<String> = compared.map(|it| format!("baseline: {it}")).collect();
        if self.verdict.has_baseline && lines.is_empty() {
            lines.push("baseline: no evaluator has scores in both runs".to_owned());
        }
        if self.verdict.has_baseline || self.verdict.has_rates {
            lines.push(self.gate_line());
        }
        lines
    }

    /// Returns the counts of all outcomes as a sentence.
    fn sentence(&self) -> String {
        let all = self.tallies.all;
        if all.count() == 0 && self.silence.is_without_traces {
            return "nothing was judged: what was read holds no trace".to_owned();
        }
        all.sentence()
    }

    fn gate_line(&self) -> String {
        match self.verdict.reasons.as_slice() {
            [] if self.is_broken => format!("gate: open, but {OPEN_BUT_BROKEN}"),
            [] => "gate: open".to_owned(),
            reasons => format!("gate: shut: {}", reasons.join("; ")),
        }
    }

    /// Visits the rows that did not pass: fails and failures first, then those that are not
    /// evaluable.
    fn not_passed(
        &self,
        visit: &mut dyn FnMut(ScoreRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for wanted in [VerdictSet::FAILS, VerdictSet::NOT_EVALUABLE] {
            self.rows.of_verdict(wanted, &mut *visit)?;
        }
        Ok(())
    }
}
