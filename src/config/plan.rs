//! The sections of a config, and the plan that the pipeline builds its stages from.

use schemars::JsonSchema;
use serde::Deserialize;

use super::evaluators::{self, EvaluatorsConfig};
use super::load::Loaded;
use super::read::read_all;
use super::sources::{ConfigError, Sources};
use crate::assemble::{LimitsSettings, TracesSettings};
use crate::evaluate::run::Configured;
use crate::settings::HumanDuration;

/// The config of spanscore.
///
/// Every section may be left out; what stands here then holds. Values may refer to the environment:
/// `${env:NAME}`, `${env:NAME:-default}`; `$$` is a dollar sign.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// When a trace is taken as complete.
    pub traces: TracesSettings,
    /// How much is kept.
    pub limits: LimitsSettings,
    /// How traces are scored: a map keyed `kind/name`, such as `tool_call_args/refund`.
    pub evaluators: EvaluatorsConfig,
    /// How long a shutdown may take in all: open traces are judged, exporters flushed.
    pub shutdown_timeout: HumanDuration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            traces: TracesSettings::default(),
            limits: LimitsSettings::default(),
            evaluators: EvaluatorsConfig,
            shutdown_timeout: HumanDuration::from_secs(20),
        }
    }
}

/// A config that was checked and resolved: nothing in it can fail any more but the world.
pub struct Plan {
    /// The sections, without the evaluators.
    pub config: Config,
    /// The evaluators in the order of the config.
    pub evaluators: Vec<Configured>,
}

impl Plan {
    /// Checks a config; on mistakes, all that were found.
    pub fn new(loaded: &Loaded) -> Result<Self, ConfigError> {
        let mut errors = Vec::new();
        let config = read_all(&loaded.node, &mut errors, |node| node.read::<Config>());
        let entries = loaded.node.get("evaluators");
        let evaluators = evaluators::configure(entries, &loaded.sources, &mut errors);
        match config {
            Some(config) if errors.is_empty() => Ok(Self { config, evaluators }),
            _ => Err(report(errors, &loaded.sources)),
        }
    }
}

impl Plan {
    /// What the plan does, for people: a title and its lines.
    pub fn summary(&self) -> Vec<(&'static str, Vec<String>)> {
        let evaluators = self.evaluators.iter().map(|configured| {
            let info = &configured.info;
            let sample = match configured.sample {
                1.0 => String::new(),
                share => format!(", {}% of traces", share * 100.0),
            };
            format!(
                "{} (each {}, passes from {}{sample})",
                info.name,
                info.level.as_str(),
                info.threshold
            )
        });
        vec![("evaluators", evaluators.collect())]
    }
}

fn report(mut errors: Vec<crate::settings::SettingsError>, sources: &Sources) -> ConfigError {
    errors.sort_by_key(|error| error.place.map(|place| (place.line, place.column)));
    errors.dedup();
    ConfigError { problems: errors.into_iter().map(|error| sources.problem(error)).collect() }
}
