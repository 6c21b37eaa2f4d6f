//! Requests to judges as spans of our own telemetry.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::common::v1::any_value::Value;

use super::{asking, refund};
use crate::support::collector::Running;
use crate::support::fake_backend::{FakeBackend, attribute};
use crate::support::fake_judge::{FakeJudge, Scripted};
use crate::support::patience::PATIENCE;
use crate::support::spans::{request, with};

/// Attributes of content.
const CONTENT: [&str; 3] =
    ["gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"];

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
    let documented: BTreeSet<&str> = words.filter(|word| !CONTENT.contains(word)).collect();
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

#[tokio::test]
async fn prompt_and_reply_are_in_spans_where_the_config_says_so() {
    let judge = FakeJudge::start(|asked| match asked.count {
        0 => asked.say("no answer"),
        _ => asked.answer(&["yes"]),
    })
    .await;
    let own = FakeBackend::grpc().await;
    let telemetry = format!(
        "telemetry: {{traces: {{content: true, otlp: {{endpoint: \"http://{}\", \
         interval: 50ms}}}}}}\n",
        own.address
    );
    let shown = asking(&judge, "openai", "")
        .replace("judge: small,", "judge: small, redact: secrets_and_pii,");
    let running = Running::start(&format!("{shown}{telemetry}")).await;
    let mut spans = refund(7);
    spans[0] = with(spans[0].clone(), "input.value", "Refund order 17 for jo@shop.example");
    running.send(request(spans)).await;
    running.events(1).await;
    own.until(|backend| backend.spans().len() >= 2).await;
    let mut spans = own.spans();
    spans.sort_by_key(|span| span.start_time_unix_nano);
    for (span, reply) in spans.iter().zip(["no answer", "so it is"]) {
        let [system, input, output] = CONTENT.map(|key| {
            let Some(Value::StringValue(text)) = attribute(&span.attributes, key) else {
                panic!("{key} in {span:?}")
            };
            serde_json::from_str::<serde_json::Value>(text).unwrap()
        });
        let asked = &judge.asked()[usize::from(reply == "so it is")];
        assert_eq!(system[0]["content"], asked.body["messages"][0]["content"]);
        assert_eq!(input[0]["parts"][0]["content"], asked.user());
        assert!(!asked.user().contains("jo@shop.example"), "what is redacted stays inside");
        assert_eq!(
            (&output[0]["role"], &output[0]["finish_reason"]),
            (&"assistant".into(), &"stop".into())
        );
        assert!(output[0]["parts"][0]["content"].as_str().unwrap().contains(reply), "{output}");
        for key in CONTENT {
            assert!(DOCS.contains(&format!("`{key}`")), "{key}");
        }
    }
    running.judged().await;
}
