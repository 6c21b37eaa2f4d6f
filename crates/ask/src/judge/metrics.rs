//! Metrics of judges. Names and units are in `docs/operations.md`.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::lane::core::LaneCount;
use super::wire::TokenUsage;
use spanscore_base::model::{Evaluation, Outcome, Reason, WaitingRoom};
use spanscore_evaluate::inquiry::RedactionGaps;

/// Values of the label `type`: new input, input from the provider's prompt cache, output.
const TOKEN_TYPES: [&str; 3] = ["input", "cached", "output"];

/// Upper bounds of the wait histogram, seconds: `settle`, and delays by budgets and rates.
const WAIT_BOUNDS: [f64; 10] = [0.01, 0.1, 1.0, 5.0, 11.0, 20.0, 60.0, 120.0, 300.0, 600.0];
/// Upper bounds of the request duration histogram, seconds.
const DURATION_BOUNDS: [f64; 9] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// Factory of the instruments, before the judges are known.
pub(super) struct JudgeMetrics {
    meter: Meter,
}

impl JudgeMetrics {
    pub(super) fn new(meter: &Meter) -> Self {
        Self { meter: meter.clone() }
    }

    /// Returns metrics that nobody reads, for commands.
    pub(super) fn none() -> Self {
        Self { meter: SdkMeterProvider::default().meter("spanscore") }
    }

    pub(super) fn of(
        self,
        names: Vec<String>,
        asking: &[(String, String)],
        load: &Arc<WaitingRoom>,
    ) -> LaneMetrics {
        let counter = |name: &'static str, about: &'static str, unit: &'static str| {
            self.meter.u64_counter(name).with_description(about).with_unit(unit).build()
        };
        self.watch_load(load);
        let metrics = LaneMetrics {
            requests: counter("spanscore.judge.requests", "Requests to judges.", "{request}"),
            tokens: counter("spanscore.judge.tokens", "Tokens by judges.", "{token}"),
            cost: self
                .meter
                .f64_counter("spanscore.judge.cost")
                .with_description("Cost of requests to judges, US dollars.")
                .with_unit("{USD}")
                .build(),
            cache_hits: counter(
                "spanscore.judge.cache_hits",
                "Questions answered from the cache.",
                "{answer}",
            ),
            surplus: counter(
                "spanscore.judge.surplus_usage",
                "Replies with more tokens than their request can take.",
                "{reply}",
            ),
            inquiries: counter(
                "spanscore.judge.inquiries",
                "Inquiries that left otherwise than with an evaluation.",
                "{inquiry}",
            ),
            unanswered: counter(
                "spanscore.judge.unanswered",
                "Inquiries that came to no score, by reason.",
                "{inquiry}",
            ),
            unfollowed: counter(
                "spanscore.judge.unfollowed_secrets",
                "Values of keys for secrets that were not looked for elsewhere.",
                "{value}",
            ),
            withheld: counter(
                "spanscore.judge.withheld_texts",
                "Texts that were withheld as a whole, by reason.",
                "{text}",
            ),
            agreement: self.histogram(
                "spanscore.judge.agreement",
                "Mean share of votes that agree with the majority.",
                ("1", &[0.5, 0.6, 0.7, 0.8, 0.9, 0.99]),
            ),
            wait: self.histogram(
                "spanscore.judge.wait",
                "Time that inquiries waited for their first request.",
                ("s", &WAIT_BOUNDS),
            ),
            duration: self.histogram(
                "spanscore.judge.duration",
                "Duration of requests to judges.",
                ("s", &DURATION_BOUNDS),
            ),
            names: RwLock::new(names),
        };
        metrics.begin(asking);
        metrics
    }

    fn histogram(
        &self,
        name: &'static str,
        about: &'static str,
        (unit, bounds): (&'static str, &[f64]),
    ) -> Histogram<f64> {
        let histogram = self.meter.f64_histogram(name).with_description(about).with_unit(unit);
        histogram.with_boundaries(bounds.to_vec()).build()
    }

    /// Registers gauges for the inquiries that wait and their bytes.
    fn watch_load(&self, load: &Arc<WaitingRoom>) {
        let gauge = |name: &'static str, about: &'static str, unit: &'static str, which| {
            let load = Arc::clone(load);
            let look = move |(inquiries, bytes): (usize, usize)| match which {
                0 => inquiries,
                _ => bytes,
            };
            self.meter
                .u64_observable_gauge(name)
                .with_description(about)
                .with_unit(unit)
                .with_callback(move |gauge| gauge.observe(look(load.now()) as u64, &[]))
                .build()
        };
        gauge("spanscore.judge.waiting", "Inquiries that wait for judges.", "{inquiry}", 0);
        gauge("spanscore.judge.waiting_size", "Bytes of inquiries that wait.", "By", 1);
    }
}

/// Instruments of the lane.
pub(super) struct LaneMetrics {
    requests: Counter<u64>,
    tokens: Counter<u64>,
    cost: Counter<f64>,
    cache_hits: Counter<u64>,
    surplus: Counter<u64>,
    inquiries: Counter<u64>,
    unanswered: Counter<u64>,
    unfollowed: Counter<u64>,
    withheld: Counter<u64>,
    agreement: Histogram<f64>,
    wait: Histogram<f64>,
    duration: Histogram<f64>,
    /// Names of judges by index on the lane; reloads append.
    names: RwLock<Vec<String>>,
}

impl LaneMetrics {
    /// Adds zero to the series of each evaluator and its judge, so that an alert sees the first
    /// increment.
    pub(super) fn begin(&self, asking: &[(String, String)]) {
        for (evaluator, judge) in asking {
            let Some(judge) = self.place(judge) else { continue };
            let of = self.labels(judge, evaluator);
            self.requests.add(0, &with(&of, "outcome", "replied"));
            for kind in TOKEN_TYPES {
                self.tokens.add(0, &with(&of, "type", kind));
            }
            self.cost.add(0.0, &of);
            self.cache_hits.add(0, &of);
            self.surplus.add(0, &of);
            self.gaps(&of, RedactionGaps::default());
            for reason in Reason::UNANSWERED {
                self.unanswered.add(0, &with(&of, "reason", reason.as_str()));
            }
        }
        if !asking.is_empty() {
            for outcome in ["replaced", "superseded", "left"] {
                self.inquiries.add(0, &[KeyValue::new("outcome", outcome)]);
            }
        }
    }

    /// Appends a judge.
    pub(super) fn add(&self, name: String) {
        self.names.write().unwrap_or_else(PoisonError::into_inner).push(name);
    }

    fn names(&self) -> RwLockReadGuard<'_, Vec<String>> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of the newest judge of a name.
    pub(super) fn place(&self, judge: &str) -> Option<usize> {
        self.names().iter().rposition(|name| name == judge)
    }

    fn judge(&self, judge: usize) -> KeyValue {
        KeyValue::new("judge", self.names().get(judge).cloned().unwrap_or_default())
    }

    fn labels(&self, judge: usize, evaluator: &str) -> [KeyValue; 2] {
        [self.judge(judge), KeyValue::new("evaluator", evaluator.to_owned())]
    }

    pub(super) fn asked(
        &self,
        (judge, evaluator): (usize, &str),
        outcome: &'static str,
        usage: TokenUsage,
        cost_nano: u64,
    ) {
        let of = self.labels(judge, evaluator);
        self.requests.add(1, &with(&of, "outcome", outcome));
        let new = usage.input.saturating_sub(usage.cached);
        for (kind, tokens) in TOKEN_TYPES.into_iter().zip([new, usage.cached, usage.output]) {
            self.tokens.add(tokens, &with(&of, "type", kind));
        }
        self.cost.add(cost_nano as f64 / 1e9, &of);
    }

    /// Records the duration of a request, whatever its outcome.
    pub(super) fn took(&self, judge: usize, took: Duration) {
        self.duration.record(took.as_secs_f64(), &[self.judge(judge)]);
    }

    /// Counts the outcome of an inquiry, under the judge that was asked last, or would have been.
    pub(super) fn emitted(&self, judge: Option<usize>, evaluations: &[Evaluation]) {
        let Some(first) = evaluations.first() else { return };
        let name = &first.evaluator.name;
        let reason = match (&first.outcome, &first.judge) {
            (Outcome::Scored(_), Some(used)) => {
                let evaluator = KeyValue::new("evaluator", name.clone());
                return self.agreement.record(used.agreement, &[evaluator]);
            }
            (Outcome::Scored(_), None) => return,
            (Outcome::NotEvaluable { reason, .. }, _) => reason.as_str(),
            (Outcome::Failed { error_type, .. }, _) => error_type,
        };
        if let Some(judge) = judge {
            self.unanswered.add(1, &with(&self.labels(judge, name), "reason", reason));
        }
    }

    /// Counts gaps of redaction: secrets not followed, texts withheld.
    fn gaps(&self, of: &[KeyValue; 2], gaps: RedactionGaps) {
        self.unfollowed.add(gaps.unfollowed, of);
        for (reason, count) in gaps.withheld.by_reason() {
            self.withheld.add(count, &with(of, "reason", reason));
        }
    }

    pub(super) fn count(&self, count: &LaneCount) {
        let outcome = match count {
            LaneCount::CacheHit(judge, evaluator) => {
                return self.cache_hits.add(1, &self.labels(*judge, evaluator));
            }
            LaneCount::Surplus(judge, evaluator) => {
                return self.surplus.add(1, &self.labels(*judge, evaluator));
            }
            LaneCount::Waited(judge, evaluator, ms) => {
                return self.wait.record(*ms as f64 / 1e3, &self.labels(*judge, evaluator));
            }
            LaneCount::Gaps(judge, evaluator, gaps) => {
                return self.gaps(&self.labels(*judge, evaluator), *gaps);
            }
            LaneCount::Refused(judge, parameter) => {
                let judge = self.names().get(*judge).cloned().unwrap_or_default();
                tracing::info!(judge, parameter, "the judge does not take this; it is left out");
                return;
            }
            LaneCount::Replaced => "replaced",
            LaneCount::Superseded => "superseded",
            LaneCount::Left => "left",
        };
        self.inquiries.add(1, &[KeyValue::new("outcome", outcome)]);
    }
}

fn with(of: &[KeyValue; 2], key: &'static str, value: &'static str) -> [KeyValue; 3] {
    [of[0].clone(), of[1].clone(), KeyValue::new(key, value)]
}
