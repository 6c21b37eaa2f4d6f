//! `spanscore compare`: two versions, times or score files, side by side.

use std::fmt::Write;
use std::path::Path;

use clap::Args;

use super::filter::{FilterArgs, FilterCondition};
use super::rows::print_record;
use super::{StoreArgs, files, short};
use crate::cli::score::Format;
use crate::cli::{CommandError, Exit, misused, output};
use spanscore_base::model::{shown_percent, shown_share};
use spanscore_base::visible;
use spanscore_store::query::{
    CaseCounts, EvaluatorComparison, GroupFigures, IntervalDifference, NewFailure, SideComparison,
    StoreField, ToolComparison, ToolSide,
};

/// Compares two versions, two periods, or two files of scores
///
/// A side is a version of the service (`1.4.0`); conditions such as
/// `version=1.4.0,environment=prod` or `since=14d,until=7d`, with the fields of `scores`; or a file
/// of scores: JSON Lines of `score --format jsonl` or of the file exporter. Pass rates decide. Of
/// all rows that are marked better or worse, at most 5 % are so by chance. Cases that passed in all
/// runs of A and fail in B are listed by name.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore compare -c spanscore.yaml 1.4.0 1.5.0
  spanscore compare -c spanscore.yaml since=14d,until=7d since=7d --where environment=prod
  spanscore compare --store scores.db evaluator_version=0c31 evaluator_version=9ab0
  spanscore compare main.jsonl branch.jsonl")]
pub(in crate::cli) struct CompareArgs {
    /// Old side: version, FIELD=VALUE,FIELD=VALUE or file of scores
    #[arg(value_name = "A")]
    a: String,
    /// New side
    #[arg(value_name = "B")]
    b: String,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(in crate::cli) fn run(args: &CompareArgs) -> Result<Exit, CommandError> {
    let comparison = compared(args)?;
    match args.format {
        Format::Jsonl => print_records(&comparison)?,
        Format::Table => output::line(text(&comparison).trim_end())?,
    }
    Ok(Exit::Success)
}

fn compared(args: &CompareArgs) -> Result<SideComparison, CommandError> {
    let is_file = |side: &str| Path::new(side).is_file() || side.ends_with(".jsonl");
    match (is_file(&args.a), is_file(&args.b)) {
        (true, true) if args.filter.is_empty() => {
            let a = files::side(Path::new(&args.a))?;
            let b = files::side(Path::new(&args.b))?;
            return Ok(SideComparison::of(&a, &b));
        }
        (true, true) => {
            return misused(
                "files are compared whole: leave out --since, --until, --where and --text",
            );
        }
        (true, false) | (false, true) => {
            return misused("a file can only be compared with a file, not with runs of a store");
        }
        (false, false) => {}
    }
    let a = args.filter.read(&side(&args.a)?)?;
    let b = args.filter.read(&side(&args.b)?)?;
    let reader = args.store.open()?;
    let comparison = SideComparison::read(&reader, &a, &b)?;
    let doubtful = reader.losses()?;
    let doubtful = doubtful.uncorrected + doubtful.repeated_unseen;
    if doubtful > 0 {
        let text = "evaluations of the store may be counted wrongly";
        output::note(format_args!("spanscore: at most {doubtful} {text}"));
    }
    Ok(comparison)
}

/// Parses a side: a version, or conditions.
fn side(text: &str) -> Result<Vec<FilterCondition>, CommandError> {
    if !text.contains('=') {
        return Ok(vec![(StoreField::Version.as_str().to_owned(), text.to_owned())]);
    }
    let conditions = text.split(',').map(|part| {
        let found = part.split_once('=');
        found.map(|(word, value)| (word.trim().to_owned(), value.trim().to_owned())).ok_or_else(
            || CommandError::Usage(format!("`{part}` is no condition: write it as FIELD=VALUE")),
        )
    });
    conditions.collect()
}

/// Prints each row as an object with its kind.
fn print_records(comparison: &SideComparison) -> Result<(), CommandError> {
    comparison.evaluators.iter().try_for_each(|it| print_record("evaluator", it))?;
    comparison.tools.iter().try_for_each(|it| print_record("tool", it))?;
    comparison.new_failures.iter().try_for_each(|it| print_record("new_failure", it))
}

fn text(comparison: &SideComparison) -> String {
    if comparison.evaluators.is_empty() && comparison.tools.is_empty() {
        return "nothing to compare: no evaluation is of either side".to_owned();
    }
    let mut out = evaluators(&comparison.evaluators);
    if !comparison.tools.is_empty() {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "\n\n{}", tools(&comparison.tools));
    }
    if !comparison.new_failures.is_empty() {
        let _ = write!(out, "\n\n{}", failures(comparison));
    }
    out
}

fn evaluators(rows: &[EvaluatorComparison]) -> String {
    let names = ["evaluator", "verdict", "pass rate a", "pass rate b", "difference", "mean"];
    let mut table = output::table(names.into_iter().chain(["cases"]).collect::<Vec<_>>());
    for it in rows {
        let changed = if it.definitions_differ { " (settings differ)" } else { "" };
        let points = it.pass_rate_difference.as_ref();
        table.add_row([
            visible::line(format_args!("{}{changed}", it.evaluator)).to_string(),
            it.verdict.replace('_', " "),
            rate(&it.a),
            rate(&it.b),
            points.map_or_else(String::new, percent_points),
            it.mean_difference.as_ref().map_or_else(String::new, difference),
            cases(it.cases),
        ]);
    }
    table.trim_fmt()
}

/// Formats a pass rate with its trials and its interval, like `87% of 1000 (85% to 89%)`.
fn rate(figures: &GroupFigures) -> String {
    let judged = figures.passed + figures.failed;
    match (figures.pass_rate, figures.pass_interval) {
        (Some(rate), Some((low, high))) => format!(
            "{} of {judged} ({} to {})",
            shown_percent(rate),
            shown_percent(low),
            shown_percent(high)
        ),
        _ => format!("none of {} judged", figures.count),
    }
}

/// Formats a difference of shares in percentage points.
fn percent_points(it: &IntervalDifference) -> String {
    let bounds = it.interval.map(|(low, high)| [low, high].map(|bound| bound * 100.0));
    let bounds = bounds.map(|[low, high]| format!(" ({low:+.1} to {high:+.1})"));
    format!("{:+.1}{}", it.value * 100.0, bounds.unwrap_or_default())
}

fn difference(it: &IntervalDifference) -> String {
    let bounds = it.interval.map(|(low, high)| format!(" ({low:+.3} to {high:+.3})"));
    format!("{:+.3}{}", it.value, bounds.unwrap_or_default())
}

fn cases(counts: CaseCounts) -> String {
    match counts {
        CaseCounts { compared: 0, .. } => String::new(),
        CaseCounts { compared, newly_failing: 0, newly_passing: 0 } => {
            format!("{compared} as before")
        }
        CaseCounts { compared, newly_failing, newly_passing } => {
            format!("{newly_failing} newly fail, {newly_passing} newly pass, of {compared}")
        }
    }
}

fn tools(rows: &[ToolComparison]) -> String {
    let names = ["tool", "verdict", "errors a", "errors b", "difference"];
    let mut table = output::table(names);
    let side = |it: &ToolSide| match it.error_rate {
        Some(rate) => format!("{}% of {} calls", shown_share(rate * 100.0, 1), it.calls),
        None => "no call".to_owned(),
    };
    for it in rows {
        let points = it.error_rate_difference.as_ref();
        table.add_row([
            visible::line(&it.tool).to_string(),
            it.verdict.replace('_', " "),
            side(&it.a),
            side(&it.b),
            points.map_or_else(String::new, percent_points),
        ]);
    }
    table.trim_fmt()
}

fn failures(comparison: &SideComparison) -> String {
    let all: i64 = comparison.evaluators.iter().map(|it| it.cases.newly_failing).sum();
    let mut table = output::table(["passed before, fail now", "evaluator", "trace"]);
    for NewFailure { case, evaluator, trace_id, .. } in &comparison.new_failures {
        table.add_row([
            visible::line(case).to_string(),
            visible::line(evaluator).to_string(),
            short(trace_id.as_deref().unwrap_or_default()).to_owned(),
        ]);
    }
    let more = all - comparison.new_failures.len() as i64;
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    table.trim_fmt() + &more
}
