//! Judges that time out, refuse, answer nonsense or half, and recover.

use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::Semaphore;

use super::{asking, refund};
use crate::support::collector::Running;
use crate::support::fake_judge::{FakeJudge, JudgeAsked, Scripted};
use crate::support::patience::{PATIENCE, eventually, once};
use crate::support::spans::{request, with};

const TRACES: usize = 1_000;

/// A trouble of each kind, in turn; none after so many requests.
fn trouble(asked: &JudgeAsked, until: usize) -> Scripted {
    let answer = asked.answer(&["yes"]);
    let status = |status, headers: Vec<(&'static str, String)>| Scripted {
        status,
        headers,
        body: r#"{"error": {"message": "not now"}}"#.into(),
        ..Scripted::default()
    };
    if asked.count >= until || asked.count.is_multiple_of(2) {
        return answer;
    }
    match asked.count / 2 % 9 {
        0 => Scripted { delay: PATIENCE, ..answer },
        1 => status(429, vec![("retry-after", "0".into())]),
        2 => status(429, vec![("retry-after-ms", "20".into())]),
        3 => status(429, vec![("retry-after", "Wed, 01 Jan 2025 00:00:00 GMT".into())]),
        4 => status(529, vec![]),
        5 => asked.say("I cannot put it into JSON."),
        6 => Scripted { is_cut: true, ..answer },
        7 => Scripted { body: "<html>a gateway".into(), ..answer },
        _ => {
            let body = r#"{"choices": [{"message": {"content": null, "refusal": "I will not"},
                "finish_reason": "stop"}], "usage": {"prompt_tokens": 500}}"#;
            Scripted { body: body.into(), ..answer }
        }
    }
}

/// The sum of all series of a metric whose labels hold this.
fn sum(exposition: &str, metric: &str, part: &str) -> f64 {
    let own = exposition.lines().filter(|line| line.starts_with(metric) && line.contains(part));
    own.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// A trace whose number is a part of what is asked, so that no answer is known before.
fn numbered(number: u64) -> Vec<Span> {
    let mut spans = refund(7);
    for span in &mut spans {
        span.trace_id[..8].copy_from_slice(&(number + 1).to_be_bytes());
    }
    let asked = format!("Refund order 17 please, customer {number}");
    spans[0].attributes.retain(|it| it.key != "input.value");
    spans[0] = with(spans[0].clone(), "input.value", &asked);
    spans
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_traces_with_a_faulty_judge_all_get_an_outcome() {
    let judge = FakeJudge::start(|asked| trouble(asked, 400)).await;
    let more = ", timeout: 3s, price: {input: 1, output: 1}, budget: {usd_per_hour: 100},
    limits: {concurrency: 32, requests_per_minute: 100000, tokens_per_minute: 100000000}";
    let running = Running::start(&asking(&judge, "openai", more)).await;
    for number in 0..TRACES as u64 {
        running.send(request(numbered(number))).await;
    }
    running.events(TRACES).await;
    let text = running.exposition();
    let events = running.judged().await;
    assert_eq!(events.len(), TRACES, "each once");
    let scored = events.iter().filter(|event| event.score().is_some()).count();
    let low = events.iter().filter(|event| event.score().is_some_and(|score| score < 1.0)).count();
    let reason = |word: &str| {
        let is_it =
            |key: &str, event: &&_| crate::support::collector::Event::text(event, key) == word;
        events.iter().filter(|it| is_it("spanscore.evaluation.reason", it)).count()
            + events.iter().filter(|it| is_it("error.type", it)).count()
    };
    assert_eq!(low, 0, "trouble is never a low score");
    assert!(scored > TRACES * 8 / 10, "{scored}");
    let others = [
        "judge_refused", "rate_limited", "circuit_open", "judge_no_answer", "judge_error",
        "judge_reply_invalid",
    ];
    let others: usize = others.into_iter().map(reason).sum();
    assert_eq!(scored + others, TRACES);
    let requests = sum(&text, "spanscore_judge_requests_total", "");
    assert_eq!(requests as usize, judge.asked().len());
    assert_eq!(sum(&text, "spanscore_judge_waiting_size_bytes", ""), 0.0);
    assert!(sum(&text, "spanscore_judge_cost", "") > 0.0);
}

/// Sends so many traces; the most inquiries, and bytes of them, that waited for judges at any time.
async fn sent(running: &Running, traces: u64) -> (f64, f64) {
    let (mut most, mut most_bytes) = (0.0_f64, 0.0_f64);
    for number in 0..traces {
        running.send(request(numbered(number))).await;
        if number.is_multiple_of(10) {
            let text = running.exposition();
            let counts = text.replace("spanscore_judge_waiting_size_bytes", "bytes");
            most = most.max(sum(&counts, "spanscore_judge_waiting", ""));
            most_bytes = most_bytes.max(sum(&text, "spanscore_judge_waiting_size_bytes", ""));
        }
    }
    (most, most_bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_slow_judge_is_bounded_throughout_and_senders_do_not_feel_it() {
    const WAITING: usize = 50;
    let gate = Arc::new(Semaphore::new(0));
    let judge = FakeJudge::behind(&gate, "yes").await;
    let config = asking(&judge, "openai", ", timeout: 10m, limits: {concurrency: 4}");
    let config = config.replace("settle: 0s", &format!("settle: 0s, waiting_max: {WAITING}"));
    let running = Running::start(&config).await;
    // All are taken before it answers the first.
    let (most, most_bytes) = sent(&running, 400).await;
    gate.add_permits(1);
    assert!(most > 10.0 && most <= WAITING as f64, "{most}");
    assert!(most_bytes > 0.0 && most_bytes <= (WAITING * 64 * 1024) as f64, "{most_bytes}");
    running.events(400).await;
    let events = running.judged().await;
    let full = events.iter().filter(|it| it.text("spanscore.evaluation.reason") == "queue_full");
    let (full, scored) = (full.count(), events.iter().filter(|it| it.score().is_some()).count());
    assert!(full > 0 && full + scored == 400, "{full} and {scored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flood_that_waits_for_a_judge_leaves_room_for_others() {
    let gate = Arc::new(Semaphore::new(0));
    let judge = FakeJudge::behind(&gate, "yes").await;
    let config = asking(&judge, "openai", ", timeout: 10m, limits: {concurrency: 1}");
    let running =
        Running::start(&config.replace("settle: 0s", "settle: 0s, waiting_max: 100")).await;
    let full = || sum(&running.exposition(), "spanscore_judge_unanswered_total", "queue_full");
    for number in 0..200 {
        running.send(request(numbered(number))).await;
    }
    eventually(|| once(full() > 0.0, || running.exposition())).await;
    let mut others = running.connect().await;
    for number in 1000..1003 {
        others.export(request(numbered(number))).await.unwrap();
    }
    gate.add_permits(1);
    let events = running.events(203).await;
    let number = |id: &[u8]| id.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let others = events.iter().filter(|it| number(&it.0.trace_id) > 1000);
    assert_eq!(others.filter(|it| it.score().is_some()).count(), 3, "all of them are asked about");
}

#[tokio::test]
async fn parameters_and_forms_that_are_refused_are_left_out_and_remembered() {
    let judge = FakeJudge::start(|asked| {
        let refuse = |text: &str| Scripted {
            status: 400,
            body: serde_json::json!({"error": {"message": text}}).to_string(),
            ..Scripted::default()
        };
        if asked.body.get("temperature").is_some() {
            return refuse("Unsupported parameter: 'temperature'");
        }
        if asked.body["response_format"]["type"] == "json_schema" {
            return refuse("response_format json_schema is not available");
        }
        if asked.body.get("tools").is_some() {
            return refuse("no tools here");
        }
        asked.answer(&["yes"])
    })
    .await;
    let running = Running::start(&asking(&judge, "openai", "")).await;
    running.send(request(refund(7))).await;
    assert_eq!(running.events(1).await[0].score(), Some(1.0));
    assert_eq!(judge.asked().len(), 4);
    let mut other = refund(8);
    other[0] = with(other[0].clone(), "session.id", "s");
    other[1].name = "refund_again".into();
    running.send(request(other)).await;
    running.events(2).await;
    let asked = judge.asked();
    assert!(asked.len() <= 5, "what was found out is not asked again");
    assert_eq!(asked.last().expect("some").body["response_format"]["type"], "json_object");
    running.judged().await;
}

#[tokio::test]
async fn a_record_that_does_not_fit_is_halved_and_few_tokens_alone_are_no_cut() {
    let judge = FakeJudge::start(|asked| match asked.count {
        0 => Scripted {
            status: 400,
            body: r#"{"error": {"code": "context_length_exceeded", "message": "x"}}"#.into(),
            ..Scripted::default()
        },
        _ => {
            let body = asked.answer(&["yes"]).body;
            let mut body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            body["usage"]["prompt_tokens"] = 7.into();
            Scripted { body: body.to_string(), ..Scripted::default() }
        }
    })
    .await;
    let running = Running::start(&asking(&judge, "openai", "")).await;
    running.send(request(refund(7))).await;
    let event = running.events(1).await.remove(0);
    assert_eq!(event.score(), Some(1.0));
    assert_eq!(judge.asked().len(), 2);
    running.judged().await;
}
