//! Log that is smaller than what flows through it: one trace holds nobody up, and nothing is lost
//! or judged twice, whenever the process is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::Value;
use tokio::time::MissedTickBehavior;
use tonic::transport::Channel;

use crate::support::patience::{PATIENCE, eventually, once};
use crate::support::program::Program;
use crate::support::spans::{agent, request, tool, with};

/// Number of times that the process is killed, unless `SPANSCORE_KILLS` says otherwise.
const KILLS: u64 = 4;
/// Most traces that are sent before the oldest of them is judged: a fifth of the log.
const UNJUDGED_MAX: u64 = 20;
/// Number of the trace that goes on for the whole test.
const PIN: u8 = 1;

fn config(folder: &Path, log: &str) -> String {
    format!(
        "data_dir: {:?}
log: {log}
traces: {{quiet_period: 100ms, idle_timeout: 5m, remember_period: 300ms}}
evaluators: {{tool_error/each: {{level: call}}}}
exporters: {{file: {{path: {:?}}}}}
",
        folder.join("data"),
        folder.join("scores.jsonl")
    )
}

/// A trace of two calls with so many bytes of arguments, in two parts: the second ends it.
fn trace(number: u64, bytes: usize) -> [Vec<Span>; 2] {
    let large = "x".repeat(bytes);
    let call = with(tool(7, 2, "a"), "input.value", &large);
    [vec![call, tool(7, 3, "b")], vec![agent(7)]].map(|mut spans| {
        for span in &mut spans {
            span.trace_id[0] = 9;
            span.trace_id[1..9].copy_from_slice(&number.to_be_bytes());
        }
        spans
    })
}

/// Evaluations in the file: the spans of each trace and revision, with the ids of each.
type Evaluated = BTreeMap<(String, u64), BTreeMap<String, BTreeSet<String>>>;

fn evaluated(folder: &Path) -> Evaluated {
    let text = std::fs::read(folder.join("scores.jsonl")).unwrap_or_default();
    let mut found = Evaluated::new();
    let lines = text.split(|byte| *byte == b'\n');
    for record in lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
        let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        let of = (text("trace_id"), record["revision"].as_u64().unwrap_or_default());
        let ids = found.entry(of).or_default().entry(text("span_id")).or_default();
        ids.insert(text("evaluation_id"));
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pin_id() -> String {
    hex(&[PIN; 16])
}

/// Waits until the file has all calls of the trace that went on, and returns what is in it.
async fn pin_judged(folder: &Path, calls: usize) -> Evaluated {
    let waits = Instant::now();
    loop {
        let found = evaluated(folder);
        let spans = found.iter().filter(|((trace, _), _)| *trace == pin_id());
        let most = spans.map(|(_, spans)| spans.len()).max().unwrap_or(0);
        if most == calls {
            return found;
        }
        assert!(waits.elapsed() < PATIENCE, "{most} of {calls} calls");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Lines of the file, counted as they come.
struct JudgedLines {
    path: PathBuf,
    read_bytes: u64,
    count: u64,
}

impl JudgedLines {
    fn of(folder: &Path) -> Self {
        Self { path: folder.join("scores.jsonl"), read_bytes: 0, count: 0 }
    }

    fn look(&mut self) -> u64 {
        let mut new = Vec::new();
        if let Ok(mut file) = File::open(&self.path) {
            file.seek(SeekFrom::Start(self.read_bytes)).unwrap();
            self.read_bytes += file.read_to_end(&mut new).unwrap() as u64;
        }
        self.count += new.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.count
    }

    /// Waits until the file has the two calls of that many traces.
    async fn until_judged(&mut self, traces: u64) {
        eventually(|| {
            let lines = self.look();
            once(lines >= 2 * traces, || format!("{lines} lines of {traces} pairs"))
        })
        .await;
    }
}

#[tokio::test]
async fn slow_trace_is_judged_with_all_its_calls_after_a_restart() {
    const REQUEST_BYTES: usize = 80_000;
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "{size_max_mib: 8, segment_mib: 1}");
    let program = Program::start(folder.path(), &config);
    let mut client = program.client().await;
    let mut paces = tokio::time::interval(Duration::from_millis(12));
    paces.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut calls = 0;
    let requests = (10 << 23) / REQUEST_BYTES as u64;
    let mut judged = JudgedLines::of(folder.path());
    for number in 0..requests {
        paces.tick().await;
        judged.until_judged(number.saturating_sub(UNJUDGED_MAX)).await;
        if number % 40 == 0 {
            calls += 1;
            client.export(request(vec![tool(PIN, calls + 1, "slow")])).await.unwrap();
        }
        for spans in trace(number, REQUEST_BYTES) {
            client.export(request(spans)).await.expect("the log has room");
        }
    }
    let page = program.page().await;
    assert!(page.sum("log_freed_segments_total", "") > 20, "{}", page.0);
    assert!(page.sum("log_copied_bytes_total", "") < 20 << 20, "{}", page.0);
    program.signal("-KILL");
    tokio::task::spawn_blocking(|| program.end()).await.unwrap();
    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(vec![agent(PIN)])).await.unwrap();
    let found = pin_judged(folder.path(), usize::from(calls)).await;
    assert!(found.keys().all(|(_, revision)| *revision == 0), "nothing is judged anew");
    assert!(found.len() as u64 > requests * 9 / 10, "{}", found.len());
}

/// Sends traces until the process is gone; adds those that were acknowledged whole.
async fn send(
    mut client: TraceServiceClient<Channel>,
    first: u64,
    whole: Arc<Mutex<BTreeSet<u64>>>,
) {
    for number in first.. {
        for spans in trace(number, 20_000) {
            let waits = Instant::now();
            while let Err(status) = client.export(request(spans.clone())).await {
                // A full log is for this sender to wait for, an end of the process is not.
                let is_gone = waits.elapsed() > PATIENCE || !status.message().contains("log");
                if is_gone {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        whole.lock().unwrap().insert(number);
    }
}

/// Moments of kills by a seed that is printed, so that a failure can be looked at again.
fn moments() -> impl Iterator<Item = Duration> {
    let given = std::env::var("SPANSCORE_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut seed: u64 = given.unwrap_or(now.as_nanos() as u64);
    let told = format!("SPANSCORE_SEED={seed} kills at the same moments\n");
    std::io::Write::write_all(&mut std::io::stderr(), told.as_bytes()).unwrap();
    std::iter::repeat_with(move || {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        Duration::from_micros(600_000 + (seed >> 33) % 900_000)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_that_is_killed_at_any_moment_loses_nothing_and_judges_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    // Segments of 256 KiB: there is a compaction several times a second.
    let config = config(folder.path(), "{size_max_mib: 2}");
    let whole = Arc::new(Mutex::new(BTreeSet::new()));
    let wanted = std::env::var("SPANSCORE_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills = wanted.unwrap_or(KILLS).min(200);
    let mut calls = 0;
    let mut freed = 0;
    for (round, moment) in (0..kills).zip(moments()) {
        let program = Program::start(folder.path(), &config);
        let mut client = program.client().await;
        calls += 1;
        client.export(request(vec![tool(PIN, calls + 1, "slow")])).await.unwrap();
        let sending = tokio::spawn(send(program.client().await, round << 32, Arc::clone(&whole)));
        tokio::time::sleep(moment).await;
        freed += program.page().await.sum("log_freed_segments_total", "");
        program.signal("-KILL");
        tokio::task::spawn_blocking(|| program.end()).await.unwrap();
        sending.await.unwrap();
    }
    let program = Program::start(folder.path(), &config);
    program.client().await.export(request(vec![agent(PIN)])).await.unwrap();
    pin_judged(folder.path(), usize::from(calls)).await;
    let whole = whole.lock().unwrap().clone();
    let id = |number: &u64| hex(&trace(*number, 0)[0][0].trace_id);
    let waits = Instant::now();
    let found = loop {
        let found = evaluated(folder.path());
        let is_missing = |number: &&u64| !found.contains_key(&(id(number), 0));
        let Some(missing) = whole.iter().find(is_missing) else { break found };
        let late = waits.elapsed() > PATIENCE;
        assert!(!late, "trace {missing:x} of {} is missing", whole.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(whole.len() > 50 && freed > 0, "{} traces, {freed} files freed", whole.len());
    for ((trace, revision), spans) in found {
        assert_eq!(revision, 0, "{trace} is judged anew");
        let several = spans.values().any(|ids| ids.len() > 1);
        assert!(!several, "{trace} is judged twice");
        assert!(trace == pin_id() || spans.len() == 2, "{trace} is judged in part: {spans:?}");
    }
}
