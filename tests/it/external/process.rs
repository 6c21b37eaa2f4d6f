//! Evaluators that are processes: agentevals' protocol 1.0.

use std::path::Path;

use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::Value;

use super::fixture;
use crate::judges::refund;
use crate::support::collector::{Event, Running};
use crate::support::fake_backend::attribute;
use crate::support::patience::{eventually, once};
use crate::support::spans::{request, tool, with};

/// A config with an evaluator of this mode; `mark` tells its processes from all others.
fn entry(mode: &str, mark: &str, more: &str) -> String {
    let script = fixture("evaluator.py");
    format!(
        "  agentevals/{mode}: {{command: [python3, {script:?}], config: {{mode: {mode}}}, \
         env: {{SPANSCORE_MARK: {mark:?}}}, {more}}}\n"
    )
}

/// A mark that no other test has.
fn mark(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// Processes of this machine whose environment holds a mark.
pub(super) fn marked(mark: &str) -> Vec<String> {
    let folders = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    let is_marked = |folder: &std::path::PathBuf| {
        let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&format!("SPANSCORE_MARK={mark}\0"))
    };
    let found = folders.map(|folder| folder.path()).filter(is_marked);
    found.map(|folder| command_of(&folder)).collect()
}

fn command_of(folder: &Path) -> String {
    let command = std::fs::read(folder.join("cmdline")).unwrap_or_default();
    format!("{} {}", folder.display(), String::from_utf8_lossy(&command).replace('\0', " "))
}

/// Waits until nothing is left of what a mark was put on.
pub(super) async fn nothing_left(mark: &str) {
    eventually(|| {
        let left = marked(mark);
        once(left.is_empty(), || format!("{left:?}"))
    })
    .await;
}

fn told(event: &Event) -> String {
    match (event.score(), event.text("spanscore.evaluation.reason"), event.text("error.type")) {
        (Some(score), ..) => format!("{score} {}", event.label()),
        (None, "", error) => error.to_owned(),
        (None, reason, _) => reason.to_owned(),
    }
}

#[tokio::test]
async fn each_way_in_which_a_process_can_end_is_told_as_what_it_is() {
    let expected = [
        ("above", "score_out_of_range"),
        ("bad_status", "external_output_invalid"),
        ("chatty", "external_output_too_long"),
        ("crash", "external_process_failed"),
        ("exit", "external_process_failed"),
        ("failed_by_status", "0.9 fail"),
        ("good", "0.75 pass"),
        ("hung", "external_timeout"),
        ("nan", "external_output_invalid"),
        ("no_score", "external_output_invalid"),
        ("noisy", "0.5 pass"),
        ("not_evaluated", "external_not_evaluable"),
        ("passed_by_status", "0.1 pass"),
        ("silent", "external_output_invalid"),
        ("two", "external_output_invalid"),
        ("words", "external_output_invalid"),
    ];
    let mark = mark("ways");
    let entries = expected.iter().map(|(mode, _)| {
        let timeout = if *mode == "hung" { "2s" } else { "60s" };
        entry(mode, &mark, &format!("spares: 0, concurrency: 1, timeout: {timeout}"))
    });
    let config = format!("evaluators:\n{}", entries.collect::<String>());
    let running = Running::start(&config).await;
    running.send(request(refund(7))).await;
    let events = running.events(expected.len()).await;
    let mut found: Vec<_> = events
        .iter()
        .map(|event| (event.name().trim_start_matches("agentevals/").to_owned(), told(event)))
        .collect();
    found.sort();
    let expected = expected.map(|(name, told)| (name.to_owned(), told.to_owned()));
    assert_eq!(found, expected);
    let said = [
        ("crash", "Traceback: it broke"),
        ("words", "its output is not one JSON object; it begins with `all is well`"),
    ];
    for (mode, expected) in said {
        let name = format!("agentevals/{mode}");
        let event = events.iter().find(|event| event.name() == name).expect("it");
        let words = format!("{:?}", event.0);
        assert!(words.contains(expected), "{words}");
    }
    nothing_left(&mark).await;
    running.judged().await;
}

#[tokio::test]
async fn what_a_process_prints_is_shown_without_the_values_of_its_variables() {
    // The longest of its environment, so that it begins the output.
    let mark = format!("{}-{}", mark("planted"), "k3y".repeat(100));
    let modes = ["tells_env", "prints_env"];
    let entries = modes.map(|mode| entry(mode, &mark, "spares: 0"));
    let running = Running::start(&format!("evaluators:\n{}", entries.concat())).await;
    running.send(request(refund(7))).await;
    for event in running.events(modes.len()).await {
        let words = format!("{:?}", event.0);
        assert!(words.contains("SPANSCORE_MARK") && words.contains("[REDACTED]"), "{words}");
        assert!(!words.contains("planted") && !words.contains("k3yk3y"), "{words}");
    }
}

/// It ended well, and what it started still has its output.
#[tokio::test]
async fn an_output_that_is_still_open_at_the_end_is_told_as_that() {
    let mark = mark("held");
    let config = format!("evaluators:\n{}", entry("held", &mark, "spares: 0, timeout: 6s"));
    let running = Running::start(&config).await;
    running.send(request(refund(7))).await;
    let event = running.events(1).await.remove(0);
    assert_eq!(told(&event), "external_timeout");
    let words = format!("{:?}", event.0);
    let expected = "its output was still open after 6s: something that it started holds it";
    assert!(words.contains(expected), "{words}");
    nothing_left(&mark).await;
    running.judged().await;
}

/// The details of the evaluation that a process gives which tells what it was given.
async fn echoed(traces: Vec<Vec<Span>>, mark: &str, more: &str, config: &str) -> Value {
    let config = format!("evaluators:\n{}{config}", entry("echo", mark, more));
    let running = Running::start(&config).await;
    for spans in traces {
        running.send(request(spans)).await;
    }
    let event = running.events(1).await.remove(0);
    let details = match attribute(&event.0.attributes, "spanscore.evaluation.details") {
        Some(AnyValue::StringValue(text)) => text.clone(),
        other => panic!("no details: {other:?} in {:?}", event.0),
    };
    running.judged().await;
    nothing_left(mark).await;
    serde_json::from_str(&details).expect("details are JSON")
}

#[tokio::test]
async fn a_process_is_given_one_object_of_the_protocol_and_a_clean_environment() {
    let details = echoed(vec![refund(7)], &mark("echo"), "threshold: 0.25, spares: 1", "").await;
    let given = &details["details"]["input"];
    let expected = serde_json::json!({
        "protocol_version": "1.0",
        "metric_name": "echo",
        "threshold": 0.25,
        "config": {"mode": "echo"},
        "invocations": [{
            "invocation_id": "07".repeat(16),
            "user_content": "Refund order 17 please",
            "final_response": "Order 17 is refunded",
            "intermediate_steps": {
                "tool_calls": [{"name": "issue_refund", "args": {"order": 17}}],
                "tool_responses": [{
                    "name": "issue_refund",
                    "output": "{\"status\":\"refunded\"}",
                    "status": "success",
                }],
            },
            "performance_metrics": null,
        }],
        "expected_invocations": null,
    });
    assert_eq!(*given, expected);
    let seen = details["details"]["env"].as_array().expect("a list");
    let is_ours = |name: &Value| name.as_str().is_some_and(|name| name.starts_with("CARGO"));
    assert!(seen.iter().any(|name| name == "SPANSCORE_MARK"), "{seen:?}");
    assert!(!seen.iter().any(is_ours), "our own environment is not theirs: {seen:?}");
}

#[tokio::test]
async fn results_may_be_written_as_python_writes_them_and_turns_may_be_expected() {
    let more =
        r#"output_format: python_repr, criteria: {expected_invocations: [{invocation_id: "a"}]}"#;
    let details = echoed(vec![refund(7)], &mark("repr"), more, "").await;
    let given = &details["details"]["input"];
    let response = &given["invocations"][0]["intermediate_steps"]["tool_responses"][0];
    assert_eq!(response["output"], "{'status': 'refunded'}");
    assert_eq!(given["expected_invocations"], serde_json::json!([{"invocation_id": "a"}]));
}

#[tokio::test]
async fn a_process_is_given_placeholders_for_secrets() {
    let mut spans = refund(7);
    let call = with(tool(7, 3, "log_in"), "input.value", r#"{"password": "hunter22-x"}"#);
    spans.push(with(call, "output.value", r#"{"said": "hunter22-x is right"}"#));
    for (more, secret) in [("spares: 0", "[SECRET_1]"), ("redact: none", "hunter22-x")] {
        let more = format!("{more}, output_format: python_repr");
        let details = echoed(vec![spans.clone()], &mark("secret"), &more, "").await;
        let steps = &details["details"]["input"]["invocations"][0]["intermediate_steps"];
        assert_eq!(steps["tool_calls"][1]["args"]["password"], secret);
        let expected = format!("{{'said': '{secret} is right'}}");
        assert_eq!(steps["tool_responses"][1]["output"], expected.as_str());
    }
}

#[tokio::test]
async fn a_session_is_one_invocation_for_each_turn() {
    let turn = |trace: u8, asked: &str, said: &str| {
        let mut spans = refund(trace);
        for span in &mut spans {
            span.start_time_unix_nano += u64::from(trace) * 1_000_000_000;
            span.end_time_unix_nano += u64::from(trace) * 1_000_000_000;
        }
        spans[0].attributes.retain(|it| !["input.value", "output.value"].contains(&&*it.key));
        let root = with(spans[0].clone(), "input.value", asked);
        let root = with(root, "output.value", said);
        spans[0] = with(root, "session.id", "s-1");
        spans
    };
    let traces = vec![turn(7, "one?", "one!"), turn(8, "two?", "two!")];
    let sessions = "sessions: {idle_timeout: 1s}\n";
    let details = echoed(traces, &mark("session"), "level: session", sessions).await;
    let turns = details["details"]["input"]["invocations"].as_array().expect("turns").clone();
    let part = |key: &str| -> Vec<String> {
        turns.iter().map(|turn| turn[key].as_str().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(part("invocation_id"), ["07".repeat(16), "08".repeat(16)]);
    assert_eq!(part("user_content"), ["one?", "two?"]);
    assert_eq!(part("final_response"), ["one!", "two!"]);
    let calls = |turn: &Value| turn["intermediate_steps"]["tool_calls"].as_array().map(Vec::len);
    assert_eq!(turns.iter().map(calls).collect::<Vec<_>>(), [Some(1), Some(1)]);
}

#[tokio::test]
async fn nothing_that_waits_started_outlives_the_collector() {
    let mark = mark("spares");
    let config = format!("evaluators:\n{}", entry("good", &mark, "spares: 3"));
    let running = Running::start(&config).await;
    eventually(|| {
        let spares = marked(&mark);
        once(spares.len() >= 3, || format!("{spares:?}"))
    })
    .await;
    running.send(request(refund(7))).await;
    assert_eq!(running.events(1).await[0].score(), Some(0.75));
    running.judged().await;
    nothing_left(&mark).await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let config = "evaluators:\n  agentevals/none: {command: [/no/such/program]}\n";
    let running = Running::start(config).await;
    running.send(request(refund(7))).await;
    let event = running.events(1).await.remove(0);
    assert_eq!(event.text("error.type"), "external_not_started");
    assert!(format!("{:?}", event.0).contains("/no/such/program"), "{:?}", event.0);
    running.judged().await;
}
