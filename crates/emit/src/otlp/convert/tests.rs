use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;

use super::*;
use crate::sample;
use crate::scores::{Grouping, Scores};
use spanscore_base::model::{Memory, Target};

const CHILD: Options = Options { placement: Placement::Child, content: false };
const LINKED: Options = Options { placement: Placement::Linked, content: true };

/// Prints attributes as lines `key type value`.
fn lines(attributes: &[KeyValue]) -> String {
    let line = |kv: &KeyValue| {
        let value = match kv.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(ProtoValue::StringValue(text)) => format!("string {text}"),
            Some(ProtoValue::DoubleValue(value)) => format!("double {value}"),
            Some(ProtoValue::IntValue(value)) => format!("int {value}"),
            Some(ProtoValue::BoolValue(value)) => format!("bool {value}"),
            other => format!("{other:?}"),
        };
        format!("{} {value}", kv.key)
    };
    attributes.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_scored_event_sits_on_the_judged_span_with_the_conventions_names() {
    let record = event(&sample::scored(0.5), CHILD);
    assert_eq!(record.event_name, "gen_ai.evaluation.result");
    assert_eq!(record.trace_id, sample::scored(0.5).target.trace_id.0);
    assert_eq!(record.span_id, sample::scored(0.5).span_id.0);
    insta::assert_snapshot!(lines(&record.attributes), @"
    gen_ai.evaluation.name string tool_call_args/refund
    gen_ai.evaluation.score.value double 0.5
    gen_ai.evaluation.score.label string fail
    gen_ai.evaluation.explanation string score 0.5, below the threshold 1
    gen_ai.conversation.id string s-1
    session.id string s-1
    gen_ai.agent.name string refunds
    spanscore.evaluation.id string e1000000000000000000000000000000
    spanscore.evaluation.outcome string scored
    spanscore.evaluation.level string trace
    spanscore.evaluation.threshold double 1
    spanscore.evaluation.completion string root_ended
    spanscore.evaluation.partial bool false
    spanscore.evaluation.revision int 1
    spanscore.evaluation.revises string ee000000000000000000000000000000
    spanscore.evaluator.kind string tool_call_args
    spanscore.evaluator.version string 07070707070707070707070707070707
    ");
}

#[test]
fn event_on_a_models_span_names_the_reply_and_others_do_not() {
    let of = |judged: SpanId| {
        let mut evaluation = sample::scored(1.0);
        let response = Some((judged, "resp_1".into()));
        evaluation.target = Arc::new(Target { response, ..(*evaluation.target).clone() });
        lines(&event(&evaluation, CHILD).attributes).contains("gen_ai.response.id string resp_1")
    };
    assert!(of(sample::scored(1.0).span_id));
    assert!(!of(SpanId([9; 8])));
}

#[test]
fn what_was_not_scored_has_no_score_and_only_what_failed_an_error() {
    let not_evaluable = lines(&event(&sample::not_evaluable(), CHILD).attributes);
    assert!(!not_evaluable.contains("score.value") && !not_evaluable.contains("score.label"));
    assert!(!not_evaluable.contains("error.type"), "{not_evaluable}");
    assert!(not_evaluable.contains("evaluation.reason string arguments_not_recorded"));
    let failed = event(&sample::failed(), CHILD);
    assert_eq!(failed.severity_text, "WARN");
    let failed = lines(&failed.attributes);
    assert!(!failed.contains("evaluation.score.") && failed.contains("error.type string criteria"));
}

#[test]
fn no_text_of_an_evaluator_leaves_unless_content_is_included() {
    for evaluation in [sample::scored(0.5), sample::not_evaluable(), sample::failed()] {
        for placement in [Placement::Child, Placement::Linked] {
            let sent = |content| {
                let options = Options { placement, content };
                let mut bytes = events(&[&evaluation], options).encode_to_vec();
                bytes.extend(spans(&[&evaluation], options).encode_to_vec());
                String::from_utf8_lossy(&bytes).contains("A-17")
            };
            assert!(sent(true) && !sent(false), "{evaluation:?}");
        }
    }
}

#[test]
fn a_child_span_stands_below_the_judged_span() {
    let evaluation = sample::scored(1.0);
    let span = span(&evaluation, CHILD);
    assert_eq!(span.name, "evaluate tool_call_args/refund");
    assert_eq!(span.trace_id, evaluation.target.trace_id.0);
    assert_eq!(span.parent_span_id, evaluation.span_id.0);
    assert_eq!(span.span_id, [0xe1, 0, 0, 0, 0, 0, 0, 0]);
    assert!(span.links.is_empty() && span.status.is_none());
    assert!(lines(&span.attributes).ends_with("openinference.span.kind string EVALUATOR"));
}

#[test]
fn a_linked_span_has_its_own_trace_one_link_and_the_openinference_form() {
    let mut evaluation = sample::scored(1.0);
    if let Outcome::Scored(score) = &mut evaluation.outcome {
        score.explanation = spanscore_base::model::Explanation::content(r#"quotes "A-17""#);
    }
    let span = span(&evaluation, LINKED);
    assert_eq!(span.trace_id, evaluation.id.0);
    assert!(span.parent_span_id.is_empty());
    let [link] = span.links.as_slice() else { panic!("{:?}", span.links) };
    assert_eq!(link.trace_id, evaluation.target.trace_id.0);
    assert_eq!(link.span_id, evaluation.span_id.0);
    let lines = lines(&span.attributes);
    let (_, form) = lines.split_once("string EVALUATOR\n").unwrap_or_default();
    insta::assert_snapshot!(form, @r#"
    evaluations.0.evaluation.name string tool_call_args/refund
    evaluations.0.evaluation.score double 1
    evaluations.0.evaluation.label string pass
    evaluations.0.evaluation.explanation string quotes "A-17"
    evaluations.0.evaluation.annotator_kind string CODE
    evaluations.0.evaluation.identifier string 07070707070707070707070707070707
    "#);
}

#[test]
fn the_same_evaluation_gives_the_same_bytes() {
    let first = sample::scored(0.5);
    let second = sample::scored(0.5);
    assert_eq!(spans(&[&first], LINKED), spans(&[&second], LINKED));
}

#[test]
fn evaluations_are_grouped_by_the_judged_traces_resource() {
    let a = sample::scored(1.0);
    let mut b = sample::scored(1.0);
    let c = sample::scored(1.0);
    Arc::make_mut(&mut b.target).resource =
        Resource { encoded: vec![0xff], service_name: "torn".into() }.into();
    let request = events(&[&a, &b, &c], CHILD);
    let groups: Vec<_> = request
        .resource_logs
        .iter()
        .map(|group| {
            let attributes = group.resource.as_ref().map(|r| lines(&r.attributes));
            let scope = &group.scope_logs[0];
            let name = scope.scope.as_ref().map(|scope| scope.name.as_str());
            (attributes.unwrap_or_default(), name, scope.log_records.len())
        })
        .collect();
    let group = |name: &str, n| (format!("service.name string {name}"), Some("spanscore"), n);
    assert_eq!(groups, [group("shop", 2), group("torn", 1)]);
}

#[test]
fn metrics_are_cumulative_sums_and_histograms_by_evaluator_and_agent() {
    let share = Memory::default().series;
    let scores = Scores::new(Grouping::Version, 10, Default::default(), share);
    assert!(metrics(&scores, 1, 2).resource_metrics.is_empty());
    scores.record(&[sample::scored(0.5), sample::scored(1.0), sample::not_evaluable()]);
    let request = metrics(&scores, 1, 2);
    let [resource] = request.resource_metrics.as_slice() else { panic!("{request:?}") };
    let [count, score] = resource.scope_metrics[0].metrics.as_slice() else { panic!() };
    assert_eq!(
        (count.name.as_str(), count.unit.as_str()),
        ("spanscore.evaluation.count", "{evaluation}")
    );
    assert_eq!((score.name.as_str(), score.unit.as_str()), ("spanscore.evaluation.score", "1"));
    let Some(Data::Sum(sum)) = &count.data else { panic!("{count:?}") };
    assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
    assert_eq!(sum.data_points.len(), 3);
    insta::assert_snapshot!(lines(&sum.data_points[1].attributes), @"
    gen_ai.evaluation.name string tool_call_args/refund
    spanscore.evaluator.kind string tool_call_args
    gen_ai.agent.name string refunds
    spanscore.evaluation.outcome string scored
    gen_ai.evaluation.score.label string fail
    ");
    let Some(Data::Histogram(histogram)) = &score.data else { panic!("{score:?}") };
    let point = &histogram.data_points[0];
    assert_eq!((point.count, point.sum, point.start_time_unix_nano), (2, Some(1.5), 1));
    assert_eq!(point.bucket_counts, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]);
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
}
