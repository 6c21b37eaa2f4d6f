//! `calibrate --store`: verdicts of people on the pages as labels.

use serde_json::{Value, json};

use super::asking;
use super::commands::run;
use crate::support::fake_judge::{FakeJudge, JudgeAsked};
use crate::support::program::Program;
use crate::support::spans::{agent, request, tool, with};
use crate::support::web_client;

const TOKEN: &str = "0123456789abcdef";

/// Judge that finds nothing done where the request has this word.
async fn refusing(word: &'static str) -> FakeJudge {
    FakeJudge::start(move |asked: &JudgeAsked| {
        let verdict = if asked.user().contains(word) { "no" } else { "yes" };
        asked.answer(&vec![verdict; asked.statements()])
    })
    .await
}

/// Request and answer of one person, or their refusal.
async fn asked(program: &Program, path: &str, body: Option<Value>) -> Value {
    let interface = program.interface.as_deref().expect("an interface");
    let client = web_client().build().expect("a client");
    let address = format!("{interface}{path}");
    let sent = match body {
        None => client.get(address),
        Some(body) => client.post(address).body(body.to_string()),
    };
    let sent = sent.bearer_auth(TOKEN).header("content-type", "application/json");
    let answer = sent.send().await.expect("it answers");
    serde_json::from_str(&answer.text().await.expect("a text")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdicts_of_people_are_the_labels_that_a_judge_is_measured_by() {
    let folder = tempfile::tempdir().unwrap();
    let judge = refusing("sprocket").await;
    let data = folder.path().join("data");
    let config = format!(
        "{}data_dir: {data:?}\nstore: {{content: full}}\ntraces: {{quiet_period: 100ms}}\n\
         dashboard: {{endpoint: \"127.0.0.1:0\", token: {TOKEN}}}\n",
        asking(&judge, "openai", "")
    );
    let program = Program::start(folder.path(), &config);
    let mut client = program.client().await;
    // People find all but the first well done, and differ on the last.
    for (id, word) in [(1, "sprocket"), (2, "good"), (3, "sprocket"), (4, "good"), (5, "good")] {
        let root = with(agent(id), "input.value", &format!("Refund order 17, {word}"));
        let root = with(root, "output.value", "Order 17 is refunded");
        client.export(request(vec![root, tool(id, 2, "issue_refund")])).await.unwrap();
    }
    program.page_when(|page| page.sum("store_written_total", "evaluations") == 5).await;
    for id in 1_u8..=5 {
        let trace_id = format!("{id:02x}").repeat(16);
        let run = asked(&program, &format!("/traces/{trace_id}"), None).await;
        let evaluation_id = &run["evaluations"][0]["evaluation_id"];
        let label = |author: &str, label: &str| {
            json!({"trace_id": trace_id, "evaluation_id": evaluation_id, "label": label,
                "author": author})
        };
        let said = if id == 1 { "fail" } else { "pass" };
        asked(&program, "/annotations", Some(label("ann", said))).await;
        if id == 5 {
            asked(&program, "/annotations", Some(label("bob", "fail"))).await;
        }
    }
    program.signal("-TERM");
    assert_eq!(program.end().0, Some(0));
    std::fs::write(folder.path().join("c.yaml"), asking(&judge, "openai", "")).unwrap();
    let store = data.join("scores.db");
    let args = ["calibrate", "--store", store.to_str().unwrap(), "--format", "jsonl"];
    let with = |name| [&args[..], &["--evaluator", name]].concat();
    let (_, said) = run(folder.path(), &with("task_completion/shop")).await;
    let record: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap_or_default();
    assert_eq!(record["runs"], 4, "{said}");
    // Of four runs the judge says what people said of three.
    assert_eq!(record["all"]["accuracy"], json!(0.75), "{said}");
    assert!(said.contains("1 labelled runs are left out: as many people say pass"), "{said}");
    let (code, said) = run(folder.path(), &args).await;
    assert!(code == Some(64) && said.contains("--evaluator"), "{said}");
}

/// Runs of one session, and a run alone, with an evaluator of calls and one of sessions.
const CALLS_AND_SESSIONS: &str = "
  tool_response_handling/shop: {judge: small}
  task_completion/chat: {judge: small, level: session, criteria: {tasks: [Refund order 17]}}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdicts_of_people_on_calls_and_sessions_are_labels_too() {
    let folder = tempfile::tempdir().unwrap();
    let judge = refusing("sprocket").await;
    let data = folder.path().join("data");
    let evaluators = asking(&judge, "openai", "") + CALLS_AND_SESSIONS;
    let config = format!(
        "{evaluators}data_dir: {data:?}\nstore: {{content: full}}\n\
         traces: {{quiet_period: 100ms}}\nsessions: {{idle_timeout: 1s}}\n\
         dashboard: {{endpoint: \"127.0.0.1:0\", token: {TOKEN}}}\n"
    );
    let program = Program::start(folder.path(), &config);
    let mut client = program.client().await;
    for (id, word) in [(1, "sprocket"), (2, "good"), (3, "good")] {
        let root = with(agent(id), "input.value", &format!("Refund order 17, {word}"));
        let root = with(root, "output.value", "Order 17 is refunded");
        let root = with(root, "session.id", if id == 3 { "b" } else { "a" });
        let call = with(tool(id, 2, "issue_refund"), "output.value", "refunded");
        client.export(request(vec![root, call])).await.unwrap();
    }
    // Of each run two and one of its call, and two sessions.
    program.page_when(|page| page.sum("store_written_total", "evaluations") == 11).await;
    for (evaluator, level) in
        [("tool_response_handling/shop", "call"), ("task_completion/chat", "session")]
    {
        let path = format!("/evaluations?evaluator={evaluator}&level={level}");
        for it in asked(&program, &path, None).await["items"].as_array().unwrap() {
            let is_third = it["trace_id"].as_str().unwrap().starts_with("03");
            let body = json!({"trace_id": it["trace_id"], "evaluation_id": it["evaluation_id"],
                "label": if is_third { "fail" } else { "pass" }, "author": "ann"});
            asked(&program, "/annotations", Some(body)).await;
        }
    }
    program.signal("-TERM");
    assert_eq!(program.end().0, Some(0));
    std::fs::write(folder.path().join("c.yaml"), evaluators).unwrap();
    let store = data.join("scores.db");
    // The judge refuses the first run, and the session that begins with it; people the third run.
    for (evaluator, runs, accuracy) in
        [("tool_response_handling/shop", 3, 1.0 / 3.0), ("task_completion/chat", 2, 0.0)]
    {
        let args = ["calibrate", "--store", store.to_str().unwrap(), "--format", "jsonl"];
        let (_, said) =
            run(folder.path(), &[&args[..], &["--evaluator", evaluator]].concat()).await;
        let record: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap_or_default();
        assert_eq!((&record["runs"], &record["verdicts"]), (&runs.into(), &runs.into()), "{said}");
        assert_eq!(record["all"]["accuracy"], json!(accuracy), "{said}");
    }
}
