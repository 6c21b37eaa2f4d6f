//! Judges on the command line: `score` and `calibrate`, with replies recorded and replayed.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::asking;
use crate::support::fake_judge::{FakeJudge, JudgeAsked, Scripted};

pub(super) async fn run(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    command.args(args).args(["--config", folder.join("c.yaml").to_str().unwrap()]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("SPANSCORE_CONFIG");
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = [stdout, stderr].concat();
    (status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_replies_make_a_judged_gate_free_and_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let judge = FakeJudge::saying("yes").await;
    std::fs::write(folder.path().join("c.yaml"), asking(&judge, "openai", "")).unwrap();
    let replies = folder.path().join("replies").to_str().unwrap().to_owned();
    let trace = "examples/traces/refund_agent.json";
    let (code, first) = run(folder.path(), &["score", "--record", &replies, trace]).await;
    assert!(code == Some(0) && first.contains("1.000"), "{code:?} {first}");
    let asked = judge.asked().len();
    assert!(asked > 0);
    let (code, second) = run(folder.path(), &["score", "--replay", &replies, trace]).await;
    assert_eq!((code, second == first, judge.asked().len()), (Some(0), true, asked), "{second}");
    let other = "examples/traces/weather_agent.json";
    let (code, said) = run(folder.path(), &["score", "--replay", &replies, other]).await;
    assert!(code == Some(2) && said.contains("judge_reply_not_recorded"), "{said}");
}

/// Two judges of one model name at other addresses, of which the second says no.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn judges_at_other_addresses_keep_their_own_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let judges = [FakeJudge::saying("yes").await, FakeJudge::saying("no").await];
    let write = |names: &[&str]| {
        let line = |(name, judge): (&&str, &FakeJudge)| {
            format!("  {name}: {}\n", judge.settings("openai", ""))
        };
        let asking = |name: &&str| {
            format!("  task_completion/{name}: {{judge: {name}, criteria: {{tasks: [t]}}}}\n")
        };
        let own: String = names.iter().zip(&judges).map(line).collect();
        let evaluators: String = names.iter().map(asking).collect();
        let text = format!("judges:\n{own}evaluators:\n{evaluators}");
        std::fs::write(folder.path().join("c.yaml"), text).unwrap();
    };
    let replies = folder.path().join("replies").to_str().unwrap().to_owned();
    let score = async |how: &str| {
        let trace = "examples/traces/refund_agent.json";
        let args = ["score", how, &replies, "--format", "jsonl", trace];
        let (_, said) = run(folder.path(), &args).await;
        let rows = said.lines().filter(|line| line.contains("\"evaluation_id\""));
        let score = |line: &str| serde_json::from_str::<Value>(line).unwrap()["score"].as_f64();
        rows.map(score).collect::<Vec<_>>()
    };
    write(&["first"]);
    assert_eq!(score("--record").await, [Some(1.0)]);
    write(&["first", "second"]);
    assert_eq!(score("--replay").await, [Some(1.0), None], "the second was never asked");
    // As earlier versions recorded: nobody knows whose reply it is.
    for file in std::fs::read_dir(&replies).unwrap() {
        let file = file.unwrap().path();
        let mut reply: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert!(reply.as_object_mut().unwrap().remove("place").is_some());
        std::fs::write(&file, reply.to_string()).unwrap();
    }
    assert_eq!(score("--replay").await, [Some(1.0), Some(1.0)]);
    assert_eq!(score("--record").await, [Some(1.0), Some(0.0)]);
    assert_eq!(score("--replay").await, [Some(1.0), Some(0.0)]);
}

const DATA: &str = "tests/fixtures/judges/calibration.jsonl";

/// Answers with the labels of the line whose record this is, by the words of its reason; some are
/// turned.
fn labels() -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(DATA)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_judge_that_always_says_yes_fails_the_gate_and_one_that_is_right_passes() {
    let folder = tempfile::tempdir().unwrap();
    let judge = FakeJudge::saying("yes").await;
    let more = ", price: {input: 1, output: 1}, limits: {requests_per_minute: 100000,
        tokens_per_minute: 100000000}";
    std::fs::write(folder.path().join("c.yaml"), asking(&judge, "openai", more)).unwrap();
    let args = ["calibrate", "--data", DATA, "--judge", "small", "--format", "jsonl"];
    let (code, said) = run(folder.path(), &args).await;
    assert_eq!(code, Some(1), "{said}");
    let record: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(record["runs"], labels().len(), "{said}");
    assert_eq!(record["failed"], 0, "{said}");
    let kappa = record["all"]["kappa"].as_f64().unwrap();
    let interval = &record["kappa_interval"];
    assert!(kappa < 0.6 && interval[0].as_f64().unwrap() <= kappa, "{said}");
    assert!(record["cost_usd"].as_f64().unwrap() > 0.0, "{said}");
    let (code, said) = run(folder.path(), &["calibrate", "--data", DATA, "--judge", "smal"]).await;
    assert!(code == Some(64) && said.contains("did you mean `small`?"), "{said}");
}

/// The label's criteria, and all else as the config has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evaluator_of_the_config_is_measured_as_it_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let judge = FakeJudge::saying("yes").await;
    let config = asking(&judge, "openai", "").replace(
        "judge: small,",
        "judge: small, threshold: 0.99, send: {user_input: full, results: names_only}, \
         samples: {min: 2, max: 2},",
    );
    std::fs::write(folder.path().join("c.yaml"), config).unwrap();
    let args = ["calibrate", "--data", DATA, "--format", "jsonl", "--evaluator"];
    let with = |name: &'static str| [&args[..], &[name]].concat();
    let (_, said) = run(folder.path(), &with("task_completion/shop")).await;
    let record: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    let lines = labels().into_iter().filter(|line| line["evaluator"] == "task_completion");
    assert_eq!(record["runs"], lines.count(), "{said}");
    assert_eq!(record["judge"], "small");
    let asked = judge.asked();
    let results = |user: &str| {
        let results = user.lines().filter(|line| line.contains(r#""kind":"result""#));
        results.map(|line| line.contains(r#""unknown":true"#)).collect::<Vec<_>>()
    };
    let results: Vec<bool> = asked.iter().flat_map(|one| results(&one.user())).collect();
    assert!(!results.is_empty() && results.iter().all(|is_kept_back| *is_kept_back));
    assert_eq!(asked.len(), 2 * record["asked"].as_u64().unwrap() as usize, "two votes each");
    let (code, said) = run(folder.path(), &with("task_completion/shp")).await;
    assert!(code == Some(64) && said.contains("did you mean `task_completion/shop`?"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_judge_that_fails_is_no_low_kappa() {
    let folder = tempfile::tempdir().unwrap();
    let broken = |_: &JudgeAsked| Scripted { status: 404, ..Scripted::default() };
    let judge = FakeJudge::start(broken).await;
    std::fs::write(folder.path().join("c.yaml"), asking(&judge, "openai", "")).unwrap();
    let args = ["calibrate", "--data", DATA, "--judge", "small", "--kind", "task_completion"];
    let (code, said) = run(folder.path(), &args).await;
    assert!(code == Some(1) && said.contains("no statement was answered"), "{said}");
}
