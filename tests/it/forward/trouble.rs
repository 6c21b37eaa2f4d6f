//! Backends that are away, slow or refuse.

use std::time::{Duration, Instant};

use prost::Message;
use spanscore_base::otlp::Signal;
use spanscore_net::client::{Compression, Protocol};
use tokio_util::sync::CancellationToken;

use super::{balanced, client, forwards, send, settled};
use crate::support::collector::Running;
use crate::support::patience::PATIENCE;
use crate::support::raw_backend::RawBackend;
use crate::support::spans::{request, searches};

/// Sends a request of three spans for each of these traces.
async fn send_traces(running: &Running, traces: impl IntoIterator<Item = u8>) -> Vec<Vec<u8>> {
    let client = client(running, Protocol::Grpc, Compression::None);
    let mut sent = Vec::new();
    for trace in traces {
        let request = request(searches(trace, &[2, 3])).encode_to_vec();
        send(&client, Signal::Traces, &request).await;
        sent.push(request);
    }
    sent.sort();
    sent
}

#[tokio::test]
async fn what_a_backend_missed_arrives_when_it_is_back() {
    for kind in ["otlp_grpc", "otlp_http"] {
        let backend = RawBackend::away();
        let retries = "retry_on_failure: {initial_interval: 20ms, max_interval: 50ms}";
        let running = Running::start(&forwards(&[(kind, retries, &backend)])).await;
        let sent = send_traces(&running, 1..=100).await;
        let books = balanced(&running, kind).await;
        assert_eq!((books["queued_requests"], books["queued_items"]), (100, 300));
        assert!(books["queue_size_bytes"] > 0);
        backend.come();
        backend.until(100).await;
        assert_eq!(backend.bodies(), sent);
        let books = settled(&running, kind).await;
        assert_eq!((books["sent_items"], books["queue_size_bytes"]), (300, 0));
    }
}

#[tokio::test]
async fn a_dead_backend_slows_nobody_and_what_it_has_no_room_for_is_counted() {
    let (dead, alive) = (RawBackend::away(), RawBackend::start().await);
    let config = forwards(&[
        ("otlp_grpc/dead", "sending_queue: {queue_size: 20000}", &dead),
        ("otlp_grpc/alive", "", &alive),
    ]);
    let running = Running::start(&format!("{config}shutdown_timeout: 400ms\n")).await;
    let started = Instant::now();
    let sent = send_traces(&running, 1..=200).await;
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    alive.until(200).await;
    assert_eq!(alive.bodies(), sent);
    let books = balanced(&running, "otlp_grpc/dead").await;
    assert!(books["queue_size_bytes"] <= 20_000 && books["queued_requests"] > 5, "{books:?}");
    assert_eq!(books["dropped_requests"] + books["queued_requests"], 200);
    assert_eq!(books["dropped_items"] + books["queued_items"], 600);
    let dropped = "spanscore_forward_dropped_items_total{forward=\"otlp_grpc/dead\",\
                   reason=\"queue_full\",signal=\"traces\"}";
    running.counted(dropped, books["dropped_items"]).await;
    let started = Instant::now();
    let lost = running.lost(&CancellationToken::new()).await;
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    let [unforwarded] = &lost.unforwarded[..] else { panic!("{lost:?}") };
    assert_eq!((&*unforwarded.name, unforwarded.count), ("otlp_grpc/dead", books["queued_items"]));
}

#[tokio::test]
async fn what_is_queued_is_delivered_before_the_end() {
    let backend = RawBackend::start().await;
    backend.delay(Duration::from_millis(5));
    let config = forwards(&[("otlp_http", "sending_queue: {num_consumers: 1}", &backend)]);
    let running = Running::start(&config).await;
    let sent = send_traces(&running, 1..=60).await;
    let lost = running.lost(&CancellationToken::new()).await;
    assert_eq!(lost.to_string(), "nothing");
    assert_eq!(backend.bodies(), sent);
}

#[tokio::test]
async fn what_a_backend_refuses_is_counted_and_not_tried_again() {
    for kind in ["otlp_grpc", "otlp_http"] {
        let backend = RawBackend::start().await;
        backend.refuse();
        let running = Running::start(&forwards(&[(kind, "", &backend)])).await;
        send_traces(&running, 1..=3).await;
        let books = settled(&running, kind).await;
        assert_eq!((books["failed_requests"], books["failed_items"]), (3, 9));
        assert_eq!(backend.requests().len(), 3);
        let refused = format!(
            "spanscore_forward_failed_items_total{{forward=\"{kind}\",reason=\"refused\",\
             signal=\"traces\"}}"
        );
        running.counted(&refused, 9).await;
    }
}
