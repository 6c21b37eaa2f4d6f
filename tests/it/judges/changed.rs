//! Verdicts that a change of their evaluator touches, given again.

use std::path::Path;

use prost::Message;
use serde_json::Value;

use super::crash::{config, numbered};
use crate::support::fake_backend::FakeBackend;
use crate::support::fake_judge::{FakeJudge, Scripted};
use crate::support::program::Program;
use crate::support::ran::{Ended, ended, program};
use crate::support::spans::request;

/// A judge that holds tasks of gold undone, and asks a dollar for each thousand tokens of output.
async fn strict_judge() -> FakeJudge {
    FakeJudge::start(|asked| {
        let verdict = if asked.user().contains("gold") { "no" } else { "yes" };
        let mut answer: Value = serde_json::from_str(&asked.answer(&[verdict]).body).unwrap();
        answer["usage"]["completion_tokens"] = 1_000.into();
        Scripted { body: answer.to_string(), ..Scripted::default() }
    })
    .await
}

fn evaluators(judge: &FakeJudge, task: &str) -> String {
    let judge = judge.settings(
        "openai",
        ", max_tokens: 1000, price: {input: 0, output: 1000},
    limits: {requests_per_minute: 1000000, tokens_per_minute: 1000000000}",
    );
    format!(
        "judges: {{small: {judge}}}
evaluators:
  task_completion/shop: {{judge: small, criteria: {{tasks: [{task}]}}}}
  goal_accuracy/all: {{judge: small}}
"
    )
}

fn record(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

async fn run(folder: &Path, args: &[&str]) -> Ended {
    let mut command = program(args);
    command.current_dir(folder);
    tokio::task::spawn_blocking(move || ended(command)).await.unwrap()
}

/// A folder with recordings of so many traces, two configs, and the scores by the first.
async fn scored(judge: &FakeJudge, traces: u64) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let spans: Vec<_> = (0..traces).flat_map(numbered).collect();
    std::fs::write(folder.path().join("traces.pb"), request(spans).encode_to_vec()).unwrap();
    for (name, task) in [("old.yaml", "Refund"), ("new.yaml", "Refund in gold")] {
        std::fs::write(folder.path().join(name), evaluators(judge, task)).unwrap();
    }
    let args = ["score", "--config", "old.yaml", "--format", "jsonl", "traces.pb"];
    let scores = run(folder.path(), &args).await.out;
    std::fs::write(folder.path().join("scores.jsonl"), &scores).unwrap();
    (folder, scores)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_a_change_touches_is_asked_again_and_the_cost_is_told_before() {
    let judge = strict_judge().await;
    let (folder, scores) = scored(&judge, 2).await;
    let before = judge.asked().len();
    assert_eq!((before, scores.lines().count()), (4, 4), "{scores}");
    let args = ["rejudge", "--changed", "--from", "scores.jsonl", "traces.pb", "--config"];
    let changed = |more: &[&'static str]| [&args[..], more].concat();

    let none = run(folder.path(), &changed(&["old.yaml"])).await;
    assert!(none.code == 0 && none.err.contains("no verdict is touched"), "{}", none.err);
    let dry = run(folder.path(), &changed(&["new.yaml", "--dry-run"])).await;
    let told = "2 evaluations of task_completion/shop are touched: 2 requests, some";
    assert!(dry.code == 0 && dry.err.contains(told), "{}", dry.err);
    assert!(dry.err.contains("USD 0.0000 to 2.0000"), "{}", dry.err);
    assert_eq!((judge.asked().len(), &*dry.out), (before, ""));

    let new = run(folder.path(), &changed(&["new.yaml"])).await;
    let told = "2 evaluations are answered anew for USD 2.0000, 0 have no answer, 2 are unchanged";
    assert!(new.code == 0 && new.err.contains(told), "{}", new.err);
    assert!(new.err.contains("100% of 2") && new.err.contains("0% of 2"), "{}", new.err);
    assert_eq!(judge.asked().len(), before + 2);
    for line in new.out.lines().map(record) {
        let of = |it: &Value| [it["trace_id"].clone(), it["evaluator"].clone()];
        let old = scores.lines().map(record).find(|it| of(it) == of(&line)).unwrap();
        assert_eq!((&line["revises"], &line["revision"]), (&old["evaluation_id"], &1.into()));
        assert_eq!((&line["label"], &old["label"]), (&"fail".into(), &"pass".into()));
    }
    std::fs::write(folder.path().join("new.jsonl"), &new.out).unwrap();
    let again = run(folder.path(), &changed(&["new.yaml", "--from", "new.jsonl"])).await;
    assert!(again.err.contains("no verdict is touched"), "{}", again.err);
    let model =
        run(folder.path(), &changed(&["old.yaml", "--set", "judges.small.model=m-2"])).await;
    assert!(model.err.contains("4 evaluations are answered anew"), "{}", model.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_in_the_files_or_cannot_be_read_is_told_once_and_fails() {
    let judge = strict_judge().await;
    let (folder, _) = scored(&judge, 2).await;
    let other = request(numbered(7)).encode_to_vec();
    std::fs::write(folder.path().join("other.pb"), other).unwrap();
    std::fs::write(folder.path().join("broken.json"), "{\"resourceSpans\": [").unwrap();
    let before = judge.asked().len();
    let args = ["rejudge", "--changed", "--from", "scores.jsonl", "--config", "new.yaml"];
    let missing = run(folder.path(), &[&args[..], &["other.pb"]].concat()).await;
    let told = "2 evaluations that are or may be touched cannot be given again";
    assert!(missing.code == 1 && missing.err.contains(told), "{}", missing.err);
    assert!(missing.err.contains("its trace is missing"), "{}", missing.err);
    assert!(!missing.err.contains("no verdict is touched"), "{}", missing.err);
    let broken = ["traces.pb", "broken.json"];
    let dry = run(folder.path(), &[&args[..], &broken, &["--dry-run"]].concat()).await;
    assert!(dry.code == 1 && dry.err.contains("2 evaluations of"), "{}", dry.err);
    assert_eq!(judge.asked().len(), before);
    let all = run(folder.path(), &[&args[..], &broken].concat()).await;
    assert!(all.code == 1 && all.err.contains("answered anew"), "{}", all.err);
    let told = all.err.lines().filter(|line| line.contains("broken.json"));
    assert_eq!(told.count(), 1, "{}", all.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdicts_of_several_clients_on_one_trace_are_never_taken_for_each_other() {
    let judge = strict_judge().await;
    let (folder, scores) = scored(&judge, 2).await;
    let of_group = |line: &str| {
        let group = format!(r#","client_group":"{}","session_id""#, "1".repeat(16));
        line.replacen(r#","session_id""#, &group, 1) + "\n"
    };
    let of_shop = |line: &&str| line.contains("task_completion/shop");
    let first = of_group(scores.lines().find(of_shop).unwrap());
    std::fs::write(folder.path().join("both.jsonl"), scores.clone() + &first).unwrap();
    let grouped: String = scores.lines().map(of_group).collect();
    std::fs::write(folder.path().join("grouped.jsonl"), grouped).unwrap();
    let args = ["rejudge", "--changed", "--config", "new.yaml", "traces.pb", "--from"];
    let both = run(folder.path(), &[&args[..], &["both.jsonl"]].concat()).await;
    assert!(both.code == 1 && both.err.contains("several groups of clients"), "{}", both.err);
    assert!(both.err.contains("1 evaluations are answered anew"), "{}", both.err);
    let grouped = run(folder.path(), &[&args[..], &["grouped.jsonl"]].concat()).await;
    let records: Vec<_> = grouped.out.lines().map(record).collect();
    assert!(grouped.code == 0 && records.len() == 2, "{}", grouped.err);
    assert!(records.iter().all(|it| it["client_group"] == "1".repeat(16)), "{}", grouped.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_budget_leaves_out_is_asked_by_the_next_run() {
    let judge = strict_judge().await;
    let (folder, _) = scored(&judge, 5).await;
    let before = judge.asked().len();
    let args = ["rejudge", "--changed", "--config", "new.yaml", "traces.pb", "--from"];
    let budget = ["scores.jsonl", "--budget", "3"];
    let first = run(folder.path(), &[&args[..], &budget].concat()).await;
    let told = "3 evaluations are answered anew for USD 3.0000, 2 have no answer";
    assert!(first.code == 1 && first.err.contains(told), "{}", first.err);
    assert!(first.err.contains("--budget 3 may not suffice"), "{}", first.err);
    assert_eq!(judge.asked().len(), before + 3);
    std::fs::write(folder.path().join("first.jsonl"), &first.out).unwrap();
    let more = ["scores.jsonl", "--from", "first.jsonl"];
    let second = run(folder.path(), &[&args[..], &more].concat()).await;
    assert!(
        second.code == 0 && second.err.contains("2 evaluations are answered"),
        "{}",
        second.err
    );
    let free = ["scores.jsonl", "--budget", "1", "--set", "judges.small.price=null"];
    let free = run(folder.path(), &[&args[..], &free].concat()).await;
    assert!(free.code == 64 && free.err.contains("has no `price`"), "{}", free.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_the_store_are_judged_again_on_what_is_stored_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let judge = strict_judge().await;
    let backend = FakeBackend::grpc().await;
    let old = config(&judge, &backend, folder.path());
    let program = Program::start(folder.path(), &old);
    let spans: Vec<_> = (0..2).flat_map(numbered).collect();
    program.client().await.export(request(spans)).await.unwrap();
    backend.until(|backend| backend.log_count() >= 2).await;
    program.signal("-TERM");
    tokio::task::spawn_blocking(|| program.end()).await.unwrap();
    let before = judge.asked().len();
    std::fs::write(folder.path().join("old.yaml"), &old).unwrap();
    let new = old.replace("tasks: [Refund order 17]", "tasks: [Refund order 17 in gold]");
    std::fs::write(folder.path().join("new.yaml"), new).unwrap();
    let none = run(folder.path(), &["rejudge", "--changed", "--config", "old.yaml"]).await;
    assert!(none.err.contains("no verdict is touched"), "{}", none.err);
    let new = run(folder.path(), &["rejudge", "--changed", "--config", "new.yaml"]).await;
    assert!(new.err.contains("2 evaluations are answered anew"), "{}", new.err);
    assert_eq!(judge.asked().len(), before + 2);
    let facts =
        |line: Value| (line["label"].clone(), line["partial"].clone(), line["revision"].clone());
    let expected = ("fail".into(), true.into(), 1.into());
    assert!(new.out.lines().all(|line| facts(record(line)) == expected), "{}", new.out);
    let user = judge.asked().last().unwrap().user();
    assert!(user.contains("Refund order 17 for") && user.contains("refunded"), "{user}");
    let one = new.out.lines().next().unwrap();
    std::fs::write(folder.path().join("one.jsonl"), format!("{one}\n")).unwrap();
    let from = ["rejudge", "--changed", "--from", "one.jsonl", "--config", "new.yaml"];
    let from = run(folder.path(), &from).await;
    assert!(from.code == 0 && from.err.contains("no verdict is touched"), "{}", from.err);
    assert_eq!(judge.asked().len(), before + 2, "the verdicts of the file alone");
    let other = ["rejudge", "--changed", "--config", "new.yaml", "--where", "service=nobody"];
    let other = run(folder.path(), &other).await;
    assert!(other.err.contains("no earlier verdict"), "{}", other.err);
}
