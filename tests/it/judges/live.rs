//! A live collector that asks judges.

use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tokio::sync::Semaphore;

use super::{asking, refund};
use crate::support::collector::Running;
use crate::support::fake_backend::attribute;
use crate::support::fake_judge::FakeJudge;
use crate::support::patience::{eventually, once};
use crate::support::spans::{request, searches, tool, with};

const DOCS: &str = include_str!("../../../docs/output.md");

/// The attributes that judged evaluations carry, as the documentation says.
fn documented() -> Vec<&'static str> {
    let (_, section) = DOCS.split_once("\n## Judge attributes\n").expect("a section");
    let section = section.split("\n## ").next().expect("its text");
    let rows: Vec<_> =
        section.lines().filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(rows.len(), 9);
    rows
}

async fn check_api(api: &str) {
    let judge = FakeJudge::saying("yes").await;
    let price = ", price: {input: 1, output: 2}, api_key_env: PATH";
    let running = Running::start(&asking(&judge, api, price)).await;
    running.send(request(refund(7))).await;
    let event = running.events(1).await.remove(0);
    let told = (event.name(), event.score(), event.label(), event.text("spanscore.judge.model"));
    assert_eq!(told, ("task_completion/shop", Some(1.0), "pass", "m-1"), "{api}");
    assert_eq!((event.trace(), event.span(), event.int("spanscore.judge.samples")), (7, 1, 1));
    let cost = match attribute(&event.0.attributes, "spanscore.judge.cost_usd") {
        Some(Value::DoubleValue(cost)) => *cost,
        other => panic!("{other:?}"),
    };
    let asked = judge.asked().remove(0);
    let sent = asked.body.to_string().len() as f64 / 4.0;
    assert!((cost - (sent.floor() + 100.0) / 1e6).abs() < 1e-8, "{cost}");
    assert!(asked.user().contains("Refund order 17"), "{}", asked.user());
    let key = std::env::var("PATH").expect("any variable").to_lowercase();
    let header = if api == "anthropic" { "x-api-key: " } else { "authorization: bearer " };
    assert!(asked.headers.contains(&format!("{header}{}", key.trim())), "{}", asked.headers);
    for key in documented() {
        assert!(attribute(&event.0.attributes, key).is_some(), "documented and not sent: {key}");
    }
    let series = "{evaluator=\"task_completion/shop\",judge=\"small\",outcome=\"replied\"}";
    running.counted(&format!("spanscore_judge_requests_total{series}"), 1).await;
    running.judged().await;
}

#[tokio::test]
async fn judges_are_asked_in_all_protocols_and_what_they_say_leaves_as_an_event() {
    for api in ["openai", "openai_responses", "anthropic"] {
        check_api(api).await;
    }
}

#[tokio::test]
async fn what_cheap_evaluators_say_decides_whether_it_is_worth_asking() {
    let judge = FakeJudge::saying("no").await;
    let config = asking(&judge, "openai", "")
        .replace("{judge: small,", r#"{judge: small, run_if: 'scores["tool_error/any"] < 1.0',"#);
    let config = format!("{config}  tool_error/any: {{}}\n");
    let running = Running::start(&config).await;
    running.send(request(refund(7))).await;
    let mut broken = refund(8);
    broken[1].status =
        Some(opentelemetry_proto::tonic::trace::v1::Status { message: "it broke".into(), code: 2 });
    running.send(request(broken)).await;
    let events = running.events(3).await;
    let told: Vec<_> = events.iter().map(|it| (it.trace(), it.name(), it.score())).collect();
    let expected = [
        (7, "tool_error/any", Some(1.0)),
        (8, "task_completion/shop", Some(0.0)),
        (8, "tool_error/any", Some(0.0)),
    ];
    assert_eq!(told, expected);
    assert_eq!(judge.asked().len(), 1);
    running.counted(&skipped("run_if"), 1).await;
    assert_eq!(running.judged().await.len(), 3);
}

/// The series of what the evaluator passed over.
fn skipped(reason: &str) -> String {
    format!(
        "spanscore_evaluate_skipped_total\
         {{evaluator=\"task_completion/shop\",judge=\"small\",reason=\"{reason}\"}}"
    )
}

#[tokio::test]
async fn what_sample_and_when_leave_out_is_counted_and_all_traces_add_up() {
    let judge = FakeJudge::saying("yes").await;
    let choice = r#"{judge: small, sample: 0.5, when: 'trace_id != "07"',"#;
    let config = asking(&judge, "openai", "").replace("{judge: small,", choice);
    let running = Running::start(&config).await;
    for trace in 1..=20 {
        running.send(request(refund(trace * 12))).await;
    }
    let text = eventually(|| {
        let text = running.exposition();
        let count = |series: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(series));
            line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or_default()
        };
        let skipped = count(&skipped("sampled_out"));
        let judged = running.backend.log_count() as u64;
        once(skipped + judged == 20, || format!("{skipped} and {judged}"))?;
        assert!((3..=17).contains(&skipped), "{skipped} of 20 at a half");
        Ok::<_, String>(text)
    })
    .await;
    // Reasons that did not arise are there, too.
    assert!(text.contains(&format!("{} 0", skipped("when"))), "{text}");
    let unanswered = "spanscore_judge_unanswered_total{evaluator=\"task_completion/shop\",\
                      judge=\"small\",reason=\"budget_exhausted\"} 0";
    assert!(text.contains(unanswered), "{text}");
    assert!(text.contains("spanscore_judge_dead_letters_total{outcome=\"written\"} 0"), "{text}");
    running.judged().await;
}

#[tokio::test]
async fn calls_that_code_cannot_settle_are_judged_each_on_its_own_span() {
    let judge = FakeJudge::saying("no").await;
    let config = asking(&judge, "openai", "");
    let (head, _) = config.split_once("evaluators:").expect("a section");
    let config = format!(
        "{head}evaluators:\n  tool_argument_hallucination/all: {{judge: small, threshold: 0.9}}\n"
    );
    let running = Running::start(&config).await;
    let mut spans = refund(7);
    let made_up = with(tool(7, 3, "send_mail"), "input.value", r#"{"to": "bob@made-up.example"}"#);
    spans.push(with(made_up, "output.value", "sent"));
    for span in &mut spans[..2] {
        span.attributes.retain(|it| it.key != "input.value");
    }
    spans[0] = with(spans[0].clone(), "input.value", "Refund order A-1789 please");
    spans[1] = with(spans[1].clone(), "input.value", r#"{"order": "A-1789"}"#);
    running.send(request(spans)).await;
    let events = running.events(3).await;
    let mut told: Vec<_> = events.iter().map(|it| (it.span(), it.label().to_owned())).collect();
    told.sort();
    let expected = [(1, "fail"), (2, "pass"), (3, "fail")].map(|(span, it)| (span, it.to_owned()));
    assert_eq!(told, expected);
    let ids: std::collections::BTreeSet<_> = events.iter().map(|it| it.id().to_owned()).collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(judge.asked()[0].statements(), 1, "what code knows is not asked");
    running.judged().await;
}

/// While a judge keeps everybody waiting, senders do not notice.
#[tokio::test]
async fn senders_and_other_evaluators_do_not_wait_for_a_slow_judge() {
    let gate = Arc::new(Semaphore::new(0));
    let judge = FakeJudge::behind(&gate, "yes").await;
    let config = format!("{}  tool_error/any: {{}}\n", asking(&judge, "openai", ""));
    let running = Running::start(&config).await;
    for trace in 1..=20 {
        running.send(request(refund(trace))).await;
    }
    let events = running.events(20).await;
    gate.add_permits(1);
    assert!(events.iter().all(|event| event.name() == "tool_error/any"));
    running.judged().await;
}

#[tokio::test]
async fn at_the_end_without_a_log_open_inquiries_are_answered_or_told() {
    let judge = FakeJudge::saying("yes").await;
    let config = asking(&judge, "openai", "").replace("settle: 0s", "settle: 10m");
    let running = Running::start(&config).await;
    running.send(request(refund(7))).await;
    running.send(request(searches(8, &[2]))).await;
    let events = running.judged().await;
    let told: Vec<_> = events.iter().map(|it| (it.trace(), it.score())).collect();
    assert_eq!(told, [(7, Some(1.0)), (8, Some(1.0))], "nobody waits for late spans any more");
}
