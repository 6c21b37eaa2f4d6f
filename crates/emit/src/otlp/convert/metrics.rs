//! Counts and histograms of scores as cumulative OTLP metrics.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource as ProtoResource;

use super::attributes::Attributes;
use super::{proto_resource, scope};
use crate::scores::{ANSWERS, BOUNDS, ScoreSource, Scores, Series};
use spanscore_base::otlp::semconv::{OWN_SCOPE, SCHEMA_URL, SERVICE_NAME};

/// Times of a report, Unix nanoseconds.
#[derive(Clone, Copy)]
struct Times {
    start_ns: u64,
    now_ns: u64,
}

/// Converts all series since `start_ns`, grouped by resource; empty without counts.
pub(crate) fn metrics(scores: &Scores, start_ns: u64, now_ns: u64) -> ExportMetricsServiceRequest {
    let times = Times { start_ns, now_ns };
    let mut resource_metrics = Vec::new();
    scores.read(now_ns, |source| resource_metrics.push(of_source(source, times)));
    ExportMetricsServiceRequest { resource_metrics }
}

fn of_source(source: &ScoreSource, times: Times) -> ResourceMetrics {
    let resource = source.resource.as_ref().map_or_else(own_resource, |r| proto_resource(r));
    let counts =
        source.series.iter().flat_map(|series| count_points(source, series, series.counts, times));
    let taken_back = source.series.iter().filter(|series| series.superseded != [0; 4]);
    let superseded =
        taken_back.flat_map(|series| count_points(source, series, series.superseded, times));
    let scored = source.series.iter().filter(|series| series.scored() > 0);
    let scores = scored.map(|series| score_point(source, series, times));
    let temporality = AggregationTemporality::Cumulative.into();
    let sum = |data_points: Vec<NumberDataPoint>| {
        metric::Data::Sum(Sum {
            data_points,
            aggregation_temporality: temporality,
            is_monotonic: true,
        })
    };
    let count = sum(counts.collect());
    let superseded: Vec<NumberDataPoint> = superseded.collect();
    let score = metric::Data::Histogram(Histogram {
        data_points: scores.collect(),
        aggregation_temporality: temporality,
    });
    let mut metrics = vec![
        named("spanscore.evaluation.count", "{evaluation}", "Evaluations by outcome.", count),
        named("spanscore.evaluation.score", "1", "Scores, 0 to 1.", score),
    ];
    if !superseded.is_empty() {
        let about = "Verdicts that a revision took back, by outcome.";
        let name = "spanscore.evaluation.superseded";
        metrics.push(named(name, "{evaluation}", about, sum(superseded)));
    }
    let scope_metrics =
        vec![ScopeMetrics { scope: Some(scope()), metrics, schema_url: SCHEMA_URL.to_owned() }];
    ResourceMetrics { resource: Some(resource), scope_metrics, schema_url: String::new() }
}

/// Returns the resource of the overflow source, which counts everything beyond the limit of series.
fn own_resource() -> ProtoResource {
    let mut attributes = Attributes::default();
    attributes.text(SERVICE_NAME, OWN_SCOPE);
    ProtoResource { attributes: attributes.0, ..ProtoResource::default() }
}

fn named(name: &str, unit: &str, description: &str, data: metric::Data) -> Metric {
    Metric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        description: description.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn attributes(source: &ScoreSource, series: &Series) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.text("gen_ai.evaluation.name", series.evaluator.name.as_str());
    attributes.text("spanscore.evaluator.kind", series.evaluator.kind);
    if !source.agent.is_empty() {
        attributes.text("gen_ai.agent.name", source.agent.as_str());
    }
    if source.resource.is_none() {
        attributes.bool("otel.metric.overflow", true);
    }
    attributes
}

fn count_points(
    source: &ScoreSource,
    series: &Series,
    counts: [u64; 4],
    times: Times,
) -> impl Iterator<Item = NumberDataPoint> {
    let answers = ANSWERS.iter().zip(counts).filter(|(_, count)| *count > 0);
    answers.map(move |((outcome, label), count)| {
        let mut attributes = attributes(source, series);
        attributes.text("spanscore.evaluation.outcome", *outcome);
        if let Some(label) = label {
            attributes.text("gen_ai.evaluation.score.label", *label);
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        NumberDataPoint {
            attributes: attributes.0,
            start_time_unix_nano: times.start_ns.max(series.start_ns),
            time_unix_nano: times.now_ns,
            value: Some(number_data_point::Value::AsInt(count)),
            ..NumberDataPoint::default()
        }
    })
}

fn score_point(source: &ScoreSource, series: &Series, times: Times) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: attributes(source, series).0,
        start_time_unix_nano: times.start_ns.max(series.start_ns),
        time_unix_nano: times.now_ns,
        count: series.scored(),
        sum: Some(series.sum),
        bucket_counts: series.buckets.to_vec(),
        explicit_bounds: BOUNDS.to_vec(),
        ..HistogramDataPoint::default()
    }
}
