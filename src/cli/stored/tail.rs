//! `spanscore tail`: evaluations as they are stored.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::filter::FilterArgs;
use super::rows::object;
use super::scores::{beginning, verdict};
use super::{StoreArgs, short};
use crate::cli::score::Format;
use crate::cli::{CommandError, Exit, output, started};
use spanscore_base::model::shown_share;
use spanscore_base::visible;
use spanscore_store::query::{EvaluationRow, PagePlace, StoreFilter, StoreReader};

/// Polling interval of the store.
const TICK: Duration = Duration::from_millis(500);
/// Limit on evaluations per poll; the number of others is reported.
const ROWS_PER_LOOK_MAX: usize = 1_000;
/// Limit on evaluations before the start.
const LAST_MAX: i64 = 1_000;

/// Follows the store of a running collector and prints each new evaluation
///
/// Ctrl-C ends it. Above 2,000 evaluations per second, only the newest are printed, with the number
/// of the others.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore tail -c spanscore.yaml --where label=fail
  spanscore tail --store scores.db --format jsonl | jq .explanation")]
pub(in crate::cli) struct TailArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Number of stored evaluations to print first, at most 1000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(0..=LAST_MAX)
    )]
    last: u16,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(in crate::cli) fn run(args: &TailArgs) -> Result<Exit, CommandError> {
    let filter = args.filter.read(&[])?;
    let mut tail = StoreTail::start(args, &filter)?;
    started(&mut Builder::new_current_thread())?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(anyhow::Error::new)?;
        let mut ticks = tokio::time::interval(TICK);
        let mut is_read = tail.print_last(args.last.into())?;
        while is_read {
            tokio::select! {
                _ = interrupt.recv() => break,
                _ = ticks.tick() => is_read = tail.print_new(args)?,
            }
        }
        Ok(Exit::Success)
    })
}

/// Position in a followed store.
struct StoreTail<'a> {
    path: PathBuf,
    reader: StoreReader,
    filter: &'a StoreFilter,
    format: Format,
    /// Last row seen.
    seen: i64,
}

impl<'a> StoreTail<'a> {
    fn start(args: &TailArgs, filter: &'a StoreFilter) -> Result<Self, CommandError> {
        let path = args.store.path()?;
        let reader = args.store.open()?;
        let seen = reader.last_rows()?.evaluation;
        Ok(Self { path, reader, filter, format: args.format, seen })
    }

    /// Prints the last stored rows, the oldest first.
    fn print_last(&self, count: usize) -> Result<bool, CommandError> {
        if count == 0 {
            return Ok(true);
        }
        let end = PagePlace { rank: 0.0, seq: self.seen.saturating_add(1) };
        let page = self.reader.evaluation_page(self.filter, Some(end), count)?;
        self.print(page.items.iter().rev())
    }

    /// Prints rows since the last poll; returns false without a reader.
    fn print_new(&mut self, args: &TailArgs) -> Result<bool, CommandError> {
        if !self.reader.is_of(&self.path) {
            // A damaged file was set aside, or the collector has removed its temporary one.
            self.reader = args.store.open()?;
            self.seen = 0;
            output::note("spanscore: a new file is in place of the store");
        }
        let until = self.reader.last_rows()?.evaluation;
        if until == self.seen {
            return Ok(true);
        }
        let range = (self.seen, until);
        let found = self.reader.evaluations_between(self.filter, range, ROWS_PER_LOOK_MAX);
        let (rows, all) = found?;
        let left_out = all - rows.len() as i64;
        if left_out > 0 {
            output::note(format_args!("spanscore: {left_out} evaluations came too fast to print"));
        }
        self.seen = until;
        self.print(rows.iter().map(|(_, row)| row))
    }

    fn print<'r>(
        &self,
        rows: impl Iterator<Item = &'r EvaluationRow>,
    ) -> Result<bool, CommandError> {
        for row in rows {
            let text = match self.format {
                Format::Jsonl => visible::json(Value::Object(object(row)?)).to_string(),
                Format::Table => line(row),
            };
            if !output::followed(&text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Formats an evaluation as one line.
fn line(row: &EvaluationRow) -> String {
    let score = row.score.map_or_else(|| "-".to_owned(), |score| shown_share(score, 3));
    let why = row.explanation.as_ref().or(row.error.as_ref()).or(row.reason.as_ref());
    let tool = row.tool.as_ref().map_or_else(String::new, |tool| format!(" on {tool}"));
    let time = row.time.get(..19).unwrap_or(&row.time);
    let trace = short(&row.trace_id);
    let text = format!(
        "{time} {trace} {:<13} {score:>5} {}{tool}  {}",
        verdict(row),
        row.evaluator,
        why.map_or("", |why| beginning(why)),
    );
    visible::line(text.trim_end()).to_string()
}
