//! Summary format: one row per evaluator.

use super::Report;
use super::out::ReportOut;
use crate::cli::score::tally::{mean_text, percent};
use crate::cli::{CommandError, output};
use spanscore_base::visible;

/// Columns, also of markdown.
pub(super) const COLUMNS: [&str; 7] =
    ["EVALUATOR", "MEAN", "PASS RATE", "PASS", "FAIL", "NOT EVALUABLE", "FAILED"];

/// Returns the cells of each evaluator, then of all together if several.
pub(super) fn rows(report: &Report<'_>) -> Vec<[String; 7]> {
    let tallies = report.tallies;
    let own = tallies.by_evaluator.iter().map(|(name, tally)| (name.as_str(), *tally));
    let is_one = tallies.by_evaluator.len() == 1;
    let all = (!is_one).then_some(("all", tallies.all));
    let cells = own.chain(all).map(|(name, tally)| {
        let count = |count: usize| count.to_string();
        [
            name.to_owned(),
            mean_text(tally.mean()),
            percent(tally.pass_rate()),
            count(tally.pass),
            count(tally.fail),
            count(tally.not_evaluable),
            count(tally.failed),
        ]
    });
    cells.collect()
}

/// Writes the table.
pub(super) fn write(report: &Report<'_>, out: &mut ReportOut) -> Result<(), CommandError> {
    let mut table = output::table(COLUMNS);
    for cells in rows(report) {
        table.add_row(cells.map(|cell| visible::line(cell).to_string()));
    }
    out.line(table.trim_fmt())?;
    let verdict = report.verdict_lines();
    let gate = if verdict.is_empty() { Some(report.gate_line()) } else { None };
    for line in report.silence_lines().chain(verdict).chain(gate) {
        out.line(visible::line(line))?;
    }
    Ok(())
}
