//! `spanscore score` on requests as they come over the wire.

use std::fs;
use std::process::Command;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde_json::Value as Json;

use crate::support::collector::{HELD, Running};
use crate::support::spans::{agent, scoped, searches, tool, with};

/// The records that the program prints for requests of protobuf.
fn score(config: &str, requests: &[ExportTraceServiceRequest]) -> Vec<Json> {
    let folder = tempfile::tempdir().expect("a folder");
    let config_path = folder.path().join("config.yaml");
    fs::write(&config_path, config).expect("a config");
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    command.args(["score", "--format", "jsonl", "--fail-on", "never", "--config"]);
    command.arg(&config_path).env_remove("SPANSCORE_CONFIG");
    for (number, request) in requests.iter().enumerate() {
        let path = folder.path().join(format!("{number}.pb"));
        fs::write(&path, request.encode_to_vec()).expect("a file");
        command.arg(path);
    }
    let output = command.output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let lines = String::from_utf8(output.stdout).expect("text");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn sessions_are_the_same_in_recordings_as_live() {
    for (settings, session_count) in
        [("", 2), ("sessions: {key: service_and_session}", 2), ("sessions: {key: session}", 1)]
    {
        let config = format!(
            "{settings}\nevaluators:\n  tool_error/all: {{level: session}}\n  tool_error/some: \
             {{level: session, sample: 0.6}}\n"
        );
        let request = |service, spans: Vec<_>| {
            let spans = spans.into_iter().map(|span| with(span, "session.id", "1")).collect();
            ExportTraceServiceRequest { resource_spans: vec![scoped("test", service, spans)] }
        };
        let requests = [
            request("shop", searches(7, &[2])),
            request("bank", searches(8, &[2])),
            request("bank", vec![tool(9, 2, "search")]),
            request("shop", vec![agent(9)]),
        ];
        let records = score(&config, &requests);
        let of_all = records.iter().filter(|record| record["evaluator"] == "tool_error/all");
        assert_eq!(of_all.count(), session_count, "{settings}");
        let mut scored: Vec<_> = records.iter().map(|r| r["evaluation_id"].clone()).collect();
        let running = Running::on_one_shard(&format!("{HELD}{config}")).await;
        for request in requests {
            running.send(request).await;
        }
        let events = running.judged().await;
        let mut live: Vec<_> = events.iter().map(|event| Json::from(event.id())).collect();
        scored.sort_by_key(Json::to_string);
        live.sort_by_key(Json::to_string);
        assert_eq!(scored, live, "{settings}");
    }
}
