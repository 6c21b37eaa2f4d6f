//! Runs that are too long for one request.

use super::asking;
use crate::support::collector::Running;
use crate::support::fake_judge::FakeJudge;
use crate::support::spans::{agent, request, tool, with};

/// Calls of the run.
const CALLS: u8 = 30;

/// A config whose evaluator asks about each call within so many tokens.
fn config(judge: &FakeJudge, tokens: u32, more: &str) -> String {
    let config = asking(judge, "openai", "");
    let (head, _) = config.split_once("evaluators:").expect("a section");
    format!(
        "{head}evaluators:\n  tool_argument_hallucination/all: {{judge: small, \
         evidence_tokens: {tokens}, {more}}}\n"
    )
}

/// A run whose calls take some 100 tokens each, none of which can be left out.
fn long_run() -> opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest {
    let mut spans = vec![with(agent(7), "input.value", "Write to everybody")];
    for n in 0..CALLS {
        let words = format!("made up words {n} ").repeat(20);
        let arguments = serde_json::json!({"to": format!("p{n}@made-up.example"), "text": words});
        let mut call = with(tool(7, n + 2, "send_mail"), "input.value", &arguments.to_string());
        call.start_time_unix_nano += u64::from(n) * 1_000;
        spans.push(with(call, "output.value", "sent"));
    }
    request(spans)
}

#[tokio::test]
async fn a_run_too_long_for_one_request_is_asked_about_in_windows_and_judged_as_one() {
    // One mail in the middle is made up.
    let judge = FakeJudge::start(|asked| {
        let user = asked.user();
        let is_bad = user.contains(r#""to":"p20@made-up.example""#);
        asked.answer(if is_bad { &["no"] } else { &["yes"] })
    })
    .await;
    let running = Running::start(&config(&judge, 2_000, "threshold: 0.99")).await;
    running.send(long_run()).await;
    let events = running.events(usize::from(CALLS) + 1).await;
    let asked = judge.asked();
    let statements: Vec<usize> = asked.iter().map(|one| one.statements()).collect();
    assert!(asked.len() > 1, "{statements:?}");
    assert_eq!(statements.iter().sum::<usize>(), usize::from(CALLS));
    let own = events.iter().find(|event| event.span() == 1).expect("that of the run");
    let bad = asked.iter().find(|one| one.user().contains("p20@made-up.example\"")).expect("one");
    let share = 1.0 - bad.statements() as f64 / f64::from(CALLS);
    assert!((own.score().expect("a score") - share).abs() < 1e-9, "{:?} {share}", own.score());
    assert_eq!((own.label(), own.int("spanscore.judge.samples")), ("fail", 1));
    assert!(own.int("spanscore.evidence.cut_bytes") > 0);
    let failed = events.iter().filter(|event| event.span() != 1 && event.label() == "fail").count();
    assert_eq!(failed, bad.statements(), "the calls of that window");
    running.judged().await;
}

#[tokio::test]
async fn votes_of_several_windows_are_counted_whole() {
    let judge = FakeJudge::saying("yes").await;
    let running = Running::start(&config(&judge, 2_000, "samples: {min: 2, max: 2}")).await;
    running.send(long_run()).await;
    let events = running.events(usize::from(CALLS) + 1).await;
    let own = events.iter().find(|event| event.span() == 1).expect("that of the run");
    assert_eq!((own.score(), own.int("spanscore.judge.samples")), (Some(1.0), 2));
    let statements: usize = judge.asked().iter().map(|one| one.statements()).sum();
    assert_eq!(statements, 2 * usize::from(CALLS));
    running.judged().await;
}

#[tokio::test]
async fn a_run_too_long_for_all_windows_is_not_evaluable() {
    let judge = FakeJudge::saying("yes").await;
    let running = Running::start(&config(&judge, 500, "compat: dokimos")).await;
    running.send(long_run()).await;
    let event = running.events(1).await.remove(0);
    assert_eq!(event.text("spanscore.evaluation.reason"), "evidence_too_long");
    assert_eq!(judge.asked().len(), 0);
    running.judged().await;
}
