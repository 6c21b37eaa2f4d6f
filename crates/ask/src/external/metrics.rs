//! Metrics of the lane of external evaluators. Names and units are in `docs/operations.md`.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::lane::core::ExternalCount;
use spanscore_base::model::WaitingRoom;
use spanscore_evaluate::external::RedactionGaps;

/// Counters and histograms of the lane.
pub(super) struct ExternalMetrics {
    describes: Counter<u64>,
    requests: Counter<u64>,
    retries: Counter<u64>,
    ignored: Counter<u64>,
    unfollowed: Counter<u64>,
    withheld: Counter<u64>,
    tasks: Counter<u64>,
    waits: Histogram<f64>,
    durations: Histogram<f64>,
}

impl ExternalMetrics {
    /// The instruments; without a meter, for commands, nobody sees them.
    pub(super) fn new(meter: Option<&Meter>, room: &Arc<WaitingRoom>) -> Self {
        let none = SdkMeterProvider::default().meter("spanscore");
        let meter = meter.unwrap_or(&none);
        show_waiting(meter, room);
        let counter = |name: &'static str, about: &'static str, unit: &'static str| {
            meter.u64_counter(name).with_description(about).with_unit(unit).build()
        };
        let seconds = |name: &'static str, about: &'static str| {
            let histogram = meter.f64_histogram(name).with_description(about).with_unit("s");
            let bounds = vec![0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
            histogram.with_boundaries(bounds).build()
        };
        Self {
            describes: counter(
                "spanscore.external.describes",
                "Times that external evaluators were asked what they evaluate.",
                "{request}",
            ),
            requests: counter(
                "spanscore.external.requests",
                "Requests to external evaluators, or processes.",
                "{request}",
            ),
            retries: counter("spanscore.external.retries", "Tasks tried again.", "{task}"),
            ignored: counter(
                "spanscore.external.ignored",
                "Answers of external evaluators that fit no task.",
                "{answer}",
            ),
            unfollowed: counter(
                "spanscore.external.unfollowed_secrets",
                "Values of keys for secrets that were not looked for elsewhere.",
                "{value}",
            ),
            withheld: counter(
                "spanscore.external.withheld_texts",
                "Texts that were withheld as a whole, by reason.",
                "{text}",
            ),
            tasks: counter(
                "spanscore.external.tasks",
                "Tasks that left otherwise than with an evaluation.",
                "{task}",
            ),
            waits: seconds("spanscore.external.wait", "Time that tasks waited."),
            durations: seconds("spanscore.external.duration", "Time that requests took."),
        }
    }

    /// Shows an evaluator with nothing, so that an alert need not wait for a first time.
    pub(super) fn begin(&self, evaluator: &str) {
        let of = KeyValue::new("evaluator", evaluator.to_owned());
        self.describes.add(0, &[of.clone(), KeyValue::new("outcome", "described")]);
        self.requests.add(0, &[of.clone(), KeyValue::new("outcome", "answered")]);
        self.retries.add(0, std::slice::from_ref(&of));
        self.gaps(evaluator)(RedactionGaps::default());
        for reason in ["unknown_task", "repeated"] {
            self.ignored.add(0, &[of.clone(), KeyValue::new("reason", reason)]);
        }
        for outcome in ["replaced", "superseded", "left"] {
            self.tasks.add(0, &[KeyValue::new("outcome", outcome)]);
        }
    }

    /// Counts what redaction could not do as it should in what one evaluator is sent.
    pub(super) fn gaps(&self, evaluator: &str) -> impl Fn(RedactionGaps) + Send + use<> {
        let of = KeyValue::new("evaluator", evaluator.to_owned());
        let unfollowed = self.unfollowed.clone();
        let withheld = self.withheld.clone();
        move |gaps| {
            unfollowed.add(gaps.unfollowed, std::slice::from_ref(&of));
            for (reason, count) in gaps.withheld.by_reason() {
                withheld.add(count, &[of.clone(), KeyValue::new("reason", reason)]);
            }
        }
    }

    /// Records the duration of a request.
    pub(super) fn took(&self, evaluator: &str, took: Duration) {
        let of = KeyValue::new("evaluator", evaluator.to_owned());
        self.durations.record(took.as_secs_f64(), &[of]);
    }

    pub(super) fn count<'n>(&self, name: impl Fn(usize) -> &'n str, count: &ExternalCount) {
        let of = |channel: usize| KeyValue::new("evaluator", name(channel).to_owned());
        let outcome = match count {
            ExternalCount::Described(channel, outcome) => {
                let all = [of(*channel), KeyValue::new("outcome", *outcome)];
                return self.describes.add(1, &all);
            }
            ExternalCount::Request(channel, outcome) => {
                let all = [of(*channel), KeyValue::new("outcome", *outcome)];
                return self.requests.add(1, &all);
            }
            ExternalCount::Retry(channel) => return self.retries.add(1, &[of(*channel)]),
            ExternalCount::Ignored(channel, ignored) => {
                let counts =
                    [("unknown_task", ignored.unknown_task), ("repeated", ignored.repeated)];
                for (reason, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
                    self.ignored.add(count, &[of(*channel), KeyValue::new("reason", reason)]);
                }
                return;
            }
            ExternalCount::Waited(channel, ms) => {
                return self.waits.record(*ms as f64 / 1e3, &[of(*channel)]);
            }
            ExternalCount::Replaced => "replaced",
            ExternalCount::Superseded => "superseded",
            ExternalCount::Left => "left",
        };
        self.tasks.add(1, &[KeyValue::new("outcome", outcome)]);
    }
}

fn show_waiting(meter: &Meter, room: &Arc<WaitingRoom>) {
    let gauges = [
        ("spanscore.external.waiting", "Tasks that wait for external evaluators.", "{task}"),
        ("spanscore.external.waiting_size", "Bytes of tasks that wait.", "By"),
    ];
    for (name, about, unit) in gauges {
        let room = Arc::clone(room);
        let is_size = unit == "By";
        meter
            .u64_observable_gauge(name)
            .with_description(about)
            .with_unit(unit)
            .with_callback(move |gauge| {
                let (tasks, bytes) = room.now();
                gauge.observe(if is_size { bytes } else { tasks } as u64, &[]);
            })
            .build();
    }
}
