//! Runs of many calls, before a judge that answers at length and ends where its tokens do.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use serde_json::{Value, json};

use super::asking;
use crate::support::collector::Running;
use crate::support::fake_judge::{FakeJudge, JudgeAsked, Scripted};
use crate::support::spans::{agent, request, tool, with};

/// A run of so many calls that hold next to nothing.
fn many_calls(count: u16) -> ExportTraceServiceRequest {
    let root = with(agent(7), "input.value", "Rename all my files please");
    let mut spans = vec![with(root, "output.value", "Done. I renamed them.")];
    for n in 0..count {
        let mut call = tool(7, 2, "rename");
        call.span_id = [&[2; 6][..], &n.to_be_bytes()].concat();
        call.start_time_unix_nano += u64::from(n) * 1_000;
        call.end_time_unix_nano = call.start_time_unix_nano + 500;
        let call = with(call, "input.value", &json!({"n": n}).to_string());
        spans.push(with(call, "output.value", r#"{"ok":true}"#));
    }
    request(spans)
}

/// An answer with reasons of 40 words; cut where `max_tokens` end, at four bytes a token.
fn at_length(asked: &JudgeAsked) -> Scripted {
    let reason = "the value came from what the user said ".repeat(5);
    let items = (0..asked.statements())
        .map(|at| json!({"id": at + 1, "cites": [1], "reason": reason.trim(), "verdict": "yes"}));
    let items: Vec<Value> = items.collect();
    let text = json!({"items": items, "injection_suspected": false}).to_string();
    let max = asked.body["max_tokens"].as_u64().expect("a limit") as usize;
    if text.len() / 4 <= max {
        return asked.say(&text);
    }
    let said = asked.say(&text[..max * 4]);
    Scripted { body: said.body.replace(r#""stop""#, r#""length""#), ..said }
}

/// Asked about so many calls, a judge answers all at once, in so many requests.
async fn check(kind: &str, calls: u16, statements: usize, requests: usize) {
    let judge = FakeJudge::start(at_length).await;
    let config = asking(&judge, "openai", "");
    let (head, _) = config.split_once("evaluators:").expect("a section");
    let config = format!("{head}evaluators:\n  {kind}/all: {{judge: small}}\n");
    let running = Running::start(&config).await;
    running.send(many_calls(calls)).await;
    let events = running.events(usize::from(calls) + 1).await;
    let own = events.iter().find(|event| event.span() == 1).expect("that of the run");
    assert_eq!((own.score(), own.int("spanscore.judge.samples")), (Some(1.0), 1), "{calls}");
    let asked = judge.asked();
    let counts: Vec<usize> = asked.iter().map(JudgeAsked::statements).collect();
    assert_eq!((counts.iter().sum::<usize>(), counts.len()), (statements, requests), "{counts:?}");
    assert!(asked.iter().all(|one| one.body["max_tokens"].as_u64() <= Some(4_096)), "{calls}");
    running.judged().await;
}

#[tokio::test]
async fn about_many_calls_a_judge_is_asked_in_as_many_requests_as_its_answers_need() {
    check("tool_argument_hallucination", 20, 20, 1).await;
    check("tool_argument_hallucination", 60, 60, 2).await;
    check("tool_argument_hallucination", 200, 200, 5).await;
    check("tool_argument_hallucination", 300, 300, 7).await;
    check("tool_response_handling", 200, 200, 5).await;
}
