//! Exporters that are changed, added and taken away while evaluations come.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::collector::Running;
use crate::support::fake_backend::{Behavior, FakeBackend};
use crate::support::spans::{request, searches};

const EVALUATORS: &str = "
evaluators:
  tool_error:
  tool_call_count: {criteria: {tool_calls_count: {search: ['<=', 9]}}}
";

/// A config of which the main exporter sends to a backend, with others beside it.
fn config(backend: &FakeBackend, more: &str) -> String {
    let endpoint = format!("http://{}", backend.address);
    format!("{EVALUATORS}exporters:\n  otlp_grpc/backend: {{endpoint: '{endpoint}'}}\n{more}")
}

/// Counts the arrivals of each evaluation at some backends.
fn arrived(backends: &[&FakeBackend]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for record in backends.iter().flat_map(|backend| backend.log_records()) {
        let id = crate::support::collector::Event(record).id().to_owned();
        *counts.entry(id).or_default() += 1;
    }
    counts
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[tokio::test]
async fn fifty_changes_of_exporters_under_load_lose_nothing_and_send_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scores.jsonl");
    let data_dir = format!("data_dir: {}\n", folder.path().join("data").display());
    let (one, other) = (FakeBackend::grpc().await, FakeBackend::grpc().await);
    let running =
        Running::between(one.clone(), &format!("{data_dir}{}", config(&one, "")), |_| {}).await;
    let sending = async {
        for trace in 1..=200u8 {
            running.send(request(searches(trace, &[2, 3]))).await;
        }
    };
    let reloading = async {
        for round in 0..50 {
            let backend = if round % 2 == 0 { &other } else { &one };
            let console = format!("  file: {{path: '{}'}}\n", path.display());
            let more = if round % 3 == 0 { console.as_str() } else { "  prometheus: {}\n" };
            let good = format!("{data_dir}{}", config(backend, more));
            assert_eq!(running.reload(&good).await, Ok(()), "{round}");
            let bad = "  file: {path: /nowhere/at/all/scores.jsonl}\n";
            let bad = running.reload(&format!("{data_dir}{}", config(&one, bad))).await;
            assert!(bad.is_err_and(|error| error.contains("cannot open")), "{round}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::join!(sending, reloading);
    let (_, unsent) = running.stop().await;
    assert_eq!(unsent, 0);
    let counts = arrived(&[&one, &other]);
    assert_eq!(counts.len(), 400, "each trace by each evaluator");
    assert!(counts.values().all(|count| *count == 1), "nothing came twice");
    assert!(!one.log_records().is_empty() && !other.log_records().is_empty());
}

#[tokio::test]
async fn what_waits_for_a_backend_that_is_gone_goes_to_the_one_that_takes_its_place() {
    for data_dir in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let kept = format!("data_dir: {}\n", folder.path().join("data").display());
        let kept = if data_dir { kept.as_str() } else { "" };
        let (dead, alive) = (FakeBackend::dead(), FakeBackend::grpc().await);
        let first = format!("{kept}{}", config(&dead, ""));
        let running = Running::between(dead.clone(), &first, |_| {}).await;
        for trace in 1..=20u8 {
            running.send(request(searches(trace, &[2]))).await;
        }
        let offered =
            "spanscore_exporter_offered_evaluations_total{exporter=\"otlp_grpc/backend\"}";
        running.counted(offered, 40).await;
        assert_eq!(running.reload(&format!("{kept}{}", config(&alive, ""))).await, Ok(()));
        running.send(request(searches(99, &[2]))).await;
        alive.until(|backend| backend.log_count() >= 42).await;
        let sent = "spanscore_exporter_sent_evaluations_total{exporter=\"otlp_grpc/backend\"}";
        running.counted(sent, 42).await;
        running.counted(offered, 42).await;
        let held = "spanscore_exporter_queued_evaluations{exporter=\"otlp_grpc/backend\"}";
        running.counted(held, 0).await;
        let (_, unsent) = running.stop().await;
        assert_eq!(unsent, 0);
        assert!(arrived(&[&alive]).values().all(|count| *count == 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_full_queue_keeps_on_disk_goes_to_the_exporter_that_takes_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let kept = format!("data_dir: {}\n", folder.path().join("data").display());
    let (dead, alive) = (FakeBackend::dead(), FakeBackend::grpc().await);
    let small = |backend: &FakeBackend| {
        let queue =
            "{queue_size: 100000, num_consumers: 1, overflow_mib: 64, batch: {flush_timeout: 5ms}}";
        let endpoint = format!("http://{}", backend.address);
        let exporter = format!("{{endpoint: '{endpoint}', sending_queue: {queue}}}");
        format!("{kept}{EVALUATORS}exporters: {{otlp_grpc/backend: {exporter}}}\n")
    };
    let running = Running::between(dead.clone(), &small(&dead), |_| {}).await;
    let offered = "spanscore_exporter_offered_evaluations_total{exporter=\"otlp_grpc/backend\"}";
    for trace in 1..=200u8 {
        running.send(request(searches(trace, &[2]))).await;
        if trace % 20 == 0 {
            running.counted(offered, u64::from(trace) * 2).await;
        }
    }
    let on_disk = |text: String| {
        let series = "spanscore_exporter_overflow_evaluations{exporter=\"otlp_grpc/backend\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(series).map(str::to_owned));
        line.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0)
    };
    assert!(on_disk(running.exposition()) > 100, "{}", running.exposition());
    assert_eq!(running.reload(&small(&alive)).await, Ok(()));
    alive.until(|backend| backend.log_count() >= 400).await;
    let (_, unsent) = running.stop().await;
    assert_eq!(unsent, 0);
    let counts = arrived(&[&alive]);
    assert_eq!((counts.len(), counts.values().sum::<usize>()), (400, 400));
}

#[tokio::test]
async fn exporters_come_and_go_and_their_counters_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scores.jsonl");
    let backend = FakeBackend::grpc().await;
    let file = format!("  file: {{path: '{}'}}\n", path.display());
    let with = |more: &str| config(&backend, more);
    let running = Running::between(backend.clone(), &with("  prometheus: {}\n"), |_| {}).await;
    running.send(request(searches(1, &[2]))).await;
    let counted = "spanscore_exporter_sent_evaluations_total{exporter=\"file\"}";
    backend.until(|backend| backend.log_count() >= 2).await;
    let shows = |running: &Running, label: &str, count: u64| {
        let text = running.exposition();
        let found = text.lines().filter(|line| {
            line.starts_with("spanscore_evaluation_count_total")
                && line.contains("tool_error")
                && line.contains(&format!("label=\"{label}\""))
        });
        let sum: u64 = found.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
        assert_eq!(sum, count, "{label} in {text}");
    };
    shows(&running, "pass", 1);
    // The scores on the metrics endpoint count on, a file comes.
    let more = format!("  prometheus: {{series_max: 10}}\n{file}");
    assert_eq!(running.reload(&with(&more)).await, Ok(()));
    running.send(request(searches(2, &[2]))).await;
    running.counted(counted, 2).await;
    shows(&running, "pass", 2);
    // Both go; their gauges with them.
    assert_eq!(running.reload(&with("")).await, Ok(()));
    running.send(request(searches(3, &[2]))).await;
    backend.until(|backend| backend.log_count() >= 6).await;
    shows(&running, "pass", 0);
    assert_eq!(lines(&path), 2);
    // The file comes back at once, and goes on where it was.
    assert_eq!(running.reload(&with(&file)).await, Ok(()));
    running.send(request(searches(4, &[2]))).await;
    running.counted(counted, 4).await;
    assert_eq!(lines(&path), 4);
    assert_eq!(running.stop().await.1, 0);
}

#[tokio::test]
async fn removed_exporter_whose_backend_hangs_is_given_up_in_time_and_counted() {
    let (backend, slow) = (FakeBackend::grpc().await, FakeBackend::grpc().await);
    slow.always(Behavior::Hang);
    let endpoint = format!("http://{}", slow.address);
    let more = format!("  otlp_grpc/slow: {{endpoint: '{endpoint}', timeout: 10m}}\n");
    let running = Running::between(backend.clone(), &config(&backend, &more), |_| {}).await;
    running.send(request(searches(1, &[2]))).await;
    backend.until(|backend| backend.log_count() >= 2).await;
    assert_eq!(running.reload(&config(&backend, "")).await, Ok(()));
    let lost = "spanscore_exporter_send_failed_evaluations_total\
                {exporter=\"otlp_grpc/slow\",reason=\"removed\"}";
    running.counted(lost, 2).await;
    assert!(!running.exposition().contains("queue_size_bytes{exporter=\"otlp_grpc/slow\"}"));
    assert_eq!(running.stop().await.1, 0);
}
