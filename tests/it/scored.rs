//! `spanscore score` on requests as they come over the wire.

use std::fs;
use std::process::Command;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::Value as Json;
use spanscore_evaluate::{KINDS, Kind};

use crate::support::collector::{HELD, Running};
use crate::support::spans::{agent, attribute, request, scoped, searches, tool, with};

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

/// A span of a model that records so many tokens.
fn model(trace: u8, id: u8, prompt: Value, completion: Value) -> Span {
    let mut span = tool(trace, id, "model");
    span.attributes = vec![
        attribute("openinference.span.kind", Value::StringValue("LLM".to_owned())),
        attribute("llm.token_count.prompt", prompt),
        attribute("llm.token_count.completion", completion),
        attribute("llm.cost.total", Value::DoubleValue(f64::MAX)),
    ];
    span
}

#[test]
fn tokens_beyond_64_bits_break_every_budget() {
    let config = "
evaluators:
  tool_budget/input: {max_input_tokens: 100}
  tool_budget/output: {max_output_tokens: 100}
  tool_budget/total: {max_total_tokens: 100}
  tool_budget/cost: {max_cost_usd: 100}
  tool_budget/session: {level: session, max_total_tokens: 100, max_cost_usd: 1}
";
    let (max, text) = (Value::IntValue(i64::MAX), "18446744073709551615".to_owned());
    let values = [
        [max.clone(), Value::IntValue(6)],
        [max.clone(), max],
        [Value::StringValue(text), Value::DoubleValue(1e300)],
        [Value::DoubleValue(18_446_744_073_709_551_616.0), Value::IntValue(17)],
    ];
    for [prompt, completion] in values {
        let models = |trace| {
            let models = (2..5).map(|id| model(trace, id, prompt.clone(), completion.clone()));
            let spans = std::iter::once(agent(trace)).chain(models);
            request(spans.map(|span| with(span, "session.id", "1")).collect::<Vec<_>>())
        };
        let records = score(config, &[models(7), models(8)]);
        for record in &records {
            let small =
                record["evaluator"] == "tool_budget/output" && completion_is_small(&completion);
            let label = if small { "pass" } else { "fail" };
            assert_eq!(record["label"], label, "{record}");
        }
        assert_eq!(records.len(), 9);
    }
}

fn completion_is_small(completion: &Value) -> bool {
    matches!(completion, Value::IntValue(tokens) if *tokens < 100)
}

/// The example of every kind, and limits of everything that is added up.
fn every_kind() -> String {
    let mut config = "evaluators:\n".to_owned();
    // Kinds that ask a judge, or an evaluator outside of this process, have tests of their own.
    let asks = |kind: &&Kind| {
        kind.example.contains("judge:") || ["agentevals", "grpc", "http"].contains(&kind.name)
    };
    for kind in KINDS.iter().filter(|kind| !asks(kind)) {
        config.extend(kind.example.lines().map(|line| format!("  {line}\n")));
    }
    config + "  tool_budget/time: {max_duration: 876000h, max_latency: 876000h, max_calls: 1}\n"
}

/// A tool whose schema has limits that no number reaches.
const SCHEMA: &str = r#"{"type": "function", "function": {"name": "search", "parameters": {
    "type": "object", "maxProperties": 18446744073709551615, "properties": {
        "a": {"type": "integer", "multipleOf": 9223372036854775807, "minimum": -1e308},
        "b": {"multipleOf": 1e-308, "exclusiveMaximum": 1e308, "maximum": 18446744073709551616},
        "c": {"minItems": 18446744073709551615, "maxItems": 18446744073709551616,
              "items": {"maximum": 1e308, "multipleOf": 1e-308}}}}}}"#;

#[test]
fn numbers_at_the_ends_of_their_ranges_break_no_evaluator() {
    let numbers = [
        Value::IntValue(i64::MIN),
        Value::IntValue(i64::MAX),
        Value::DoubleValue(f64::MAX),
        Value::DoubleValue(f64::MIN),
        Value::DoubleValue(f64::NAN),
        Value::DoubleValue(f64::NEG_INFINITY),
        Value::StringValue("-9223372036854775809".to_owned()),
        Value::StringValue("1e999".to_owned()),
    ];
    let times = [0, 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX];
    let mut requests = Vec::new();
    for (number, trace) in numbers.iter().zip(1..) {
        let mut spans = vec![agent(trace)];
        for (start, id) in times.iter().zip((10..).step_by(10)) {
            for (end, id) in times.iter().zip(id..) {
                let mut call = tool(trace, id, "search");
                call.start_time_unix_nano = *start;
                call.end_time_unix_nano = *end;
                let arguments = r#"{"a": 9223372036854775808, "b": -1e308, "c": [1e308]}"#;
                call = with(call, "input.value", arguments);
                call = with(call, "output.value", "18446744073709551616 and -9223372036854775808");
                spans.push(call);
            }
        }
        let model = model(trace, 200, number.clone(), number.clone());
        spans.push(with(model, "llm.tools.0.tool.json_schema", SCHEMA));
        requests.push(request(spans));
    }
    let config = every_kind();
    let records = score(&config, &requests);
    assert!(records.len() >= KINDS.len() * requests.len() / 3, "{}", records.len());
    let failed: Vec<_> = records.iter().filter(|record| record["outcome"] == "failed").collect();
    assert!(failed.is_empty(), "{failed:?}");
}
