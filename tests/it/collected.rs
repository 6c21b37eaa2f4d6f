//! Verdicts of another process, exported over OTLP, in the store of this one.

use std::path::Path;
use std::process::Command;

use crate::support::program::Program;
use crate::support::spans::{agent, request, tool, with};

const JUDGING: &str = "
traces: {quiet_period: 100ms, idle_timeout: 1s}
evaluators: {tool_error/each: {level: call}, tool_efficiency: }
dashboard: {endpoint: \"127.0.0.1:0\"}
";

/// Config of a process that collects what `scorer` says, and nothing of others.
fn collecting(folder: &Path) -> String {
    let receivers = r#"receivers:
  otlp:
    protocols: {grpc: {endpoint: "127.0.0.1:0"}}
    auth: {clients: {scorer: {token: token-1}, agents: {token: token-2}}}
"#;
    let data = folder.join("data");
    let store =
        "store: {accept_evaluations: [scorer], trace_url: 'https://traces.example.org/{trace_id}'}";
    format!("{receivers}data_dir: {data:?}\n{store}{JUDGING}")
}

/// Config of a process that judges, and exports to the other by a token.
fn judging(to: &str, token: &str) -> String {
    format!(
        "\nstore: false\nexporters: {{otlp_grpc: {{endpoint: \"http://{to}\", headers: \
          {{authorization: Bearer {token}}}}}}}{}",
        JUDGING.replace("dashboard: {endpoint: \"127.0.0.1:0\"}", "dashboard: false")
    )
}

fn printed(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    command.args(arguments).arg("--config").arg(folder.join("spanscore.yaml"));
    let output = command.env_remove("SPANSCORE_CONFIG").output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test]
async fn verdicts_of_a_named_client_are_stored_and_of_no_other() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [near, far] = folders.each_ref().map(|folder| folder.path());
    let collector = Program::start(near, &collecting(near));
    for (token, trace) in [("token-2", 20), ("token-1", 10)] {
        let scorer = Program::start(far, &judging(collector.grpc_address(), token));
        let call = with(tool(trace, 2, "search"), "output.value", "found");
        let spans = request(vec![agent(trace), call]);
        scorer.client().await.export(spans).await.unwrap();
        let has_sent = |page: &crate::support::sums::Page| {
            page.sum("exporter_sent_evaluations_total", "") >= 2
        };
        scorer.page_when(has_sent).await;
        scorer.signal("-TERM");
        assert_eq!(scorer.end().0, Some(0));
    }
    let is_stored = |page: &crate::support::sums::Page| {
        page.sum("store_collected_total", "what=\"stored\"") == 2
    };
    collector.page_when(is_stored).await;
    let shown = printed(near, &["show", "0a0a"]);
    assert!(shown.contains("its run is at another process"), "{shown}");
    assert!(shown.contains("https://traces.example.org/0a0a0a0a"), "{shown}");
    assert!(shown.contains("2 evaluations") && shown.contains("by scorer"), "{shown}");
    let listed = printed(near, &["scores", "--format", "jsonl"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.lines().all(|line| line.contains(r#""client":"scorer""#)), "{listed}");
}

#[test]
fn clients_that_nobody_knows_are_refused_with_their_place() {
    let check = |receivers: &str, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spanscore.yaml");
        std::fs::write(&path, format!("{receivers}store: {{accept_evaluations: [scorer]}}\n"))
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
        let output = command.args(["check", "--config"]).arg(&path).output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), expected.is_empty(), "{told}");
        assert!(told.contains(expected), "{told}");
    };
    let auth = |name: &str| {
        let clients = format!("clients: {{{name}: {{token: t}}}}");
        format!("receivers: {{otlp: {{protocols: {{grpc: }}, auth: {{{clients}}}}}}}\n")
    };
    check("", "names `scorer`, which is no client of `receivers.otlp.auth`");
    check(&auth("other"), "spanscore.yaml:2:");
    check(&auth("scorer"), "");
}
