//! Forwards and limits that change while requests come.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use crate::forward::{balanced, books, settled};
use crate::support::collector::{HELD, Running};
use crate::support::patience::{eventually, once};
use crate::support::raw_backend::RawBackend;
use crate::support::spans::{request, searches};

const EVALUATORS: &str = "
evaluators:
  tool_call_count/two: {criteria: {tool_calls_count: {search: ['>=', 2]}}}
";

/// A config whose main forward goes to a backend, with others beside it.
fn config(start: &str, backend: &RawBackend, settings: &str, more: &str) -> String {
    let main = format!("otlp_grpc/main: {{endpoint: 'http://{}'{settings}}}", backend.address);
    format!("{start}{EVALUATORS}forward:\n  {main}\n{more}")
}

/// Counts the arrivals of each trace, by its first byte.
fn arrived(backends: &[&RawBackend]) -> BTreeMap<u8, usize> {
    let mut counts = BTreeMap::new();
    for body in backends.iter().flat_map(|backend| backend.bodies()) {
        let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
        let trace = request.resource_spans[0].scope_spans[0].spans[0].trace_id[0];
        *counts.entry(trace).or_default() += 1;
    }
    counts
}

async fn check_fifty_changes(start: &str) {
    let backends = [RawBackend::start().await, RawBackend::start().await];
    let extra = RawBackend::start().await;
    let running = Running::start(&config(start, &backends[0], "", "")).await;
    let sending = async {
        for trace in 1..=200u8 {
            running.send(request(searches(trace, &[2, 3]))).await;
        }
    };
    let reloading = async {
        for round in 0..50 {
            let packed = ["gzip", "zstd", "none"][round % 3];
            let queue = format!("{{num_consumers: {}}}", 1 + round % 5);
            let settings = format!(", compression: {packed}, sending_queue: {queue}");
            let other = format!("  otlp_http/extra: {{endpoint: 'http://{}'}}\n", extra.address);
            let more = if round % 10 < 5 { other.as_str() } else { "" };
            let good = config(start, &backends[round % 2], &settings, more);
            assert_eq!(running.reload(&good).await, Ok(()), "{round}");
            let tls = "tls: {ca_file: /nowhere/at/all.pem}";
            let bad = format!("  otlp_http/bad: {{endpoint: 'https://localhost:1', {tls}}}\n");
            let bad = running.reload(&config(start, &backends[0], "", &bad)).await;
            assert!(bad.is_err_and(|error| error.contains("otlp_http/bad")), "{round}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::join!(sending, reloading);
    let main = settled(&running, "otlp_grpc/main").await;
    assert_eq!((main["accepted_items"], main["sent_items"]), (600, 600), "{main:?}");
    eventually(|| {
        let extra = books(&running.exposition(), "otlp_http/extra");
        let is_gone = !extra.contains_key("queue_size_bytes");
        once(is_gone && extra["accepted_items"] == extra["sent_items"], || format!("{extra:?}"))
    })
    .await;
    let (events, unsent) = running.stop().await;
    assert_eq!((events.len(), unsent), (200, 0), "each trace is judged once");
    let counts = arrived(&[&backends[0], &backends[1]]);
    assert_eq!((counts.len(), counts.values().sum::<usize>()), (200, 200), "each came once");
    assert!(backends.iter().all(|backend| !backend.bodies().is_empty()));
    assert!(arrived(&[&extra]).values().all(|count| *count == 1));
}

#[tokio::test]
async fn fifty_changes_of_forwards_under_load_lose_nothing_and_send_nothing_twice() {
    check_fifty_changes("").await;
    let folder = tempfile::tempdir().unwrap();
    check_fifty_changes(&format!("data_dir: {}\n", folder.path().join("data").display())).await;
}

#[tokio::test]
async fn what_waits_for_a_backend_that_is_away_goes_to_the_one_that_takes_its_place() {
    for json in [false, true] {
        let (away, there) = (RawBackend::away(), RawBackend::start().await);
        let of = |backend: &RawBackend, packed: &str| {
            let retry = "retry_on_failure: {initial_interval: 10m, max_interval: 10m,
                max_elapsed_time: 0s}";
            let address = backend.address;
            format!(
                "{EVALUATORS}forward:\n  otlp_http: {{endpoint: 'http://{address}',
                compression: {packed}, {retry}}}\n"
            )
        };
        let running = Running::start(&of(&away, "gzip")).await;
        for trace in 1..=30u8 {
            let body = request(searches(trace, &[2]));
            if json {
                let body = serde_json::to_vec(&body).unwrap();
                let headers = [("content-type", "application/json")];
                assert_eq!(running.post("/v1/traces", &headers, body).await.status(), 200);
            } else {
                running.send(body).await;
            }
        }
        let queued = balanced(&running, "otlp_http").await["queued_requests"];
        assert_eq!(queued, 30);
        assert_eq!(running.reload(&of(&there, "zstd")).await, Ok(()));
        there.until(30).await;
        let books = settled(&running, "otlp_http").await;
        assert_eq!((books["sent_requests"], books["accepted_items"]), (30, 60), "{books:?}");
        assert!(there.requests().iter().all(|it| it.encoding == "zstd"));
        running.stop().await;
    }
}

#[tokio::test]
async fn what_a_backend_does_not_answer_is_sent_again_by_the_new_way() {
    let (hangs, there) = (RawBackend::start().await, RawBackend::start().await);
    hangs.delay(Duration::from_secs(600));
    let start = "";
    let running = Running::start(&config(start, &hangs, ", timeout: 10m", "")).await;
    running.send(request(searches(1, &[2]))).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(running.reload(&config(start, &there, "", "")).await, Ok(()));
    there.until(1).await;
    assert_eq!(settled(&running, "otlp_grpc/main").await["sent_requests"], 1);
    running.stop().await;
}

#[tokio::test]
async fn removed_forward_whose_backend_is_away_is_given_up_and_counted() {
    let (away, there) = (RawBackend::away(), RawBackend::start().await);
    let folder = tempfile::tempdir().unwrap();
    let start = format!("data_dir: {}\n", folder.path().join("data").display());
    let more = format!("  otlp_grpc/away: {{endpoint: 'http://{}'}}\n", away.address);
    let running = Running::start(&config(&start, &there, "", &more)).await;
    running.send(request(searches(1, &[2]))).await;
    assert_eq!(running.reload(&config(&start, &there, "", "")).await, Ok(()));
    running.send(request(searches(2, &[2]))).await;
    // One that comes back waits for the end of the one before.
    assert_eq!(running.reload(&config(&start, &there, "", &more)).await, Ok(()));
    let lost = "spanscore_forward_failed_items_total\
                {forward=\"otlp_grpc/away\",reason=\"removed\",signal=\"traces\"}";
    running.counted(lost, 2).await;
    away.come();
    running.send(request(searches(3, &[2]))).await;
    let books = settled(&running, "otlp_grpc/away").await;
    assert_eq!((books["accepted_items"], books["sent_items"]), (4, 2), "{books:?}");
    assert_eq!(arrived(&[&away]), BTreeMap::from([(3, 1)]));
    running.stop().await;
}

#[tokio::test]
async fn what_is_held_is_chosen_as_it_would_have_been() {
    let backend = RawBackend::start().await;
    let running = Running::start(&config(HELD, &backend, ", traces: fail", "")).await;
    running.send(request(searches(1, &[2]))).await;
    running.send(request(searches(2, &[2, 3]))).await;
    assert_eq!(balanced(&running, "otlp_grpc/main").await["held_items"], 5);
    let quick = "traces: {quiet_period: 50ms}\n";
    assert_eq!(running.reload(&config(quick, &backend, ", traces: all", "")).await, Ok(()));
    running.send(request(searches(3, &[2, 3]))).await;
    backend.until(2).await;
    let books = settled(&running, "otlp_grpc/main").await;
    assert_eq!((books["sent_items"], books["unchosen_items"]), (5, 3), "{books:?}");
    assert_eq!(arrived(&[&backend]), BTreeMap::from([(1, 1), (3, 1)]));
    // And back: the traces of now are held.
    assert_eq!(running.reload(&config(HELD, &backend, ", traces: fail", "")).await, Ok(()));
    running.send(request(searches(4, &[2]))).await;
    assert_eq!(balanced(&running, "otlp_grpc/main").await["held_items"], 2);
    running.stop().await;
    assert_eq!(arrived(&[&backend]).len(), 3, "it failed");
}

#[tokio::test]
async fn limits_hold_from_the_next_request_on_and_open_traces_by_the_new_times() {
    let limits = |text: &str| -> [u64; 3] {
        [
            "spanscore_memory_limit_bytes{part=\"traces\"} ",
            "spanscore_memory_limit_bytes{part=\"queue\"} ",
            "spanscore_pipeline_queue_capacity_bytes ",
        ]
        .map(|series| {
            let line = text.lines().find_map(|line| line.strip_prefix(series));
            line.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
        })
    };
    let running = Running::start(&format!("{HELD}{EVALUATORS}")).await;
    running.send(request(searches(1, &[2, 3]))).await;
    let before = limits(&running.exposition());
    let less = format!("{HELD}{EVALUATORS}limits: {{memory_mib: 256, spans_per_trace_max: 2}}\n");
    assert_eq!(running.reload(&less).await, Ok(()));
    let [traces, queue, capacity] = limits(&running.exposition());
    assert!(traces < before[0] / 3 && capacity < before[2] / 3, "{before:?}");
    assert_eq!(capacity, queue, "the queue's gauge follows its share");
    running.send(request(searches(2, &[2, 3, 4]))).await;
    let quick = format!("traces: {{quiet_period: 50ms}}\n{EVALUATORS}");
    assert_eq!(running.reload(&quick).await, Ok(()));
    let events = running.events(2).await;
    assert_eq!(limits(&running.exposition()), before);
    let found: Vec<_> = events.iter().map(|event| (event.trace(), event.label())).collect();
    assert_eq!(found, [(1, "pass"), (2, "fail")], "of the second two spans are kept");
    running.stop().await;
}
