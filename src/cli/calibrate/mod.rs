//! `spanscore calibrate`: measures a judge against labelled runs.

mod agreement;
mod runs;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use self::agreement::{Agreement, RatedPair, agreement, interval};
use self::runs::{ANSWERS, Measured, PreparedRun, rated, verdict};
use super::score::Format;
use super::score::replies::{CommandJudges, RepliesArgs};
use super::source::ConfigArgs;
use super::{CommandError, Exit, output};
use crate::config::{Loaded, ResolvedConfig, own_settings};
use spanscore_base::model::{Evaluation, Outcome};
use spanscore_base::settings::nearest;
use spanscore_base::value::{Map, Value};
use spanscore_base::visible;
use spanscore_evaluate::inquiry::unknown_judge;

/// Compares a judge with labelled runs
///
/// Asks a judge of the config about every line of labelled runs and says how far it agrees with
/// the labels beyond chance (Cohen's kappa), by kind of evaluator and by tag, and what it cost.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore calibrate --config spanscore.yaml --data labelled.jsonl --judge small
  spanscore calibrate --config spanscore.yaml --data labelled.jsonl --evaluator rubric/tone
  spanscore calibrate --data labelled.jsonl --judge small --record replies/
  spanscore calibrate --data labelled.jsonl --judge small --replay replies/ --kappa-min 0.7

Exit code 1 where kappa is below --kappa-min, or a judge gave no answer.")]
pub(super) struct CalibrateArgs {
    /// Labelled runs, one JSON object a line
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// The judge, as `judges:` of the config names it; that of the evaluator without it
    #[arg(long, value_name = "NAME", required_unless_present = "evaluator")]
    judge: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Only lines of this kind of evaluator
    #[arg(long, value_name = "KIND", conflicts_with = "evaluator")]
    kind: Option<String>,
    /// An evaluator of the config, measured as it is set there; only lines of its kind
    #[arg(long, value_name = "NAME")]
    evaluator: Option<String>,
    /// Votes for each run, the majority counts; without it one, or as the evaluator is set
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=15))]
    samples: Option<u32>,
    /// Lowest kappa, over all statements, that is good enough
    #[arg(long, value_name = "KAPPA", default_value_t = 0.6)]
    kappa_min: f64,
    #[command(flatten)]
    replies: RepliesArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &CalibrateArgs) -> Result<Exit, CommandError> {
    let loaded = args.config.load()?;
    let plan = ResolvedConfig::new(&loaded)?;
    let (kind, measured) = measured(args, &loaded, &plan)?;
    let judge = measured.settings.get("judge").and_then(Value::as_str);
    let judge = judge.unwrap_or_default().to_owned();
    let judges = plan.config.judges;
    if !judges.contains_key(&judge) {
        let error = unknown_judge("--judge", &judge, judges.keys().map(String::as_str));
        return Err(CommandError::Usage(error.to_string()));
    }
    let mut lines = runs::read(&args.data)?;
    lines.retain(|(_, run)| kind.as_ref().is_none_or(|kind| *kind == run.evaluator));
    let (prepared, asked) = runs::prepare(lines, &measured)?;
    let (places, asked): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
    let requests = asked.len();
    let answers = CommandJudges::new(judges, &args.replies).ask(asked)?;
    let mut answers: BTreeMap<usize, Evaluation> = places
        .into_iter()
        .zip(answers)
        .filter_map(|(place, answer)| Some((place, answer.into_iter().next()?)))
        .collect();
    let mut compared = Vec::with_capacity(prepared.len());
    for (place, PreparedRun { run, known }) in prepared.into_iter().enumerate() {
        if let Some(evaluation) = known.or_else(|| answers.remove(&place)) {
            let pairs = rated(&run, &evaluation);
            compared.push(ComparedRun { run, evaluation, pairs });
        }
    }
    let result = Calibration::of(&compared, requests);
    match args.format {
        Format::Table => result.print(&compared)?,
        Format::Jsonl => output::record(result.record(&judge))?,
    }
    let is_good = result.all.is_some_and(|all| all.kappa >= args.kappa_min);
    Ok(if is_good && result.failed == 0 { Exit::Success } else { Exit::Failure })
}

/// Returns the kind to measure, all without one, and its settings: those of a named evaluator of
/// the config, overridden by the command line.
fn measured(
    args: &CalibrateArgs,
    loaded: &Loaded,
    plan: &ResolvedConfig,
) -> Result<(Option<String>, Measured), CommandError> {
    let mut measured = Measured { settings: Map::new(), threshold: None };
    let mut kind = args.kind.clone();
    if let Some(name) = &args.evaluator {
        let of_config = plan.evaluators.iter().find(|one| one.info.name == *name);
        let own = own_settings(&loaded.node, name);
        let (Some(of_config), Some(Value::Map(own))) = (of_config, own) else {
            let names = plan.evaluators.iter().map(|one| one.info.name.as_str());
            return Err(unknown_evaluator(name, names));
        };
        if own.get("judge").is_none() {
            let error = format!("--evaluator: `{name}` asks no judge: name one that has `judge`");
            return Err(CommandError::Usage(error));
        }
        kind = Some(of_config.info.kind.to_owned());
        measured = Measured { settings: own, threshold: Some(of_config.info.threshold) };
    }
    if let Some(judge) = &args.judge {
        measured.settings.insert("judge", judge.clone());
    }
    let samples = args.samples.or(args.evaluator.is_none().then_some(1));
    if let Some(samples) = samples {
        let least: Map<'static> = [("min", Value::from(u64::from(samples)))].into_iter().collect();
        measured.settings.insert("samples", Value::Map(least));
    }
    Ok((kind, measured))
}

fn unknown_evaluator<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> CommandError {
    let help = match nearest(name, names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "see `evaluators` of the config".to_owned(),
    };
    CommandError::Usage(format!("--evaluator: the config has no `{name}` ({help})"))
}

/// One run with its label, its evaluation and the answers side by side.
struct ComparedRun {
    run: spanscore_evaluate::judged::labelled::LabelledRun,
    evaluation: Evaluation,
    pairs: Vec<RatedPair>,
}

/// Result of a calibration.
struct Calibration {
    all: Option<Agreement>,
    interval: Option<(f64, f64)>,
    verdicts: usize,
    runs: usize,
    failed: usize,
    requests: usize,
    cost_usd: f64,
    confusion: BTreeMap<RatedPair, usize>,
    /// Agreement by kind, then by tag.
    parts: Vec<(String, Agreement)>,
}

impl Calibration {
    fn of(compared: &[ComparedRun], requests: usize) -> Self {
        let pairs: Vec<Vec<RatedPair>> = compared.iter().map(|one| one.pairs.clone()).collect();
        let mut confusion = BTreeMap::new();
        for pair in pairs.iter().flatten() {
            *confusion.entry(*pair).or_default() += 1;
        }
        let is_failed =
            |one: &&ComparedRun| matches!(one.evaluation.outcome, Outcome::Failed { .. });
        let cost = |one: &ComparedRun| one.evaluation.judge.as_ref().map_or(0.0, |it| it.cost_usd);
        Self {
            all: agreement(pairs.iter().flatten()),
            interval: interval(&pairs),
            verdicts: compared
                .iter()
                .filter(|it| verdict(&it.evaluation) == it.run.verdict)
                .count(),
            runs: compared.len(),
            failed: compared.iter().filter(is_failed).count(),
            requests,
            cost_usd: compared.iter().map(cost).sum(),
            confusion,
            parts: parts(compared),
        }
    }

    fn print(&self, compared: &[ComparedRun]) -> Result<(), CommandError> {
        for one in compared {
            if let Outcome::Failed { error_type, error } = &one.evaluation.outcome {
                let line = format!("{}: {error_type}: {error}", one.run.id);
                output::note(format_args!("spanscore: {}", visible::line(line)));
            }
        }
        let Some(all) = self.all else {
            return output::line("no statement was answered");
        };
        let mut table = output::table(["LABEL", "yes", "no", "unclear", "not_applicable"]);
        for label in ANSWERS {
            let count = |said| self.confusion.get(&(label, said)).copied().unwrap_or(0);
            let counts = ANSWERS.map(|said| count(said).to_string());
            table.add_row([label.to_owned()].into_iter().chain(counts));
        }
        output::line(table.trim_fmt())?;
        let mut table = output::table(["PART", "STATEMENTS", "ACCURACY", "KAPPA"]);
        for (name, part) in &self.parts {
            let cells = [
                visible::line(name).to_string(),
                part.count.to_string(),
                format!("{:.3}", part.accuracy),
                format!("{:.3}", part.kappa),
            ];
            table.add_row(cells);
        }
        output::line(format_args!("\n{}", table.trim_fmt()))?;
        let (low, high) = self.interval.unwrap_or((all.kappa, all.kappa));
        output::line(format_args!(
            "\nkappa {:.3} (95% {low:.3} to {high:.3}), accuracy {:.3} over {} statements",
            all.kappa, all.accuracy, all.count
        ))?;
        output::line(format_args!(
            "{} of {} verdicts as labelled, {} failed; {} asked, USD {:.4}",
            self.verdicts, self.runs, self.failed, self.requests, self.cost_usd
        ))
    }

    fn record(&self, judge: &str) -> serde_json::Value {
        let part = |it: &Agreement| {
            let Agreement { accuracy, kappa, count } = it;
            json!({"statements": count, "accuracy": accuracy, "kappa": kappa})
        };
        let parts = self.parts.iter().map(|(name, it)| (name.clone(), part(it)));
        let confusion = self
            .confusion
            .iter()
            .map(|((label, said), count)| json!({"label": label, "judge": said, "count": count}));
        json!({
            "judge": judge,
            "all": self.all.as_ref().map(part),
            "kappa_interval": self.interval.map(|(low, high)| [low, high]),
            "runs": self.runs,
            "verdicts_as_labelled": self.verdicts,
            "failed": self.failed,
            "asked": self.requests,
            "cost_usd": self.cost_usd,
            "confusion": confusion.collect::<Vec<_>>(),
            "parts": parts.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Computes the agreement by kind and by tag.
fn parts(compared: &[ComparedRun]) -> Vec<(String, Agreement)> {
    let mut kinds: BTreeMap<&str, Vec<RatedPair>> = BTreeMap::new();
    let mut tags: BTreeMap<&str, Vec<RatedPair>> = BTreeMap::new();
    for one in compared {
        kinds.entry(&one.run.evaluator).or_default().extend(&one.pairs);
        for tag in &one.run.tags {
            tags.entry(tag).or_default().extend(&one.pairs);
        }
    }
    let kinds = kinds.iter().map(|(name, pairs)| ((*name).to_owned(), pairs));
    let tags = tags.iter().map(|(name, pairs)| (format!("tag {name}"), pairs));
    kinds.chain(tags).filter_map(|(name, pairs)| Some((name, agreement(pairs.iter())?))).collect()
}
