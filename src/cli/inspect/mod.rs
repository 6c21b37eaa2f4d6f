//! `spanscore inspect`: shows the content extracted from recorded traces.

pub(super) mod suggest;

use std::borrow::Cow;
use std::path::PathBuf;

use clap::Args;
use comfy_table::ColumnConstraint;

use super::score::Format;
use super::source::ConfigArgs;
use super::{CommandError, Exit, inputs, output, recorded};
use spanscore_base::model::{Facts, TraceId, Trajectory};
use spanscore_base::value::Value;
use spanscore_base::visible;
use spanscore_engine::call_rows::judged_row;
use spanscore_engine::replay::Replay;
use spanscore_evaluate::FailureJudge;

/// Shows the tool calls and other facts in recorded traces
///
/// Reads the same files as `score`. `--format jsonl` prints one object per line and trace with all
/// facts that evaluators see; a fact that is not recorded is `null`. Parallel calls have the same
/// `group`. `status` is the state of a call in the telemetry; `failed` is the decision of the
/// evaluators, which also read the result.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore inspect examples/traces/refund_agent.json
  spanscore inspect --format jsonl traces.jsonl | jq '.tool_calls[].name'
  spanscore inspect --explain traces.jsonl      # when a call is missing
  spanscore inspect --suggest traces.jsonl      # when nothing is known of the instrumentation")]
pub(super) struct InspectArgs {
    /// Files, folders or patterns to read; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Shows for each span which dialects matched, which one was used, the source of each field,
    /// and what was dropped and why. Shows the sources of session, agent, user input and final
    /// output
    #[arg(long, conflicts_with = "format")]
    explain: bool,
    /// Prints one row per session instead of one per trace, with the calls of all its traces
    #[arg(long, conflicts_with = "explain")]
    sessions: bool,
    /// Prints a dialect for spans that no dialect reads, with its evidence, ready for a config
    #[arg(long, conflicts_with_all = ["format", "explain", "sessions"])]
    suggest: bool,
}

pub(super) fn run(args: &InspectArgs) -> Result<Exit, CommandError> {
    let plan = args.config.plan()?;
    let files = inputs::expand(&args.files)?;
    if args.suggest {
        return suggest::run(&plan, &files);
    }
    let failures = FailureJudge::new(&plan.config.failures).map_err(anyhow::Error::new)?;
    let resolver = recorded::resolver(&plan, &Facts::all())?;
    let mut replay = Replay::new(&resolver, plan.config.limits, plan.config.sessions.key);
    let is_broken = recorded::read(&mut replay, &files)?;
    let mut printed = Ok(());
    let mut shown = 0;
    if args.explain {
        replay.explain(|explanation| {
            shown += 1;
            if printed.is_ok() {
                printed = output::line(explanation);
            }
        });
    } else if args.sessions {
        replay.for_each_session(|session, trace_ids| {
            shown += trace_ids.len();
            if printed.is_ok() {
                printed = print(&session_row(session, trace_ids, &failures), args.format);
            }
        });
    } else {
        replay.for_each(|trajectory| {
            shown += 1;
            if printed.is_ok() {
                printed = print(&judged_row(trajectory, Some(&failures)), args.format);
            }
        });
    }
    printed?;
    let hidden = replay.trace_count().saturating_sub(shown);
    if hidden > 0 {
        output::note(format_args!(
            "spanscore: {hidden} traces hold no span of a tool, an agent or a model; \
             or no session; `--explain` shows why"
        ));
    }
    Ok(if is_broken { Exit::Failure } else { Exit::Success })
}

/// Converts a session to an object: a trajectory's, with the ids of its traces.
fn session_row<'a>(
    session: &'a Trajectory<'_>,
    trace_ids: &[TraceId],
    failures: &FailureJudge,
) -> Value<'a> {
    let ids = trace_ids.iter().map(|id| Value::from(id.to_string())).collect();
    match judged_row(session, Some(failures)) {
        Value::Map(mut map) => {
            map.insert("trace_ids", Value::List(ids));
            Value::Map(map)
        }
        other => other,
    }
}

/// Prints one trajectory from its JSON form.
fn print(trajectory: &Value<'_>, format: Format) -> Result<(), CommandError> {
    match format {
        Format::Jsonl => output::record(trajectory),
        Format::Table => output::line(table(trajectory)),
    }
}

/// Longest text of a cell, in characters before escaping.
const CELL_CHARS_MAX: usize = 200;

fn table(trajectory: &Value<'_>) -> String {
    let mut out = format!("trace {}", cell(trajectory.get("trace_id")));
    for key in ["service_name", "agent_name", "session_id", "user_input", "final_output"] {
        let value = trajectory.get(key).filter(|value| !value.is_null());
        if let Some(value) = value {
            out.push_str(&format!("\n  {:<13} {}", key.replace('_', " "), cell(Some(value))));
        }
    }
    let calls = trajectory.get("tool_calls").and_then(Value::as_list).unwrap_or_default();
    if calls.is_empty() {
        out.push_str("\n  no tool calls\n");
        return out;
    }
    let has_groups = calls.iter().any(|call| call.get("group").is_some());
    let group = has_groups.then_some("GROUP");
    let heads = ["TOOL", "STATUS", "FAILED", "ARGUMENTS", "RESULT", "DIALECT"];
    let mut table = output::table(heads.into_iter().chain(group).collect::<Vec<_>>());
    if let Some(width) = table.width() {
        table.set_width(width.saturating_sub(INDENT.len() as u16));
    }
    for call in calls {
        let error = call.get("error").filter(|error| !error.is_null());
        let row = [
            cell(call.get("name")),
            cell(call.get("status")),
            failed(call),
            cell(call.get("arguments")),
            cell(error.or_else(|| call.get("result"))),
            cell(call.get("dialect")),
        ];
        table.add_row(row.into_iter().chain(has_groups.then(|| cell(call.get("group")))));
    }
    // Short words stay whole; arguments and results share the remaining width.
    let widths = table.column_max_content_widths();
    for (column, width_max) in WHOLE_COLUMNS {
        let is_short = widths.get(column).is_some_and(|width| *width <= width_max);
        if let Some(column) = table.column_mut(column).filter(|_| is_short) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for line in table.trim_fmt().lines() {
        out.push_str(&format!("\n{INDENT}{line}"));
    }
    out.push('\n');
    out
}

/// Indentation below the line of a trace.
const INDENT: &str = "  ";
/// Columns kept whole up to a width, by index: tool, status, dialect, group.
const WHOLE_COLUMNS: [(usize, u16); 4] = [(0, 24), (1, 8), (5, 16), (6, 6)];

/// Formats the column `failed`: `-` if unknown, else `yes` or `no` with the reason.
fn failed(call: &Value<'_>) -> String {
    let reason = call.get("failed_reason").and_then(Value::as_str);
    match (call.get("failed").and_then(Value::as_bool), reason) {
        (None, _) => "-".to_owned(),
        (Some(false), None) => "no".to_owned(),
        (Some(false), Some(reason)) => format!("no: {}", visible::line(reason)),
        (Some(true), reason) => format!("yes: {}", visible::line(reason.unwrap_or_default())),
    }
}

fn cell(value: Option<&Value<'_>>) -> String {
    let text = match value {
        None | Some(Value::Null) => Cow::Borrowed("-"),
        Some(Value::String(text)) => Cow::Borrowed(&**text),
        Some(value) => Cow::Owned(value.to_string()),
    };
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((cut, _)) => format!("{}...", visible::line(&text[..cut])),
        None => visible::line(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    #[test]
    fn a_trajectory_is_shown_with_its_calls() {
        let text = r#"{"trace_id": "0a", "service_name": "shop", "agent_name": null,
            "user_input": "refund\nplease", "tool_calls": [
              {"name": "find", "status": "ok", "arguments": {"id": 1}, "result": [], "error": null,
               "failed": false, "failed_reason": null, "dialect": "openinference"},
              {"name": "pay", "status": "error", "arguments": null, "result": null,
               "error": "refused", "failed": true, "failed_reason": "it said so",
               "dialect": "openinference"}]}"#;
        let shown = table(&json::parse(text).expect("JSON"));
        insta::assert_snapshot!(shown, @r#"
        trace 0a
          service name  shop
          user input    refund\nplease
           TOOL  STATUS  FAILED           ARGUMENTS  RESULT   DIALECT
           find  ok      no               {"id":1}   []       openinference
           pay   error   yes: it said so  -          refused  openinference
        "#);
    }

    #[test]
    fn calls_made_together_show_their_group() {
        let text = r#"{"trace_id": "0a", "tool_calls": [
              {"name": "find", "status": "ok", "dialect": "openinference"},
              {"name": "hold", "status": "ok", "dialect": "openinference", "group": 2},
              {"name": "pay", "status": "ok", "dialect": "openinference", "group": 2}]}"#;
        let shown = table(&json::parse(text).expect("JSON"));
        insta::assert_snapshot!(shown, @r"
        trace 0a
           TOOL  STATUS  FAILED  ARGUMENTS  RESULT  DIALECT        GROUP
           find  ok      -       -          -       openinference  -
           hold  ok      -       -          -       openinference  2
           pay   ok      -       -          -       openinference  2
        ");
    }
}
