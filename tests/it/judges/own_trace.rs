//! Requests to judges as spans of our own telemetry.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::common::v1::any_value::Value;

use super::{asking, refund};
use crate::support::collector::Running;
use crate::support::fake_backend::{FakeBackend, attribute};
use crate::support::fake_judge::{FakeJudge, Scripted};
use crate::support::patience::PATIENCE;
use crate::support::spans::request;

const DOCS: &str = include_str!("../../../docs/judges/README.md");

#[tokio::test]
async fn each_request_is_a_span_linked_to_what_is_judged_and_without_content() {
    let judge = FakeJudge::start(|asked| match asked.count {
        0 => Scripted {
            status: 503,
            headers: vec![("retry-after", "0".into())],
            ..Scripted::default()
        },
        _ => asked.answer(&["yes"]),
    })
    .await;
    let own = FakeBackend::grpc().await;
    let price = ", price: {input: 1, output: 2}";
    let telemetry = format!(
        "telemetry: {{traces: {{otlp: {{endpoint: \"http://{}\", interval: 50ms}}}}}}\n",
        own.address
    );
    let config = format!("{}{telemetry}", asking(&judge, "openai", price));
    let running = Running::start(&config).await;
    running.send(request(refund(7))).await;
    let event = running.events(1).await.remove(0);
    own.until(|backend| backend.spans().len() >= 2).await;
    let mut spans = own.spans();
    spans.sort_by_key(|span| span.start_time_unix_nano);
    let [failed, replied] = &spans[..] else { panic!("{spans:?}") };
    for span in [failed, replied] {
        assert_eq!((span.name.as_str(), span.kind), ("chat m-1", 3));
        assert_eq!(
            (&span.links[0].trace_id[..], &span.links[0].span_id[..]),
            (&[7; 16][..], &[1; 8][..])
        );
        let id: String = span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(id, event.id(), "one trace for one evaluation");
        assert!(span.end_time_unix_nano > span.start_time_unix_nano);
        let text = format!("{span:?}");
        assert!(!text.contains("Refund order") && !text.contains("refunded"), "{text}");
    }
    assert_ne!(failed.span_id, replied.span_id);
    let value = |key: &str| attribute(&replied.attributes, key).cloned();
    let text = |text: &str| Some(Value::StringValue(text.to_owned()));
    assert_eq!(value("gen_ai.provider.name"), text("openai"));
    assert_eq!(value("spanscore.evaluator.name"), text("task_completion/shop"));
    assert_eq!(value("gen_ai.usage.output_tokens"), Some(Value::IntValue(50)));
    assert_eq!(value("server.port"), Some(Value::IntValue(judge.address.port().into())));
    let cost = attribute(&event.0.attributes, "spanscore.judge.cost_usd").cloned();
    assert_eq!(value("spanscore.judge.cost_usd"), cost);
    let error = attribute(&failed.attributes, "error.type").cloned();
    assert_eq!((error, failed.status.as_ref().map(|it| it.code)), (text("judge_error"), Some(2)));
    // Both ways: all that is sent is documented, and all that is documented is sent.
    let (_, section) = DOCS.split_once("## Metrics and spans of judges").expect("a section");
    let section = section.split("\n## ").next().expect("its text");
    let words = section.split('`').filter(|word| {
        ["gen_ai.", "server.", "error.", "spanscore."].iter().any(|part| word.starts_with(part))
    });
    let documented: BTreeSet<&str> = words.collect();
    let sent: BTreeSet<&str> =
        spans.iter().flat_map(|span| &span.attributes).map(|it| it.key.as_str()).collect();
    assert_eq!(sent, documented);
    running.counted("spanscore_telemetry_spans_total{outcome=\"sent\"}", 2).await;
    running.judged().await;
}

#[tokio::test]
async fn a_request_that_is_cut_off_at_the_end_is_a_span_too() {
    let judge =
        FakeJudge::start(|asked| Scripted { delay: PATIENCE, ..asked.answer(&["yes"]) }).await;
    let own = FakeBackend::grpc().await;
    let config = format!(
        "{}shutdown_timeout: 500ms\ntelemetry: {{traces: {{otlp: {{endpoint: \"http://{}\"}}}}}}\n",
        asking(&judge, "openai", ", price: {input: 1, output: 2}"),
        own.address
    );
    let running = Running::start(&config).await;
    running.send(request(refund(7))).await;
    let collector = running.stop();
    let (events, _) = collector.await;
    assert_eq!(events[0].text("spanscore.evaluation.reason"), "shutdown");
    let [span] = &own.spans()[..] else { panic!("{:?}", own.spans()) };
    let value = |key: &str| attribute(&span.attributes, key).cloned();
    assert_eq!(value("error.type"), Some(Value::StringValue("judge_cut_off".to_owned())));
    let Some(Value::DoubleValue(cost)) = value("spanscore.judge.cost_usd") else {
        panic!("{span:?}")
    };
    assert!(cost > 0.0, "it may have to be paid");
}

#[tokio::test]
async fn its_own_spans_sent_to_itself_are_never_judged() {
    let judge = FakeJudge::saying("yes").await;
    let own = FakeBackend::grpc().await;
    let telemetry = format!(
        "telemetry: {{traces: {{otlp: {{endpoint: \"http://{}\", interval: 50ms}}}}}}\n",
        own.address
    );
    let config = format!("{}{telemetry}", asking(&judge, "openai", ""));
    let running = Running::start(&config).await;
    running.send(request(refund(7))).await;
    running.events(1).await;
    own.until(|backend| !backend.spans().is_empty()).await;
    running.send(own.trace_requests().remove(0)).await;
    running.send(request(refund(8))).await;
    let events = running.judged().await;
    let traces: Vec<_> = events.iter().map(|event| event.trace()).collect();
    assert_eq!(traces, [7, 8]);
}
