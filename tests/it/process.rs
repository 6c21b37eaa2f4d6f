//! The program under signals: what it does, and the exit code that it ends with.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::support::collector::HELD;
use crate::support::fake_backend::FakeBackend;
use crate::support::patience::PATIENCE;
use crate::support::program::Program;
use crate::support::spans::{request, searches};

/// A config that holds traces open and writes scores to a file. However slow the machine is, the
/// shutdown is not cut short.
fn to_file(folder: &Path) -> String {
    let path = folder.join("scores.jsonl");
    format!("{HELD}shutdown_timeout: 10m\nexporters: {{file: {{path: {path:?}}}}}\n")
}

/// Trace and completion of each record that was written.
fn records(folder: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(folder.join("scores.jsonl")).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    records.map(|record| (text(&record["trace_id"]), text(&record["completion"]))).collect()
}

#[tokio::test]
async fn a_signal_judges_what_is_open_and_flushes_it() {
    for signal in ["-TERM", "-INT"] {
        let folder = tempfile::tempdir().unwrap();
        let program = Program::start(folder.path(), &to_file(folder.path()));
        program.client().await.export(request(searches(7, &[2]))).await.unwrap();
        program.signal(signal);
        let (code, _) = tokio::task::spawn_blocking(|| program.end()).await.unwrap();
        assert_eq!(code, Some(0), "{signal}");
        let expected = ("07".repeat(16), "shutdown".to_owned());
        assert_eq!(records(folder.path()), [expected.clone(), expected], "{signal}");
    }
}

/// A config whose backend is not there.
fn to_nobody(dead: &FakeBackend, timeout: &str) -> String {
    let address = dead.address;
    format!(
        "{HELD}shutdown_timeout: {timeout}
exporters: {{otlp_grpc/gone: {{endpoint: \"http://{address}\", forms: [event]}}}}
"
    )
}

#[tokio::test]
async fn what_a_dead_backend_never_got_is_exit_code_3_and_the_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let dead = FakeBackend::dead();
    let program = Program::start(folder.path(), &to_nobody(&dead, "400ms"));
    program.client().await.export(request(searches(7, &[2]))).await.unwrap();
    program.signal("-TERM");
    let (code, last) = tokio::task::spawn_blocking(|| program.end()).await.unwrap();
    assert_eq!(last, "lost at shutdown: 2 evaluations not delivered (otlp_grpc/gone 2)");
    assert_eq!(code, Some(3));
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_with_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let dead = FakeBackend::dead();
    let mut program = Program::start(folder.path(), &to_nobody(&dead, "10m"));
    program.client().await.export(request(searches(7, &[2]))).await.unwrap();
    let started = Instant::now();
    program.signal("-TERM");
    program.says("failed to export evaluations, trying again");
    program.signal("-TERM");
    let (code, last) = tokio::task::spawn_blocking(|| program.end()).await.unwrap();
    assert_eq!(last, "lost at shutdown: 2 evaluations not delivered (otlp_grpc/gone 2)");
    assert_eq!(code, Some(3));
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_hangup_reads_the_config_again_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(folder.path(), &to_file(folder.path()));
    let mut client = program.client().await;
    client.export(request(searches(7, &[2]))).await.unwrap();
    program.signal("-HUP");
    program.says("the config was read again, and is in use");
    client.export(request(searches(8, &[2]))).await.unwrap();
    program.signal("-TERM");
    let (code, _) = tokio::task::spawn_blocking(|| program.end()).await.unwrap();
    assert_eq!(code, Some(0));
    let mut traces: Vec<_> = records(folder.path()).into_iter().map(|(id, _)| id).collect();
    traces.dedup();
    traces.sort();
    assert_eq!(traces, ["07".repeat(16), "08".repeat(16)]);
}

#[test]
fn memory_stays_flat_over_reloads_of_good_and_of_bad_configs() {
    const GROWTH_KIB_MAX: u64 = 16 << 10;
    let folder = tempfile::tempdir().unwrap();
    let own = "evaluators:
  tool_error: {when: 'service_name != \"\"'}
  output_rules: {bundle: all}
  tool_call_validity: {schema: full}
dialects: [{name: own, detect: {attr: own.tool}}]
";
    let mut program = Program::start(folder.path(), own);
    let path = folder.path().join("spanscore.yaml");
    let good = std::fs::read_to_string(&path).unwrap();
    let bad = good.replace("bundle: all", "bundle: al");
    let reload = |program: &mut Program, times: usize| {
        for _ in 0..times {
            for (config, told) in [(&bad, "the config has a mistake"), (&good, "and is in use")] {
                std::fs::write(&path, config).unwrap();
                program.signal("-HUP");
                program.says(told);
            }
        }
    };
    // What is made once, and kept.
    reload(&mut program, 10);
    let before = program.resident_kib();
    reload(&mut program, 30);
    let grown = program.resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB more than {before} KiB after 60 reloads");
}

#[tokio::test]
async fn closed_standard_error_does_not_end_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(folder.path(), &to_file(folder.path()));
    let mut client = program.client().await;
    // As when the terminal is closed.
    program.close_stderr();
    program.signal("-HUP");
    client.export(request(searches(7, &[2]))).await.unwrap();
    program.signal("-TERM");
    let (code, _) = tokio::task::spawn_blocking(|| program.end()).await.unwrap();
    assert_eq!((code, records(folder.path()).len()), (Some(0), 2));
}
