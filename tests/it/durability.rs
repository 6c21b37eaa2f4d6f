//! Durability over the end of the process: killed under load, told to stop, or damaged on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use crate::support::collector::Event;
use crate::support::fake_backend::{Behavior, FakeBackend};
use crate::support::patience::{PATIENCE, eventually, eventually_blocking, once};
use crate::support::program::Program;
use crate::support::spans::{agent, request, searches, tool};

/// Number of times that the process is killed under load, unless `SPANSCORE_KILLS` says otherwise.
const KILLS: u64 = 10;
/// The same for being told to stop.
const STOPS: u64 = 5;
/// Senders at once.
const SENDERS: u64 = 3;
/// Traces that a sender sends at once.
const AT_ONCE: u64 = 8;

/// A collector with a log that judges each call and sends to a backend.
fn to(backend: &FakeBackend, folder: &Path, durability: &str) -> String {
    let (address, data) = (backend.address, folder.join("data"));
    let scores = folder.join("scores.jsonl");
    format!(
        "data_dir: {data:?}
durability: {durability}
traces: {{quiet_period: 100ms, idle_timeout: 1s}}
evaluators: {{tool_error/each: {{level: call}}}}
exporters:
  file: {{path: {scores:?}}}
  otlp_grpc/backend:
    endpoint: http://{address}
    forms: [event]
    sending_queue: {{batch: {{flush_timeout: 20ms}}}}
    retry_on_failure: {{initial_interval: 50ms, max_interval: 100ms}}
"
    )
}

/// Moments at which a process ends, by a seed that is told, so that a failure can be looked at
/// again.
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        let given = std::env::var("SPANSCORE_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = given.unwrap_or(now.as_nanos() as u64);
        let told = format!("SPANSCORE_SEED={seed} ends the processes at the same moments\n");
        std::io::Write::write_all(&mut std::io::stderr(), told.as_bytes()).unwrap();
        Self(seed)
    }

    /// Some before anything was judged, some while evaluations are on their way.
    fn next(&mut self) -> Duration {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        Duration::from_micros(5_000 + (self.0 >> 33) % 600_000)
    }
}

/// The traces in the file of the exporter, which keeps what a sink in the same process as the test
/// might invent. A line that a killed process did not finish is none.
fn traces_in_file(folder: &Path) -> BTreeSet<String> {
    let text = std::fs::read(folder.join("scores.jsonl")).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    let records = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    records.filter_map(|record| Some(record["trace_id"].as_str()?.to_owned())).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The spans with the ids of a trace of that number.
fn of_trace(number: u64, mut spans: Vec<Span>) -> Vec<Span> {
    for span in &mut spans {
        span.trace_id[..8].copy_from_slice(&number.to_be_bytes());
    }
    spans
}

/// Trace and span of a call.
type CallId = (Vec<u8>, Vec<u8>);

/// Sends traces until it is told to stop: calls first, a moment later their root. What was
/// acknowledged is noted.
async fn send_until(
    stop: CancellationToken,
    mut client: TraceServiceClient<Channel>,
    first: u64,
    acknowledged: Arc<Mutex<BTreeSet<CallId>>>,
) -> u64 {
    let mut number = first;
    while !stop.is_cancelled() {
        let numbers = number..number + AT_ONCE;
        number += AT_ONCE;
        let calls =
            numbers.clone().flat_map(|it| of_trace(it, vec![tool(7, 2, "a"), tool(7, 3, "b")]));
        let calls: Vec<Span> = calls.collect();
        let ids: Vec<CallId> =
            calls.iter().map(|span| (span.trace_id.clone(), span.span_id.clone())).collect();
        if client.export(request(calls)).await.is_err() {
            break;
        }
        acknowledged.lock().unwrap().extend(ids);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let roots: Vec<Span> = numbers.flat_map(|it| of_trace(it, vec![agent(7)])).collect();
        if client.export(request(roots)).await.is_err() {
            break;
        }
    }
    number
}

/// The calls that a backend has evaluations of, and those that it has of one revision of a call
/// under several ids.
fn arrived(records: &[LogRecord]) -> (BTreeSet<CallId>, Vec<CallId>) {
    let mut ids = BTreeMap::<(CallId, i64), BTreeSet<String>>::new();
    for record in records {
        let call = (record.trace_id.clone(), record.span_id.clone());
        let event = Event(record.clone());
        ids.entry((call, event.revision())).or_default().insert(event.id().to_owned());
    }
    let several = ids.iter().filter(|(_, ids)| ids.len() > 1);
    let several = several.map(|((call, _), _)| call.clone()).collect();
    (ids.into_keys().map(|(call, _)| call).collect(), several)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_call_is_evaluated_however_often_the_process_is_killed() {
    check_ends_under_load("-KILL", None, KILLS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_call_is_evaluated_however_often_the_process_is_told_to_stop() {
    check_ends_under_load("-TERM", Some(0), STOPS).await;
}

/// Ends a process under load by a signal, with that code, and starts the next, so many times: the
/// backend gets an evaluation of each call that was acknowledged.
async fn check_ends_under_load(signal: &str, code: Option<i32>, ends: u64) {
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::grpc().await;
    let config = to(&backend, folder.path(), "os");
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    let (mut moments, mut numbers) = (Moments::new(), [0; SENDERS as usize]);
    for (sender, number) in numbers.iter_mut().enumerate() {
        *number = (sender as u64) << 32;
    }
    let wanted = std::env::var("SPANSCORE_KILLS").ok().and_then(|ends| ends.parse().ok());
    for _ in 0..wanted.unwrap_or(ends) {
        let program = Program::start(folder.path(), &config);
        let stop = CancellationToken::new();
        let mut sending = Vec::new();
        for number in numbers {
            let (client, acknowledged) = (program.client().await, Arc::clone(&acknowledged));
            sending.push(tokio::spawn(send_until(stop.clone(), client, number, acknowledged)));
        }
        tokio::time::sleep(moments.next()).await;
        program.signal(signal);
        let ended = tokio::task::spawn_blocking(move || program.end());
        for (number, sending) in numbers.iter_mut().zip(sending) {
            *number = sending.await.unwrap();
        }
        stop.cancel();
        let ended = tokio::time::timeout(PATIENCE, ended).await.expect("it ends in time").unwrap();
        assert_eq!(ended.0, code, "{}", ended.1);
    }
    let last = Program::start(folder.path(), &config);
    let acknowledged = acknowledged.lock().unwrap().clone();
    assert!(acknowledged.len() > 100, "there was load: {}", acknowledged.len());
    let several = eventually(|| {
        let (calls, several) = arrived(&backend.log_records());
        let missing: Vec<_> = acknowledged.difference(&calls).collect();
        let seen = || format!("{} of {}: {:?}", missing.len(), acknowledged.len(), missing[0]);
        once(missing.is_empty(), seen).map(|()| several)
    })
    .await;
    let traces: BTreeSet<_> = acknowledged.iter().map(|(trace, _)| hex(trace)).collect();
    eventually(|| match traces.difference(&traces_in_file(folder.path())).next() {
        Some(missing) => Err(format!("not in the file: {missing}")),
        None => Ok(()),
    })
    .await;
    assert_eq!(several, [], "what is sent twice is recognised by its id");
    last.page_when(|page| page.sum("assemble_open_spans", "") == 0 && page.is_sum()).await;
}

/// Trace, revision, completion and label of each record that was written, in order.
fn verdicts(folder: &Path) -> Vec<(String, u64, String)> {
    let text = std::fs::read_to_string(folder.join("scores.jsonl")).unwrap_or_default();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records
        .map(|record| {
            let revision = record["revision"].as_u64().unwrap_or_default();
            let partial = if record["partial"] == true { "partial " } else { "" };
            let completion = record["completion"].as_str().unwrap();
            let trace = record["trace_id"].as_str().unwrap()[..2].to_owned();
            (trace, revision, format!("{partial}{completion}"))
        })
        .collect()
}

/// A collector with a log that writes to a file.
fn to_file(folder: &Path, quiet_period: &str) -> String {
    format!(
        "data_dir: {:?}
traces: {{quiet_period: {quiet_period}, idle_timeout: 10m}}
evaluators: {{tool_error/any: {{}}}}
exporters: {{file: {{path: {:?}}}}}
",
        folder.join("data"),
        folder.join("scores.jsonl")
    )
}

async fn stopped(program: Program) -> (Option<i32>, String) {
    program.signal("-TERM");
    tokio::task::spawn_blocking(|| program.end()).await.unwrap()
}

fn written(folder: &Path, count: usize) {
    eventually_blocking(|| {
        let verdicts = verdicts(folder);
        once(verdicts.len() >= count, || format!("{verdicts:?}"))
    });
}

#[tokio::test]
async fn trace_that_straddles_a_stop_is_revised_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let config = to_file(folder.path(), "100ms");
    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(vec![tool(7, 2, "search")])).await.unwrap();
    assert_eq!(stopped(program).await.0, Some(0));
    let shutdown = ("07".to_owned(), 0, "partial shutdown".to_owned());
    assert_eq!(verdicts(folder.path()), std::slice::from_ref(&shutdown));

    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(vec![agent(7)])).await.unwrap();
    written(folder.path(), 2);
    stopped(program).await;
    let whole = ("07".to_owned(), 1, "root_ended".to_owned());
    assert_eq!(verdicts(folder.path()), [shutdown, whole], "it names what it revises");
}

#[tokio::test]
async fn what_was_delivered_is_not_sent_again_and_late_spans_still_revise_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = to_file(folder.path(), "100ms");
    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(searches(7, &[2]))).await.unwrap();
    written(folder.path(), 1);
    stopped(program).await;
    for _ in 0..2 {
        let program = Program::start(folder.path(), &config);
        program.client().await.export(request(searches(8, &[2]))).await.unwrap();
        stopped(program).await;
    }
    let all = verdicts(folder.path());
    assert_eq!(all.iter().filter(|(trace, ..)| trace == "07").count(), 1, "{all:?}");
    assert_eq!(all.iter().filter(|(trace, ..)| trace == "08").count(), 1, "{all:?}");

    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(vec![tool(7, 9, "search")])).await.unwrap();
    written(folder.path(), 3);
    stopped(program).await;
    assert_eq!(verdicts(folder.path())[2], ("07".to_owned(), 1, "root_ended".to_owned()));
}

#[tokio::test]
async fn what_a_backend_away_was_to_get_is_passed_on_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::grpc().await;
    let address = backend.address;
    let forward = format!("forward: {{otlp_grpc/next: {{endpoint: \"http://{address}\"}}}}\n");
    let config = [to_file(folder.path(), "100ms"), forward].concat();
    backend.always(Behavior::Unavailable);
    let program = Program::start(folder.path(), &config);
    let mut client = program.client().await;
    for trace in 1..20 {
        client.export(request(searches(trace, &[2]))).await.unwrap();
    }
    program.signal("-KILL");
    drop(program);
    backend.always(Behavior::Take);
    let program = Program::start(folder.path(), &config);
    let traces = |backend: &FakeBackend| -> BTreeSet<u8> {
        backend.spans().iter().map(|span| span.trace_id[0]).collect()
    };
    backend.until(|backend| traces(backend).len() == 19).await;
    assert_eq!(stopped(program).await.0, Some(0));

    let before = backend.spans().len();
    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(searches(99, &[2]))).await.unwrap();
    backend.until(|backend| traces(backend).contains(&99)).await;
    assert_eq!(stopped(program).await.0, Some(0));
    assert_eq!(backend.spans().len(), before + 2, "what was passed on is not passed on again");
}

#[tokio::test]
async fn what_a_dead_backend_never_got_stays_in_the_log_and_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::grpc().await;
    backend.always(Behavior::Unavailable);
    let config = format!("shutdown_timeout: 2s\n{}", to(&backend, folder.path(), "os"));
    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(searches(7, &[2]))).await.unwrap();
    let (code, last) = stopped(program).await;
    assert_eq!(code, Some(0), "{last}");
    assert!(last.starts_with("kept in the log for the next start: 1 evaluation not "), "{last}");
    backend.always(Behavior::Take);
    let program = Program::start(folder.path(), &config);
    backend.until(|backend| backend.log_count() == 1).await;
    assert_eq!(stopped(program).await.0, Some(0));
}

/// A collector that forwards to nobody.
fn forwarding_to_nobody(folder: &Path, data_dir: &str) -> String {
    format!(
        "{data_dir}
forward:
  otlp_http/gone:
    endpoint: http://127.0.0.1:9
    retry_on_failure: {{initial_interval: 10ms, max_interval: 20ms}}
evaluators: {{tool_error: {{}}}}
exporters: {{file: {{path: {:?}}}}}
",
        folder.join("scores.jsonl")
    )
}

#[tokio::test]
async fn what_no_forward_passed_on_is_lost_or_kept_and_told_either_way() {
    let folder = tempfile::tempdir().unwrap();
    let config = forwarding_to_nobody(folder.path(), "shutdown_timeout: 2s");
    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(searches(7, &[2]))).await.unwrap();
    let (code, last) = stopped(program).await;
    assert_eq!(code, Some(3), "{last}");
    assert!(last.ends_with("lost at shutdown: 2 items not passed on (otlp_http/gone)"), "{last}");

    let data = format!("data_dir: {:?}\nshutdown_timeout: 10m", folder.path().join("data"));
    let program = Program::start(folder.path(), &forwarding_to_nobody(folder.path(), &data));
    for trace in 1..10 {
        program.client().await.export(request(searches(trace, &[2]))).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = std::time::Instant::now();
    let (code, last) = stopped(program).await;
    assert_eq!(code, Some(0), "{last}");
    let kept = "kept in the log for the next start: 18 items not passed on (otlp_http/gone)";
    assert!(last.ends_with(kept), "{last}");
    assert!(began.elapsed() < PATIENCE, "nobody is waited for in vain");
}

#[tokio::test]
async fn damaged_log_is_read_as_far_as_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let config = to_file(folder.path(), "10m");
    let program = Program::start(folder.path(), &config);
    let mut client = program.client().await;
    for trace in [7, 8, 9] {
        client.export(request(searches(trace, &[2]))).await.unwrap();
    }
    program.signal("-KILL");
    drop(program);
    let log = folder.path().join("data").join("log");
    let file = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path());
    let file = file.filter(|path| path.extension().is_some_and(|it| it == "log")).min().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    // In the middle of the second request.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let mut program = Program::start(folder.path(), &config);
    program.says("a part of the log cannot be read");
    program.says("what an earlier process left is back");
    assert_eq!(stopped(program).await.0, Some(0));
    let traces: Vec<_> = verdicts(folder.path()).into_iter().map(|(trace, ..)| trace).collect();
    assert_eq!(
        traces.iter().collect::<BTreeSet<_>>(),
        BTreeSet::from([&"07".into(), &"09".into()])
    );
}

#[tokio::test]
async fn records_that_are_no_requests_are_counted_and_passed_over() {
    use spanscore_log::{Durability, Folder, Log, LogSettings, RecordHead, system_clock};
    let folder = tempfile::tempdir().unwrap();
    let config = to_file(folder.path(), "100ms");
    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(searches(7, &[2]))).await.unwrap();
    written(folder.path(), 1);
    program.signal("-KILL");
    tokio::task::spawn_blocking(|| program.end()).await.unwrap();
    let disk = Folder::open(&folder.path().join("data").join("log")).unwrap();
    let limits = LogSettings::default().limits(Durability::Os);
    let (log, ..) = Log::open(Arc::new(disk), limits, system_clock()).unwrap();
    // Of a later version, and a request that is none.
    for (tag, payload) in [(99, &b"12345"[..]), (1, b"\xff\xff\xff")] {
        let head = RecordHead { arrival_ns: 1, tags: [tag, 0, 0, 0] };
        log.append(head, payload.into()).await.unwrap();
    }
    log.keep_all();
    drop(log);
    let program = Program::start(folder.path(), &config);
    let page = program.page_when(|page| page.sum("log_left_out_bytes_total", "damaged") == 3).await;
    assert_eq!(page.sum("log_left_out_bytes_total", "unknown"), 5);
    assert_eq!(stopped(program).await.0, Some(0));
}

#[tokio::test]
async fn folder_of_another_process_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let config = to_file(folder.path(), "10m");
    let _program = Program::start(folder.path(), &config);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .args(["serve", "--config"])
        .arg(folder.path().join("spanscore.yaml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another process uses it"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}
