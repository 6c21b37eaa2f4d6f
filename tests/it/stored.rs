//! The store from end to end: a collector writes it, the commands read it.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

use crate::support::fake_backend::FakeBackend;
use crate::support::program::Program;
use crate::support::spans::{agent, request, searches, tool, with};

const EVALUATORS: &str = "
traces: {quiet_period: 100ms, idle_timeout: 1s}
evaluators: {tool_error/each: {level: call}, tool_efficiency: }
";

/// Runs a command of the program on the config in the folder.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("it runs")
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    command.args(arguments).arg("--config").arg(folder.join("spanscore.yaml"));
    command.env_remove("SPANSCORE_CONFIG");
    command
}

/// Reads lines of `tail` from another process, until Ctrl-C.
struct Tail {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Tail {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = command(folder, arguments).stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("standard output")).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }

    fn interrupt(mut self) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
        self.child.wait().expect("it ends")
    }
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
    let tools = printed(place, &["scores", "--tools", "--format", "jsonl"]);
    let own = r#"{"tool":"=search","calls":1,"errors":0,"error_rate":0.0,"#;
    assert!(tools.lines().count() == 2 && tools.contains(own), "{tools}");
    let slowest = ["export", "runs", "--order", "slowest", "--limit", "2", "--format", "csv"];
    assert_eq!(printed(place, &slowest).lines().count(), 3, "a head and two runs");
    let found = printed(place, &["scores", "--text", "tool calls succeeded"]);
    let other = run(place, &["scores", "--text", "no such words"]);
    assert!(found.contains("0a0a0a0a") && other.stdout.is_empty(), "{found}");
    let worst = printed(place, &["scores", "--worst", "2", "--format", "jsonl"]);
    assert_eq!(worst.lines().count(), 2, "{worst}");
    let compared = printed(place, &["compare", "trace_id=0a0a", "trace_id=0b0b"]);
    assert!(compared.contains("tool_error/each") && compared.contains("too few"), "{compared}");
    let compared = printed(place, &["compare", "since=1h", "until=1h", "--format", "jsonl"]);
    assert!(compared.contains(r#"{"row":"evaluator","evaluator":"tool_error/each""#), "{compared}");
    let exported = printed(place, &["export", "--where", "service=shop"]);
    assert!(exported.lines().count() >= 5 && exported.contains("tool_efficiency"), "{exported}");
    let cells = printed(place, &["export", "--where", "tool==search", "--format", "csv"]);
    assert!(cells.starts_with("time,trace_id,") && cells.contains("\"'=search\""), "{cells}");
    let exported = printed(place, &["export", "runs", "--format", "csv"]);
    assert_eq!(exported.lines().count(), 4, "{exported}");
    let exported = printed(place, &["export", "trajectories", "--where", "tool==search"]);
    assert!(exported.contains("[EMAIL_1]") && exported.lines().count() == 1, "{exported}");
    let exported = printed(place, &["export", "calls", "--format", "csv"]);
    assert!(exported.starts_with("trace_id,service,version,place,tool,"), "{exported}");
    assert!(exported.contains("\"'=search\"") && exported.lines().count() == 4, "{exported}");
    let exported = printed(place, &["export", "sessions"]);
    assert_eq!(exported, "", "{exported}");
    let alone = printed(place, &["show", "0c0c0c"]);
    assert!(alone.contains("0 calls"), "{alone}");
}

#[tokio::test]
async fn new_evaluations_are_followed_until_the_reader_interrupts() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let program = Program::start(place, &config(place));
    let mut client = program.client().await;
    let is_written =
        |page: &crate::support::sums::Page| page.sum("store_written_total", "evaluations") >= 3;
    client.export(request(searches(11, &[2, 3]))).await.unwrap();
    program.page_when(is_written).await;
    let asked = ["tail", "--last", "1", "--where", "evaluator=tool_error/each"];
    let mut lines = Tail::start(place, &asked);
    let mut records = Tail::start(place, &[&asked[..], &["--format", "jsonl"]].concat());
    assert!(lines.line().contains("0b0b0b0b pass"));
    assert!(records.line().contains(r#""trace_id":"0b0b0b0b"#));
    client.export(request(searches(12, &[4]))).await.unwrap();
    let line = lines.line();
    assert!(line.contains("0c0c0c0c pass") && line.contains("tool_error/each on search"), "{line}");
    assert!(records.line().contains(r#""trace_id":"0c0c0c0c"#));
    assert_eq!(lines.interrupt().code(), Some(0));
    assert_eq!(records.interrupt().code(), Some(0));
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
    check("", &["compare", "version=1", "versio=2"], 64, "did you mean `version`?");
    check("", &["compare", "since=soon", "until=1h"], 64, "`soon` is no time");
    check("", &["compare", "a=1,b", "1.5.0"], 64, "`b` is no condition");
    check("", &["compare", "/nowhere/a.jsonl", "1.5.0"], 64, "only be compared with a file");
    check("", &["compare", "/nowhere/a.jsonl", "/nowhere/b.jsonl"], 1, "cannot read /nowhere/a");
    check("", &["compare", "a.jsonl", "b.jsonl", "--since", "1h"], 64, "are compared whole");
    check("store: {contents: none}", &["scores"], 78, "did you mean `content`?");
}

/// Writes the scores of a suite of 12 cases, in which those fail.
fn suite(path: &Path, fails: std::ops::Range<usize>, traces: usize) {
    let row = |case: usize, label: &str, more: &str| {
        let score = u8::from(label == "pass");
        let trace = traces + case;
        format!(
            r#"{{"evaluation_id":"{label}{case}","trace_id":"{trace:032x}","evaluator":"golden",
            "level":"trace","case":"case {case:02}","outcome":"scored","score":{score},
            "label":"{label}","evaluator_version":"1"{more}}}"#
        )
    };
    let mut rows = Vec::new();
    for case in 0..12 {
        if fails.contains(&case) {
            rows.push(row(case, "fail", ""));
        } else {
            // Later spans changed the verdict.
            rows.push(row(case, "fail", ""));
            rows.push(row(case, "pass", &format!(r#","revises":"fail{case}""#)));
        }
    }
    let rows: Vec<_> = rows.iter().map(|row| row.replace('\n', "")).collect();
    std::fs::write(path, rows.join("\n")).unwrap();
}

#[test]
fn two_files_of_scores_are_compared_case_by_case() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    std::fs::write(place.join("spanscore.yaml"), "").unwrap();
    let [old, new] = ["old.jsonl", "new.jsonl"].map(|name| place.join(name));
    suite(&old, 11..12, 0x100);
    suite(&new, 3..8, 0x200);
    let [old, new] = [&old, &new].map(|path| path.to_str().unwrap());
    let table = printed(place, &["compare", old, new]);
    let counts = ["92% of 12", "58% of 12", "5 newly fail, 1 newly pass, of 12"];
    assert!(counts.iter().all(|it| table.contains(it)), "{table}");
    for case in 0..12 {
        let is_named = table.contains(&format!("case {case:02}"));
        assert_eq!(is_named, (3..8).contains(&case), "{table}");
    }
    let rows = printed(place, &["compare", old, new, "--format", "jsonl"]);
    let named = rows.lines().filter(|line| line.starts_with(r#"{"row":"new_failure","#));
    assert_eq!((named.count(), rows.lines().count()), (5, 6), "{rows}");
    // Without cases, traces of the same recording are paired.
    let text = std::fs::read_to_string(old).unwrap();
    std::fs::write(old, text.replace(r#""case":"#, r#""subject":"#)).unwrap();
    let table = printed(place, &["compare", old, old]);
    assert!(table.contains("12 as before"), "{table}");
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
    backend.until(|backend| backend.log_count() >= 3).await;
    assert_eq!(program.page().await.sum("store_working", ""), 0);
    program.says("the store cannot be written");
}
