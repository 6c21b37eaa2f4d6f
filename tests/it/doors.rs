//! Gifts of the system, scarce, stuck or full: descriptors, pipes, servers that never answer. It
//! decides for nobody else, and holds up no end.

use std::net::TcpListener;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpStream;

use crate::support::collector::HELD;
use crate::support::patience::PATIENCE;
use crate::support::program::Program;
use crate::support::spans::{agent, request, searches, tool, with};
use crate::support::sums::Page;
use crate::support::web_client;

/// A free address of this machine.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Lets this process hold as many descriptors as it may.
fn raise_own_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[tokio::test]
async fn connections_take_no_descriptor_from_the_log_probes_and_who_is_connected() {
    const CONNECTIONS: usize = 1100;
    raise_own_limit();
    let folder = tempfile::tempdir().unwrap();
    let health = free_address();
    let data = folder.path().join("data");
    let config = format!(
        "{HELD}
telemetry: {{metrics: {{endpoint: '127.0.0.1:0'}}, health: {{endpoint: '{health}'}}}}
data_dir: {data:?}
log: {{segment_mib: 1, size_max_mib: 64}}
"
    );
    for limit in ["1024", "64"] {
        let few = format!("ulimit -n {limit}; exec \"$@\"");
        let program = Program::start_by(&["sh", "-c", &few, "sh"], folder.path(), &config);
        let mut client = program.client().await;
        client.export(request(vec![tool(1, 2, "search")])).await.unwrap();
        let mut idle = Vec::new();
        for _ in 0..CONNECTIONS {
            idle.push(TcpStream::connect(program.grpc_address()).await.unwrap());
        }
        let began = Instant::now();
        let alive = web_client().build().unwrap().get(format!("http://{health}/livez"));
        let alive = alive.timeout(PATIENCE).send().await.unwrap();
        assert!(alive.status().is_success(), "{limit}: {:?}", began.elapsed());
        for id in 3..43 {
            let large = with(tool(1, id, "search"), "output.value", &"z".repeat(60_000));
            client.export(request(vec![large])).await.unwrap();
        }
        let failed = program.page().await.sum("receiver_refused_requests_total", "");
        assert_eq!(failed, 0, "{limit}");
        let files = std::fs::read_dir(data.join("log")).unwrap().count();
        assert!(files > 2, "{limit}: {files} files, the log has begun no other");
        program.signal("-TERM");
        let (code, last) = tokio::task::spawn_blocking(|| program.end()).await.unwrap();
        assert_eq!(code, Some(0), "{limit}: {last}");
        drop(idle);
        std::fs::remove_dir_all(&data).unwrap();
    }
}

/// Ends a program that nobody listens to, after the four seconds of its shutdown; returns its exit
/// code.
async fn end_in_time(program: Program, case: &str) -> Option<i32> {
    let began = Instant::now();
    program.signal("-TERM");
    let code = tokio::task::spawn_blocking(|| program.end_unread()).await.unwrap();
    let took = began.elapsed();
    assert!(took < PATIENCE, "{case}: it took {took:?}");
    code
}

/// Asserts that a probe and a sender are answered.
async fn goes_on(health: &str, program: &Program, trace: u8) {
    let alive = web_client().build().unwrap().get(format!("http://{health}/livez"));
    let alive = alive.timeout(PATIENCE).send().await.unwrap();
    assert!(alive.status().is_success());
    program.client().await.export(request(vec![agent(trace)])).await.unwrap();
}

#[tokio::test]
async fn standard_error_that_nobody_reads_holds_nothing_and_its_lines_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let health = free_address();
    let config = format!(
        "shutdown_timeout: 4s
telemetry:
  metrics: {{endpoint: '127.0.0.1:0'}}
  health: {{endpoint: '{health}'}}
  logs: {{level: 'info,h2=trace'}}
"
    );
    let program = Program::start(folder.path(), &config);
    let mut client = program.client().await;
    let began = Instant::now();
    // The pipe is full first, then the queue.
    while program.page().await.sum("telemetry_dropped_lines_total", "") == 0 {
        assert!(began.elapsed() < PATIENCE, "no line was dropped");
        for trace in 1..200 {
            client.export(request(vec![agent(trace)])).await.unwrap();
        }
    }
    goes_on(&health, &program, 1).await;
    assert_eq!(end_in_time(program, "standard error").await, Some(0));
}

/// A shell's words that run a program whose standard output is a pipe that nobody reads.
const UNREAD_OUTPUT: &str = r#"mkfifo "$0"; exec "$@" 9<>"$0" >&9"#;

#[tokio::test]
async fn standard_output_that_nobody_reads_holds_nothing_and_what_it_lost_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let health = free_address();
    let pipe = folder.path().join("output");
    let config = format!(
        "shutdown_timeout: 4s
evaluators: {{tool_error: }}
exporters: {{console: {{format: jsonl}}}}
traces: {{quiet_period: 0s}}
telemetry: {{metrics: {{endpoint: '127.0.0.1:0'}}, health: {{endpoint: '{health}'}}}}
"
    );
    let by = ["sh", "-c", UNREAD_OUTPUT, pipe.to_str().unwrap()];
    let program = Program::start_by(&by, folder.path(), &config);
    let mut client = program.client().await;
    for trace in 1..200 {
        let spans = vec![agent(trace), tool(trace, 2, &"search".repeat(100))];
        client.export(request(spans)).await.unwrap();
    }
    let all = |page: &Page| page.sum("exporter_offered_evaluations_total", "") == 199;
    program.page_when(all).await;
    goes_on(&health, &program, 200).await;
    assert_eq!(end_in_time(program, "output").await, Some(3));
}

#[tokio::test]
async fn a_named_pipe_that_nobody_reads_holds_up_neither_start_nor_end() {
    let folder = tempfile::tempdir().unwrap();
    let health = free_address();
    let pipe = folder.path().join("scores");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = format!(
        "shutdown_timeout: 4s
exporters: {{file: {{path: {pipe:?}}}}}
traces: {{quiet_period: 0s}}
telemetry: {{metrics: {{endpoint: '127.0.0.1:0'}}, health: {{endpoint: '{health}'}}}}
"
    );
    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(searches(1, &[2]))).await.unwrap();
    let offered = |page: &Page| page.sum("exporter_offered_evaluations_total", "") > 0;
    program.page_when(offered).await;
    goes_on(&health, &program, 2).await;
    assert_eq!(end_in_time(program, "pipe").await, Some(3));
    // Whoever reads it has what is written from then on.
    let program = Program::start(folder.path(), &config);
    let reading = pipe.clone();
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(reading).unwrap());
    program.client().await.export(request(searches(3, &[2]))).await.unwrap();
    assert_eq!(end_in_time(program, "pipe with a reader").await, Some(0));
    assert!(reading.await.unwrap().contains(&"03".repeat(16)));
}

#[tokio::test]
async fn unresponsive_servers_do_not_delay_shutdown() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap();
    let health = free_address();
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "shutdown_timeout: 4s
exporters:
  otlp_http/a: {{endpoint: 'http://{server}'}}
  otlp_grpc/b: {{endpoint: 'http://{server}'}}
forward:
  otlp_http/c: {{endpoint: 'http://{server}'}}
  otlp_grpc/d: {{endpoint: 'http://{server}'}}
telemetry:
  metrics: {{endpoint: '127.0.0.1:0', otlp: {{endpoint: 'http://{server}'}}}}
  health: {{endpoint: '{health}'}}
  traces: {{otlp: {{endpoint: 'http://{server}'}}}}
"
    );
    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(searches(1, &[2]))).await.unwrap();
    goes_on(&health, &program, 2).await;
    assert_eq!(end_in_time(program, "servers").await, Some(3));
}
