//! One peer with many connections beside one that has one: the room of a forward, and its order.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;
use spanscore_base::model::{Sender, TraceId};
use spanscore_emit::forward::JudgedTrace;

use super::log::{FakeLog, Logged};
use super::{books, forwards, is_balanced};
use crate::support::patience::PATIENCE;
use crate::support::raw_backend::RawBackend;
use crate::support::spans::{request, searches};

/// Traces of the peer with many connections, and of the other.
const FLOOD: u8 = 1;
const FEW: u8 = 2;
/// Requests of the other.
const FEW_COUNT: usize = 8;

fn body(trace: u8) -> Vec<u8> {
    request(searches(trace, &[2])).encode_to_vec()
}

/// Has one peer offer 800 requests over 200 connections, and another 8 over one in between; once
/// the backend comes, all of the few arrive. Returns the losses of the flood by reason.
async fn check(traces: &str, has_log: bool) -> BTreeMap<String, u64> {
    let (backend, folder) = (RawBackend::away(), tempfile::tempdir().unwrap());
    let own = "sending_queue: {queue_size: 60000, num_consumers: 1},
        retry_on_failure: {initial_interval: 20ms, max_interval: 50ms}";
    let config = forwards(&[("otlp_grpc", &format!("traces: {traces}, {own}"), &backend)]);
    let log = Arc::new(FakeLog::default());
    let logged = Logged::start_with(&log, folder.path(), &config, has_log);
    let flood =
        |from: u16| (from..from + 400).map(|at| (Sender { peer: 1, ..of(at % 200) }, FLOOD));
    let few = (0..FEW_COUNT).map(|_| (Sender { peer: 2, ..of(1) }, FEW));
    for (position, (sender, trace)) in flood(0).chain(few).chain(flood(400)).enumerate() {
        logged.add_of(sender, position as u64, body(trace));
    }
    for trace in [FLOOD, FEW] {
        let trace_id = TraceId([trace; 16]);
        let sender = Sender::default();
        logged.forwards.judged(JudgedTrace { trace_id, sender, is_agent: true, has_fail: true });
    }
    backend.come();
    backend.until(3 * FEW_COUNT).await;
    let first: Vec<_> = backend.requests().into_iter().map(|it| it.body).collect();
    let arrived = first[..3 * FEW_COUNT].iter().filter(|it| **it == body(FEW)).count();
    assert_eq!(arrived, FEW_COUNT, "{traces}, {has_log}: in turns with the others");
    logged.stop(PATIENCE).await;
    let text = logged.exposition();
    assert!(is_balanced(&books(&text, "otlp_grpc")), "{text}");
    let reasons = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("spanscore_forward_")?;
        let is_loss = rest.starts_with("failed_requests") || rest.starts_with("dropped_requests");
        let reason = rest.split_once("reason=\"")?.1.split_once('"')?.0;
        let count: f64 = line.rsplit(' ').next()?.parse().ok()?;
        (is_loss && count > 0.0).then(|| (reason.to_owned(), count as u64))
    });
    reasons.collect()
}

fn of(connection: u16) -> Sender {
    Sender { connection: connection + 1, ..Sender::default() }
}

#[tokio::test]
async fn peer_of_many_connections_makes_room_for_one_of_one() {
    for (traces, has_log, expected) in [
        ("all", false, &["displaced", "queue_full"][..]),
        ("all", true, &["displaced", "queue_full"]),
        ("fail", false, &["hold_full"]),
        ("fail", true, &["hold_full"]),
    ] {
        let losses = check(traces, has_log).await;
        let reasons: Vec<_> = losses.keys().map(String::as_str).collect();
        assert_eq!(reasons, expected, "{traces}, {has_log}: {losses:?}");
    }
}
