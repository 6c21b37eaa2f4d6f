//! Check that external evaluators accept the settings of a config before its use.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{ConfigError, Loaded, ResolvedConfig};
use spanscore_ask::external::{ExternalProbe, ProbeAnswer, probe};

/// Time limit for an answer.
const WITHIN: Duration = Duration::from_secs(2);

/// Evaluator that could not be reached, with the reason.
pub(in crate::cli) struct Unasked {
    pub(in crate::cli) evaluator: String,
    pub(in crate::cli) why: String,
}

/// Asks the external evaluators of a config; returns those that could not be reached.
///
/// # Errors
/// Settings that an evaluator refuses, at their place in the config.
pub(in crate::cli) async fn check_external(
    loaded: &Loaded,
    plan: &ResolvedConfig,
) -> Result<Vec<Unasked>, ConfigError> {
    let probes: Vec<_> = plan
        .evaluators
        .iter()
        .filter_map(|configured| {
            let plan = Arc::clone(configured.external()?);
            let evaluator = configured.info.name.clone();
            Some(ExternalProbe { evaluator, level: configured.info.level, plan })
        })
        .collect();
    let names: Vec<String> = probes.iter().map(|probe| probe.evaluator.clone()).collect();
    let mut mistakes = Vec::new();
    let mut unasked = Vec::new();
    for (evaluator, answer) in names.into_iter().zip(probe(probes, WITHIN).await) {
        match answer {
            ProbeAnswer::Fits => {}
            ProbeAnswer::Unfit { error, at } => mistakes.push((evaluator, at, error)),
            ProbeAnswer::Unknown(why) => unasked.push(Unasked { evaluator, why }),
        }
    }
    if mistakes.is_empty() { Ok(unasked) } else { Err(ResolvedConfig::mistakes(loaded, mistakes)) }
}
