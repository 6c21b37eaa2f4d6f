//! `spanscore backfill`: judges stored runs by another config.

pub(in crate::cli) mod judging;
pub(in crate::cli) mod needs;
pub(in crate::cli) mod tally;

use clap::Args;

use self::judging::{Backfill, BackfilledVerdict};
use self::tally::{BackfillCounts, EvaluatorTally};
use super::filter::FilterArgs;
use super::rows::print_record;
use super::scores::{beginning, report_losses};
use super::{StoreArgs, pages, short};
use crate::cli::score::Format;
use crate::cli::{CommandError, Exit, output};
use spanscore_base::model::{shown_percent, shown_share};
use spanscore_base::visible;
use spanscore_net::clock::now_ns;

/// Runs read at once.
const PAGE_RUNS: usize = 200;
/// Limit on changes shown to people; `--format jsonl` has all.
const CHANGES_MAX: usize = 100;

/// Judges stored runs by another config and prints the changed verdicts
///
/// Shows the effect of new evaluators, thresholds or expectations before they go live. Nothing is
/// written. An evaluator is left out, with the reason, if it reads content that is not stored or
/// redacted, or if it uses a judge.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore backfill --config new.yaml --since 7d
  spanscore backfill --config new.yaml --store scores.db --where service=shop
  spanscore backfill --config new.yaml --since 1h --format jsonl | jq 'select(.now == \"fail\")'")]
pub(in crate::cli) struct BackfillArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Also prints unchanged verdicts, with --format jsonl
    #[arg(long)]
    all: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(in crate::cli) fn run(args: &BackfillArgs) -> Result<Exit, CommandError> {
    let filter = args.filter.read(&[])?;
    let plan = args.store.config.plan()?;
    let reader = args.store.open_in(&plan.config)?;
    let steps = u64::from(plan.config.limits.trace_steps);
    let mut backfill = Backfill::new(plan.evaluators, steps, now_ns());
    let mut changes = VerdictChanges::default();
    pages(
        |after| reader.restored_runs(&filter, after, PAGE_RUNS),
        |run| {
            backfill.judge(&run, |verdict| match args.format {
                Format::Jsonl => print_verdict(&verdict, args.all),
                Format::Table => {
                    changes.add(verdict);
                    Ok(())
                }
            })
        },
    )?;
    let runs = backfill.runs;
    let tallies = backfill.finish();
    if runs == 0 {
        output::note("spanscore: no stored run fits");
    } else {
        match args.format {
            Format::Jsonl => {
                tallies.iter().try_for_each(|tally| print_record("evaluator", tally))?;
            }
            Format::Table => output::line(text(&tallies, &changes))?,
        }
    }
    report_losses(&reader, true)?;
    Ok(Exit::Success)
}

/// Reported verdicts of a table: the first of them, and the number of all.
#[derive(Default)]
pub(in crate::cli) struct VerdictChanges {
    first: Vec<BackfilledVerdict>,
    count: u64,
}

impl VerdictChanges {
    pub(in crate::cli) fn add(&mut self, verdict: BackfilledVerdict) {
        if verdict.is_reported {
            self.count += 1;
            if self.first.len() < CHANGES_MAX {
                self.first.push(verdict);
            }
        }
    }
}

/// Prints a verdict if it is to be reported, or any with `all`.
fn print_verdict(verdict: &BackfilledVerdict, all: bool) -> Result<(), CommandError> {
    let row = if verdict.is_reported { "change" } else { "verdict" };
    if verdict.is_reported || all { print_record(row, verdict) } else { Ok(()) }
}

/// Formats counts and changes as tables.
pub(in crate::cli) fn text(tallies: &[EvaluatorTally], changes: &VerdictChanges) -> String {
    let parts = [evaluators(tallies), not_judged(tallies), changed(changes)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

fn evaluators(tallies: &[EvaluatorTally]) -> Option<String> {
    let names = ["evaluator", "runs", "pass rate before", "pass rate now", "newly fail"];
    let more = ["newly pass", "other changes", "not judged"];
    let mut table = output::table(names.into_iter().chain(more).collect::<Vec<_>>());
    for it in tallies {
        table.add_row([
            visible::line(&it.evaluator).to_string(),
            it.runs.to_string(),
            rate(&it.before),
            rate(&it.now),
            it.newly_failing.to_string(),
            it.newly_passing.to_string(),
            it.otherwise_changed.to_string(),
            it.not_judged_runs().to_string(),
        ]);
    }
    Some(table.trim_fmt())
}

/// Formats a pass rate with its trials.
fn rate(counts: &BackfillCounts) -> String {
    let rate = counts.pass_rate();
    rate.map_or_else(String::new, |it| format!("{} of {}", shown_percent(it), counts.judged()))
}

fn not_judged(tallies: &[EvaluatorTally]) -> Option<String> {
    let mut table = output::table(["not judged by", "runs", "because"]);
    let mut is_empty = true;
    for it in tallies {
        for (reason, runs) in &it.not_judged {
            is_empty = false;
            let [name, reason] = [&it.evaluator, reason].map(|it| visible::line(it).to_string());
            table.add_row([name, runs.to_string(), reason]);
        }
    }
    (!is_empty).then(|| table.trim_fmt())
}

fn changed(changes: &VerdictChanges) -> Option<String> {
    let mut table = output::table(["trace", "evaluator", "before", "now", "score", "why"]);
    for it in &changes.first {
        table.add_row([
            short(&it.trace_id).to_owned(),
            visible::line(&it.evaluator).to_string(),
            it.before.unwrap_or("-").replace('_', " "),
            it.now.replace('_', " "),
            it.score_now.map_or_else(String::new, |score| shown_share(score, 3)),
            visible::line(beginning(&it.why)).to_string(),
        ]);
    }
    let more = changes.count - changes.first.len() as u64;
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    (changes.count > 0).then(|| table.trim_fmt() + &more)
}
