//! `spanscore show`: one stored run with its calls and its evaluations.

use std::fmt::Write;
use std::path::Path;

use clap::Args;
use serde_json::Value;

use super::StoreArgs;
use super::rows::object;
use super::scores::verdict;
use crate::cli::score::Format;
use crate::cli::{CommandError, Exit, misused, output};
use spanscore_base::model::shown_share;
use spanscore_base::visible;
use spanscore_store::query::{EvaluationRow, StoredCall, StoredTrajectory};

/// Longest value of a call shown to people; `--format jsonl` has all of it.
const VALUE_BYTES_MAX: usize = 400;

/// Shows a stored run: its tool calls and every verdict
///
/// The first digits of the trace id are enough, as `scores` prints them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore show -c spanscore.yaml 5b8aa5a2
  spanscore show --store scores.db 5b8aa5a2 --format jsonl | jq .calls")]
pub(in crate::cli) struct ShowArgs {
    /// Trace id, or at least its first four digits
    #[arg(value_name = "TRACE")]
    trace: String,
    #[command(flatten)]
    store: StoreArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(in crate::cli) fn run(args: &ShowArgs) -> Result<Exit, CommandError> {
    let is_id = args.trace.bytes().all(|it| it.is_ascii_hexdigit());
    if !is_id && Path::new(&args.trace).is_file() {
        let file = &args.trace;
        return misused(format!("{file} is a file: `spanscore inspect {file}` shows a recording"));
    }
    let config = args.store.config.plan()?.config;
    let reader = args.store.open_in(&config)?;
    let run = reader.trajectory(&args.trace.to_ascii_lowercase())?;
    let link = config.store.0.as_ref().and_then(|store| store.trace_url.as_ref());
    let trace_url = link.map(|link| link.of(&run.trace_id));
    match args.format {
        Format::Jsonl => {
            let mut record = object(&run)?;
            record.insert("trace_url".to_owned(), Value::from(trace_url));
            output::record(Value::Object(record))?;
        }
        Format::Table => output::line(text(&run, trace_url.as_deref()).trim_end())?,
    }
    Ok(Exit::Success)
}

fn text(run: &StoredTrajectory, trace_url: Option<&str>) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = head(run, trace_url, &mut out);
    let _ = offered(run.offered.as_ref(), &mut out);
    let _ = calls(&run.calls, &mut out);
    let _ = evaluations(&run.evaluations, &mut out);
    out
}

fn head(run: &StoredTrajectory, trace_url: Option<&str>, out: &mut String) -> std::fmt::Result {
    let line = visible::line::<&str>;
    writeln!(out, "trace {}", run.trace_id)?;
    let parts = [
        ("service", run.service.as_str()),
        ("version", run.version.as_str()),
        ("environment", run.environment.as_str()),
        ("agent", run.agent.as_str()),
        ("session", run.session_id.as_deref().unwrap_or_default()),
        ("user", run.user_id.as_deref().unwrap_or_default()),
        ("models", &run.models.join(", ")),
        ("case", &run.cases.join(", ")),
        ("trace url", trace_url.unwrap_or_default()),
    ];
    for (name, value) in parts.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(out, "  {name:<12} {}", line(value))?;
    }
    writeln!(out, "  {:<12} {}, {:.3} s, {} spans", "ended", run.time, run.duration_s, run.spans)?;
    let revision = match run.revision {
        None if run.evaluations.iter().any(|it| it.client.is_some()) => {
            ", its run is at another process".to_owned()
        }
        None => ", its run is not stored yet".to_owned(),
        Some(0) => String::new(),
        Some(revision) => format!(", judged again {revision} times: spans came later"),
    };
    let partial = if run.partial { ", part of the trace is missing" } else { "" };
    writeln!(out, "  {:<12} {}{partial}{revision}", "completion", run.completion)?;
    if let (Some(input), Some(output)) = (run.input_tokens, run.output_tokens) {
        writeln!(out, "  {:<12} {input} in, {output} out", "tokens")?;
    }
    if let Some(cost) = run.cost_usd {
        writeln!(out, "  {:<12} ${cost:.4}", "cost")?;
    }
    if let Some(left_out) = run.left_out {
        writeln!(
            out,
            "  {:<12} {left_out}: not stored, or the store's queue was filled",
            "left out"
        )?;
    }
    field("input", run.input.as_ref(), out)?;
    field("output", run.output.as_ref(), out)
}

/// Writes the names of the offered tools.
fn offered(tools: Option<&Value>, out: &mut String) -> std::fmt::Result {
    let tools = tools.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let names = names.join(", ");
    let end = if names.len() > VALUE_BYTES_MAX { " ..." } else { "" };
    writeln!(out, "  {:<12} {}{end}", "offered", visible::line(beginning(&names)))
}

fn calls(calls: &[StoredCall], out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n{} calls", calls.len())?;
    for (at, call) in calls.iter().enumerate() {
        let lasted = call.duration_s.map_or_else(String::new, |it| format!(" {it:.3} s"));
        let undeclared = if call.undeclared { ", not among the tools offered" } else { "" };
        let tool = visible::line(&call.tool);
        writeln!(out, "{:>3} {tool}{lasted} {}{undeclared}", at + 1, call.status)?;
        field("arguments", call.arguments.as_ref(), out)?;
        field("result", call.result.as_ref(), out)?;
        if let Some(Value::String(error)) = &call.error {
            writeln!(out, "  {:<12} {}", "error", visible::line(beginning(error)))?;
        }
    }
    Ok(())
}

/// Writes a field of content: its value, or the reason for its absence.
fn field(name: &str, content: Option<&Value>, out: &mut String) -> std::fmt::Result {
    let Some(content) = content else { return Ok(()) };
    let value = match (content.get("value"), content.get("absent")) {
        (Some(Value::String(text)), None) => text.clone(),
        (Some(value), None) => value.to_string(),
        (_, Some(Value::String(reason))) => format!("({})", reason.replace('_', " ")),
        _ => return Ok(()),
    };
    let end = if value.len() > VALUE_BYTES_MAX { " ..." } else { "" };
    writeln!(out, "  {name:<12} {}{end}", visible::line(beginning(&value)))
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(VALUE_BYTES_MAX)]
}

fn evaluations(evaluations: &[EvaluationRow], out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n{} evaluations", evaluations.len())?;
    for it in evaluations {
        let score =
            it.score.map_or_else(String::new, |score| format!(" {}", shown_share(score, 3)));
        let revision = if it.current { "" } else { " (replaced later)" };
        let early = if it.early { " (before the end)" } else { "" };
        let tool = it.tool.as_ref().map_or_else(String::new, |tool| format!(" on {tool}"));
        let by = it.client.as_ref().map_or_else(String::new, |client| format!(" by {client}"));
        let name = visible::line(format_args!("{}{tool}{by}", it.evaluator)).to_string();
        writeln!(out, "  {}{score} {name}{early}{revision}", verdict(it))?;
        let why = it.explanation.as_ref().or(it.error.as_ref()).or(it.reason.as_ref());
        if let Some(why) = why {
            writeln!(out, "      {}", visible::line(why))?;
        }
    }
    Ok(())
}
