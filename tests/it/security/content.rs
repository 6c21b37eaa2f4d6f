//! Arguments and results that leave the process, for each exporter.

use crate::support::collector::Running;
use crate::support::spans::{agent, request, tool, with};

/// Calls that are not as expected, so that explanation and details quote both.
fn config(content: &str) -> String {
    format!(
        "
evaluators:
  tool_call_args:
    criteria: {{tool_calls: [{{name: mail, args: {{to: nobody}}}}]}}
exporters:
  otlp_grpc/backend: {{content: {content}}}
"
    )
}

async fn shown(content: &str) -> String {
    let base = config(content);
    let running = Running::start(&base).await;
    let arguments = r#"{"to": "jane.doe@acme-post.net", "cc": "joe@acme-post.net"}"#;
    let call = with(tool(7, 2, "mail"), "input.value", arguments);
    running.send(request([agent(7), call])).await;
    let events = running.events(1).await;
    let (explanation, details) = (
        events[0].text("gen_ai.evaluation.explanation").to_owned(),
        events[0].text("spanscore.evaluation.details").to_owned(),
    );
    format!("{explanation} | {details}")
}

#[tokio::test]
async fn an_exporter_shows_as_much_as_it_is_told_to() {
    let full = shown("full").await;
    assert!(full.contains("jane.doe@acme-post.net"), "{full}");
    let redacted = shown("redacted").await;
    assert!(!redacted.contains("acme-post"), "{redacted}");
    assert!(redacted.contains("[EMAIL_1]") && redacted.contains("[EMAIL_2]"), "{redacted}");
    assert!(redacted.contains("nobody"), "what is expected stays: {redacted}");
    let none = shown("none").await;
    assert!(!none.contains("acme-post") && !none.contains("EMAIL"), "{none}");
}
