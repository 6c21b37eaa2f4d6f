//! The `prometheus` exporter: score metrics on the metrics endpoint of the process.
//!
//! The names are those of the OTLP metrics in Prometheus' spelling.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Counter, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::scores::{ANSWERS, BOUNDS, Grouping, SERIES_IDLE, ScoreSource, Scores, Series, now_ns};
use super::settings::{Exporter, ExporterKind};
use super::{ExporterStartError, Starting};
use spanscore_base::settings::HumanDuration;
use spanscore_base::visible;

/// Name of the counter.
pub const COUNT: &str = "spanscore_evaluation_count_total";
/// Name of the histogram.
pub const SCORE: &str = "spanscore_evaluation_score";

/// Name of the counter of revised verdicts.
pub const SUPERSEDED: &str = "spanscore_evaluation_superseded_total";

const SUPERSEDED_HELP: &str = "Verdicts that a revision took back, by outcome and label.";
const COUNT_HELP: &str = "Evaluations by outcome and label.";
const SCORE_HELP: &str = "Scores, 0 to 1.";

/// Kind `prometheus`.
pub static KIND: ExporterKind = ExporterKind {
    name: "prometheus",
    aliases: &[],
    about: "Shows counts and a histogram of the scores on the metrics endpoint of the process.",
    single: true,
    schema: || schemars::schema_for!(PrometheusSettings),
    read: |node| Ok(Arc::new(node.read::<PrometheusSettings>()?)),
};

/// Shows score metrics on the metrics endpoint of the process.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct PrometheusSettings {
    /// Limit on the combinations of evaluator, service and agent with metric series. Further ones
    /// share a series with empty `service` and `agent` and `overflow="true"`. One sender may use at
    /// most four fifths of the limit, or four. Default 1000.
    #[default = 1000]
    pub series_max: usize,
    /// Time without an evaluation after which a series is dropped. `0` keeps series forever.
    /// Default `1h`.
    #[default(SERIES_IDLE)]
    pub series_idle: HumanDuration,
}

impl Exporter for PrometheusSettings {
    fn start(&self, starting: &mut Starting<'_>) -> Result<(), ExporterStartError> {
        starting.scores(Grouping::Service, self.series_max, self.series_idle);
        starting.show_scores()
    }
}

/// Scores on the metrics endpoint: those of the present exporter of this kind, if any.
#[derive(Default)]
pub(crate) struct ShownScores {
    scores: Arc<Mutex<Option<Arc<Scores>>>>,
    is_registered: Mutex<bool>,
}

impl ShownScores {
    /// Registers them once.
    pub(crate) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let mut is_registered = self.is_registered.lock();
        if !*is_registered {
            registry.register(Box::new(ScoreCollector::new(Arc::clone(&self.scores))?))?;
            *is_registered = true;
        }
        Ok(())
    }

    /// Replaces the shown scores.
    pub(crate) fn show(&self, scores: Option<Arc<Scores>>) {
        *self.scores.lock() = scores;
    }
}

/// Prometheus collector of one exporter's series.
struct ScoreCollector {
    scores: Arc<Mutex<Option<Arc<Scores>>>>,
    descs: Vec<Desc>,
}

impl ScoreCollector {
    fn new(scores: Arc<Mutex<Option<Arc<Scores>>>>) -> Result<Self, prometheus::Error> {
        let desc = |name: &str, help: &str| {
            Desc::new(name.to_owned(), help.to_owned(), Vec::new(), Default::default())
        };
        let descs = vec![
            desc(COUNT, COUNT_HELP)?,
            desc(SUPERSEDED, SUPERSEDED_HELP)?,
            desc(SCORE, SCORE_HELP)?,
        ];
        Ok(Self { scores, descs })
    }
}

impl Collector for ScoreCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut counters = Vec::new();
        let mut histograms = Vec::new();
        let mut superseded = Vec::new();
        let scores = self.scores.lock().clone();
        let Some(scores) = scores else { return Vec::new() };
        scores.read(now_ns(), |source| {
            for series in &source.series {
                counters.extend(count_metrics(source, series, series.counts));
                superseded.extend(count_metrics(source, series, series.superseded));
                histograms.push(score_metric(source, series));
            }
        });
        vec![
            family(COUNT, COUNT_HELP, MetricType::COUNTER, counters),
            family(SUPERSEDED, SUPERSEDED_HELP, MetricType::COUNTER, superseded),
            family(SCORE, SCORE_HELP, MetricType::HISTOGRAM, histograms),
        ]
    }
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn labels(source: &ScoreSource, series: &Series) -> Vec<LabelPair> {
    let service = source.resource.as_ref().map_or("", |resource| &resource.service_name);
    let mut labels = vec![
        label("agent", &source.agent),
        label("evaluator", &series.evaluator.name),
        label("service", service),
    ];
    if source.resource.is_none() {
        labels.push(label("overflow", "true"));
    }
    labels
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    // Senders choose names of services and agents, and a scraper may show them on a terminal.
    pair.set_value(visible::line(value).to_string());
    pair
}

fn count_metrics(
    source: &ScoreSource,
    series: &Series,
    counts: [u64; 4],
) -> impl Iterator<Item = Metric> {
    ANSWERS.iter().zip(counts).map(move |((outcome, verdict), count)| {
        let mut labels = labels(source, series);
        labels.push(label("label", verdict.unwrap_or_default()));
        labels.push(label("outcome", outcome));
        labels.sort_by(|a, b| a.name().cmp(b.name()));
        let mut counter = Counter::default();
        counter.set_value(count as f64);
        let mut metric = Metric::from_label(labels);
        metric.set_counter(counter);
        metric
    })
}

fn score_metric(source: &ScoreSource, series: &Series) -> Metric {
    let mut labels = labels(source, series);
    labels.sort_by(|a, b| a.name().cmp(b.name()));
    let mut up_to = 0;
    let buckets = BOUNDS.iter().zip(series.buckets).map(|(bound, count)| {
        up_to += count;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(up_to);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(series.scored());
    histogram.set_sample_sum(series.sum);
    let mut metric = Metric::from_label(labels);
    metric.set_histogram(histogram);
    metric
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;
    use crate::sample;
    use crate::scores::Grouping;
    use spanscore_base::model::Memory;

    #[test]
    fn counters_and_histogram_have_the_documented_names_and_labels() {
        let idle = HumanDuration::default();
        let share = Memory::default().series;
        let scores = Arc::new(Scores::new(Grouping::Service, 1, idle, share));
        scores.record(&[sample::scored(1.0), sample::scored(0.5), sample::not_evaluable()]);
        let mut other = sample::failed();
        Arc::make_mut(&mut other.target).agent_name = None;
        scores.record(&[other]);
        let registry = Registry::new();
        let shown = ShownScores::default();
        shown.register(&registry).expect("registers");
        shown.show(Some(scores));
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap_or_default();
        let has = |line: &str| assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        let named = r#"agent="refunds",evaluator="tool_call_args/refund""#;
        let count = |of: &str, label, outcome, rest: &str, count| {
            let answer = format!(r#"label="{label}",outcome="{outcome}""#);
            has(&format!("spanscore_evaluation_count_total{{{of},{answer},{rest}}} {count}"));
        };
        has("# TYPE spanscore_evaluation_count_total counter");
        count(named, "pass", "scored", r#"service="shop""#, 1);
        count(named, "fail", "scored", r#"service="shop""#, 1);
        count(named, "", "not_evaluable", r#"service="shop""#, 1);
        count(named, "", "failed", r#"service="shop""#, 0);
        let overflow = r#"agent="",evaluator="tool_call_args/refund""#;
        count(overflow, "", "failed", r#"overflow="true",service="""#, 1);
        has("# TYPE spanscore_evaluation_score histogram");
        let name = "spanscore_evaluation_score";
        has(&format!(r#"{name}_bucket{{{named},service="shop",le="0.5"}} 1"#));
        has(&format!(r#"{name}_sum{{{named},service="shop"}} 1.5"#));
    }
}
