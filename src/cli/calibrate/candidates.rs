//! Candidates of a calibration: judges, evaluators of the config, and all combinations of both.

use super::CalibrateArgs;
use super::runs::Measured;
use crate::cli::{CommandError, misused};
use crate::config::{Loaded, ResolvedConfig, own_settings};
use spanscore_base::settings::meant_or;
use spanscore_base::value::{Map, Value};
use spanscore_evaluate::inquiry::unknown_judge;

/// Limit on candidates.
const CANDIDATES_MAX: usize = 8;

/// Judge under the settings of a kind or of an evaluator.
pub(super) struct CalibrationCandidate {
    /// Name in reports.
    pub(super) name: String,
    /// Name of the judge.
    pub(super) judge: String,
    pub(super) measured: Measured,
}

/// Returns the measured kind, or all kinds, and the candidates.
pub(super) fn candidates(
    args: &CalibrateArgs,
    loaded: &Loaded,
    plan: &ResolvedConfig,
) -> Result<(Option<String>, Vec<CalibrationCandidate>), CommandError> {
    for (flag, names) in [("--judge", &args.judge), ("--evaluator", &args.evaluator)] {
        let mut places = names.iter().enumerate();
        if let Some((_, name)) = places.find(|(at, name)| names[..*at].contains(name)) {
            return misused(format!("{flag} names `{name}` twice: name it once"));
        }
    }
    let mut kind = args.kind.clone();
    let mut settings = Vec::new();
    for name in &args.evaluator {
        let (of, measured) = evaluator(name, loaded, plan)?;
        if kind.replace(of.to_owned()).is_some_and(|kind| kind != of) {
            let error = format!("--evaluator: `{name}` is of another kind than the one before it");
            return Err(CommandError::Usage(error));
        }
        settings.push((Some(name), measured));
    }
    if settings.is_empty() {
        settings.push((None, Measured { settings: Map::new(), threshold: None }));
    }
    let judges: Vec<Option<&String>> = match &*args.judge {
        [] => vec![None],
        judges => judges.iter().map(Some).collect(),
    };
    if settings.len() * judges.len() > CANDIDATES_MAX {
        return misused(format!("more than {CANDIDATES_MAX} judges and evaluators to compare"));
    }
    let mut found = Vec::new();
    for (name, measured) in &settings {
        for judge in &judges {
            found.push(candidate(args, plan, name.map(String::as_str), *judge, measured)?);
        }
    }
    Ok((kind, found))
}

fn candidate(
    args: &CalibrateArgs,
    plan: &ResolvedConfig,
    evaluator: Option<&str>,
    judge: Option<&String>,
    measured: &Measured,
) -> Result<CalibrationCandidate, CommandError> {
    let mut measured = measured.clone();
    if let Some(judge) = judge {
        measured.settings.insert("judge", judge.clone());
    }
    if let Some(samples) = args.samples.or(evaluator.is_none().then_some(1)) {
        let least: Map<'static> = [("min", Value::from(u64::from(samples)))].into_iter().collect();
        measured.settings.insert("samples", Value::Map(least));
    }
    let name = match (evaluator, judge) {
        (Some(evaluator), Some(judge)) => format!("{evaluator} by {judge}"),
        (evaluator, judge) => {
            evaluator.or(judge.map(String::as_str)).unwrap_or_default().to_owned()
        }
    };
    let judge = measured.settings.get("judge").and_then(Value::as_str).unwrap_or_default();
    let judge = judge.to_owned();
    let judges = &plan.config.judges;
    if !judges.contains_key(&judge) {
        let error = unknown_judge("--judge", &judge, judges.keys().map(String::as_str));
        return Err(CommandError::Usage(error.to_string()));
    }
    Ok(CalibrationCandidate { name, judge, measured })
}

/// Returns the kind and the settings of an evaluator of the config.
fn evaluator(
    name: &str,
    loaded: &Loaded,
    plan: &ResolvedConfig,
) -> Result<(&'static str, Measured), CommandError> {
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
    let threshold = Some(of_config.info.threshold);
    Ok((of_config.info.kind, Measured { settings: own, threshold }))
}

fn unknown_evaluator<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> CommandError {
    let help = meant_or(name, names, || "see `evaluators` of the config".to_owned());
    CommandError::Usage(format!("--evaluator: the config has no `{name}` ({help})"))
}
