//! `--golden`: a config, or an eval set of the Agent Development Kit, for which one is made.

use std::path::Path;

use super::super::CommandError;
use super::super::source::ConfigArgs;
use spanscore_base::value::{Value, json};

/// Returns the options by which the runs are judged: the config of this file, or one that compares
/// the tool calls of each run with the case of an eval set that has its words.
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
    // What cannot be read, or is no JSON, is told with its place when it is read as a config.
    let text = std::fs::read_to_string(file).unwrap_or_default();
    if !json::parse(&text).is_ok_and(|whole| is_eval_set(&whole)) {
        return Ok(args.or_file(Some(file)));
    }
    let name = Value::from(file.to_string_lossy());
    let made = format!(
        "evaluators={{tool_trajectory/golden: {{match_mode: exact, expect: {{file: {name}, \
         match: auto}}}}}}"
    );
    Ok(args.with_first(made))
}

fn is_eval_set(whole: &Value<'_>) -> bool {
    let has_cases = |key| whole.get(key).and_then(Value::as_list).is_some();
    whole.as_list().is_some() || ["eval_cases", "evalCases"].into_iter().any(has_cases)
}
