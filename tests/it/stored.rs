//! The store from end to end: a collector writes it, the commands read it.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::fake_backend::FakeBackend;
use crate::support::program::Program;
use crate::support::spans::{agent, request, searches, tool, with};

const EVALUATORS: &str = "
traces: {quiet_period: 100ms, idle_timeout: 1s}
evaluators: {tool_error/each: {level: call}, tool_efficiency: }
";

/// Runs a command of the program on the config in the folder.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .args(arguments)
        .arg("--config")
        .arg(folder.join("spanscore.yaml"))
        .env_remove("SPANSCORE_CONFIG")
        .output()
        .expect("it runs")
}

/// Standard output of a command that succeeds.
fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).expect("text")
}

fn config(folder: &Path) -> String {
    format!("data_dir: {:?}{EVALUATORS}", folder.join("data"))
}

#[tokio::test]
async fn runs_are_listed_counted_and_shown_while_the_collector_runs_and_after() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let program = Program::start(place, &config(place));
    let mut client = program.client().await;
    let secret = r#"{"to": "jane@acme-post.net", "q": "=1+1"}"#;
    let call = with(tool(10, 2, "=search"), "input.value", secret);
    client.export(request(vec![agent(10), call])).await.unwrap();
    client.export(request(searches(11, &[2, 3]))).await.unwrap();
    // A run without a call has no evaluation of one.
    client.export(request(vec![agent(12)])).await.unwrap();
    let is_written = |page: &crate::support::sums::Page| {
        page.sum("store_written_total", "trajectories") == 3
            && page.sum("store_written_total", "evaluations") >= 5
    };
    program.page_when(is_written).await;
    let listed = printed(place, &["scores", "--where", "evaluator=tool_error/each"]);
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert!(listed.contains("0a0a0a0a"), "{listed}");
    let shown = printed(place, &["show", "0a0a"]);
    assert!(shown.contains("1 =search") && shown.contains("[EMAIL_1]"), "{shown}");
    assert!(!shown.contains("jane@") && shown.contains("tool_error/each"), "{shown}");
    program.signal("-TERM");
    assert_eq!(program.end().0, Some(0));
    let groups = ["scores", "--group-by", "evaluator,service", "--format", "jsonl"];
    let groups = printed(place, &groups);
    let each = r#""evaluator":"tool_error/each","service":"shop","count":3,"pass":3,"fail":0"#;
    assert!(groups.contains(each), "{groups}");
    let cells = printed(place, &["scores", "--where", "tool==search", "--format", "csv"]);
    assert!(cells.starts_with("time,trace_id,") && cells.contains("\"'=search\""), "{cells}");
    let worst = printed(place, &["scores", "--worst", "2", "--format", "jsonl"]);
    assert_eq!(worst.lines().count(), 2, "{worst}");
    let alone = printed(place, &["show", "0c0c0c"]);
    assert!(alone.contains("0 calls"), "{alone}");
}

#[test]
fn questions_that_cannot_be_answered_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let check = |config: &str, arguments: &[&str], code: i32, words: &str| {
        std::fs::write(place.join("spanscore.yaml"), config).unwrap();
        let output = run(place, arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(words), "{told}");
    };
    check("", &["scores"], 64, "has no `data_dir`");
    check("store: false", &["scores"], 64, "name a file with --store");
    check("", &["scores", "--store", "/nowhere/scores.db"], 1, "there is no store at");
    check("", &["scores", "--since", "soon"], 64, "`soon` is no time");
    check("", &["scores", "--group-by", "evaluatr"], 64, "did you mean `evaluator`?");
    check("", &["scores", "--where", "label"], 64, "write it as FIELD=VALUE");
    check("store: {contents: none}", &["scores"], 78, "did you mean `content`?");
}

/// Mounts a file system of 64 KiB at the first argument, and runs the rest.
const ON_A_SMALL_DISK: &str = r#"mount -t tmpfs -o size=64k tmpfs "$1"; shift; exec "$@""#;

#[tokio::test]
async fn full_disk_stops_the_store_and_not_the_collector() {
    let tried = Command::new("unshare").args(["-rm", "sh", "-c", "mount -t tmpfs t /mnt"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let backend = FakeBackend::grpc().await;
    let (path, address) = (disk.join("scores.db"), backend.address);
    let config = format!(
        "{}store: {{path: {path:?}}}
exporters: {{otlp_grpc/backend: {{endpoint: \"http://{address}\", forms: [event]}}}}
",
        config(folder.path())
    );
    let disk = disk.to_str().unwrap();
    let by = ["unshare", "-rm", "sh", "-c", ON_A_SMALL_DISK, "sh", disk];
    let mut program = Program::start_by(&by, folder.path(), &config);
    let mut client = program.client().await;
    client.export(request(searches(11, &[2, 3]))).await.unwrap();
    backend.until(|backend| backend.log_records().len() >= 3).await;
    assert_eq!(program.page().await.sum("store_working", ""), 0);
    program.says("the store cannot be written");
}
