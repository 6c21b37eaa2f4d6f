//! `calibrate` on data that would fool it, and with several judges and evaluators.

use std::path::Path;

use serde_json::{Value, json};

use super::commands::run;
use crate::support::fake_judge::{FakeJudge, JudgeAsked};

/// A run whose request has this word, which judges answer by, and its label.
fn line(word: &str, items: &[&str], verdict: &str) -> String {
    let label = json!({"items": items, "verdict": verdict});
    let trajectory = json!({"user_input": format!("do it: {word}"), "final_output": "done"});
    json!({"id": word, "evaluator": "rubric", "trajectory": trajectory, "label": label}).to_string()
}

/// Says no to requests with one of these words, yes to others.
async fn refusing(words: &'static [&'static str]) -> FakeJudge {
    FakeJudge::start(move |asked: &JudgeAsked| {
        let is_no = words.iter().any(|word| asked.user().contains(word));
        let verdict = if is_no { "no" } else { "yes" };
        asked.answer(&vec![verdict; asked.statements()])
    })
    .await
}

fn config(folder: &Path, small: &FakeJudge, large: &FakeJudge) {
    let statement = "criteria: {statements: [{text: It is done.}]}";
    let two = "criteria: {statements: [{text: It is done.}, {text: It is over.}]}";
    let text = format!(
        "judges:\n  small: {}\n  large: {}\nevaluators:\n  rubric/one: {{judge: small, \
         {statement}}}\n  rubric/two: {{judge: large, {two}}}\n",
        small.settings("openai", ""),
        large.settings("openai", ""),
    );
    std::fs::write(folder.join("c.yaml"), text).unwrap();
}

/// Runs `calibrate` on these lines; returns its exit code, its records, and all that it said.
async fn check(lines: &[String], args: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    let small = refusing(&["wrong", "odd"]).await;
    let large = refusing(&["wrong"]).await;
    config(folder.path(), &small, &large);
    let data = folder.path().join("data.jsonl");
    std::fs::write(&data, lines.join("\n")).unwrap();
    let head = ["calibrate", "--data", data.to_str().unwrap(), "--format", "jsonl"];
    let (code, said) = run(folder.path(), &[&head[..], args].concat()).await;
    let records = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    (code, records, said)
}

async fn check_mistake(lines: &[String], args: &[&str], exit: i32, words: &str) {
    let (code, records, said) = check(lines, args).await;
    assert_eq!((code, records.len(), said.contains(words)), (Some(exit), 0, true), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_of_a_calibration_are_told_before_a_judge_is_asked() {
    let one = ["--evaluator", "rubric/one"];
    check_mistake(&[], &one, 1, "no labelled run of the kind `rubric` in").await;
    check_mistake(&["{".to_owned()], &one, 1, "each line is one labelled run").await;
    let good = [line("good", &["yes"], "pass")];
    let other = ["--judge", "small", "--kind", "task_completion"];
    check_mistake(&good, &other, 1, "no labelled run of the kind `task_completion`").await;
    let twice = ["--judge", "small", "--judge", "large", "--judge", "small"];
    check_mistake(&good, &twice, 64, "--judge names `small` twice").await;
    let twice = [one, one].concat();
    check_mistake(&good, &twice, 64, "--evaluator names `rubric/one` twice").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_of_one_kind_give_no_kappa_and_do_not_pass() {
    let lines = vec![line("good", &["yes"], "pass"); 10];
    let (code, records, said) = check(&lines, &["--evaluator", "rubric/one"]).await;
    let all = &records[0]["all"];
    assert_eq!(
        (code, &all["kappa"], &all["accuracy"]),
        (Some(1), &Value::Null, &json!(1.0)),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_that_do_not_fit_the_statements_are_a_mistake_with_its_line() {
    let lines = [line("good", &["yes"], "pass"), line("bad", &["yes", "no"], "fail")];
    let (code, records, said) = check(&lines, &["--evaluator", "rubric/one"]).await;
    let mistake = "line 2 (`bad`): 2 labels in `items` for 1 statements";
    assert!(code == Some(1) && records.is_empty() && said.contains(mistake), "{said}");
    let mixed = [line("good", &["yes"], "pass"), line("bad", &[], "fail")];
    let (_, records, said) = check(&mixed, &["--evaluator", "rubric/one"]).await;
    assert!(records.is_empty() && said.contains(":2: labels of statements and verdicts"), "{said}");
    let unknown = [line("good", &["yes"], "maybe")];
    let (_, _, said) = check(&unknown, &["--evaluator", "rubric/one"]).await;
    assert!(said.contains("`verdict` is `maybe`, none of pass, fail, not_evaluable"), "{said}");
}

/// `small` says no to two of eight that are labelled yes, `large` is right about all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn judges_are_measured_on_the_same_lines_and_compared() {
    let of = |word, label, verdict| vec![line(word, &[label], verdict); 4];
    let lines = [of("good", "yes", "pass"), of("wrong", "no", "fail"), of("odd", "yes", "pass")];
    let args = ["--evaluator", "rubric/one", "--judge", "small", "--judge", "large"];
    let (code, records, said) = check(&lines.concat(), &args).await;
    let names: Vec<&str> = records.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(
        (code, &*names),
        (Some(1), &["rubric/one by small", "rubric/one by large"][..]),
        "{said}"
    );
    let wrong = &records[0]["false_answers"][1];
    assert_eq!((&wrong["count"], &wrong["of"]), (&json!(4), &json!(8)), "{said}");
    // Wilson's interval of 4 of 8.
    assert!((wrong["interval"][0].as_f64().unwrap() - 0.2152).abs() < 1e-3, "{said}");
    assert!(records[0]["runs_for_width"]["runs"].as_u64().unwrap() > 12, "{said}");
    assert_eq!(records[1]["all"]["kappa"], 1.0, "{said}");
    let compared = &records[1]["compared"];
    assert_eq!(
        (&compared["runs"], &compared["evidence"]),
        (&json!(12), &json!("better")),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_of_a_rubric_are_compared_by_their_verdicts() {
    let of = |word, verdict| vec![line(word, &[], verdict); 6];
    let lines = [of("good", "pass"), of("wrong", "fail"), of("odd", "pass")].concat();
    let args = ["--evaluator", "rubric/one", "--evaluator", "rubric/two"];
    let (_, records, said) = check(&lines, &args).await;
    let accuracy: Vec<f64> =
        records.iter().filter_map(|it| it["all"]["accuracy"].as_f64()).collect();
    assert_eq!(accuracy, [12.0 / 18.0, 1.0], "{said}");
    assert_eq!(records[1]["compared"]["with"], "rubric/one", "{said}");
    assert_eq!(records[0]["false_answers"][1]["judge"], "fail", "{said}");
}
