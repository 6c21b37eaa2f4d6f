//! Recorded traces judged against what is expected of each, from the example config on.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use spanscore::config::{ConfigPart, ResolvedConfig, load};
use spanscore_base::model::{Evaluation, Outcome, Want};
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::json::transcode;
use spanscore_engine::batch::{Batch, BatchPlan, BatchProgress, JudgedGroup};
use spanscore_evaluate::AskedTarget;
use spanscore_evaluate::engine::run::Evaluators;
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{Resolver, Table};

/// A span of trace `trace`; number 1 is the root.
pub(crate) fn span(trace: u8, number: u8, attributes: &[(&str, &str)]) -> Json {
    let attributes: Vec<_> = attributes
        .iter()
        .map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}))
        .collect();
    let parent = if number == 1 { String::new() } else { "0100000000000000".to_owned() };
    json!({
        "traceId": format!("{trace:02x}").repeat(16),
        "spanId": format!("{number:02x}00000000000000"),
        "parentSpanId": parent,
        "name": "step",
        "startTimeUnixNano": format!("1{number:03}000000000"),
        "endTimeUnixNano": format!("1{number:03}500000000"),
        "attributes": attributes,
    })
}

/// A tool call as OpenInference writes it.
pub(crate) fn call(trace: u8, number: u8, tool: &str, arguments: &str) -> Json {
    let kind = ("openinference.span.kind", "TOOL");
    span(trace, number, &[kind, ("tool.name", tool), ("input.value", arguments)])
}

/// The root of an agent's run.
pub(crate) fn root(trace: u8, attributes: &[(&str, &str)]) -> Json {
    let kind = [("openinference.span.kind", "AGENT")];
    span(trace, 1, &[kind.as_slice(), attributes].concat())
}

pub(crate) fn request(spans: &[Json]) -> Vec<u8> {
    let scope = json!({"name": "openinference.instrumentation.shop"});
    let request = json!({"resourceSpans": [{"scopeSpans": [{"scope": scope, "spans": spans}]}]});
    transcode(Signal::Traces, request.to_string().as_bytes()).unwrap().to_vec()
}

pub(crate) fn resolver(evaluators: &Evaluators) -> Resolver {
    let dialects = Dialect::with_builtin(Vec::new());
    Resolver::new(Arc::new(Table::compile(dialects, &evaluators.facts()).unwrap()))
}

pub(crate) fn plan(part: ConfigPart) -> ResolvedConfig {
    ResolvedConfig::new(&load(&[part], &|_| None).unwrap()).unwrap()
}

fn judged(part: ConfigPart, spans: &[Json]) -> Vec<Evaluation> {
    let evaluators = Evaluators::new(plan(part).evaluators, Want::ALL);
    let resolver = resolver(&evaluators);
    all_judged(&resolver, &evaluators, &[request(spans)])
}

/// The evaluations of requests, in their order.
pub(crate) fn all_judged(
    resolver: &Resolver,
    evaluators: &Evaluators,
    requests: &[Vec<u8>],
) -> Vec<Evaluation> {
    let settings = BatchPlan {
        resolver,
        limits: Default::default(),
        session_key: Default::default(),
        evaluators,
        now_ns: 0,
        cores: 2,
    };
    let (mut batch, progress) = (Batch::new(settings), BatchProgress::default());
    for request in requests {
        batch.add(Signal::Traces, request).unwrap();
    }
    let mut all = Vec::new();
    batch
        .judge(&progress, &mut |judged| {
            all.push(judged);
            true
        })
        .unwrap();
    all.sort_by_key(|judged: &JudgedGroup| judged.order);
    let said = |judged: JudgedGroup| {
        let asked = judged.asked.into_iter().map(AskedTarget::unasked);
        judged.evaluations.into_iter().chain(asked)
    };
    all.into_iter().flat_map(said).collect()
}

/// Level, span or session, and score, reason or error of each evaluation of one evaluator.
fn said(evaluations: &[Evaluation], name: &str) -> Vec<String> {
    let answers = evaluations.iter().filter(|e| e.evaluator.name == name).map(|e| {
        let answer = match &e.outcome {
            Outcome::Scored(score) => score.value.to_string(),
            Outcome::NotEvaluable { reason, .. } => reason.as_str().to_owned(),
            Outcome::Failed { error_type, .. } => (*error_type).to_owned(),
        };
        format!("{} {} {answer}", e.target.trace_id.0[0], e.span_id.0[0])
    });
    answers.collect()
}

fn example() -> ConfigPart {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples");
    ConfigPart::File(folder.join("expectations.yaml"))
}

#[test]
fn each_trace_is_judged_against_its_own_case() {
    let case = |id| [("eval.case.id", id)];
    let order = r#"{"order": "A-17"}"#;
    let spans = [
        call(1, 2, "find_order", order),
        call(1, 3, "check_policy", "{}"),
        call(1, 4, "issue_refund", order),
        root(1, &case("refund-1")),
        call(2, 2, "find_order", order),
        root(2, &case("refund-too-late")),
        call(3, 2, "find_order", order),
        root(3, &case("unheard-of")),
        call(4, 2, "find_order", order),
        root(4, &[]),
    ];
    let evaluations = judged(example(), &spans);
    let expected = ["1 1 1", "2 1 0", "3 1 no_expectation", "4 1 no_expectation"];
    assert_eq!(said(&evaluations, "tool_trajectory/cases"), expected);
    let versions: Vec<_> = evaluations
        .iter()
        .filter(|e| e.evaluator.name == "tool_trajectory/cases")
        .map(|e| e.evaluator.digest)
        .collect();
    assert_ne!(versions[0], versions[1], "the version tells the criteria");
    assert_eq!(versions[2], versions[3]);
    let again = judged(example(), &spans);
    let ids = |all: &[Evaluation]| all.iter().map(|e| e.id).collect::<Vec<_>>();
    assert_eq!(ids(&evaluations), ids(&again));
}

#[test]
fn criteria_may_come_with_the_trace() {
    let spans = [
        call(1, 2, "search", "{}"),
        root(1, &[("eval.criteria", r#"{"tool_calls_count": {"search": ["=", 1]}}"#)]),
        call(2, 2, "search", "{}"),
        root(2, &[("eval.criteria", r#"{"tool_calls_count": {"search": ["about", 1]}}"#)]),
        call(3, 2, "search", "{}"),
        root(3, &[]),
    ];
    let evaluations = judged(example(), &spans);
    let expected = ["1 1 1", "2 1 invalid_criteria"];
    assert_eq!(said(&evaluations, "tool_call_count/inline"), expected);
}

#[test]
fn calls_and_sessions_are_judged_against_expectations_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spanscore.yaml");
    let config = r#"
evaluators:
  tool_call_args/call:
    level: call
    expect: {file: calls.csv, key: 'attributes["case"]'}
  tool_call_count/session:
    level: session
    expect: {file: sessions.jsonl, key: session_id, id_field: session.id}
"#;
    fs::write(&path, config).unwrap();
    let calls = "id,criteria\none,\"{\"\"tool_calls\"\": [{\"\"name\"\": \"\"a\"\", \"\"args\"\": \
                 {}}]}\"\n";
    fs::write(dir.path().join("calls.csv"), calls).unwrap();
    let sessions = r#"{"session": {"id": "s"}, "criteria": {"tool_calls_count": {"a": ["=", 2]}}}"#;
    fs::write(dir.path().join("sessions.jsonl"), sessions).unwrap();
    let session = ("session.id", "s");
    let spans = [
        call(1, 2, "a", "{}"),
        call(1, 3, "b", "{}"),
        root(1, &[("case", "one"), session]),
        call(2, 2, "a", "{}"),
        root(2, &[session]),
        call(3, 2, "a", "{}"),
        root(3, &[("session.id", "other")]),
    ];
    let evaluations = judged(ConfigPart::File(path), &spans);
    let expected = ["1 2 1", "1 3 0", "2 2 no_expectation", "3 2 no_expectation"];
    assert_eq!(said(&evaluations, "tool_call_args/call"), expected);
    let expected = ["2 1 1", "3 1 no_expectation"];
    assert_eq!(said(&evaluations, "tool_call_count/session"), expected);
}
