//! Judges that come, change and go while traces are judged.

use std::time::Duration;

use crate::judges::{asking, refund};
use crate::support::collector::{Event, Running};
use crate::support::fake_judge::{FakeJudge, Scripted};
use crate::support::patience::{eventually, once};
use crate::support::spans::request;

fn version(event: &Event) -> &str {
    event.text("spanscore.evaluator.version")
}

#[tokio::test]
async fn judges_and_those_who_ask_them_come_without_a_restart() {
    let (one, other) = (FakeJudge::saying("yes").await, FakeJudge::saying("no").await);
    let running = Running::start("evaluators: {tool_error: }\n").await;
    assert_eq!(running.reload(&asking(&one, "openai", "")).await, Ok(()));
    running.send(request(refund(1))).await;
    let first = running.events(1).await.remove(0);
    assert_eq!((first.trace(), first.label()), (1, "pass"));
    // Another way to the same model: the evaluator is the same.
    assert_eq!(running.reload(&asking(&other, "openai", "")).await, Ok(()));
    // What was answered before is known by the question, so this is another one.
    running.send(request(refund(2))).await;
    let second = running.events(2).await.remove(1);
    assert_eq!(version(&first), version(&second));
    // Another model: the evaluator is another.
    let model = asking(&other, "openai", "").replace("m-1", "m-2");
    assert_eq!(running.reload(&model).await, Ok(()));
    running.send(request(refund(3))).await;
    let third = running.events(3).await.remove(2);
    assert_ne!(version(&second), version(&third));
    assert_eq!((third.label(), third.text("spanscore.judge.model")), ("fail", "m-2"));
    assert_eq!(other.asked().last().unwrap().body["model"], "m-2");
    // A key that is not there is a mistake, and changes nothing.
    let bad = asking(&other, "openai", ", api_key_env: SPANSCORE_NO_SUCH_KEY");
    assert!(running.reload(&bad).await.is_err_and(|error| error.contains("NO_SUCH_KEY")));
    running.send(request(refund(4))).await;
    assert_eq!(running.events(4).await[3].label(), "fail");
    // None is left: what it was asked it has answered.
    assert_eq!(running.reload("evaluators: {tool_error: }\n").await, Ok(()));
    running.send(request(refund(5))).await;
    assert_eq!(running.events(5).await[4].name(), "tool_error");
    running.stop().await;
}

#[tokio::test]
async fn what_waits_for_a_judge_that_is_away_is_asked_by_the_new_way() {
    let alive = FakeJudge::saying("yes").await;
    let dead = FakeJudge::start(|_| Scripted { status: 503, ..Scripted::default() }).await;
    let running = Running::start(&asking(&dead, "openai", "")).await;
    for trace in 1..=10 {
        running.send(request(refund(trace))).await;
    }
    eventually(|| once(dead.asked().len() >= 5, || "it is not asked")).await;
    assert_eq!(running.reload(&asking(&alive, "openai", "")).await, Ok(()));
    let events = running.events(10).await;
    assert!(events.iter().all(|event| event.label() == "pass"), "{events:?}");
    running.stop().await;
}

#[tokio::test]
async fn fifty_changes_of_judges_under_load_lose_no_evaluation() {
    let judges = [FakeJudge::saying("yes").await, FakeJudge::saying("yes").await];
    let with = |round: usize| {
        let more = format!(", limits: {{concurrency: {}}}", 1 + round % 4);
        let config = asking(&judges[round % 2], "openai", &more);
        if round % 5 == 4 { config.replace("m-1", "m-2") } else { config }
    };
    let running = Running::start(&with(0)).await;
    let sending = async {
        for trace in 1..=200u8 {
            running.send(request(refund(trace))).await;
        }
    };
    let reloading = async {
        for round in 0..50 {
            assert_eq!(running.reload(&with(round)).await, Ok(()), "{round}");
            let bad = asking(&judges[0], "openai", ", api_key_env: SPANSCORE_NO_SUCH_KEY");
            assert!(running.reload(&bad).await.is_err(), "{round}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::join!(sending, reloading);
    let events = running.events(200).await;
    let traces: std::collections::BTreeSet<u8> = events.iter().map(Event::trace).collect();
    assert_eq!((events.len(), traces.len()), (200, 200), "each trace once");
    assert!(events.iter().all(|event| event.label() == "pass"), "{events:?}");
    let (events, unsent) = running.stop().await;
    assert_eq!((events.len(), unsent), (200, 0));
}

#[tokio::test]
async fn dead_letters_follow_the_reloaded_config() {
    let folder = tempfile::tempdir().unwrap();
    let dead = FakeJudge::start(|_| Scripted { status: 404, ..Scripted::default() }).await;
    let keeping = |choice: &str| {
        let judging = format!("judging: {{dead_letter: {choice}, ");
        let config = asking(&dead, "openai", "").replace("judging: {", &judging);
        format!("{config}data_dir: {}\n", folder.path().display())
    };
    let running = Running::start(&keeping("none")).await;
    let mut ids = Vec::new();
    for (trace, choice) in [(1, "failed"), (2, "none"), (3, "none")] {
        running.send(request(refund(trace))).await;
        let events = running.events(usize::from(trace)).await;
        ids.push(events.last().unwrap().id().to_owned());
        assert_eq!(running.reload(&keeping(choice)).await, Ok(()));
    }
    running.counted("spanscore_judge_dead_letters_total{outcome=\"written\"}", 1).await;
    running.stop().await;
    let letters = folder.path().join("dead_letters/judges.jsonl");
    let letters = std::fs::read_to_string(letters).unwrap();
    assert!(letters.lines().count() == 1 && letters.contains(&ids[1]), "{letters}");
}
