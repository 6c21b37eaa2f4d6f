//! Metrics of external evaluators. Names and units are in `docs/operations.md`.

use std::sync::Arc;
use std::time::Duration;

use strum::VariantArray;

use super::backend::ExternalCount;
use crate::scheduler::SilentEnd;
use spanscore_base::model::WaitingRoom;
use spanscore_evaluate::external::RedactionGaps;
use spanscore_net::metrics::{Meter, Scraped, label};
use spanscore_net::{metrics, readings};

/// Upper bounds of the histograms, seconds.
const BOUNDS: [f64; 11] = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

metrics! {
    /// Instruments of one evaluator.
    struct EvaluatorMetrics {
        describes: CounterBy("spanscore.external.describes", "{request}",
            "Times that external evaluators were asked what they evaluate.",
            "outcome", ["described"]);
        requests: CounterBy("spanscore.external.requests", "{request}",
            "Requests to external evaluators, or processes.", "outcome", ["answered"]);
        retries: Counter("spanscore.external.retries", "{task}", "Tasks tried again.");
        ignored: CounterBy("spanscore.external.ignored", "{answer}",
            "Answers of external evaluators that fit no task.",
            "reason", ["unknown_task", "repeated"]);
        unfollowed: Counter("spanscore.external.unfollowed_secrets", "{value}",
            "Values of keys for secrets that were not looked for elsewhere.");
        withheld: CounterBy("spanscore.external.withheld_texts", "{text}",
            "Texts that were withheld as a whole, by reason.",
            "reason", RedactionGaps::default().withheld.by_reason().map(|(reason, _)| reason));
        waits: Histogram("spanscore.external.wait", "s", "Time that tasks waited.", &BOUNDS);
        durations: Histogram("spanscore.external.duration", "s", "Time that requests took.",
            &BOUNDS);
    }
}

metrics! {
    /// Instruments of all evaluators.
    struct TaskMetrics {
        tasks: CounterBy("spanscore.external.tasks", "{task}",
            "Tasks that left otherwise than with an evaluation.",
            "outcome", SilentEnd::VARIANTS.iter().map(|end| end.into_str()));
    }
}

readings! {
    const WAITING: Arc<WaitingRoom> {
        gauge("spanscore.external.waiting", "{task}", "Tasks that wait for external evaluators.",
            |room| room.now().0 as u64);
        gauge("spanscore.external.waiting_size", "By", "Bytes of tasks that wait.",
            |room| room.now().1 as u64);
    }
}

/// Instruments of external evaluators.
pub(super) struct ExternalMetrics {
    evaluators: EvaluatorMetrics,
    all: TaskMetrics,
}

impl ExternalMetrics {
    pub(super) fn new(meter: &Meter, room: &Arc<WaitingRoom>) -> Self {
        let room = Arc::clone(room);
        Scraped::show_all(WAITING, meter, move |see| see(&room, &[]));
        Self { evaluators: EvaluatorMetrics::new(meter), all: TaskMetrics::new(meter) }
    }

    /// Shows an evaluator at zero, so that an alert sees the first increment.
    pub(super) fn begin(&self, evaluator: &str) {
        self.evaluators.of(&[label("evaluator", evaluator)]);
        self.all.of(&[]);
    }

    /// Counts gaps of redaction in an evaluator's requests.
    pub(super) fn gaps(&self, evaluator: &str) -> impl Fn(RedactionGaps) + Send + use<> {
        let of = [label("evaluator", evaluator)];
        let unfollowed = self.evaluators.unfollowed.under(&of);
        let withheld = self.evaluators.withheld.under(&of);
        move |gaps| {
            unfollowed.add(gaps.unfollowed);
            gaps.withheld
                .by_reason()
                .into_iter()
                .for_each(|(reason, count)| withheld.add(reason, count));
        }
    }

    /// Records the duration of a request.
    pub(super) fn took(&self, evaluator: &str, took: Duration) {
        let of = [label("evaluator", evaluator)];
        self.evaluators.durations.under(&of).record(took.as_secs_f64());
    }

    /// Counts an event of an evaluator's channel.
    pub(super) fn count(&self, evaluator: &str, count: &ExternalCount) {
        let of = [label("evaluator", evaluator)];
        let own = &self.evaluators;
        match count {
            ExternalCount::Described(outcome) => own.describes.under(&of).add(outcome, 1),
            ExternalCount::Request(outcome) => own.requests.under(&of).add(outcome, 1),
            ExternalCount::Retry => own.retries.under(&of).add(1),
            ExternalCount::Ignored(ignored) => {
                let counter = own.ignored.under(&of);
                counter.add("unknown_task", ignored.unknown_task);
                counter.add("repeated", ignored.repeated);
            }
            ExternalCount::Waited(ms) => own.waits.under(&of).record(*ms as f64 / 1e3),
        }
    }

    /// Counts a task that ended without an evaluation.
    pub(super) fn ended(&self, end: SilentEnd) {
        self.all.tasks.add(end.into_str(), 1);
    }
}
