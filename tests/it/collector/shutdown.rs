//! How the collector ends: open traces are judged and delivered, in the time that it has.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use serde_json::Value;

use crate::support::collector::{HELD, Running};
use crate::support::fake_backend::{Behavior, FakeBackend};
use crate::support::spans::{request, searches};

/// The program, killed if the test fails.
struct Program {
    child: Child,
    grpc: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

impl Program {
    /// Starts it and waits until it listens.
    fn start(config: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_spanscore"))
            .arg("serve")
            .arg("--config")
            .arg(config)
            .env_remove("SPANSCORE_CONFIG")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("agents:"));
        let line = line.expect("it says where it listens");
        // The rest is read so that the program never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        let (_, address) = line.split_once('=').unwrap();
        let grpc = address.split_whitespace().next().unwrap().to_owned();
        Self { child, grpc }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

#[tokio::test]
async fn a_signal_judges_what_is_open_and_flushes_it() {
    for signal in ["-TERM", "-INT"] {
        let folder = tempfile::tempdir().unwrap();
        let (config, scores) = (folder.path().join("c.yaml"), folder.path().join("scores.jsonl"));
        let text = format!(
            r#"{HELD}
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:0"}}}}}}}}
telemetry: {{metrics: {{endpoint: null}}, health: {{endpoint: null}}}}
exporters: {{file: {{path: {scores:?}}}}}
"#
        );
        std::fs::write(&config, text).unwrap();
        let mut program = Program::start(&config);
        let mut client = TraceServiceClient::connect(program.grpc.clone()).await.unwrap();
        client.export(request(searches(7, &[2]))).await.unwrap();
        program.signal(signal);
        let status = tokio::task::spawn_blocking(move || program.child.wait()).await;
        assert_eq!(status.unwrap().unwrap().code(), Some(0), "{signal}");
        let text = std::fs::read_to_string(&scores).unwrap();
        let records: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let told: Vec<_> =
            records.iter().map(|r| (r["evaluator"].clone(), r["completion"].clone())).collect();
        let expected =
            ["tool_error", "tool_efficiency"].map(|name| (name.into(), "shutdown".into()));
        assert_eq!(told, expected, "{signal}");
        assert_eq!(records[0]["score"], 1.0);
        assert_eq!(records[0]["trace_id"], "07".repeat(16));
    }
}

#[tokio::test]
async fn a_backend_that_is_gone_or_hangs_delays_neither_senders_nor_the_end() {
    let hanging = FakeBackend::grpc().await;
    hanging.always(Behavior::Hang);
    for backend in [FakeBackend::dead().await, hanging] {
        let config = "shutdown_timeout: 400ms
exporters: {otlp_grpc/backend: {forms: [event, span, metric]}}
";
        let running = Running::between(backend, config, |_| {}).await;
        let started = Instant::now();
        for trace in 1..=50 {
            assert_eq!(running.send(request(searches(trace, &[2]))).await.0, 0);
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        let started = Instant::now();
        let (events, unsent) = running.stop().await;
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        assert_eq!((events.len(), unsent), (0, 100));
    }
}

#[tokio::test]
async fn http_senders_are_told_to_come_again_until_the_end() {
    let backend = FakeBackend::grpc().await;
    backend.always(Behavior::Hang);
    let running = Running::between(backend, "shutdown_timeout: 1s\n", |_| {}).await;
    running.send(request(searches(7, &[2]))).await;
    let url = format!("http://{}/v1/traces", running.http);
    let sending = async {
        let post = reqwest::Client::new().post(url).header("content-type", "application/json");
        post.body("{}").send().await.unwrap()
    };
    let ((_, unsent), response) = tokio::join!(running.stop(), sending);
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(unsent, 2);
}

#[tokio::test]
async fn requests_after_the_end_are_refused() {
    let running = Running::start(HELD).await;
    let mut client = running.connect().await;
    client.export(request(searches(7, &[2]))).await.unwrap();
    assert_eq!(running.judged().await.len(), 2);
    assert!(client.export(request(searches(8, &[2]))).await.is_err());
}
