//! Conversion of labelled runs to inquiries, and of answers to labels.

use std::path::Path;
use std::sync::Arc;

use crate::cli::CommandError;
use spanscore_base::model::{
    Completion, Evaluation, EvaluationId, EvaluatorInfo, Level, Outcome, Target, Trajectory, Want,
};
use spanscore_base::settings::Node;
use spanscore_base::statistics::agreement::RatedPair;
use spanscore_base::value::{Map, Value};
use spanscore_evaluate::inquiry::{Conclusion, Inquired};
use spanscore_evaluate::judged::labelled::LabelledRun;
use spanscore_evaluate::{JudgeRequest, kind};

/// Limit on lines in one file.
const LINES_MAX: usize = 100_000;

/// Answers that a statement can get.
pub(super) const ANSWERS: [&str; 4] = ["yes", "no", "unclear", "not_applicable"];
/// Verdicts that a run can get.
pub(super) const VERDICTS: [&str; 3] = ["pass", "fail", "not_evaluable"];

/// Labelled run with its line in the file.
pub(super) type NumberedRun = (usize, LabelledRun);

/// Evaluations of runs without a judge, and inquiries about the others, by index.
pub(super) struct PreparedRuns {
    pub(super) known: Vec<(usize, Vec<Evaluation>)>,
    pub(super) asked: Vec<(usize, JudgeRequest)>,
}

/// Evaluator that is measured.
#[derive(Clone)]
pub(super) struct Measured {
    /// Settings, overridden by the command line.
    pub(super) settings: Map<'static>,
    /// Lowest passing score; without it the kind's.
    pub(super) threshold: Option<f64>,
}

/// Reads the runs of a file with their line numbers: either all with labelled statements, or all
/// with only a verdict.
pub(super) fn read(path: &Path, kind: Option<&str>) -> Result<Vec<NumberedRun>, CommandError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| anyhow::anyhow!("failed to read {}: {error}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut runs = Vec::new();
    for (at, line) in lines.take(LINES_MAX) {
        let fault = |error: String| {
            anyhow::anyhow!("failed to read {}:{}: {error}", path.display(), at + 1)
        };
        let run = LabelledRun::read(line).map_err(|error| fault(error.to_string()))?;
        if kind.is_some_and(|kind| kind != run.evaluator) {
            continue;
        }
        let of_calls = run.calls.iter().flatten().map(|word| ("`calls` has", &**word));
        let words = run.verdicts().map(|word| ("`verdict` is", word)).chain(of_calls);
        if let Some((has, word)) = words.into_iter().find(|(_, it)| !VERDICTS.contains(it)) {
            let known = VERDICTS.join(", ");
            return Err(fault(format!("{has} `{word}`, none of {known}")).into());
        }
        if !run.items.is_empty() && !run.calls.is_empty() {
            return Err(fault("labels have `items` or `calls`: leave one out".to_owned()).into());
        }
        runs.push((at + 1, run));
    }
    if runs.is_empty() {
        let of_kind = kind.map_or_else(String::new, |kind| format!(" of the kind `{kind}`"));
        let error = format!("no labelled run{of_kind} in {}", path.display());
        return Err(anyhow::anyhow!("{error}: give it one JSON object a line").into());
    }
    let has_items = |(_, run): &NumberedRun| !run.items.is_empty();
    if let Some((line, _)) = runs.iter().find(|run| has_items(run) != has_items(&runs[0])) {
        let error = "labels of statements and verdicts alone cannot be measured together: give all \
                     lines `items`, or none, or choose with --kind";
        return Err(anyhow::anyhow!("{}:{line}: {error}", path.display()).into());
    }
    Ok(runs)
}

/// Builds the inquiries about the runs.
pub(super) fn prepare(
    runs: &[NumberedRun],
    measured: &Measured,
) -> Result<PreparedRuns, CommandError> {
    let mut prepared = PreparedRuns { known: Vec::new(), asked: Vec::new() };
    for (place, (line, run)) in runs.iter().enumerate() {
        let fault = |error: String| anyhow::anyhow!("line {line} (`{}`): {error}", run.id);
        let inquired = inquire(run, measured).map_err(fault)?;
        let statements = inquired.statements();
        let labels = run.items.len();
        if labels > 0 && statements.is_some_and(|statements| statements != labels) {
            let statements = statements.unwrap_or(0);
            let error = format!(
                "{labels} labels in `items` for {statements} statements (leave `items` out to \
                 compare verdicts alone)"
            );
            return Err(fault(error).into());
        }
        match inquired {
            Prepared::Asked(inquiry) => {
                let mut inquiry = *inquiry;
                inquiry.evaluation.id = EvaluationId(id_of(place));
                inquiry.subject = id_of(place);
                prepared.asked.push((place, inquiry));
            }
            Prepared::Known(evaluations) => prepared.known.push((place, evaluations)),
        }
    }
    Ok(prepared)
}

fn id_of(place: usize) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(place as u64).to_be_bytes());
    id
}

fn place_of(id: EvaluationId) -> usize {
    let (place, _) = id.0.split_at(8);
    place.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

enum Prepared {
    Asked(Box<JudgeRequest>),
    /// Evaluations of the run and its calls.
    Known(Vec<Evaluation>),
}

impl Prepared {
    /// Returns the number of statements; `None` for a run that cannot be judged.
    fn statements(&self) -> Option<usize> {
        match self {
            Self::Asked(request) => Some(request.inquiry.statements()),
            Self::Known(evaluations) => match &evaluations.first()?.outcome {
                Outcome::Scored(score) => Some(items(&score.details).len()),
                _ => None,
            },
        }
    }
}

fn items<'v>(details: &'v Value<'static>) -> &'v [Value<'static>] {
    details.get("items").and_then(Value::as_list).unwrap_or_default()
}

fn inquire(run: &LabelledRun, measured: &Measured) -> Result<Prepared, String> {
    let kind = kind(&run.evaluator)
        .ok_or_else(|| format!("unknown kind of evaluator `{}`", run.evaluator))?;
    let mut settings = measured.settings.clone();
    let threshold = measured.threshold.unwrap_or(kind.threshold);
    if !run.criteria.is_null() {
        settings.insert("criteria", run.criteria.clone());
    }
    let node = Node::from_value(&Value::Map(settings));
    let evaluator = (kind.build)(&node).map_err(|error| error.to_string())?;
    let trajectory = run.trajectory().map_err(|error| error.to_string())?;
    let judged = evaluator.as_judged().ok_or_else(|| format!("`{}` asks no judge", kind.name))?;
    let info = EvaluatorInfo {
        kind: kind.name,
        name: kind.name.to_owned(),
        threshold,
        level: if run.is_session() { Level::Session } else { Level::Trace },
        ..EvaluatorInfo::default()
    };
    let open = open(info, &trajectory);
    let of_call = |place: usize| Evaluation { id: EvaluationId(id_of(place)), ..open.clone() };
    match judged.inquire(&trajectory, threshold, Want::ALL) {
        Inquired::Asked(inquiry) => Ok(Prepared::Asked(Box::new(JudgeRequest {
            inquiry,
            plan: judged.plan().clone(),
            calls: (0..run.calls.len()).map(of_call).collect(),
            evaluation: open,
            subject: [0; 16],
        }))),
        Inquired::Known(Conclusion { outcome, calls, .. }) => {
            let calls = calls.into_iter().map(|(place, _, outcome)| (of_call(place), outcome));
            let all = std::iter::once((open.clone(), outcome)).chain(calls);
            Ok(Prepared::Known(all.map(|(open, outcome)| Evaluation { outcome, ..open }).collect()))
        }
    }
}

fn open(info: EvaluatorInfo, trajectory: &Trajectory<'_>) -> Evaluation {
    let target = Target {
        trace_id: trajectory.trace_id,
        sender: trajectory.sender,
        session_id: None,
        resource: Arc::default(),
        agent_name: None,
        response: None,
        completion: Completion::EndOfInput,
        is_partial: false,
        time_ns: 0,
        started_ns: trajectory.start_ns,
        ended_ns: trajectory.end_ns,
    };
    let error = "the judge has not been asked".to_owned();
    Evaluation {
        id: EvaluationId::default(),
        evaluator: Arc::new(info),
        target: Arc::new(target),
        span_id: trajectory.span_id,
        outcome: Outcome::Failed { error_type: "judge_not_asked", error },
        revision: 0,
        revises: None,
        supersedes: None,
        judge: None,
    }
}

/// Pairs labels with answers by statement, or without labelled statements the verdicts on the run
/// and its calls; empty if the judge failed. Without a score all answers are `unclear`.
pub(super) fn rated(run: &LabelledRun, answer: &[Evaluation]) -> Vec<RatedPair> {
    let Some((evaluation, calls)) = answer.split_first() else { return Vec::new() };
    let labels = run.items.iter().map(|answer| answer.as_str());
    match &evaluation.outcome {
        Outcome::Failed { .. } => Vec::new(),
        _ if run.items.is_empty() => {
            let of_run = run.verdicts().map(|label| (label, evaluation));
            let of_calls = calls
                .iter()
                .filter_map(|it| Some((run.calls.get(place_of(it.id))?.as_deref()?, it)));
            let known = |label: &str| VERDICTS.into_iter().find(|known| *known == label);
            let pairs = of_run.chain(of_calls);
            pairs.filter_map(|(label, it)| Some((known(label)?, it.verdict().as_str()))).collect()
        }
        Outcome::NotEvaluable { .. } => labels.map(|label| (label, "unclear")).collect(),
        Outcome::Scored(score) => {
            let said = items(&score.details).iter().map(|item| {
                let word = item.get("answer").and_then(Value::as_str).unwrap_or_default();
                ANSWERS.into_iter().find(|known| *known == word).unwrap_or("unclear")
            });
            labels.zip(said).collect()
        }
    }
}
