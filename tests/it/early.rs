//! Verdicts that are told while an agent still runs.

use std::sync::{Arc, mpsc};

use serde_json::Value as Json;
use spanscore::config::ConfigPart;
use spanscore_base::model::Memory;
use spanscore_base::model::{Content, Evaluation, Outcome, ToolCall, Trajectory, Usage, Want};
use spanscore_base::otlp::Signal;
use spanscore_base::settings::Node;
use spanscore_base::value::{Value, json};
use spanscore_evaluate::engine::run::Evaluators;
use spanscore_evaluate::kind;
use spanscore_pipeline::{Outlet, Pipeline, PipelineSettings};
use spanscore_receive::{Intake, Received};

use crate::expectations::{call, plan, request, resolver, root};
use crate::support::patience::PATIENCE;

/// Checks the early verdict of an evaluator of these settings on calls of these tools, each taking
/// a second, with 100 tokens used: the explanation and the best score that is still possible.
fn check(kind_name: &str, settings: &str, tools: &str, expected: Option<(&str, f64)>) {
    let node = Node::from_value(&json::parse(settings).unwrap());
    let evaluator = (kind(kind_name).unwrap().build)(&node).unwrap();
    let calls = tools.split_whitespace().zip(1..).map(|(name, second)| ToolCall {
        name: name.into(),
        start_ns: second * 1_000_000_000,
        end_ns: (second + 1) * 1_000_000_000,
        arguments: Content::ready(Value::Map(Default::default())),
        ..ToolCall::default()
    });
    let trajectory = Trajectory {
        tool_calls: calls.collect(),
        start_ns: 1,
        end_ns: 3_000_000_001,
        usage: Usage { input_tokens: Some(100), ..Usage::default() },
        ..Trajectory::default()
    };
    let early = evaluator.as_code().unwrap().early(&trajectory, Want::ALL).map(|early| {
        let Outcome::Scored(score) = early.outcome else { panic!("{settings}: no score") };
        assert!(score.value <= early.best, "{settings}");
        (score.explanation, early.best)
    });
    let early = early.as_ref().map(|(explanation, best)| (explanation.as_str(), *best));
    assert_eq!(early, expected, "{kind_name} {settings} on {tools}");
}

#[test]
fn count_fails_early_once_no_call_can_repair_it() {
    let check = |rules: &str, tools: &str, expected: Option<(&str, f64)>| {
        let settings = format!(r#"{{"criteria": {{"tool_calls_count": {rules}}}}}"#);
        check("tool_call_count", &settings, tools, expected);
    };
    check(r#"{"a": ["<=", 2]}"#, "a a", None);
    check(r#"{"a": ["<=", 2]}"#, "a a a", Some(("a was called 3 times, expected <= 2", 0.0)));
    check(r#"{"a": ["<", 2]}"#, "a a", Some(("a was called 2 times, expected < 2", 0.0)));
    check(r#"{"a": ["=", 1]}"#, "b a a", Some(("a was called 2 times, expected = 1", 0.0)));
    check(r#"{"a": ["=", 2]}"#, "a", None);
    check(r#"{"a": [">", 2], "b": ["!=", 1]}"#, "a b", None);
    check(
        r#"{"a": ["<", 1], "b": ["=", 1]}"#,
        "a",
        Some(("a was called 1 time, expected < 1", 0.5)),
    );
}

#[test]
fn policy_fails_early_on_made_calls_only() {
    let settings = r#"{"forbidden": ["x"], "required": ["r"], "max_calls": {"b": 1},
                       "required_before": {"c": ["d"]}, "declared_only": true}"#;
    let check = |tools: &str, expected: Option<&str>| {
        check("tool_policy", settings, tools, expected.map(|expected| (expected, 0.0)));
    };
    check("a b c", None);
    check("a x", Some("x is `forbidden`"));
    check("b b", Some("b was called 2 times, `max_calls` allows 1"));
    check(
        "x b b",
        Some("2 violations; x is `forbidden`; b was called 2 times, `max_calls` allows 1"),
    );
}

#[test]
fn loop_fails_early_once_it_repeats() {
    let best = 1.0 - f64::EPSILON;
    check("tool_loop", "{}", "a a b", None);
    check(
        "tool_loop",
        "{}",
        "a a a",
        Some((
            "2 of 3 tool calls go round in circles; a was called 3 times in a row from call 1 on \
             (`max_repeats: 2`)",
            best,
        )),
    );
    check("tool_loop", "{}", "", None);
}

#[test]
fn budget_fails_early_on_exceeded_limits() {
    let check = |settings: &str, expected: Option<&str>| {
        let expected = expected.map(|expected| (expected, 0.0));
        check("tool_budget", settings, "a b", expected);
    };
    check(r#"{"max_calls": 2, "max_total_tokens": 100, "max_latency": "1s"}"#, None);
    check(r#"{"max_calls": 1}"#, Some("calls: 2 of at most 1"));
    check(r#"{"max_calls": 1, "exclude_failed": true}"#, None);
    check(r#"{"max_calls_per_tool": {"a": 0}}"#, Some("calls of a: 1 of at most 0"));
    check(r#"{"max_latency": "500ms"}"#, Some("latency_s: 1 of at most 0.5"));
    check(r#"{"max_latency": "500ms", "latency_percentile": 90}"#, None);
    check(r#"{"max_duration": "2s"}"#, Some("duration_s: 3 of at most 2"));
    check(r#"{"max_input_tokens": 99}"#, Some("input_tokens: 100 of at most 99"));
    check(r#"{"max_cost_usd": 1}"#, None);
}

const CONFIG: &str = "
traces: {quiet_period: 10m, idle_timeout: 10m}
evaluators:
  tool_policy:
    early: true
    forbidden: [delete_account]
  tool_call_count:
    early: true
    criteria: {tool_calls_count: {search: ['<=', 1]}}
  tool_policy/late:
    forbidden: [delete_account]
";

/// Runs a pipeline on requests; after the first `awaited` of them waits for an evaluation.
async fn run(requests: Vec<Vec<Json>>, awaited: usize) -> Vec<Evaluation> {
    let part = ConfigPart::Text { name: "spanscore.yaml".into(), text: CONFIG.into() };
    let plan = plan(part);
    let evaluators = Evaluators::new(plan.evaluators, Want::ALL);
    let resolver = Arc::new(resolver(&evaluators));
    let (sender, receiver) = mpsc::channel();
    let outlet: Outlet = Arc::new(move |evaluations, _| {
        evaluations.into_iter().for_each(|e| sender.send(e).unwrap());
    });
    let settings = PipelineSettings {
        traces: plan.config.traces,
        sessions: plan.config.sessions,
        limits: plan.config.limits,
        memory: Memory::default(),
        shard_count: 1,
        forwards: Arc::default(),
    };
    let meter = opentelemetry::global::meter("test");
    let pipeline =
        Pipeline::start(&settings, resolver, Arc::new(evaluators), &outlet, &meter).unwrap();
    let mut all = Vec::new();
    for (index, spans) in requests.iter().enumerate() {
        pipeline
            .intake()
            .accept(Received::protobuf(Signal::Traces, request(spans).into()), &Arc::default())
            .await
            .unwrap();
        if index + 1 == awaited {
            all.push(receiver.recv_timeout(PATIENCE).unwrap());
        }
    }
    pipeline.shutdown().await;
    drop(outlet);
    all.extend(receiver);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forbidden_tool_is_told_while_the_agent_runs_and_once() {
    let requests = vec![
        vec![call(1, 2, "search", "{}")],
        vec![call(1, 3, "delete_account", "{}")],
        vec![call(1, 4, "delete_account", "{}")],
        vec![root(1, &[])],
    ];
    let all = run(requests, 2).await;
    let said: Vec<_> = all
        .iter()
        .map(|e| (&*e.evaluator.name, e.target.completion.as_str(), e.label().unwrap().as_str()))
        .collect();
    let expected = [
        ("tool_policy", "open", "fail"),
        ("tool_policy", "shutdown", "fail"),
        ("tool_call_count", "shutdown", "pass"),
        ("tool_policy/late", "shutdown", "fail"),
    ];
    assert_eq!(said, expected);
    assert_eq!((all[0].revision, all[0].revises), (0, None));
    assert_eq!((all[1].revision, all[1].revises), (1, Some(all[0].id)));
    assert!(all[2..].iter().all(|e| e.revision == 0 && e.revises.is_none()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_verdicts_are_separate_and_only_of_open_traces() {
    let requests = vec![
        vec![call(1, 2, "delete_account", "{}"), call(1, 3, "search", "{}")],
        vec![call(1, 4, "search", "{}")],
        vec![call(2, 2, "delete_account", "{}"), root(2, &[])],
    ];
    let all = run(requests, 1).await;
    let early: Vec<_> = all
        .iter()
        .filter(|e| e.target.completion.as_str() == "open")
        .map(|e| (&*e.evaluator.name, e.target.trace_id.0[0]))
        .collect();
    assert_eq!(early, [("tool_policy", 1), ("tool_call_count", 1)]);
    let ids: std::collections::BTreeSet<_> = all.iter().map(|e| e.id.to_string()).collect();
    assert_eq!(ids.len(), all.len());
}
