//! `--golden`: a config, or an eval set of the Agent Development Kit, for which a config is made.

use std::io::ErrorKind;
use std::path::Path;

use super::super::output;
use super::super::source::ConfigArgs;
use super::super::{CommandError, misused};
use crate::config;
use spanscore_base::value::{Value, json};

/// File beside an eval set with its metrics: `google/adk-python`, `evaluation/eval_config.py`.
const CRITERIA_FILE: &str = "test_config.json";
/// Supported metrics of an eval set, which need no model.
const METRICS: &str = "`tool_trajectory_avg_score` and `response_match_score`";

/// Returns the config options of a file: that config itself, or for an eval set one that compares
/// each run with the case of the same words.
pub(super) fn config(args: &ConfigArgs, file: &Path) -> Result<ConfigArgs, CommandError> {
    let is_dataset = file.extension().is_some_and(|end| end == "jsonl" || end == "csv");
    if is_dataset {
        let config = file.with_extension("yaml");
        return Err(CommandError::Usage(format!(
            "--golden {}: a dataset says not how runs are compared with it; name a config with \
             `expect: {{file: ...}}`, as `learn` writes one ({})",
            file.display(),
            config.display(),
        )));
    }
    // A file that is unreadable or not JSON is reported with its place when read as a config.
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = json::parse(&text).ok();
    match &whole {
        Some(whole) if is_eval_set(whole) => {}
        Some(Value::Map(map)) if !map.iter().any(|(key, _)| is_section(key)) => {
            let text = "neither a config, with `evaluators`, nor an eval set, with `eval_cases`";
            return misused(format!("--golden {}: {text}", file.display()));
        }
        _ => return Ok(args.or_file(Some(file))),
    }
    let name = Value::from(file.to_string_lossy());
    let entry = |(kind, settings): (&str, String)| {
        format!("{kind}/golden: {{{settings}, expect: {{file: {name}, match: auto}}}}")
    };
    let entries: Vec<String> = metrics(file)?.into_iter().map(entry).collect();
    Ok(args.with_first(format!("evaluators={{{}}}", entries.join(", "))))
}

/// Returns the kinds and their settings for the metrics of an eval set: only the tool calls unless
/// the file beside it names others.
fn metrics(set: &Path) -> Result<Vec<(&'static str, String)>, CommandError> {
    let file = set.with_file_name(CRITERIA_FILE);
    let refuse = |what: &str| {
        let file = file.display();
        CommandError::Usage(format!("--golden {}: {file} {what}", set.display()))
    };
    let text = match std::fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(vec![tool_calls()]);
        }
        read => read.map_err(|error| refuse(&format!("cannot be read: {error}")))?,
    };
    let whole = json::parse(&text).map_err(|error| refuse(&format!("is {error}")))?;
    let criteria = whole.get("criteria").and_then(Value::as_map);
    let criteria =
        criteria.ok_or_else(|| refuse("has no object `criteria`; metrics stand there"))?;
    let mut found = Vec::new();
    for (metric, criterion) in criteria.iter() {
        let of_metric = |what: String| refuse(&format!("`{metric}`: {what}"));
        let threshold = || threshold(criterion).map_err(of_metric);
        match metric {
            "tool_trajectory_avg_score" => {
                let calls = calls(criterion).map_err(of_metric)?;
                found.push(("tool_trajectory", format!("{}, {calls}", threshold()?)));
            }
            "response_match_score" => found.push(("word_overlap", threshold()?)),
            other => output::note(format_args!(
                "spanscore: {}: `{other}` is left out: without a model {METRICS} are judged",
                file.display()
            )),
        }
    }
    if found.is_empty() {
        output::note(format_args!(
            "spanscore: {}: no metric is left: the tool calls are judged, as without this file; \
             add {METRICS} to choose",
            file.display()
        ));
        found.push(tool_calls());
    }
    Ok(found)
}

/// Returns the comparison for an eval set without metrics.
fn tool_calls() -> (&'static str, String) {
    ("tool_trajectory", "match_mode: exact".to_owned())
}

/// Returns the threshold in a criterion, as a number or a field.
fn threshold(criterion: &Value<'_>) -> Result<String, String> {
    let number = criterion.as_number().or_else(|| criterion.get("threshold")?.as_number());
    let number = number.filter(|number| (0.0..=1.0).contains(&number.as_f64()));
    let number = number.ok_or("a `threshold` from 0 to 1 is needed, a number")?;
    Ok(format!("threshold: {number}"))
}

/// Returns the comparison of tool calls in a criterion.
fn calls(criterion: &Value<'_>) -> Result<String, String> {
    let setting = |snake, camel| criterion.get(snake).or_else(|| criterion.get(camel));
    let written = setting("match_type", "matchType").unwrap_or(&Value::Null).to_string();
    let word = written.trim_matches('"').to_lowercase().replace(['-', ' '], "_");
    let mode = match word.as_str() {
        "null" | "0" | "exact" => "exact",
        "1" | "in_order" => "in_order_match",
        "2" | "any_order" => "any_order_match",
        _ => return Err(format!("`match_type` is {written}; it is EXACT, IN_ORDER or ANY_ORDER")),
    };
    let ignores = setting("ignore_args", "ignoreArgs").is_some_and(|it| *it == Value::Bool(true));
    let matcher = if ignores { ", argument_matcher: {mode: ignore}" } else { "" };
    Ok(format!("match_mode: {mode}{matcher}"))
}

/// Returns true for the key of a config section.
fn is_section(key: &str) -> bool {
    key == "evaluators" || config::schema()["properties"].get(key).is_some()
}

fn is_eval_set(whole: &Value<'_>) -> bool {
    let has_cases = |key| whole.get(key).and_then(Value::as_list).is_some();
    whole.as_list().is_some() || ["eval_cases", "evalCases"].into_iter().any(has_cases)
}
