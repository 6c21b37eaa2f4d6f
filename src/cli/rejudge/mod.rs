//! `spanscore rejudge`: asks judges again about evaluations without an answer, and about those of a
//! changed evaluator.

mod asking;
mod earlier;
mod evidence;
mod export;
mod prepared;
mod report;
mod selection;

use std::path::PathBuf;

use clap::Args;

use self::asking::Rejudged;
use self::earlier::{EARLIER_MAX, RejudgedBefore};
use self::evidence::StoredEvidence;
use self::prepared::PreparedRun;
use self::report::{ChangeForecast, ChangeReport};
use self::selection::RejudgeSelection;
use super::score::replies::RepliesArgs;
use super::stored::StoreArgs;
use super::stored::filter::FilterArgs;
use super::{CommandError, Exit, misused, output};
use crate::config::ResolvedConfig;
use spanscore_pipeline::UNANSWERED_FILE;

/// File of answered dead letters, beside the letters.
const ANSWERED_FILE: &str = "dead_letters/judges.answered";
/// Number of rotated files of dead letters.
const BACKUPS_MAX: u32 = 4;

/// Sends unanswered requests to judges again, or requests whose evaluator changed
///
/// The collector keeps unanswered requests in `data_dir` (`judging.dead_letter`). Recordings of the
/// same traces provide the spans. An answered evaluation keeps its identity. It is printed like
/// `score --format jsonl`, and --export sends it to the exporters of the config. Answered requests
/// are not sent again.
///
/// --changed judges again what another version of the evaluator judged: another prompt, model or
/// criteria. The cost is printed before the first request, and the changed verdicts at the end.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore rejudge --config spanscore.yaml --export traces/
  spanscore score --config eval.yaml --format jsonl runs/ > scores.jsonl
  spanscore rejudge --config eval.yaml --from scores.jsonl runs/
  spanscore rejudge --config new.yaml --changed --from scores.jsonl runs/ --dry-run
  spanscore rejudge --config new.yaml --changed --from scores.jsonl runs/ --budget 2 > new.jsonl
  spanscore rejudge --config new.yaml --changed --since 7d --where service=shop > new.jsonl

A run that the budget ended goes on where its output is read, too: add --from new.jsonl to the
--from of before, or name it alone where the verdicts came from the store.

Exit code 1 where something is still without an answer, or a file cannot be read.")]
pub(super) struct RejudgeArgs {
    /// Recordings of the traces: files, folders or patterns. With --changed, the default is the
    /// runs of the store
    #[arg(value_name = "FILE", required_unless_present = "changed")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Files with evaluations, some of them unanswered. Default: the unanswered requests in
    /// `data_dir`; with --changed the evaluations of the store
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// Judges again what changed evaluators judged, and what is unanswered
    #[arg(long)]
    changed: bool,
    /// Prints the requests and their cost, and sends none
    #[arg(long, requires = "changed")]
    dry_run: bool,
    /// Limit on the cost of all judges together, in US dollars
    #[arg(long, value_name = "USD", value_parser = budget)]
    budget: Option<f64>,
    /// Sends the new evaluations to the exporters of the config
    #[arg(long)]
    export: bool,
    /// Sends requests again that an earlier run of this command answered
    #[arg(long, conflicts_with = "changed")]
    again: bool,
    #[command(flatten)]
    replies: RepliesArgs,
}

fn budget(text: &str) -> Result<f64, String> {
    let usd = text.parse::<f64>().ok().filter(|usd| usd.is_finite() && *usd > 0.0);
    usd.ok_or_else(|| "give US dollars over 0, such as 2.50".to_owned())
}

pub(super) fn run(args: &RejudgeArgs) -> Result<Exit, CommandError> {
    let plan = args.store.config.plan()?;
    check(args, &plan)?;
    if args.changed { rejudge_changed(args, plan) } else { rejudge_unanswered(args, plan) }
}

fn check(args: &RejudgeArgs, plan: &ResolvedConfig) -> Result<(), CommandError> {
    let mut judges = plan.config.judges.iter();
    if args.budget.is_some()
        && let Some((name, _)) = judges.find(|(_, judge)| judge.price.is_none())
    {
        return misused(format!("judge `{name}` has no `price`: --budget cannot hold without one"));
    }
    let reads_store = args.changed && (args.files.is_empty() || args.from.is_empty());
    if !args.filter.is_empty() && !reads_store {
        let text = "--since, --until and --where choose runs of the store, which is not read here";
        return Err(CommandError::Usage(text.to_owned()));
    }
    if args.changed && args.files.iter().any(|file| file.as_os_str() == "-") {
        let text = "`-` cannot be read twice, for the cost and for the answers: name a file";
        return Err(CommandError::Usage(text.to_owned()));
    }
    Ok(())
}

/// Asks again about unanswered evaluations.
fn rejudge_unanswered(args: &RejudgeArgs, plan: ResolvedConfig) -> Result<Exit, CommandError> {
    let data_dir = plan.config.data_dir.clone().filter(|_| args.from.is_empty());
    let from = match &data_dir {
        _ if !args.from.is_empty() => args.from.clone(),
        Some(data_dir) => dead_letter_files(&data_dir.join(UNANSWERED_FILE)),
        None => {
            let message = "the config has no `data_dir`: name records of evaluations with --from";
            return Err(CommandError::Usage(message.to_owned()));
        }
    };
    let answered_file = data_dir.map(|data_dir| data_dir.join(ANSWERED_FILE));
    let mut letters = RejudgedBefore::new();
    earlier::read(&from, &mut letters)?;
    letters.kept.retain(|_, letter| letter.is_unanswered);
    let answered = match &answered_file {
        Some(path) if !args.again => earlier::read_answered(path)?,
        _ => Default::default(),
    };
    let is_all = report_left_out(&letters);
    let mut selection = RejudgeSelection::new(letters, &plan.evaluators, false);
    let all = selection.ids();
    selection.leave_out(&answered);
    if selection.is_empty() {
        output::note("spanscore: nothing is without an answer");
        return Ok(exit(is_all));
    }
    let mut prepared = PreparedRun::new(args, plan)?;
    let judges = prepared.judges(args);
    let answers = prepared.ask((selection, &judges), &mut |_, _| {}, args)?;
    if let Some(path) = &answered_file {
        let is_done = |id: &String| answered.contains(id) || answers.rejudged.answered.contains(id);
        let done: Vec<String> = all.into_iter().filter(is_done).collect();
        earlier::write_answered(path, &done)?;
    }
    let missing = answers.missing.len();
    let Rejudged { answered, unanswered, .. } = &answers.rejudged;
    output::note(format_args!(
        "spanscore: {} evaluations have an answer now, {unanswered} still have none, {missing} are \
         of traces that are not in the files or that the evaluator does not see",
        answered.len()
    ));
    Ok(exit(is_all && !answers.is_broken && *unanswered == 0 && missing == 0))
}

/// Reports verdicts beyond the limit; returns true if there are none.
fn report_left_out(earlier: &RejudgedBefore) -> bool {
    let left_out = &earlier.left_out;
    if *left_out > 0 {
        output::note(format_args!(
            "spanscore: {left_out} earlier verdicts beyond {EARLIER_MAX} are left out: name fewer \
             with --from, or with --since, --until and --where"
        ));
    }
    *left_out == 0
}

fn exit(is_whole: bool) -> Exit {
    if is_whole { Exit::Success } else { Exit::Failure }
}

/// Returns the files of dead letters, rotated ones first, oldest first.
fn dead_letter_files(path: &std::path::Path) -> Vec<PathBuf> {
    let aside = (1..=BACKUPS_MAX).rev().map(|n| PathBuf::from(format!("{}.{n}", path.display())));
    aside.chain([path.to_owned()]).filter(|path| path.exists()).collect()
}

/// Asks again about evaluations whose evaluator has changed.
fn rejudge_changed(args: &RejudgeArgs, plan: ResolvedConfig) -> Result<Exit, CommandError> {
    let mut earlier = RejudgedBefore::new();
    if args.from.is_empty() {
        StoredEvidence::open(&args.store, &args.filter, &plan)?.earlier(&mut earlier)?;
    }
    earlier::read(&args.from, &mut earlier)?;
    let is_all = report_left_out(&earlier);
    let selection = RejudgeSelection::new(earlier, &plan.evaluators, args.files.is_empty());
    if selection.is_empty() {
        output::note("spanscore: there is no earlier verdict of an evaluator that asks a judge");
        return Ok(exit(is_all));
    }
    let mut prepared = PreparedRun::new(args, plan)?;
    let judges = prepared.judges(args);
    let mut forecast = ChangeForecast::new(selection.clone(), &judges);
    let (is_broken, unmet) = prepared.judge(&mut |group| {
        forecast.take(group);
        Ok(())
    })?;
    let missing = forecast.missing(prepared.evaluators());
    let is_whole = is_all && !is_broken && missing.iter().all(|it| it.may_be_current);
    let mut report = ChangeReport::default();
    if !forecast.print(args.budget, missing.len()) || args.dry_run {
        report.add_missing(&missing, &unmet);
        report.print();
        return Ok(exit(is_whole));
    }
    let mut watch = |earlier: &_, evaluation: &_| report.add(earlier, evaluation);
    let answers = prepared.ask((selection, &judges), &mut watch, args)?;
    report.add_missing(&answers.missing, &answers.unmet);
    report.print();
    let Rejudged { answered, unanswered, cost_usd, .. } = &answers.rejudged;
    output::note(format_args!(
        "spanscore: {} evaluations are answered anew for USD {cost_usd:.4}, {unanswered} have no \
         answer, {} are unchanged",
        answered.len(),
        answers.unchanged
    ));
    Ok(exit(is_whole && *unanswered == 0))
}
