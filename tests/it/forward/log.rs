//! With a log: what finds no room in memory is read again, and a restart goes on where it was.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use spanscore::config::{ConfigPart, ResolvedConfig, load};
use spanscore_base::model::{Memory, Sender, Source, TraceId};
use spanscore_base::otlp::{RawBody, Signal};
use spanscore_emit::forward::{ForwardLog, Forwards, HoldTimes, JudgedTrace, Passing, ReadBack};
use spanscore_telemetry::Telemetry;

use super::forwards;
use crate::support::patience::PATIENCE;
use crate::support::raw_backend::RawBackend;
use crate::support::spans::{request, searches};

/// A log in memory.
#[derive(Default)]
pub(super) struct FakeLog {
    source: Arc<Source>,
    records: Mutex<BTreeMap<u64, Bytes>>,
}

impl ReadBack for FakeLog {
    fn read_back(&self, position: u64) -> Result<(Signal, RawBody), String> {
        let records = self.records.lock().unwrap();
        let bytes = records.get(&position).ok_or("it is gone")?.clone();
        Ok((Signal::Traces, RawBody { bytes, compression: None, is_json: false }))
    }
}

/// Forwards beside a log, or without it.
pub(super) struct Logged {
    log: Arc<FakeLog>,
    has_log: bool,
    pub(super) forwards: Forwards,
    telemetry: Telemetry,
}

impl Logged {
    fn start(log: &Arc<FakeLog>, folder: &Path, config: &str) -> Self {
        Self::start_with(log, folder, config, true)
    }

    pub(super) fn start_with(
        log: &Arc<FakeLog>,
        folder: &Path,
        config: &str,
        has_log: bool,
    ) -> Self {
        let part = ConfigPart::Text { name: "test".into(), text: config.into() };
        let plan = ResolvedConfig::new(&load(&[part], &|_| None).unwrap()).unwrap();
        let telemetry = Telemetry::without_endpoints().unwrap();
        let times = HoldTimes { open_max: PATIENCE, remember: PATIENCE };
        let end = log.records.lock().unwrap().keys().last().map_or(0, |last| last + 1);
        let back = Arc::clone(log) as Arc<dyn ReadBack>;
        let own = ForwardLog { log: back, folder: folder.to_owned(), end };
        let memory = Memory::new(&plan.memory);
        let meter = telemetry.meter();
        let own = has_log.then_some(&own);
        let forwards = Forwards::start(&plan.forward, &memory, times, &meter, own).unwrap();
        if end == 0 {
            // There is nothing to be offered again.
            forwards.replayed();
        }
        Self { log: Arc::clone(log), has_log, forwards, telemetry }
    }

    /// Offers a record that is in the log, as a replay does.
    fn offer(&self, position: u64) {
        self.offer_of(Sender::default(), position);
    }

    fn offer_of(&self, sender: Sender, position: u64) {
        let bytes = self.log.records.lock().unwrap()[&position].clone();
        let raw = RawBody { bytes: bytes.clone(), compression: None, is_json: false };
        let signal = Signal::Traces;
        let passing = Passing { signal, request: &bytes, raw: &raw, items: 2, sender };
        let claim = self.has_log.then(|| self.log.source.claim(position, 1));
        self.forwards.offer(&passing, claim.as_ref());
    }

    /// Adds a record of two spans and offers it.
    fn add(&self, position: u64, trace: u8) {
        let request = request(searches(trace, &[2])).encode_to_vec();
        self.add_of(Sender::default(), position, request);
    }

    /// The same of a sender.
    pub(super) fn add_of(&self, sender: Sender, position: u64, request: Vec<u8>) {
        self.log.records.lock().unwrap().insert(position, request.into());
        self.offer_of(sender, position);
    }

    pub(super) fn exposition(&self) -> String {
        self.telemetry.exposition()
    }

    fn books(&self) -> BTreeMap<String, u64> {
        super::books(&self.telemetry.exposition(), "otlp_grpc")
    }

    pub(super) async fn stop(&self, within: Duration) {
        self.forwards.shutdown(tokio::time::sleep(within)).await;
    }
}

const QUICK: &str = "sending_queue: {queue_size: 60000},
    retry_on_failure: {initial_interval: 20ms, max_interval: 50ms}";

#[tokio::test]
async fn what_finds_no_room_waits_in_the_log_and_arrives() {
    let (backend, folder) = (RawBackend::away(), tempfile::tempdir().unwrap());
    let log = Arc::new(FakeLog::default());
    let config = forwards(&[("otlp_grpc", QUICK, &backend)]);
    let logged = Logged::start(&log, folder.path(), &config);
    (0..150).for_each(|at| logged.add(at, at as u8 + 1));
    let books = logged.books();
    assert_eq!((books["queued_requests"], books["dropped_requests"]), (150, 0));
    assert!(books["requests_in_log"] > 40 && books["queue_size_bytes"] <= 60_000, "{books:?}");
    assert_eq!(log.source.lowest(), Some(0));
    backend.come();
    backend.until(150).await;
    let mut sent: Vec<_> = log.records.lock().unwrap().values().map(|it| it.to_vec()).collect();
    sent.sort();
    assert_eq!(backend.bodies(), sent);
    logged.stop(PATIENCE).await;
    assert_eq!(log.source.lowest(), None, "the log may forget all of it");
}

#[tokio::test]
async fn a_restart_sends_what_was_left_and_nothing_else() {
    let (backend, folder) = (RawBackend::start().await, tempfile::tempdir().unwrap());
    let log = Arc::new(FakeLog::default());
    let config = forwards(&[("otlp_grpc", QUICK, &backend)]);
    let logged = Logged::start(&log, folder.path(), &config);
    (0..5).for_each(|at| logged.add(at, at as u8 + 1));
    backend.until(5).await;
    backend.delay(PATIENCE);
    (5..15).for_each(|at| logged.add(at, at as u8 + 1));
    logged.stop(Duration::from_millis(100)).await;
    assert_eq!(log.source.lowest(), Some(5), "the log keeps what is left");
    drop(logged);

    let healthy = RawBackend::start().await;
    let config = forwards(&[("otlp_grpc", QUICK, &healthy)]);
    let logged = Logged::start(&log, folder.path(), &config);
    (0..15).for_each(|at| logged.offer(at));
    logged.forwards.replayed();
    logged.add(15, 200);
    healthy.until(11).await;
    logged.stop(PATIENCE).await;
    let records = log.records.lock().unwrap();
    let mut left: Vec<_> = records.range(5..).map(|(_, it)| it.to_vec()).collect();
    left.sort();
    assert_eq!(healthy.bodies(), left);
}

#[tokio::test]
async fn chosen_traces_wait_in_the_log_for_their_judgement() {
    let (backend, folder) = (RawBackend::start().await, tempfile::tempdir().unwrap());
    let log = Arc::new(FakeLog::default());
    let config = forwards(&[("otlp_grpc", &format!("traces: fail, {QUICK}"), &backend)]);
    let logged = Logged::start(&log, folder.path(), &config);
    (0..20).for_each(|at| logged.add(at, at as u8 + 1));
    let books = logged.books();
    assert_eq!((books["held_items"], books["dropped_items"]), (40, 0), "{books:?}");
    for trace in 1..=19 {
        let trace_id = TraceId([trace; 16]);
        let has_fail = trace % 2 == 0;
        let sender = Sender::default();
        logged.forwards.judged(JudgedTrace { trace_id, sender, is_agent: true, has_fail });
    }
    backend.until(9).await;
    logged.stop(PATIENCE).await;
    assert_eq!(backend.requests().len(), 9);
    assert_eq!(log.source.lowest(), Some(19), "the last was not judged, and is left");
}
