//! `spanscore export`: all matching rows, for other programs.

use std::num::NonZeroUsize;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::Serialize;
use strum::VariantNames;

use super::filter::FilterArgs;
use super::rows::{RowFormat, RowPrinter};
use super::scores::report_losses;
use super::{StoreArgs, paged, pages};
use crate::cli::{CommandError, Exit, misused, output};
use spanscore_base::settings::meant_or_known;
use spanscore_store::query::{
    AnnotationFilter, RunOrder, RunRow, StoreFilter, StoreQueryError, StoreReader, StoredCall,
    StoredTrajectory,
};

/// Rows read at once.
const PAGE_ROWS: usize = 1_000;

/// Prints all stored evaluations, runs, calls or sessions that match
///
/// The conditions are those of `scores`; only they and `--limit` limit the rows. Names and values
/// are those of the API. Calls and sessions belong to the matching runs.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore export -c spanscore.yaml --since 7d > evaluations.jsonl
  spanscore export runs -c spanscore.yaml --where label=fail --format csv > runs.csv
  spanscore export runs -c spanscore.yaml --since 7d --order slowest --limit 10
  spanscore export trajectories -c spanscore.yaml --where label=fail > failed.jsonl
  spanscore export dataset -c spanscore.yaml --dataset golden > golden.jsonl")]
pub(in crate::cli) struct ExportArgs {
    /// Rows to print
    #[arg(value_enum, value_name = "ROWS", default_value_t)]
    rows: ExportedRows,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Also exports evaluations that a later revision replaced
    #[arg(long)]
    all_revisions: bool,
    /// Order of runs, and of their trajectories and calls. An order other than `newest` and
    /// `arrived` requires a `--limit` of at most 1000
    #[arg(
        long,
        default_value = "newest",
        value_parser = PossibleValuesParser::new(RunOrder::VARIANTS)
            .try_map(|word| word.parse::<RunOrder>())
    )]
    order: RunOrder,
    /// Limit on runs, and so on their trajectories and calls
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// Name of the dataset, for `dataset`
    #[arg(long, value_name = "NAME", required_if_eq("rows", "dataset"))]
    dataset: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: ExportFormat,
}

/// Rows of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum ExportedRows {
    /// A row per evaluation
    #[default]
    Evaluations,
    /// A row per run, with its counts and verdicts
    Runs,
    /// A row per run, with its calls, their content and the evaluations, as `show` prints it
    Trajectories,
    /// A row per tool call, with arguments and result
    Calls,
    /// A row per session
    Sessions,
    /// A row per annotation: the verdict of a person
    Annotations,
    /// A row per item of a dataset, as `expect.file` of a config reads it
    Dataset,
}

/// Output format of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum ExportFormat {
    /// One JSON object per line
    #[default]
    Jsonl,
    /// A table for spreadsheets
    Csv,
}

impl ExportArgs {
    /// Rejects options that these rows do not support.
    fn check(&self) -> Result<(), CommandError> {
        let is_dataset = self.rows == ExportedRows::Dataset;
        let is_of_people = is_dataset || self.rows == ExportedRows::Annotations;
        if is_of_people && (self.all_revisions || !self.filter.is_empty()) {
            let text = "annotations and datasets are exported whole: leave `--since`, `--until`, \
                        `--where`, `--text` and `--all-revisions` out";
            return Err(CommandError::Usage(text.to_owned()));
        }
        use ExportedRows::{Calls, Runs, Trajectories};
        let is_of_runs = matches!(self.rows, Runs | Trajectories | Calls);
        if !is_of_runs && (self.limit.is_some() || self.order != RunOrder::default()) {
            let text = "`--order` and `--limit` are of runs: write `spanscore export runs`, \
                        `trajectories` or `calls`";
            return Err(CommandError::Usage(text.to_owned()));
        }
        // Each page would sort all runs again, and new runs would shift others.
        let limit = self.limit.map_or(usize::MAX, NonZeroUsize::get);
        let is_indexed = matches!(self.order, RunOrder::Newest | RunOrder::Arrived);
        if !is_indexed && limit > PAGE_ROWS {
            let text = format!("`--order` needs a limit: write `--limit N`, at most {PAGE_ROWS}");
            return Err(CommandError::Usage(text));
        }
        if self.dataset.is_some() && !is_dataset {
            let text = "`--dataset` is of the rows `dataset`: write `spanscore export dataset`";
            return Err(CommandError::Usage(text.to_owned()));
        }
        Ok(())
    }
}

pub(in crate::cli) fn run(args: &ExportArgs) -> Result<Exit, CommandError> {
    args.check()?;
    let mut filter = args.filter.read(&[])?;
    filter.with_superseded = args.all_revisions;
    let reader = args.store.open()?;
    let format = match args.format {
        ExportFormat::Jsonl => RowFormat::Jsonl,
        ExportFormat::Csv => RowFormat::Csv,
    };
    let mut printer = RowPrinter { format, count: 0 };
    match args.rows {
        ExportedRows::Evaluations => pages(
            |after| reader.evaluation_page(&filter, after, PAGE_ROWS),
            |row| printer.print(&row),
        ),
        ExportedRows::Sessions => {
            pages(|after| reader.sessions(&filter, after, PAGE_ROWS), |row| printer.print(&row))
        }
        ExportedRows::Annotations => pages(
            |after| reader.annotations(&AnnotationFilter::default(), after, PAGE_ROWS),
            |row| printer.print(&row),
        ),
        ExportedRows::Dataset => {
            let name = args.dataset.as_deref().unwrap_or_default();
            check_dataset(&reader, name)?;
            let read = |after| reader.dataset_items(name, after, PAGE_ROWS);
            pages(read, |item| printer.print(&item.row()))
        }
        ExportedRows::Runs => runs(args, &reader, &filter, |row| printer.print(&row)),
        ExportedRows::Trajectories => runs(args, &reader, &filter, |row| {
            whole(&reader, &row)?.map_or(Ok(()), |run| printer.print(&run))
        }),
        ExportedRows::Calls => runs(args, &reader, &filter, |row| {
            let Some(run) = whole(&reader, &row)? else { return Ok(()) };
            let calls = run.calls.iter().enumerate();
            calls
                .map(|(at, call)| ExportedCall::of(&run, at, call))
                .try_for_each(|it| printer.print(&it))
        }),
    }?;
    let count = printer.count;
    if count == 0 {
        output::note("spanscore: nothing that is stored fits");
    }
    report_losses(&reader, true)?;
    Ok(Exit::Success)
}

/// Call with its run.
#[derive(Serialize)]
struct ExportedCall<'r> {
    trace_id: &'r str,
    service: &'r str,
    version: &'r str,
    /// Position in the run, from 1.
    place: usize,
    #[serde(flatten)]
    call: &'r StoredCall,
}

impl<'r> ExportedCall<'r> {
    fn of(run: &'r StoredTrajectory, at: usize, call: &'r StoredCall) -> Self {
        let StoredTrajectory { trace_id, service, version, .. } = run;
        Self { trace_id, service, version, place: at + 1, call }
    }
}

/// Visits the matching runs, in the requested order and number.
fn runs(
    args: &ExportArgs,
    reader: &StoreReader,
    filter: &StoreFilter,
    mut visit: impl FnMut(RunRow) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
    let read = |after| reader.runs(filter, args.order, after, PAGE_ROWS.min(limit));
    paged(read).take(limit).try_for_each(|row| visit(row?))
}

/// Checks that a dataset is there.
fn check_dataset(reader: &StoreReader, name: &str) -> Result<(), CommandError> {
    let known = reader.datasets()?;
    let known: Vec<&str> = known.iter().map(|it| it.dataset.as_str()).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let help = match known[..] {
        [] => "there is none: items are made on the page of a run".to_owned(),
        _ => meant_or_known(name, &known),
    };
    misused(format!("there is no dataset `{name}`: {help}"))
}

/// Reads a run with its content; `None` if retention removed it meanwhile.
fn whole(reader: &StoreReader, row: &RunRow) -> Result<Option<StoredTrajectory>, CommandError> {
    match reader.trajectory(&row.trace_id) {
        Err(StoreQueryError::NoTrace { .. }) => Ok(None),
        found => Ok(Some(found?)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ExportArgs,
    }

    #[test]
    fn options_that_rows_do_not_take_are_refused() {
        let check = |line: &str, words: Option<&str>| {
            let line = Line::try_parse_from(format!("export {line}").split_whitespace()).unwrap();
            let refused = line.args.check().err().map(|error| error.to_string());
            let is_reported =
                refused.as_deref().zip(words).is_some_and(|(it, words)| it.contains(words));
            assert!(is_reported || (refused.is_none() && words.is_none()), "{refused:?}");
        };
        check("annotations", None);
        check("annotations --since 7d", Some("`--since`"));
        check("annotations --all-revisions", Some("exported whole"));
        check("dataset --dataset golden", None);
        check("dataset --dataset golden --where label=fail", Some("exported whole"));
        check("runs --since 7d --where label=fail --all-revisions", None);
        check("runs --dataset golden", Some("`--dataset`"));
        check("calls --order slowest --limit 3", None);
        check("runs --order slowest", Some("`--limit N`"));
        check("calls --order worst --limit 1001", Some("`--limit N`"));
        check("runs --order newest --limit 1001", None);
        check("runs --order arrived", None);
        check("evaluations --limit 3", Some("`--order` and `--limit` are of runs"));
        check("sessions --order worst", Some("`--order` and `--limit` are of runs"));
    }
}
