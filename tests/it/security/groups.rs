//! Clients apart: spans of one never join, replace or revise a trace of another.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;

use crate::support::collector::{Event, Running};
use crate::support::fake_backend::FakeBackend;
use crate::support::program::Program;
use crate::support::spans::{agent, scoped, text, tool, with};

/// Judges calls of traces and of sessions.
const EVALUATORS: &str = r#"
traces: {quiet_period: 300ms}
sessions: {idle_timeout: 1s, key: session}
evaluators:
  tool_call_count: {criteria: {tool_calls_count: {search: ["=", 1]}}}
  tool_call_count/session: {level: session, criteria: {tool_calls_count: {search: ["=", 1]}}}
"#;

const AUTH: &str =
    "{clients: {a: {token: token-a}, b: {token: token-b}, c: {token: token-c, group: a}}}";

/// Sends spans of trace 7, which name one session; the client's name is that of the agent.
async fn send(running: &Running, client: &str, spans: &[Span]) {
    export(running.connect().await, client, spans).await;
}

async fn export(mut connection: TraceServiceClient<Channel>, client: &str, spans: &[Span]) {
    let spans = spans.iter().map(|span| {
        let mut span = with(span.clone(), "session.id", "s-1");
        for attribute in span.attributes.iter_mut().filter(|it| it.key == "agent.name") {
            *attribute = text("agent.name", client);
        }
        span
    });
    let spans = spans.collect();
    let resource_spans = vec![scoped("test", client, spans)];
    let mut request = tonic::Request::new(ExportTraceServiceRequest { resource_spans });
    let token = MetadataValue::try_from(format!("Bearer token-{client}")).expect("a header");
    request.metadata_mut().insert("authorization", token);
    connection.export(request).await.expect("it is taken");
}

/// Verdicts by agent and evaluator: label, revision and id of each.
type Verdicts = BTreeMap<(String, String), Vec<(String, i64, String)>>;

fn verdicts(events: impl IntoIterator<Item = Event>) -> Verdicts {
    let mut verdicts = Verdicts::new();
    for event in events {
        let key = (event.text("gen_ai.agent.name").to_owned(), event.name().to_owned());
        let verdict = (event.label().to_owned(), event.revision(), event.id().to_owned());
        verdicts.entry(key).or_default().push(verdict);
    }
    verdicts
}

/// Returns the verdicts where each client sends these spans, one after the other.
async fn told(auth: &str, sent: &[(&str, &[Span])]) -> Verdicts {
    let config = format!("receivers: {{otlp: {{auth: {auth}}}}}\n{EVALUATORS}");
    let running = Running::start(&config).await;
    for (client, spans) in sent {
        send(&running, client, spans).await;
    }
    verdicts(running.judged().await)
}

fn label(verdicts: &Verdicts, agent: &str, evaluator: &str) -> Vec<(String, i64)> {
    let own = verdicts.get(&(agent.to_owned(), evaluator.to_owned()));
    let own = own.into_iter().flatten();
    own.map(|(label, revision, _)| (label.clone(), *revision)).collect()
}

#[tokio::test]
async fn spans_of_another_client_join_no_trace_and_no_session() {
    let a = [agent(7), tool(7, 2, "search")];
    let b = [agent(7), tool(7, 2, "search"), tool(7, 3, "search")];
    let verdicts = told(AUTH, &[("a", &a), ("b", &b), ("a", &a)]).await;
    for evaluator in ["tool_call_count", "tool_call_count/session"] {
        assert_eq!(label(&verdicts, "a", evaluator), [("pass".into(), 0)], "{verdicts:?}");
        assert_eq!(label(&verdicts, "b", evaluator), [("fail".into(), 0)], "{verdicts:?}");
    }
}

#[tokio::test]
async fn clients_of_one_group_send_parts_of_one_trace() {
    let verdicts = told(AUTH, &[("a", &[agent(7)]), ("c", &[tool(7, 2, "search")])]).await;
    assert_eq!(label(&verdicts, "a", "tool_call_count"), [("pass".into(), 0)], "{verdicts:?}");
}

#[tokio::test]
async fn ids_are_those_without_auth_and_equal_evidence_of_another_client_has_others() {
    let spans = [agent(7), tool(7, 2, "search")];
    let key = ("a".to_owned(), "tool_call_count".to_owned());
    let plain = told("null", &[("a", &spans)]).await;
    let apart = told(AUTH, &[("a", &spans), ("b", &spans)]).await;
    assert_eq!(plain[&key], apart[&key]);
    let other = &apart[&("b".to_owned(), "tool_call_count".to_owned())];
    assert_eq!((other.len(), &*other[0].0), (1, "pass"));
    assert_ne!(other[0].2, plain[&key][0].2, "it would replace that of `a`");
}

#[tokio::test]
async fn clients_stay_apart_after_a_restart_over_the_log() {
    let backend = FakeBackend::grpc().await;
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "receivers: {{otlp: {{auth: {AUTH}, protocols: {{grpc: {{endpoint: '127.0.0.1:0'}}}}}}}}
data_dir: {:?}
exporters:
  otlp_grpc/backend: {{endpoint: 'http://{}', forms: [event]}}
{}",
        folder.path().join("data"),
        backend.address,
        EVALUATORS.replace("300ms", "2s"),
    );
    let program = Program::start(folder.path(), &config);
    export(program.client().await, "a", &[tool(7, 2, "search")]).await;
    export(program.client().await, "b", &[tool(7, 3, "search")]).await;
    program.signal("-KILL");
    program.end();
    let program = Program::start(folder.path(), &config);
    export(program.client().await, "b", &[agent(7), tool(7, 4, "search")]).await;
    export(program.client().await, "a", &[agent(7)]).await;
    backend.until(|backend| backend.log_count() >= 4).await;
    program.signal("-TERM");
    program.end();
    let verdicts = verdicts(backend.log_records().into_iter().map(Event));
    for evaluator in ["tool_call_count", "tool_call_count/session"] {
        assert_eq!(label(&verdicts, "a", evaluator), [("pass".into(), 0)], "{verdicts:?}");
        assert_eq!(label(&verdicts, "b", evaluator), [("fail".into(), 0)], "{verdicts:?}");
    }
}
