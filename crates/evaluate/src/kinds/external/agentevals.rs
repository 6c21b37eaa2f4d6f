//! `agentevals`: a program that reads a run and writes a score, with agentevals' protocol.

use std::sync::Arc;

use super::settings::ProcessSettings;
use crate::evaluator::{Evaluator, Kind};
use crate::external::invocations::{InputSettings, input};
use crate::external::{ExternalBody, ExternalEvaluator};
use spanscore_base::model::{Facts, Trajectory};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::Value;

/// Registry entry of `agentevals`.
pub static KIND: Kind = Kind {
    name: "agentevals",
    about: "Runs a program of yours, or one published for agentevals, once per evaluation. It \
            reads the run from standard input and writes a score, by agentevals' protocol 1.0.",
    also_known_as: &[("code", "agentevals")],
    threshold: 0.5,
    schema: || schemars::schema_for!(ProcessSettings),
    build,
    example: "\
agentevals/mentions_order:
  command: [python3, mentions_order.py]
  config:
    substring: order
",
    ..Kind::PLAIN
};

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let settings = ProcessSettings::read(node)?;
    let plan = Arc::new(settings.plan(node)?);
    let ProcessSettings { config, criteria, .. } = settings;
    let expected = criteria.expected_invocations.map_or(Value::Null, Value::List);
    let facts = Facts {
        arguments: true,
        results: true,
        user_input: true,
        final_output: true,
        ..Facts::default()
    };
    let message = Box::new(move |trajectory: &Trajectory<'_>, threshold| {
        let config = &config;
        let expected = &expected;
        let settings = InputSettings { threshold, config, expected };
        ExternalBody::Invocations(input(trajectory, &settings))
    });
    Ok(Evaluator::External(ExternalEvaluator { plan, facts, message }))
}
