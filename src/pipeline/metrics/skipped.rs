//! Counters of targets that evaluators skipped as the config says.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};

use spanscore_evaluate::engine::run::{Configured, Evaluators, SkipReason, Skips};

/// Counts of skipped targets, by index of the evaluator and reason.
#[derive(Default)]
pub(super) struct PassCounts(Vec<((usize, SkipReason), u64)>);

impl PassCounts {
    /// Adds the skips of one target.
    pub(super) fn add(&mut self, passes: Skips) {
        // A scan beats a map: few evaluators skip, and mostly the same ones.
        for pass in passes {
            match self.0.iter_mut().find(|(known, _)| *known == pass) {
                Some((_, count)) => *count += 1,
                None => self.0.push((pass, 1)),
            }
        }
    }
}

/// Instruments for skipped targets and failed expressions.
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

    /// Creates the series of an evaluator at zero.
    pub(super) fn begin(&self, configured: &Configured) {
        self.when_errors.add(0, &[evaluator(configured)]);
        for reason in SkipReason::CHOSEN {
            self.skipped.add(0, &labels(configured, reason));
        }
    }

    /// Adds counts to the metrics.
    pub(super) fn add(&self, counts: &PassCounts, by: &Evaluators) {
        for ((index, reason), count) in &counts.0 {
            let Some(configured) = by.evaluators().get(*index) else { continue };
            match reason {
                SkipReason::Error => self.when_errors.add(*count, &[evaluator(configured)]),
                chosen => self.skipped.add(*count, &labels(configured, *chosen)),
            }
        }
    }
}

fn evaluator(configured: &Configured) -> KeyValue {
    KeyValue::new("evaluator", configured.info.name.clone())
}

/// Returns the labels; the judge is among them if the evaluator always asks the same one.
fn labels(configured: &Configured, reason: SkipReason) -> Vec<KeyValue> {
    let mut labels = vec![evaluator(configured), KeyValue::new("reason", reason.as_str())];
    labels.extend(configured.judge().map(|judge| KeyValue::new("judge", judge.to_owned())));
    labels
}
