//! Test support: an evaluator that panics on demand, and the context of one shard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::WorkerContext;
use super::long_traces::ATTEMPT_STEPS;
use crate::PipelineSettings;
use crate::metrics::PipelineMetrics;
use crate::reload::setup::Setup;
use spanscore_base::model::{EvaluatorInfo, Facts, Level, Outcome, Score, Trajectory, Want};
use spanscore_base::value::Value;
use spanscore_evaluate::engine::run::{Against, Configured, Evaluators};
use spanscore_evaluate::engine::tool_choice::ToolChoice;
use spanscore_evaluate::{CodeEvaluator, Early, Evaluator};
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{Resolver, Table};
use spanscore_telemetry::Telemetry;

/// Scores 0, or panics.
#[derive(Clone, Default)]
pub(crate) struct Brittle(Arc<AtomicBool>);

impl Brittle {
    /// Turns the panics on or off.
    pub(crate) fn breaks(&self, breaks: bool) {
        self.0.store(breaks, Ordering::Relaxed);
    }
}

impl CodeEvaluator for Brittle {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn evaluate(&self, _: &Trajectory<'_>, _: Want) -> Outcome {
        assert!(!self.0.load(Ordering::Relaxed), "a fault of an evaluator");
        Outcome::Scored(Score {
            value: 0.0,
            explanation: spanscore_base::model::Explanation::default(),
            details: Value::Null,
            label: None,
        })
    }

    fn early(&self, trajectory: &Trajectory<'_>, want: Want) -> Option<Early> {
        Some(Early { outcome: self.evaluate(trajectory, want), best: 0.0 })
    }
}

/// Takes two slices.
struct Costly;

impl CodeEvaluator for Costly {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, _: Want) -> Outcome {
        trajectory.effort.spend(2 * ATTEMPT_STEPS as usize);
        Outcome::Scored(Score {
            value: 1.0,
            explanation: spanscore_base::model::Explanation::default(),
            details: Value::Null,
            label: None,
        })
    }
}

/// Builds an evaluator that takes two slices.
pub(crate) fn costly_one(name: &str, level: Level) -> Configured {
    Configured {
        against: Against::Settings(Evaluator::code(Costly)),
        ..configured(name, level, Brittle::default())
    }
}

/// Builds the evaluator with a name; at level `trace` it gives early verdicts.
pub(crate) fn configured(name: &str, level: Level, brittle: Brittle) -> Configured {
    let info = EvaluatorInfo {
        kind: "brittle",
        name: name.to_owned(),
        threshold: 0.5,
        level,
        digest: [name.len() as u8; 16],
        case: None,
        own_version: None,
    };
    Configured {
        info: Arc::new(info),
        when: None,
        sample: 1.0,
        early: level == Level::Trace,
        asks: false,
        run_if: None,
        tools: ToolChoice::default(),
        against: Against::Settings(Evaluator::code(brittle)),
    }
}

impl WorkerContext {
    /// Builds the context of one shard with these evaluators, and its settings.
    pub(crate) fn of(
        telemetry: &Telemetry,
        evaluators: Vec<Configured>,
    ) -> (Self, PipelineSettings) {
        let evaluators = Evaluators::new(evaluators, Want::ALL);
        let table = Table::compile(Dialect::with_builtin(Vec::new()), &evaluators.facts()).unwrap();
        let metrics = Arc::new(PipelineMetrics::new(&telemetry.meter(), &evaluators));
        let resolver = Arc::new(Resolver::new(Arc::new(table)));
        let setup = Setup { resolver, evaluators: Arc::new(evaluators) };
        let settings = PipelineSettings::default();
        (Self::new(&settings, setup, Arc::new(|_, _| {}), metrics), settings)
    }
}
