//! `spanscore scores`: lists of stored evaluations, and figures by group.

use std::num::NonZeroUsize;

use clap::Args;
use serde_json::{Map, Value};

use super::filter::FilterArgs;
use super::rows::{RowFormat, print_rows};
use super::{StoreArgs, short};
use crate::cli::{CommandError, Exit, output};
use spanscore_base::model::{GivenVerdict, shown_percent, shown_share};
use spanscore_base::visible;
use spanscore_store::query::{
    EvaluationRow, StoreField, StoreFilter, StoreOrder, StoreReader, StoredGroup, TOOLS_MAX,
    ToolFigures,
};

/// Remedy for empty lists of a tool.
const NOT_OF_CALLS: &str = ": a tool is told of evaluations of single calls (`level: call`); \
    `spanscore export runs --where tool=NAME` lists the runs that called it, \
    `spanscore scores --tools` counts";

/// Lists stored scores, the worst runs, or figures by evaluator, version and other fields
///
/// Reads the store of a collector, even while it runs. Times are 1h, 7d, yesterday, 2026-11-27 or
/// RFC 3339; days are in UTC. Fields are evaluator, kind, evaluator_version, level, service, agent,
/// version, environment, day, hour, outcome, label, reason, tool, case, model, user_id,
/// answer, session_id, trace_id, completion and annotated.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore scores -c spanscore.yaml --since 1h
  spanscore scores -c spanscore.yaml --since yesterday --worst 10
  spanscore scores -c spanscore.yaml --since 7d --group-by evaluator,version
  spanscore scores -c spanscore.yaml --since 7d --group-by evaluator,model
  spanscore scores -c spanscore.yaml --since yesterday --tools
  spanscore scores -c spanscore.yaml --text bicycle
  spanscore scores --store scores.db --where label=fail --where service=shop --format csv")]
pub(in crate::cli) struct ScoresArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Shows the worst evaluation of each run, for the N worst runs
    #[arg(long, value_name = "N", conflicts_with = "group_by")]
    worst: Option<NonZeroUsize>,
    /// Shows figures for each group of evaluations with equal values of these fields
    #[arg(long, value_name = "FIELD,FIELD", value_delimiter = ',')]
    group_by: Vec<String>,
    /// Shows figures of tools: calls, errors and durations, the tools with most failures first
    #[arg(long, conflicts_with_all = ["worst", "group_by", "all_revisions"])]
    tools: bool,
    /// Limit on the rows of a list, newest first
    #[arg(long, value_name = "N", default_value = "50",
        conflicts_with_all = ["worst", "group_by", "tools"])]
    limit: NonZeroUsize,
    /// Also shows evaluations that a later revision replaced
    #[arg(long)]
    all_revisions: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: RowFormat,
}

pub(in crate::cli) fn run(args: &ScoresArgs) -> Result<Exit, CommandError> {
    let mut filter = args.filter.read(&[])?;
    filter.with_superseded = args.all_revisions;
    let fields = args.group_by.iter().map(|word| StoreField::from_word(word.trim()));
    let fields: Vec<_> = fields.collect::<Result<_, _>>()?;
    let reader = args.store.open()?;
    if args.tools {
        print_tools(reader.tools(&filter)?, args.format)?;
        return report_lost_calls(&reader);
    }
    if fields.is_empty() {
        list(&reader, args, &filter)?;
    } else {
        let groups = reader.groups(&filter, &fields)?;
        print_groups(&groups, &fields, args.format)?;
    }
    report_losses(&reader, fields.is_empty())?;
    Ok(Exit::Success)
}

fn list(reader: &StoreReader, args: &ScoresArgs, filter: &StoreFilter) -> Result<(), CommandError> {
    let order = if args.worst.is_some() { StoreOrder::Worst } else { StoreOrder::Newest };
    let limit = args.worst.unwrap_or(args.limit).get();
    let rows = reader.evaluations(filter, order, limit)?;
    if rows.is_empty() {
        let is_of_tool = filter.values(StoreField::Tool).next().is_some();
        let why = if is_of_tool { NOT_OF_CALLS } else { "" };
        output::note(format_args!("spanscore: no stored evaluation fits{why}"));
    }
    if args.format == RowFormat::Table {
        return if rows.is_empty() { Ok(()) } else { output::line(table(&rows)) };
    }
    print_rows(&rows, args.format)
}

fn table(rows: &[EvaluationRow]) -> String {
    let mut table =
        output::table(["time", "trace", "case", "evaluator", "verdict", "score", "version", "why"]);
    for row in rows {
        let why = row.explanation.as_ref().or(row.error.as_ref()).or(row.reason.as_ref());
        let text = |text: &str| visible::line(text).to_string();
        table.add_row([
            row.time.get(..19).unwrap_or(&row.time).to_owned(),
            short(&row.trace_id).to_owned(),
            text(row.case.as_deref().unwrap_or_default()),
            text(&row.evaluator),
            verdict(row).to_owned(),
            row.score.map_or_else(String::new, |score| shown_share(score, 3)),
            text(&row.version),
            text(why.map_or("", |why| beginning(why))),
        ]);
    }
    table.trim_fmt()
}

/// Returns the start of an explanation; `show` has all of it.
pub(super) fn beginning(text: &str) -> &str {
    const BYTES_MAX: usize = 120;
    &text[..text.floor_char_boundary(BYTES_MAX)]
}

/// Returns the verdict in words.
pub(super) fn verdict(row: &EvaluationRow) -> &'static str {
    GivenVerdict::of(row.outcome, row.label).words()
}

fn print_groups(
    groups: &[StoredGroup],
    fields: &[StoreField],
    format: RowFormat,
) -> Result<(), CommandError> {
    if groups.is_empty() {
        output::note("spanscore: no stored evaluation fits");
        return Ok(());
    }
    if format != RowFormat::Table {
        let objects: Vec<_> = groups.iter().map(|group| group_object(group, fields)).collect();
        return print_rows(&objects, format);
    }
    let names = fields.iter().map(|field| field.as_str());
    let figures = ["count", "pass", "fail", "not evaluable", "failed", "pass rate", "mean"];
    let has_cost = groups.iter().any(|group| group.cost_usd > 0.0);
    let cost = has_cost.then_some("cost of judges");
    let mut table = output::table(names.chain(figures).chain(cost).collect::<Vec<_>>());
    for group in groups {
        let keys = group.keys.iter().map(|key| visible::line(key).to_string());
        let counts = [group.count(), group.passed, group.failed, group.not_evaluable, group.broken];
        let rate = group.pass_rate().map_or_else(String::new, shown_percent);
        let mean = group.mean.map_or_else(String::new, |mean| shown_share(mean, 3));
        let counts = counts.map(|count| count.to_string());
        let cost = has_cost.then(|| format!("${:.4}", group.cost_usd));
        table.add_row(keys.chain(counts).chain([rate, mean]).chain(cost).collect::<Vec<_>>());
    }
    output::line(table.trim_fmt())
}

/// Prints figures of tools, those with the highest error rate first.
fn print_tools(mut tools: Vec<ToolFigures>, format: RowFormat) -> Result<(), CommandError> {
    if tools.is_empty() {
        output::note("spanscore: no stored tool call fits");
        return Ok(());
    }
    if tools.len() == TOOLS_MAX {
        output::note(format_args!("spanscore: these are the {TOOLS_MAX} tools with most calls"));
    }
    let rate = |tool: &ToolFigures| tool.errors as f64 / tool.calls.max(1) as f64;
    tools.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    if format != RowFormat::Table {
        let objects: Vec<_> = tools.iter().map(|tool| tool_object(tool, rate(tool))).collect();
        return print_rows(&objects, format);
    }
    let heads = ["tool", "calls", "errors", "error rate", "p50", "p95", "not offered"];
    let mut table = output::table(heads);
    for tool in &tools {
        let about = |share| tool.percentile(share).map_or_else(String::new, |s| format!("{s:.3}s"));
        table.add_row([
            visible::line(&tool.tool).to_string(),
            tool.calls.to_string(),
            tool.errors.to_string(),
            shown_percent(rate(tool)),
            about(0.5),
            about(0.95),
            tool.undeclared.to_string(),
        ]);
    }
    output::line(table.trim_fmt())
}

fn tool_object(tool: &ToolFigures, error_rate: f64) -> Map<String, Value> {
    let figures = [
        ("tool", Value::from(tool.tool.as_str())),
        ("calls", Value::from(tool.calls)),
        ("errors", Value::from(tool.errors)),
        ("error_rate", Value::from(error_rate)),
        ("p50_s", Value::from(tool.percentile(0.5))),
        ("p95_s", Value::from(tool.percentile(0.95))),
        ("undeclared", Value::from(tool.undeclared)),
    ];
    figures.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// Returns the keys of a group by field name.
pub(in crate::cli) fn group_keys(fields: &[StoreField], group: &StoredGroup) -> Map<String, Value> {
    let keys = fields.iter().zip(&group.keys);
    keys.map(|(field, key)| (field.as_str().to_owned(), Value::from(key.as_str()))).collect()
}

fn group_object(group: &StoredGroup, fields: &[StoreField]) -> Map<String, Value> {
    let mut map = group_keys(fields, group);
    let figures = [
        ("count", Value::from(group.count())),
        ("pass", Value::from(group.passed)),
        ("fail", Value::from(group.failed)),
        ("not_evaluable", Value::from(group.not_evaluable)),
        ("failed", Value::from(group.broken)),
        ("pass_rate", Value::from(group.pass_rate())),
        ("mean", Value::from(group.mean)),
        ("cost_usd", Value::from(group.cost_usd)),
    ];
    map.extend(figures.map(|(name, value)| (name.to_owned(), value)));
    map
}

/// Reports missing calls.
fn report_lost_calls(reader: &StoreReader) -> Result<Exit, CommandError> {
    let runs = reader.losses()?.shed_trajectories;
    if runs > 0 {
        output::note(format_args!(
            "spanscore: calls of {runs} runs are missing: the queue of the store was full"
        ));
    }
    Ok(Exit::Success)
}

/// Reports omissions of the store, which bound the error of the answer.
pub(super) fn report_losses(reader: &StoreReader, is_list: bool) -> Result<(), CommandError> {
    let losses = reader.losses()?;
    if is_list && losses.shed_evaluations > 0 {
        output::note(format_args!(
            "spanscore: {} evaluations are in figures only: the queue of the store was full",
            losses.shed_evaluations
        ));
    }
    let doubtful = losses.uncorrected + losses.repeated_unseen;
    if !is_list && doubtful > 0 {
        output::note(format_args!(
            "spanscore: at most {doubtful} evaluations may be counted wrongly: {} revised, {} \
             that may be repeats",
            losses.uncorrected, losses.repeated_unseen
        ));
    }
    Ok(())
}
