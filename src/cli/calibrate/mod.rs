//! `spanscore calibrate`: measures judges against labelled runs.
//!
//! The [`candidates`](mod@candidates) are judges, evaluators of the config, or both. Each is asked
//! about the same [`runs`], from a file or [`stored`], and has a [`result`]. Those after the first
//! also have a [`comparison`] with it.

mod candidates;
mod comparison;
mod result;
mod runs;
mod stored;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use self::candidates::{CalibrationCandidate, candidates};
use self::comparison::CandidateComparison;
use self::result::{Calibration, ComparedRun};
use self::runs::{NumberedRun, PreparedRuns, rated};
use super::score::Format;
use super::score::replies::{CommandJudges, RepliesArgs};
use super::source::ConfigArgs;
use super::{CommandError, Exit, output};
use crate::config::ResolvedConfig;
use spanscore_base::model::Evaluation;

/// Measures how well judges agree with labelled runs
///
/// Asks a judge of the config about every labelled run. Prints its agreement with the labels beyond
/// chance (Cohen's kappa) by kind of evaluator and by tag, the rates of false yes and false no, the
/// cost, and how many runs a narrower interval requires. Several judges or evaluators are measured
/// on the same runs, and each is compared with the first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore calibrate --config spanscore.yaml --data labelled.jsonl --judge small
  spanscore calibrate --config spanscore.yaml --data labelled.jsonl --judge small --judge large
  spanscore calibrate --config spanscore.yaml --data labelled.jsonl --evaluator rubric/tone
  spanscore calibrate --data labelled.jsonl --evaluator rubric/tone --evaluator rubric/tone_2
  spanscore calibrate --store data/scores.db --evaluator rubric/tone
  spanscore calibrate --data labelled.jsonl --judge small --record replies/
  spanscore calibrate --data labelled.jsonl --judge small --replay replies/ --kappa-min 0.7

Exit code 1 where a kappa is below --kappa-min or there is none, since all labels are the same, or
where a judge gave no answer.")]
pub(super) struct CalibrateArgs {
    /// Labelled runs, one JSON object per line
    #[arg(long, value_name = "FILE", required_unless_present = "store")]
    data: Option<PathBuf>,
    /// Store with labelled runs: the answers that people gave on the dashboard to evaluations of
    /// the first --evaluator
    #[arg(long, value_name = "FILE", conflicts_with = "data", requires = "evaluator")]
    store: Option<PathBuf>,
    /// Name of a judge in `judges:`. Default: the judge of the evaluator. May be repeated to
    /// compare judges
    #[arg(long, value_name = "NAME", required_unless_present = "evaluator")]
    judge: Vec<String>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Uses only labelled runs of this kind of evaluator
    #[arg(long, value_name = "KIND", conflicts_with = "evaluator")]
    kind: Option<String>,
    /// Name of an evaluator in the config. It is measured with its settings, on labelled runs of
    /// its kind. May be repeated for evaluators of one kind
    #[arg(long, value_name = "NAME")]
    evaluator: Vec<String>,
    /// Votes per run, 1 to 15; the majority decides. Default: the setting of the evaluator, else 1
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=15))]
    samples: Option<u32>,
    /// Lowest acceptable kappa, over all statements
    #[arg(long, value_name = "KAPPA", default_value_t = 0.6)]
    kappa_min: f64,
    /// Width of the kappa interval for which the required number of runs is printed
    #[arg(long, value_name = "WIDTH", default_value_t = 0.2)]
    kappa_width: f64,
    #[command(flatten)]
    replies: RepliesArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &CalibrateArgs) -> Result<Exit, CommandError> {
    let loaded = args.config.load()?;
    let plan = ResolvedConfig::new(&loaded)?;
    let (kind, candidates) = candidates(args, &loaded, &plan)?;
    let lines = match (&args.data, &args.store) {
        (Some(data), _) => runs::read(data, kind.as_deref())?,
        (None, store) => {
            let of =
                plan.evaluators.iter().find(|it| Some(&it.info.name) == args.evaluator.first());
            let of = store.as_ref().zip(of);
            let of = of.map(|(store, of)| stored::read(store, of, &plan.config));
            of.unwrap_or(Ok(Vec::new()))?
        }
    };
    // A mistake in the data is found before any judge costs money.
    let prepared = candidates.iter().map(|candidate| runs::prepare(&lines, &candidate.measured));
    let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
    let judges = CommandJudges::new(plan.config.judges, &args.replies);
    let mut results: Vec<(CalibrationCandidate, Vec<ComparedRun<'_>>)> = Vec::new();
    let mut is_good = true;
    for (candidate, prepared) in candidates.into_iter().zip(prepared) {
        let (compared, requests) = ask(&lines, prepared, &judges)?;
        let result = Calibration::of(&compared, requests, args.kappa_width);
        is_good &= result.is_good(args.kappa_min);
        let comparison = results.first().map(|(first, of_first)| {
            CandidateComparison::of((&first.name, of_first), (&candidate.name, &compared))
        });
        match args.format {
            Format::Table => {
                if !results.is_empty() {
                    output::line("")?;
                }
                result.print(&candidate.name, &compared)?;
                comparison.map_or(Ok(()), |comparison| comparison.print())?;
            }
            Format::Jsonl => {
                let mut record = result.record(&candidate);
                record["compared"] = comparison.map(|it| it.record()).into();
                output::record(record)?;
            }
        }
        results.push((candidate, compared));
    }
    Ok(if is_good { Exit::Success } else { Exit::Failure })
}

/// Asks the judges of one candidate; returns the runs with their evaluations, in order, and the
/// number of runs asked about.
fn ask<'l>(
    lines: &'l [NumberedRun],
    prepared: PreparedRuns,
    judges: &CommandJudges,
) -> Result<(Vec<ComparedRun<'l>>, usize), CommandError> {
    let (places, asked): (Vec<_>, Vec<_>) = prepared.asked.into_iter().unzip();
    let requests = asked.len();
    let answers = judges.ask(asked)?;
    let mut evaluations: BTreeMap<usize, Vec<Evaluation>> = prepared.known.into_iter().collect();
    evaluations.extend(places.into_iter().zip(answers));
    let compared = evaluations.into_iter().filter_map(|(place, answer)| {
        let (line, run) = lines.get(place)?;
        let pairs = rated(run, &answer);
        let evaluation = answer.into_iter().next()?;
        Some(ComparedRun { line: *line, run, evaluation, pairs })
    });
    Ok((compared.collect(), requests))
}
