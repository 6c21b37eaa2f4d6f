//! Targets that evaluators were not asked about because the config says so.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};

use crate::evaluate::engine::run::{Configured, Evaluators, PassReason, Passes};

/// How often each evaluator passed over a target, by its place and why.
#[derive(Default)]
pub(super) struct PassCounts(Vec<((usize, PassReason), u64)>);

impl PassCounts {
    /// Counts those of one target.
    pub(super) fn add(&mut self, passes: Passes) {
        // Few evaluators pass, and mostly the same ones.
        for pass in passes {
            match self.0.iter_mut().find(|(known, _)| *known == pass) {
                Some((_, count)) => *count += 1,
                None => self.0.push((pass, 1)),
            }
        }
    }
}

/// The counters of what was passed over.
pub(super) struct SkippedCounters {
    skipped: Counter<u64>,
    when_errors: Counter<u64>,
}

impl SkippedCounters {
    pub(super) fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str, about: &'static str, unit: &'static str| {
            meter.u64_counter(name).with_description(about).with_unit(unit).build()
        };
        Self {
            skipped: counter(
                "spanscore.evaluate.skipped",
                "Traces and sessions that an evaluator passed over as the config says, by reason.",
                "{target}",
            ),
            when_errors: counter(
                "spanscore.evaluate.when_errors",
                "Expressions of `when` and `run_if` that could not be evaluated.",
                "{error}",
            ),
        }
    }

    /// Makes the series of an evaluator appear.
    pub(super) fn begin(&self, configured: &Configured) {
        self.when_errors.add(0, &[evaluator(configured)]);
        for reason in PassReason::CHOSEN {
            self.skipped.add(0, &labels(configured, reason));
        }
    }

    /// Adds what was counted.
    pub(super) fn add(&self, counts: &PassCounts, by: &Evaluators) {
        for ((index, reason), count) in &counts.0 {
            let Some(configured) = by.evaluators().get(*index) else { continue };
            match reason {
                PassReason::Error => self.when_errors.add(*count, &[evaluator(configured)]),
                chosen => self.skipped.add(*count, &labels(configured, *chosen)),
            }
        }
    }
}

fn evaluator(configured: &Configured) -> KeyValue {
    KeyValue::new("evaluator", configured.info.name.clone())
}

/// The judge is named where the evaluator always asks the same one.
fn labels(configured: &Configured, reason: PassReason) -> Vec<KeyValue> {
    let mut labels = vec![evaluator(configured), KeyValue::new("reason", reason.as_str())];
    labels.extend(configured.judge().map(|judge| KeyValue::new("judge", judge.to_owned())));
    labels
}
