//! `spanscore rejudge`: asks judges again about evaluations without an answer.

mod asking;
mod letters;

use std::path::PathBuf;

use clap::Args;

use self::asking::{Rejudged, Rejudging};
use super::score::replies::{CommandJudges, RepliesArgs};
use super::source::ConfigArgs;
use super::{CommandError, Exit, inputs, output, recorded};
use spanscore_base::model::{Evaluation, Memory};
use spanscore_base::visible;
use spanscore_emit::Exporters;
use spanscore_engine::batch::{Batch, BatchPlan, BatchProgress};
use spanscore_pipeline::{UNANSWERED_FILE, recordings};

/// File of answered letters, beside the letters.
const ANSWERED_FILE: &str = "dead_letters/judges.answered";
/// Number of rotated files of letters.
const BACKUPS_MAX: u32 = 4;

/// Asks judges again about what they did not answer
///
/// The collector keeps in `data_dir` what its judges did not answer (`judging.dead_letter`); the
/// spans are read from recordings of the same traces. What is answered now has the identity that it
/// would have had, is printed as `score --format jsonl` does, and with --export handed to the
/// exporters of the config. What was answered is not asked again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore rejudge --config spanscore.yaml --export traces/
  spanscore score --config eval.yaml --format jsonl runs/ > scores.jsonl
  spanscore rejudge --config eval.yaml --from scores.jsonl runs/

Exit code 1 where something is still without an answer.")]
pub(super) struct RejudgeArgs {
    /// Recordings that hold the traces: files, folders or patterns
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Records of evaluations, those without an answer among them; without it those that the
    /// collector keeps in `data_dir`
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// Hands what is answered to the exporters of the config
    #[arg(long)]
    export: bool,
    /// Asks again what an earlier run has answered
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    replies: RepliesArgs,
}

pub(super) fn run(args: &RejudgeArgs) -> Result<Exit, CommandError> {
    let plan = args.config.plan()?;
    let data_dir = plan.config.data_dir.clone().filter(|_| args.from.is_empty());
    let from = match &data_dir {
        _ if !args.from.is_empty() => args.from.clone(),
        Some(data_dir) => kept_files(&data_dir.join(UNANSWERED_FILE)),
        None => {
            let message = "the config has no `data_dir`: name records of evaluations with --from";
            return Err(CommandError::Usage(message.to_owned()));
        }
    };
    let answered_file = data_dir.map(|data_dir| data_dir.join(ANSWERED_FILE));
    let mut letters = letters::read(&from)?;
    let answered = match &answered_file {
        Some(path) if !args.again => letters::read_answered(path)?,
        _ => Default::default(),
    };
    let asks = |name: &str| plan.evaluators.iter().any(|it| it.asks && it.info.name == name);
    letters.retain(|(name, _), _| asks(name));
    let all: Vec<String> = letters.values().map(|letter| letter.id.to_string()).collect();
    letters.retain(|_, letter| !answered.contains(&letter.id.to_string()));
    if letters.is_empty() {
        output::note("spanscore: nothing is without an answer");
        return Ok(Exit::Success);
    }
    let files = inputs::expand(&args.files)?;
    let judges = CommandJudges::new(plan.config.judges.clone(), &args.replies);
    let exporters = plan.exporters;
    let memory = plan.memory;
    let shutdown_timeout = plan.config.shutdown_timeout.0;
    let facts_plan = recorded::facts_of(&plan.evaluators);
    let resolver = recorded::resolver_of(plan.config.dialects, &facts_plan)?;
    let evaluators = recorded::judge(plan.evaluators);
    let settings = BatchPlan {
        resolver: &resolver,
        limits: plan.config.limits,
        session_key: plan.config.sessions.key,
        evaluators: &evaluators,
        now_ns: recorded::now_ns(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut rejudging = Rejudging::new(letters, judges);
    let is_broken = judge_files(settings, &files, &mut rejudging)?;
    let rejudged = rejudging.finish()?;
    if args.export {
        export(&exporters, &Memory::new(&memory), shutdown_timeout, &rejudged.evaluations)?;
    }
    if let Some(path) = &answered_file {
        let is_done = |id: &String| answered.contains(id) || rejudged.answered.contains(id);
        let done: Vec<String> = all.into_iter().filter(is_done).collect();
        letters::write_answered(path, &done)?;
    }
    Ok(told(&rejudged, is_broken))
}

/// Returns the files of letters, rotated ones first, oldest first.
fn kept_files(path: &std::path::Path) -> Vec<PathBuf> {
    let aside = (1..=BACKUPS_MAX).rev().map(|n| PathBuf::from(format!("{}.{n}", path.display())));
    aside.chain([path.to_owned()]).filter(|path| path.exists()).collect()
}

/// Reads and judges the files; returns true if a part could not be read.
fn judge_files(
    settings: BatchPlan<'_>,
    files: &[PathBuf],
    rejudging: &mut Rejudging,
) -> Result<bool, CommandError> {
    let mut is_broken = false;
    let mut problem = |said: String| {
        output::note(format_args!("spanscore: {}", visible::line(said)));
        is_broken = true;
    };
    let progress = BatchProgress::default();
    let mut batch = Batch::new(settings);
    recordings::read(&mut batch, files, &progress, &mut problem).map_err(anyhow::Error::new)?;
    let judged = batch.judge(&progress, &mut |group| rejudging.take(group));
    rejudging.failure()?;
    judged.map_err(anyhow::Error::new)?;
    Ok(is_broken)
}

/// Delivers evaluations to exporters, and waits until they have arrived.
fn export(
    settings: &[spanscore_emit::settings::ExporterSettings],
    memory: &Memory,
    within: std::time::Duration,
    evaluations: &[Evaluation],
) -> Result<(), CommandError> {
    use opentelemetry::metrics::MeterProvider;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(anyhow::Error::new)?;
    let meter = opentelemetry_sdk::metrics::SdkMeterProvider::default().meter("spanscore");
    let registry = prometheus::Registry::new();
    let lost = runtime.block_on(async {
        let exporters = Exporters::start(settings, memory, &meter, &registry, None)?;
        evaluations.chunk_by(|a, b| a.target.trace_id == b.target.trace_id).for_each(|some| {
            exporters.offer(some.to_vec(), None);
        });
        exporters.shutdown(tokio::time::sleep(within)).await;
        Ok::<_, spanscore_emit::ExporterStartError>(exporters.lost())
    });
    let lost = lost.map_err(anyhow::Error::new)?;
    let lost: Vec<String> = lost
        .into_iter()
        .filter(|unsent| unsent.count > 0)
        .map(|unsent| format!("{} of {}", unsent.count, unsent.name))
        .collect();
    if !lost.is_empty() {
        let lost = lost.join(", ");
        let error = anyhow::anyhow!("evaluations that were not delivered: {lost}; run it again");
        return Err(CommandError::Runtime(error));
    }
    Ok(())
}

/// Reports the result; returns the exit code.
fn told(rejudged: &Rejudged, is_broken: bool) -> Exit {
    let Rejudged { answered, unanswered, missing, .. } = rejudged;
    output::note(format_args!(
        "spanscore: {} evaluations have an answer now, {unanswered} still have none, {missing} are \
         of traces that are not in the files or that the evaluator does not see",
        answered.len()
    ));
    if is_broken || *unanswered > 0 || *missing > 0 { Exit::Failure } else { Exit::Success }
}
