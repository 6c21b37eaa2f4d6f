//! `spanscore learn`: derives expectations from good runs.

mod alignment;
mod golden;
pub(super) mod init;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use self::golden::GoldenCall;
pub(super) use self::golden::GoldenCase;
use super::source::ConfigArgs;
use super::{CommandError, Exit, check_absent, inputs, output, recorded};
use crate::cli::run::recording::create_own;
use spanscore_base::model::{Facts, Trajectory};
use spanscore_base::value::Value;
use spanscore_base::visible;
use spanscore_engine::replay::Replay;
use spanscore_evaluate::engine::expect::lookup;
use spanscore_evaluate::engine::select::{Scope, When};

/// Writes a dataset of expected tool calls from recorded good runs
///
/// For each case, the dataset has the calls that all its runs make in one order, with the arguments
/// that are equal in all of them, and the number of calls of each tool. Parallel calls have no
/// order. What differs between runs is left open, so two or three runs of a case make better
/// expectations than one. `expect:` reads the dataset. `--output` also writes a config that uses
/// it, next to it as `.yaml`; without `--output` the config goes to standard error. Runs whose root
/// span failed are left out. Review both files: they record what the agent does, not what it should
/// do.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore learn --output golden.jsonl good/*.jsonl
  spanscore learn --key 'attributes[\"eval.case.id\"]' -o golden.jsonl good/
  spanscore score --golden golden.yaml new/")]
pub(super) struct LearnArgs {
    /// Files, folders or patterns to read; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Case of a trace: a CEL expression, as `expect.key` in the config. With `user_input`, cases
    /// get short ids
    #[arg(long, value_name = "CEL", default_value = "attributes[\"case\"]")]
    key: String,
    /// Writes the dataset to this file instead of standard output, and a config for it next to it,
    /// as `.yaml`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrites existing files
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &LearnArgs) -> Result<Exit, CommandError> {
    let plan = args.config.plan()?;
    let config = args.output.as_ref().map(|path| path.with_extension("yaml"));
    check_absent(args.output.iter().chain(&config).map(PathBuf::as_path), args.force)?;
    let key = When::compile(&args.key)
        .map_err(|error| CommandError::Usage(format!("--key {:?}: {error}", args.key)))?;
    let resolver = recorded::resolver(&plan, &Facts::all().union(&key.facts()))?;
    let mut replay = Replay::new(&resolver, plan.config.limits, plan.config.sessions.key);
    let is_broken = recorded::read(&mut replay, &inputs::expand(&args.files)?)?;
    let mut cases: BTreeMap<String, GoldenCase> = BTreeMap::new();
    let mut nameless = 0_usize;
    let is_words = key.is_user_input();
    let broken = replay.for_each_unbroken(|trajectory| {
        let mut scope = Scope::new(trajectory, key.reads());
        scope.begin(&trajectory.effort);
        match key.text(&scope) {
            Some(case) if is_words && lookup::words(&case).is_empty() => nameless += 1,
            Some(case) => {
                let case = if is_words { lookup::words(&case) } else { case };
                cases.entry(case).or_default().add(calls(trajectory));
            }
            None => nameless += 1,
        }
    });
    for trace in broken {
        output::note(format_args!("spanscore: run {trace} is left out: its root span failed"));
    }
    if nameless > 0 {
        let key = visible::line(&args.key);
        output::note(format_args!("spanscore: {nameless} runs left out: {key} names no case"));
    }
    if cases.is_empty() {
        output::note(
            "spanscore: no case: let the agent set the attribute `case` on its root span, \
                      or say with --key what names it",
        );
        return Ok(Exit::Failure);
    }
    let mut dataset = String::new();
    for (case, golden) in &cases {
        let row = if is_words {
            golden.row(&lookup::short_id(case), Some(case))
        } else {
            golden.row(case, None)
        };
        dataset.push_str(&visible::json(row).to_string());
        dataset.push('\n');
    }
    print_cases(&cases);
    let evaluators = evaluators(args);
    match (&args.output, &config) {
        (Some(path), Some(config)) => {
            write_own(path, &dataset)?;
            write_own(config, &evaluators)?;
            let config = visible::line(config.display()).to_string();
            output::note(format_args!(
                "\njudge new runs by them: spanscore score --golden {config} FILES"
            ));
        }
        _ => {
            output::text(&dataset)?;
            output::note(format_args!("\n{}", evaluators.trim_end()));
        }
    }
    Ok(if is_broken { Exit::Failure } else { Exit::Success })
}

fn write_own(path: &Path, text: &str) -> anyhow::Result<()> {
    create_own(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the calls of a run that evaluators see.
pub(super) fn calls(trajectory: &Trajectory<'_>) -> Vec<GoldenCall> {
    let seen: Vec<_> = trajectory.tool_calls.iter().filter(|call| !call.is_output).collect();
    let mut group = 0;
    let calls = seen.iter().enumerate().map(|(at, call)| {
        let is_new = at.checked_sub(1).is_some_and(|before| !seen[before].is_with(call));
        group += usize::from(is_new);
        let arguments = call.arguments.value();
        let is_filled = |value: &&Value<'_>| matches!(value, Value::Map(map) if !map.is_empty());
        let arguments = arguments.filter(is_filled).map(|value| value.clone().into_owned());
        GoldenCall { name: call.name.to_string(), arguments, group }
    });
    calls.collect()
}

fn print_cases(cases: &BTreeMap<String, GoldenCase>) {
    let runs: usize = cases.values().map(|case| case.runs).sum();
    let single = cases.values().filter(|case| case.runs == 1).count();
    let reordered = cases.values().filter(|case| !case.is_one_order).count();
    output::note(format_args!("learned {} cases from {runs} runs", cases.len()));
    if single > 0 {
        output::note(format_args!(
            "{single} of one run alone: all their arguments are expected as they were; record more \
             runs to find what varies"
        ));
    }
    if reordered > 0 {
        output::note(format_args!(
            "{reordered} whose runs differ in calls or order: only what all share is expected"
        ));
    }
}

/// Returns the config that uses the dataset beside it.
fn evaluators(args: &LearnArgs) -> String {
    let name = args.output.as_ref().and_then(|path| path.file_name());
    let file = name.map_or("golden.jsonl".into(), |name| name.to_string_lossy());
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let expect = |field: &str| {
        let file = quoted(&file);
        let key = quoted(&args.key);
        format!("    expect: {{file: {file}, key: {key}, criteria_field: {field}}}")
    };
    format!(
        "evaluators:\n  tool_trajectory/golden:\n    match_mode: in_order_match\n    \
         argument_matcher: {{mode: nested_subset}}\n{}\n  tool_call_count/golden:\n{}\n",
        expect("trajectory"),
        expect("counts")
    )
}
