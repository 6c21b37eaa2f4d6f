//! Floods of traces beside running agents: limits on traces are shared by who sends.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tonic::transport::Channel;

use crate::support::collector::{PROTOBUF, Running};
use crate::support::fake_backend::FakeBackend;
use crate::support::program::Program;
use crate::support::spans::{agent, scoped, tool};
use crate::support::web_client;

/// Agents that run while the flood comes.
const AGENTS: u8 = 50;
/// Calls of each, one after the other; the flood comes in between.
const CALLS: [&str; 3] = ["a", "b", "c"];
/// Requests of a flood between two calls, and traces of each: more than the limit holds.
const REQUESTS: usize = 20;
const TRACES: usize = 100;

/// First half of the flood's trace ids.
const FLOOD: [u8; 8] = [0xf0; 8];

const LIMITED: &str = r#"
traces: {quiet_period: 200ms, idle_timeout: 60s}
limits: {open_traces_max: 400}
evaluators:
  tool_call_count:
    when: 'service_name == "victim"'
    criteria: {tool_calls_count: {a: ["=", 1], b: ["=", 1], c: ["=", 1]}}
"#;

/// A connection, by protocol.
#[derive(Clone)]
enum Connection {
    Grpc(TraceServiceClient<Channel>),
    Http(reqwest::Client, String),
}

impl Connection {
    async fn open(running: &Running, is_http: bool) -> Self {
        if is_http {
            let client = web_client().build().expect("a client");
            Self::Http(client, format!("http://{}/v1/traces", running.http))
        } else {
            Self::Grpc(running.connect().await)
        }
    }

    async fn send(&self, service: &str, spans: Vec<Span>) {
        let resource_spans = vec![scoped("test", service, spans)];
        let request = ExportTraceServiceRequest { resource_spans };
        match self {
            Self::Grpc(client) => drop(client.clone().export(request).await.expect("it is taken")),
            Self::Http(client, url) => {
                let post = client.post(url).header("content-type", PROTOBUF);
                let answer = post.body(request.encode_to_vec()).send().await.expect("an answer");
                assert_eq!(answer.status(), 200);
                answer.bytes().await.expect("a body");
            }
        }
    }
}

/// Sends the flood's next part: traces of one span each, of a tool or of nothing known.
async fn flood(connections: &[Connection], service: &str, round: usize, is_tool: bool) {
    for (number, connection) in (0..REQUESTS).zip(connections.iter().cycle()) {
        let spans = (0..TRACES).map(|trace| {
            let mut span = tool(0, 2, "x");
            let id = 1 + (round * REQUESTS + number) * TRACES + trace;
            span.trace_id = [&FLOOD[..], &id.to_be_bytes()].concat();
            if !is_tool {
                span.attributes.clear();
            }
            span
        });
        connection.send(service, spans.collect()).await;
    }
}

async fn call(connection: &Connection, number: u8) {
    let name = CALLS[usize::from(number)];
    let spans = (1..=AGENTS).map(|trace| tool(trace, number + 2, name));
    connection.send("victim", spans.collect()).await;
}

async fn end(connection: &Connection) {
    connection.send("victim", (1..=AGENTS).map(agent).collect()).await;
}

/// Checks that each agent has one verdict: it has passed.
fn check_verdicts(backend: &FakeBackend, case: &str) {
    let mut verdicts: BTreeMap<Vec<u8>, Vec<(String, i64)>> = BTreeMap::new();
    for record in backend.log_records() {
        let event = crate::support::collector::Event(record);
        if event.0.trace_id.starts_with(&FLOOD) {
            continue;
        }
        let verdict = (event.label().to_owned(), event.revision());
        verdicts.entry(event.0.trace_id.clone()).or_default().push(verdict);
    }
    let passed = verdicts.values().filter(|all| **all == [("pass".to_owned(), 0)]).count();
    assert_eq!((passed, verdicts.len()), (AGENTS.into(), AGENTS.into()), "{case}: {verdicts:?}");
}

/// Senders of a flood.
#[derive(Clone, Copy, Debug)]
enum Senders {
    /// Connections of its own.
    Apart(usize),
    /// That of the agents, as a service of its own or as theirs.
    Shared { service: &'static str },
}

async fn check_flood(senders: Senders, is_http: bool, is_tool: bool) {
    let case = format!("{senders:?}, http {is_http}, tool {is_tool}");
    let running = Running::start(LIMITED).await;
    let backend = running.backend.clone();
    let victims = Connection::open(&running, is_http).await;
    let mut flooders = Vec::new();
    let service = match senders {
        Senders::Shared { service } => {
            flooders.push(victims.clone());
            service
        }
        Senders::Apart(count) => {
            for _ in 0..count {
                flooders.push(Connection::open(&running, is_http).await);
            }
            "flood"
        }
    };
    call(&victims, 0).await;
    flood(&flooders, service, 0, is_tool).await;
    for number in 1..3 {
        call(&victims, number).await;
        flood(&flooders, service, usize::from(number), is_tool).await;
    }
    end(&victims).await;
    running.judged().await;
    check_verdicts(&backend, &case);
}

#[tokio::test]
async fn flood_of_traces_over_one_connection_judges_no_agent_of_another() {
    for (is_http, is_tool) in [(false, true), (true, true), (true, false)] {
        check_flood(Senders::Apart(1), is_http, is_tool).await;
    }
}

#[tokio::test]
async fn flood_of_traces_over_many_connections_judges_no_agent_of_another() {
    for (is_http, is_tool) in [(false, true), (true, true), (true, false)] {
        check_flood(Senders::Apart(20), is_http, is_tool).await;
    }
}

#[tokio::test]
async fn flood_of_traces_over_the_connection_of_agents_judges_none_of_them() {
    for (is_http, is_tool) in [(false, true), (true, true), (false, false)] {
        for service in ["flood", "victim"] {
            check_flood(Senders::Shared { service }, is_http, is_tool).await;
        }
    }
}

#[tokio::test]
async fn flood_of_traces_judges_no_agent_after_a_restart_over_the_log() {
    for is_tool in [true, false] {
        let backend = FakeBackend::grpc().await;
        let folder = tempfile::tempdir().expect("a folder");
        let config = format!(
            "data_dir: {:?}
exporters:
  otlp_grpc/backend: {{endpoint: 'http://{}', forms: [event]}}
{LIMITED}",
            folder.path().join("data"),
            backend.address,
        );
        let program = Program::start(folder.path(), &config);
        let victims = Connection::Grpc(program.client().await);
        let flooders = [Connection::Grpc(program.client().await)];
        call(&victims, 0).await;
        flood(&flooders, "flood", 0, is_tool).await;
        call(&victims, 1).await;
        flood(&flooders, "flood", 1, is_tool).await;
        program.signal("-KILL");
        program.end();
        let program = Program::start(folder.path(), &config);
        let victims = Connection::Grpc(program.client().await);
        flood(&[Connection::Grpc(program.client().await)], "flood", 2, is_tool).await;
        call(&victims, 2).await;
        end(&victims).await;
        let is_done = |backend: &FakeBackend| backend.log_count() >= AGENTS.into();
        backend.until(is_done).await;
        program.signal("-TERM");
        program.end();
        check_verdicts(&backend, &format!("a restart, {is_tool}"));
    }
}
