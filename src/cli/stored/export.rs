//! `spanscore export`: all rows that fit, for other programs.

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::filter::FilterArgs;
use super::rows::{RowFormat, print_names, print_object};
use super::scores::tell_losses;
use super::{StoreArgs, asked, rows};
use crate::cli::{CommandError, Exit, output};
use spanscore_store::query::{
    PagePlace, RunOrder, StoreFilter, StoreQueryError, StoreReader, StoredPage,
};

/// Rows that are read at once.
const PAGE_ROWS: usize = 1_000;

/// Prints all stored evaluations, runs or sessions that fit, the newest first
///
/// Nothing is limited but by the conditions, which are those of `scores`. Values and names are as
/// in the API.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore export -c spanscore.yaml --since 7d > evaluations.jsonl
  spanscore export runs -c spanscore.yaml --where label=fail --format csv > runs.csv")]
pub(in crate::cli) struct ExportArgs {
    /// Rows
    #[arg(value_enum, value_name = "ROWS", default_value_t)]
    rows: ExportedRows,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Exports also what a later revision replaced
    #[arg(long)]
    all_revisions: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: ExportFormat,
}

/// Rows of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum ExportedRows {
    /// A row for each evaluation
    #[default]
    Evaluations,
    /// A row for each run, with its counts and verdicts
    Runs,
    /// A row for each session
    Sessions,
}

/// Output format of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum ExportFormat {
    /// One JSON object a line
    #[default]
    Jsonl,
    /// For spreadsheets
    Csv,
}

pub(in crate::cli) fn run(args: &ExportArgs) -> Result<Exit, CommandError> {
    let mut filter = args.filter.read(&[])?;
    filter.with_superseded = args.all_revisions;
    let reader = args.store.open()?;
    let format = match args.format {
        ExportFormat::Jsonl => RowFormat::Jsonl,
        ExportFormat::Csv => RowFormat::Csv,
    };
    let count = match args.rows {
        ExportedRows::Evaluations => {
            pages(format, |after| reader.evaluation_page(&filter, after, PAGE_ROWS))
        }
        ExportedRows::Runs => pages(format, |after| runs(&reader, &filter, after)),
        ExportedRows::Sessions => pages(format, |after| reader.sessions(&filter, after, PAGE_ROWS)),
    }?;
    if count == 0 {
        output::note("spanscore: nothing that is stored fits");
    }
    tell_losses(&reader, true)?;
    Ok(Exit::Success)
}

fn runs(
    reader: &StoreReader,
    filter: &StoreFilter,
    after: Option<PagePlace>,
) -> Result<StoredPage<impl Serialize + use<>>, StoreQueryError> {
    reader.runs(filter, RunOrder::Newest, after, PAGE_ROWS)
}

/// Prints page after page; returns the number of rows.
fn pages<T: Serialize>(
    format: RowFormat,
    read: impl Fn(Option<PagePlace>) -> Result<StoredPage<T>, StoreQueryError>,
) -> Result<usize, CommandError> {
    let mut after = None;
    let mut count = 0;
    loop {
        let page = read(after).map_err(asked)?;
        for row in &page.items {
            let object = rows::object(row)?;
            if count == 0 {
                print_names(&object, format)?;
            }
            print_object(&object, format)?;
            count += 1;
        }
        after = page.next;
        if after.is_none() {
            return Ok(count);
        }
    }
}
