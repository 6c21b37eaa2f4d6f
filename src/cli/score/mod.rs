//! `spanscore score`: judges recorded traces; the gate of a CI run.

mod baseline;
mod classes;
mod gate;
mod gathering;
mod golden;
mod pages;
mod repeats;
pub(super) mod replies;
mod report;
pub(super) mod rows;
mod silence;
mod tally;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use clap::{Args, ValueEnum};

use self::baseline::RunScores;
use self::gate::GateVerdict;
pub(super) use self::gate::{GateArgs, ScoreGate};
use self::gathering::{PreparedScores, ScoreGathering};
use self::pages::ScorePages;
use self::replies::{CommandJudges, RepliesArgs};
use self::report::Report;
use self::rows::{RowSpool, ScoreRows};
pub(super) use self::silence::{AnswerCoverage, Silence};
use self::tally::Tallies;
use super::recorded::UnreadNotes;
use super::source::ConfigArgs;
use super::{CommandError, Exit, inputs, output, recorded};
use crate::cli::output::interrupt;
use crate::cli::output::progress::Progress;
use crate::config::ResolvedConfig;
use spanscore_engine::batch::{Batch, BatchError, BatchProgress, WatchedRun};
use spanscore_pipeline::recordings;

/// Judges recorded traces and prints the scores
///
/// Reads OTLP/JSON (one request, one per line, or a list) and OTLP in protobuf (one request, or
/// several with their lengths), plain or compressed by gzip or zstd; exports of Jaeger, Tempo,
/// Phoenix and Langfuse; and transcripts of messages, of Inspect and of Claude Code. Folders are
/// searched, and patterns expanded. A trace may be spread over several files. The evaluators of the
/// config are used, its receivers and exporters are not.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore score examples/traces/refund_agent.json
  spanscore score --config eval.yaml --format jsonl run/*.json > scores.jsonl
  cat traces.jsonl | spanscore score --fail-on fail,failed,not_evaluable -
  spanscore score --config eval.yaml --fail-on fail,unused_case,unused_evaluator run/*.json
  spanscore score --golden golden.yaml run/*.json
  spanscore score --golden home.evalset.json run/*.json
  spanscore score --config eval.yaml --baseline main.jsonl --format junit -o scores.xml runs/

The gate is shut, too, where the config expects something (criteria, a dataset) and nothing of it
was scored, or no trace names a case; standard error says so in every format.

Gaps are listed below the scores (with --format jsonl on standard error): evaluators
that gave no answer, cases of a dataset that no trace named, traces that no case is about, traces
without an agent.

Ctrl-C prints the scores so far; then the exit code is 130. So does SIGTERM, with 143; where files
are still read or judged 30 s after it, the command ends without them.

Exit code 2 when the gate is shut, by --fail-on, --min-pass-rate or --baseline, else 1 when not
everything could be read or a trace is over a limit.")]
pub(super) struct ScoreArgs {
    /// Files, folders or patterns to read; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Judges by a config that `learn` wrote, and requires a trace for every test case: like
    /// `--config FILE` with `unused_case` in `--fail-on`. An eval set of the Agent Development Kit
    /// works without a config: the tool calls must equal those of the case with the user's words,
    /// unless a `test_config.json` next to it names metrics
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    golden: Option<PathBuf>,
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    replies: RepliesArgs,
}

/// Output format of `inspect` and `calibrate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(super) enum Format {
    /// A table, for people
    #[default]
    Table,
    /// One JSON object per line
    Jsonl,
}

pub(super) fn run(args: &ScoreArgs) -> Result<Exit, CommandError> {
    let golden = args.golden.as_deref().map(|file| golden::config(&args.config, file));
    let plan = golden.transpose()?.as_ref().unwrap_or(&args.config).plan()?;
    let files = inputs::expand(&args.files)?;
    let gate = args.gate.clone().or_every_case(args.golden.is_some());
    judge(plan, &files, &gate.prepare()?, &args.replies)
}

/// Checks before the work that the pages of `--open` can be shown.
pub(super) fn check_open(plan: &ResolvedConfig, gate: &ScoreGate) -> Result<(), CommandError> {
    if gate.args.open { ScorePages::store_settings(plan).map(drop) } else { Ok(()) }
}

/// Judges files and prints the scores; returns the exit code of the gate.
pub(super) fn judge(
    plan: ResolvedConfig,
    files: &[PathBuf],
    gate: &ScoreGate,
    replies: &RepliesArgs,
) -> Result<Exit, CommandError> {
    let pages = gate.args.open.then(|| ScorePages::start(&plan)).transpose()?;
    let stored = pages.as_ref().map(|pages| pages.facts()).unwrap_or_default();
    let facts = recorded::facts(&plan).union(&stored);
    let resolver = recorded::resolver(&plan, &facts)?;
    let evaluators = recorded::judge(plan.evaluators);
    let names: Vec<&str> = evaluators.evaluators().iter().map(|it| it.info.name.as_str()).collect();
    gate.check(&names)?;
    let settings = recorded::batch_plan(&plan.config, &resolver, &evaluators);
    let empty = Tallies::new(evaluators.evaluators());
    let spool = RowSpool::new(names.iter().map(|name| (*name).to_owned()).collect());
    let progress = Arc::new(BatchProgress::default());
    let stop = interrupt::watch(&progress)?;
    let judges = CommandJudges::new(plan.config.judges, replies).until(stop.token.clone());
    let mut gathering = ScoreGathering::new(judges, &empty, (&spool, pages.as_ref()));
    let mut unread = UnreadNotes::default();
    let mut problem = |said: String| unread.note(said);
    let counts = Progress::show(files, &progress, || {
        let mut batch = Batch::new(settings);
        recordings::read(&mut batch, files, &progress, &mut problem)?;
        let prepare = |groups| PreparedScores::new((&spool, pages.as_ref()), &empty, groups);
        let keep = |run: &WatchedRun<'_, '_>| pages.iter().for_each(|it| it.keep(run, &stop.token));
        batch
            .watched(&keep)
            .judge_prepared(&progress, &prepare, &mut |scores| gathering.take(scores))
    });
    stop.batch_returned();
    let is_broken = unread.finish();
    gathering.finish()?;
    let ScoreGathering { places, coverage, tallies, .. } = gathering;
    let rows =
        spool.finish(places).map_err(|error| CommandError::from(BatchError::Spool(error)))?;
    if let Some(exit) = stop.exit() {
        print_so_far(gate, &rows, &tallies, &progress)?;
        return Ok(exit);
    }
    let counts = counts?;
    let mut silence = Silence::of(&evaluators, &coverage, &counts);
    silence.add_untested(&evaluators, &coverage, &tallies);
    let is_broken = recorded::report_cut_traces(counts.cut.into_iter()) || is_broken;
    let exit = report(gate, &rows, &silence, &tallies, is_broken)?;
    progress.stop.store(true, Relaxed);
    pages.map_or(Ok(()), ScorePages::show)?;
    Ok(exit)
}

/// Prints the scores of a stopped command: they are no verdict of the gate, and nothing is reported
/// as missing.
fn print_so_far(
    gate: &ScoreGate,
    rows: &ScoreRows,
    tallies: &Tallies,
    progress: &BatchProgress,
) -> Result<(), CommandError> {
    let silence = Silence::default();
    let reasons = vec!["stopped before all traces were judged".to_owned()];
    let verdict = GateVerdict { reasons, ..GateVerdict::default() };
    Report { rows, tallies, silence: &silence, repeated: &[], verdict: &verdict, is_broken: true }
        .print(&gate.args)?;
    let judged = progress.judged.load(Relaxed);
    let said = match progress.traces.load(Relaxed) {
        0 => "stopped while files were read: nothing is judged".to_owned(),
        traces => format!("stopped: {judged} of {traces} traces are judged"),
    };
    output::note(format_args!("spanscore: {said}"));
    Ok(())
}

/// Prints the scores; returns the exit code of the gate.
fn report(
    gate: &ScoreGate,
    rows: &ScoreRows,
    silence: &Silence,
    tallies: &Tallies,
    is_broken: bool,
) -> Result<Exit, CommandError> {
    let mut scores = RunScores::default();
    if gate.compares() || rows.has_repeated_cases() {
        rows.for_each(|row| {
            scores.add(row);
            Ok(())
        })?;
        scores.finish();
    }
    let verdict = gate.decide(tallies, silence, &scores);
    let is_shut = !verdict.reasons.is_empty();
    let count = tallies.all.count();
    let repeated = scores.repeated();
    Report { rows, tallies, silence, repeated: &repeated, verdict: &verdict, is_broken }
        .print(&gate.args)?;
    // After a failure to read, an empty result is no verdict of the gate.
    Ok(if is_broken && (!is_shut || count == 0) {
        Exit::Failure
    } else if is_shut {
        Exit::Gate
    } else {
        Exit::Success
    })
}

impl From<BatchError> for CommandError {
    fn from(error: BatchError) -> Self {
        Self::Runtime(anyhow::Error::new(error))
    }
}
