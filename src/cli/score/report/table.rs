//! Table format: one row per score, for people.

use std::fmt::Write as _;

use comfy_table::{ContentArrangement, Table};

use super::Report;
use super::out::ReportOut;
use crate::cli::score::gate::GateArgs;
use crate::cli::score::rows::ScoreRow;
use crate::cli::{CommandError, output};
use spanscore_base::model::GivenVerdict;
use spanscore_base::visible;
use spanscore_emit::details;

/// Number of shown hexadecimal digits of a trace id.
const TRACE_DIGITS: usize = 8;
/// Limit on rows in one table, whose columns fit these.
const ROWS_MAX: usize = 1000;
/// Least width: a narrower table is unreadable, and the terminal wraps its lines.
const WIDTH_MIN: u16 = 60;

/// Rows collected for one table, and the following details, with those that did not pass first.
struct WaitingRows<'a> {
    table: Table,
    rows: usize,
    details: Option<[String; 2]>,
    out: &'a mut ReportOut,
}

/// Writes all rows.
pub(super) fn write(
    report: &Report<'_>,
    args: &GateArgs,
    out: &mut ReportOut,
) -> Result<(), CommandError> {
    let details = args.details.then(Default::default);
    let mut waiting = WaitingRows { table: new_table(out), rows: 0, details, out };
    report.rows.for_each(|row| {
        let cells = cells(&row, args.full_ids);
        waiting.table.add_row(cells.clone().map(|cell| visible::line(cell).to_string()));
        waiting.rows += 1;
        if let Some([failed, passed]) = &mut waiting.details {
            let is_pass = row.verdict() == GivenVerdict::Pass;
            write_details(&row, &cells, if is_pass { passed } else { failed });
        }
        if waiting.rows == ROWS_MAX { waiting.flush() } else { Ok(()) }
    })?;
    waiting.flush()?;
    out.line(report.sentence())?;
    for line in report.silence_lines().chain(report.verdict_lines()) {
        out.line(visible::line(line))?;
    }
    Ok(())
}

impl WaitingRows<'_> {
    fn flush(&mut self) -> anyhow::Result<()> {
        if self.rows > 0 {
            self.out.line(self.table.trim_fmt())?;
            self.table = new_table(self.out);
            self.rows = 0;
        }
        let details = self.details.as_mut().map(std::mem::take).map(|parts| parts.concat());
        let details = details.filter(|it| !it.is_empty());
        if let Some(details) = details {
            self.out.line(format_args!("\n{details}"))?;
        }
        Ok(())
    }
}

fn new_table(out: &ReportOut) -> Table {
    let mut table = output::table(["TRACE", "EVALUATOR", "SCORE", "LABEL", "EXPLANATION"]);
    if out.is_file() {
        table.set_content_arrangement(ContentArrangement::Disabled);
    } else if table.width().is_some_and(|width| width < WIDTH_MIN) {
        table.set_width(WIDTH_MIN);
    }
    table
}

fn cells(row: &ScoreRow, full_ids: bool) -> [String; 5] {
    let digits = if full_ids { usize::MAX } else { TRACE_DIGITS };
    let id: String = row.trace_id.chars().take(digits).collect();
    let trace = match &row.run {
        Some(run) if full_ids => format!("{run} ({id})"),
        Some(run) => run.clone(),
        None => id,
    };
    let label = row.verdict().words().to_owned();
    [trace, row.evaluator.clone(), row.value(), label, row.words.clone()]
}

/// Appends the details of a score below a head line.
fn write_details(row: &ScoreRow, cells: &[String; 5], out: &mut String) {
    if row.score.is_none() {
        return;
    }
    let [trace, evaluator, value, label, _] = cells;
    let head = format!("{trace}  {evaluator}  {value} {label}");
    // Never fails: a string accepts everything.
    let _ = writeln!(out, "{}", visible::line(head));
    details::write_text(&row.details, 2, out);
}
