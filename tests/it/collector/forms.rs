//! Every form of a score, held against the tables of `docs/output.md`: whatever leaves is
//! documented with its type, and whatever is documented leaves.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, metric, number_data_point};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::support::collector::Running;
use crate::support::fake_backend::attribute;
use crate::support::spans::{agent, request, text, tool, with};

const DOCS: &str = include_str!("../../../docs/output.md");

/// One evaluator for each outcome.
const EVALUATORS: &str = r#"
evaluators:
  tool_call_count/scored: {criteria: {tool_calls_count: {search: ["=", 1]}}}
  tool_call_args/unknown: {criteria: {tool_calls: [{name: search, args: {q: x}}]}}
  tool_call_count/broken: {compat: uipath, criteria: {tool_calls_count: {search: ["~", 1]}}}
"#;

/// Key and type of each row in the table of a section.
fn documented(section: &str) -> BTreeMap<&'static str, &'static str> {
    let (_, rest) = DOCS.split_once(&format!("\n## {section}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .flat_map(|cells| {
            let kind = cells[2].split([',', ':', ' ']).next().unwrap();
            cells[1].split(", ").map(move |key| (key.trim_matches('`'), kind))
        })
        .collect()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::StringValue(_) => "string",
        Value::DoubleValue(_) => "double",
        Value::IntValue(_) => "int",
        Value::BoolValue(_) => "bool",
        _ => "something else",
    }
}

/// Holds attributes against the documented ones; which were seen.
fn hold(all: &[Vec<KeyValue>], documented: &BTreeMap<&str, &str>) {
    let mut seen = BTreeSet::new();
    for attributes in all {
        let keys: BTreeSet<_> = attributes.iter().map(|kv| kv.key.as_str()).collect();
        assert_eq!(keys.len(), attributes.len(), "a key stands twice: {attributes:?}");
        for key in keys {
            let kind = kind_of(attribute(attributes, key).unwrap());
            assert_eq!(documented.get(key), Some(&kind), "{key}");
            seen.insert(key.to_owned());
        }
    }
    let missing: Vec<_> = documented.keys().filter(|key| !seen.contains(**key)).collect();
    assert_eq!(missing, Vec::<&&str>::new(), "documented and never sent");
}

/// A trace of one call without recorded arguments, in a session.
fn spans() -> Vec<Span> {
    vec![with(agent(7), "session.id", "s-1"), tool(7, 2, "search")]
}

/// Runs the evaluators over a trace and then over a late span of it.
async fn run(placement: &str) -> Running {
    let running = Running::start(&format!(
        "{EVALUATORS}
exporters:
  otlp_grpc/backend:
    forms: [event, span, metric]
    placement: {placement}
    metrics_interval: 50ms
"
    ))
    .await;
    running.send(request(spans())).await;
    running.events(3).await;
    running.send(request([tool(7, 3, "search")])).await;
    running.events(6).await;
    running.backend.until(|backend| backend.spans().len() == 6).await;
    running
}

fn check_origin(resource: Option<&Resource>, scope: Option<&InstrumentationScope>) {
    let expected = [text("service.name", "shop"), text("host.name", "h-1")];
    assert_eq!(resource.unwrap().attributes, expected);
    let scope = scope.unwrap();
    assert_eq!((&*scope.name, &*scope.version), ("spanscore", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn events_are_as_documented() {
    let running = run("child").await;
    let events = running.events(6).await;
    for request in running.backend.log_requests() {
        for logs in &request.resource_logs {
            check_origin(logs.resource.as_ref(), logs.scope_logs[0].scope.as_ref());
        }
    }
    let attributes: Vec<_> = events.iter().map(|event| event.0.attributes.clone()).collect();
    hold(&attributes, &documented("Event"));
    let told: Vec<_> = events[..3]
        .iter()
        .map(|event| {
            let outcome = event.text("spanscore.evaluation.outcome");
            (event.name(), outcome, event.score(), event.label(), &*event.0.severity_text)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("tool_call_args/unknown", "not_evaluable", None, "", "INFO"),
            ("tool_call_count/broken", "failed", None, "", "WARN"),
            ("tool_call_count/scored", "scored", Some(1.0), "pass", "INFO"),
        ]
    );
    assert_eq!(events[0].text("spanscore.evaluation.reason"), "arguments_not_recorded");
    assert_eq!(events[1].text("error.type"), "evaluator_error");
    for event in &events {
        assert_eq!(event.0.event_name, "gen_ai.evaluation.result");
        assert_eq!((event.trace(), event.span(), &event.0.body), (7, 1, &None));
        assert_eq!(event.text("gen_ai.conversation.id"), "s-1");
        assert_eq!(event.text("gen_ai.agent.name"), "clerk");
        assert!(event.0.time_unix_nano > 1_735_689_600_000_000_000);
    }
    let broken = "spanscore_evaluate_failed_total{evaluator=\"tool_call_count/broken\"}";
    running.counted(broken, 2).await;
}

/// Rows of a span's table by their last cell: those of the linked form, and the rest with the
/// event's.
fn documented_of_span(is_linked: bool) -> BTreeMap<&'static str, &'static str> {
    let mut all = documented("Event");
    let own = documented("Span");
    all.extend(own.into_iter().filter(|(key, _)| is_linked || !key.starts_with("evaluations.")));
    all
}

#[tokio::test]
async fn spans_are_as_documented() {
    for (placement, is_linked) in [("child", false), ("linked", true)] {
        let running = run(placement).await;
        for request in running.backend.trace_requests() {
            for spans in &request.resource_spans {
                check_origin(spans.resource.as_ref(), spans.scope_spans[0].scope.as_ref());
            }
        }
        let spans = running.backend.spans();
        let attributes: Vec<_> = spans.iter().map(|span| span.attributes.clone()).collect();
        hold(&attributes, &documented_of_span(is_linked));
        for span in &spans {
            check_span(span, is_linked);
        }
    }
}

fn check_span(span: &Span, is_linked: bool) {
    let get = |key: &str| match attribute(&span.attributes, key) {
        Some(Value::StringValue(text)) => text.as_str(),
        _ => "",
    };
    assert_eq!(span.name, format!("evaluate {}", get("gen_ai.evaluation.name")));
    assert_eq!(span.start_time_unix_nano, span.end_time_unix_nano);
    assert_eq!((span.kind, get("openinference.span.kind")), (1, "EVALUATOR"));
    let failed = get("spanscore.evaluation.outcome") == "failed";
    assert_eq!(span.status.as_ref().map_or(0, |status| status.code), if failed { 2 } else { 0 });
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let id = get("spanscore.evaluation.id");
    assert_eq!(hex(&span.span_id), id[..16]);
    if is_linked {
        assert_eq!((hex(&span.trace_id).as_str(), span.parent_span_id.len()), (id, 0));
        let [link] = span.links.as_slice() else { panic!("{:?}", span.links) };
        assert_eq!((&*link.trace_id, &*link.span_id), (&[7; 16][..], &[1; 8][..]));
        assert_eq!(get("evaluations.0.evaluation.annotator_kind"), "CODE");
    } else {
        assert_eq!((&*span.trace_id, &*span.parent_span_id), (&[7; 16][..], &[1; 8][..]));
        assert!(span.links.is_empty());
    }
}

/// Evaluator, outcome, label and count of each point.
type Counts = BTreeSet<(String, String, String, i64)>;

/// The counts of the last report, and evaluator, count and sum of each histogram.
fn metrics(running: &Running) -> (Counts, Vec<(String, u64, Option<f64>)>) {
    let (mut counts, mut scores) = (Counts::new(), Vec::new());
    let get = |attributes: &[KeyValue], key: &str| match attribute(attributes, key) {
        Some(Value::StringValue(text)) => text.clone(),
        _ => String::new(),
    };
    for metric in running.backend.metrics() {
        match (metric.name.as_str(), metric.unit.as_str(), metric.data.unwrap()) {
            ("spanscore.evaluation.count", "{evaluation}", metric::Data::Sum(sum)) => {
                let cumulative = AggregationTemporality::Cumulative as i32;
                assert_eq!((sum.is_monotonic, sum.aggregation_temporality), (true, cumulative));
                for point in sum.data_points {
                    let text = |key| get(&point.attributes, key);
                    let Some(number_data_point::Value::AsInt(count)) = point.value else {
                        panic!()
                    };
                    assert_eq!(text("gen_ai.agent.name"), "clerk");
                    let outcome = text("spanscore.evaluation.outcome");
                    let label = text("gen_ai.evaluation.score.label");
                    counts.insert((text("gen_ai.evaluation.name"), outcome, label, count));
                }
            }
            ("spanscore.evaluation.score", "1", metric::Data::Histogram(histogram)) => {
                for point in histogram.data_points {
                    assert_eq!(point.explicit_bounds.len() + 1, point.bucket_counts.len());
                    let name = get(&point.attributes, "gen_ai.evaluation.name");
                    scores.push((name, point.count, point.sum));
                }
            }
            ("spanscore.evaluation.superseded", "{evaluation}", metric::Data::Sum(sum)) => {
                assert!(sum.is_monotonic && !sum.data_points.is_empty());
            }
            other => panic!("{other:?} is not documented"),
        }
    }
    (counts, scores)
}

#[tokio::test]
async fn metrics_are_as_documented() {
    let running = run("child").await;
    let owned = |name: &str, outcome: &str, label: &str, count| {
        (format!("tool_call_{name}"), outcome.to_owned(), label.to_owned(), count)
    };
    let expected = Counts::from([
        owned("args/unknown", "not_evaluable", "", 2),
        owned("count/broken", "failed", "", 2),
        owned("count/scored", "scored", "fail", 1),
        owned("count/scored", "scored", "pass", 1),
    ]);
    running.backend.until(|_| metrics(&running).0 == expected).await;
    let scores = metrics(&running).1;
    assert_eq!(scores, [("tool_call_count/scored".to_owned(), 2, Some(1.0))]);
    for request in running.backend.metric_requests() {
        for metrics in &request.resource_metrics {
            // Of the resource only what dashboards group by.
            let resource = metrics.resource.as_ref().unwrap();
            assert_eq!(resource.attributes, [text("service.name", "shop")]);
            assert_eq!(metrics.scope_metrics[0].scope.as_ref().unwrap().name, "spanscore");
        }
    }
}

#[tokio::test]
async fn content_stays_inside_unless_it_is_asked_for() {
    let running = Running::start(&format!(
        "{EVALUATORS}
exporters:
  otlp_grpc/backend: {{include_content: false}}
"
    ))
    .await;
    let call = with(tool(7, 2, "search"), "input.value", r#"{"q": "the secret"}"#);
    running.send(request([agent(7), call])).await;
    let events = running.events(3).await;
    assert!(!format!("{events:?}").contains("secret"));
    assert!(events.iter().all(|event| event.text("spanscore.evaluation.details").is_empty()));
    let explained: Vec<_> =
        events.iter().map(|e| e.text("gen_ai.evaluation.explanation").is_empty()).collect();
    assert_eq!(explained, [false; 3]);
}
