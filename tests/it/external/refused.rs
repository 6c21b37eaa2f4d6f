//! A config that an evaluator refuses while the collector runs.

use std::path::Path;

use serde_json::Value;
use spanscore_evaluate::external::proto::ServedKind;

use super::server::{FakeEvaluator, Script, Scripted, all, described, kind};
use crate::judges::refund;
use crate::support::program::Program;
use crate::support::spans::request;
use crate::support::sums::Page;

/// A server that takes German and English.
async fn polyglot() -> FakeEvaluator {
    let settings_schema = r#"{"type": "object", "additionalProperties": false,
        "properties": {"language": {"enum": ["de", "en"]}}}"#;
    let mut script = Script::answering(|asked, _| Scripted::now(&all(asked, 1.0)));
    script.describe = Box::new(move || {
        let settings_schema = settings_schema.to_owned();
        Ok(described(vec![ServedKind { settings_schema, ..kind() }]))
    });
    FakeEvaluator::start(script).await
}

/// Language and trace of each task that was sent.
fn sent(server: &FakeEvaluator) -> Vec<(String, String)> {
    let requests = server.requests().into_iter();
    let tasks = requests.flat_map(|(asked, _)| {
        let settings: Value = serde_json::from_str(&asked.settings_json).expect("JSON");
        let language = settings["language"].as_str().expect("a language").to_owned();
        let traces = asked.tasks.into_iter().flat_map(|task| task.trajectories);
        traces.map(|it| (language.clone(), it.trace_id)).collect::<Vec<_>>()
    });
    tasks.collect()
}

fn rewrite(folder: &Path, from: &str, to: &str) {
    let file = folder.join("spanscore.yaml");
    let config = std::fs::read_to_string(&file).expect("a config");
    std::fs::write(&file, config.replace(from, to)).expect("it is written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_evaluator_refuses_is_told_with_its_place_and_the_config_before_goes_on() {
    let server = polyglot().await;
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "judging: {{settle: 0s}}
traces: {{quiet_period: 20ms}}
evaluators:
  grpc/quality:
    endpoint: http://{}
    redact: none
    settings:
      language: de
",
        server.address
    );
    let mut program = Program::start(folder.path(), &config);
    let mut client = program.client().await;
    let evaluated =
        |count: u64| move |page: &Page| page.sum("external_requests_total", "answered") >= count;
    client.export(request(refund(1))).await.expect("it is taken");
    program.page_when(evaluated(1)).await;

    rewrite(folder.path(), "language: de", "language: fr");
    program.signal("-HUP");
    // The base of the program's config stands before: two lines of it.
    let at = 2 + 8;
    program.says(&format!("spanscore.yaml:{at}:17: `grpc/quality`: it does not take"));
    assert_eq!(program.page().await.sum("config_reloads_total", "refused"), 1);
    client.export(request(refund(2))).await.expect("it is taken");
    program.page_when(evaluated(2)).await;

    rewrite(folder.path(), "language: fr", "language: en");
    program.signal("-HUP");
    program.says("the config was read again, and is in use");
    client.export(request(refund(3))).await.expect("it is taken");
    program.page_when(evaluated(3)).await;
    let expected = [("de", 1), ("de", 2), ("en", 3)]
        .map(|(language, trace)| (language.to_owned(), format!("{trace:02x}").repeat(16)));
    assert_eq!(sent(&server), expected);
    program.signal("-TERM");
    let (code, _) = tokio::task::spawn_blocking(|| program.end()).await.expect("it ends");
    assert_eq!(code, Some(0));
}
