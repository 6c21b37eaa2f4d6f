//! What judges do, in numbers. Names and units are in `docs/operations.md`.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::lane::core::LaneCount;
use super::lane::load::LaneLoad;
use super::wire::TokenUsage;
use crate::model::{Evaluation, Outcome};

/// What tokens were: new, known to the provider, or of an answer.
const TOKEN_TYPES: [&str; 3] = ["input", "cached", "output"];

/// The instruments, before it is known which judges there are.
pub(super) struct JudgeMetrics {
    meter: Meter,
}

impl JudgeMetrics {
    pub(super) fn new(meter: &Meter) -> Self {
        Self { meter: meter.clone() }
    }

    /// For commands, which show no metrics.
    pub(super) fn none() -> Self {
        Self { meter: SdkMeterProvider::default().meter("spanscore") }
    }

    pub(super) fn of(self, names: Vec<String>, load: &Arc<LaneLoad>) -> LaneMetrics {
        let counter = |name: &'static str, about: &'static str, unit: &'static str| {
            self.meter.u64_counter(name).with_description(about).with_unit(unit).build()
        };
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
        gauge("spanscore.judge.waiting_size", "Bytes of those.", "By", 1);
        let metrics = LaneMetrics {
            requests: counter("spanscore.judge.requests", "Requests to judges.", "{request}"),
            tokens: counter("spanscore.judge.tokens", "Tokens by judges.", "{token}"),
            cost: self
                .meter
                .f64_counter("spanscore.judge.cost")
                .with_description("What judges cost, US dollars.")
                .with_unit("{USD}")
                .build(),
            cache_hits: counter("spanscore.judge.cache_hits", "Answers known.", "{answer}"),
            inquiries: counter(
                "spanscore.judge.inquiries",
                "Inquiries that left otherwise than with an evaluation.",
                "{inquiry}",
            ),
            agreement: self
                .meter
                .f64_histogram("spanscore.judge.agreement")
                .with_description("Mean share of votes that agree with the majority.")
                .with_unit("1")
                .with_boundaries(vec![0.5, 0.6, 0.7, 0.8, 0.9, 0.99])
                .build(),
            names,
        };
        metrics.begin();
        metrics
    }
}

/// What the lane counts.
pub(super) struct LaneMetrics {
    requests: Counter<u64>,
    tokens: Counter<u64>,
    cost: Counter<f64>,
    cache_hits: Counter<u64>,
    inquiries: Counter<u64>,
    agreement: Histogram<f64>,
    names: Vec<String>,
}

impl LaneMetrics {
    /// Shows each judge with nothing, so that an alert need not wait for a first time.
    fn begin(&self) {
        (0..self.names.len()).for_each(|judge| self.begin_judge(judge));
        if !self.names.is_empty() {
            self.begin_inquiries();
        }
    }

    /// Shows one more judge.
    pub(super) fn add(&mut self, name: String) {
        self.names.push(name);
        self.begin_judge(self.names.len() - 1);
        self.begin_inquiries();
    }

    fn begin_judge(&self, judge: usize) {
        let of = [self.judge(judge), KeyValue::new("outcome", "replied")];
        self.requests.add(0, &of);
        for kind in TOKEN_TYPES {
            self.tokens.add(0, &[self.judge(judge), KeyValue::new("type", kind)]);
        }
        self.cost.add(0.0, &[self.judge(judge)]);
        self.cache_hits.add(0, &[self.judge(judge)]);
    }

    fn begin_inquiries(&self) {
        for outcome in ["replaced", "superseded", "left"] {
            self.inquiries.add(0, &[KeyValue::new("outcome", outcome)]);
        }
    }

    fn judge(&self, judge: usize) -> KeyValue {
        KeyValue::new("judge", self.names.get(judge).cloned().unwrap_or_default())
    }

    pub(super) fn asked(
        &self,
        judge: usize,
        outcome: &'static str,
        usage: TokenUsage,
        cost_nano: u64,
    ) {
        let of = self.judge(judge);
        self.requests.add(1, &[of.clone(), KeyValue::new("outcome", outcome)]);
        let new = usage.input.saturating_sub(usage.cached);
        for (kind, tokens) in TOKEN_TYPES.into_iter().zip([new, usage.cached, usage.output]) {
            self.tokens.add(tokens, &[of.clone(), KeyValue::new("type", kind)]);
        }
        self.cost.add(cost_nano as f64 / 1e9, &[of]);
    }

    pub(super) fn emitted(&self, evaluations: &[Evaluation]) {
        let Some(first) = evaluations.first() else { return };
        let evaluator = KeyValue::new("evaluator", first.evaluator.name.clone());
        if let (Outcome::Scored(_), Some(judge)) = (&first.outcome, &first.judge) {
            self.agreement.record(judge.agreement, &[evaluator]);
        }
    }

    pub(super) fn count(&self, count: LaneCount) {
        let outcome = match count {
            LaneCount::CacheHit(judge) => return self.cache_hits.add(1, &[self.judge(judge)]),
            LaneCount::Refused(judge, parameter) => {
                let judge = self.names.get(judge).map_or("", String::as_str);
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
