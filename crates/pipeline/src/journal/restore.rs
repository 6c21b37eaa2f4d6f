//! Recovery: replays the log of earlier processes into the shards.
//!
//! New requests are logged and acknowledged meanwhile, and read from the log like the others, so
//! shards see every record once, in the order of the log. Notes are read first, since a trace must
//! know its earlier verdict before its first record. Then requests follow, on the clock of their
//! arrival, so that traces complete as without a restart.

use std::sync::Arc;

use hashbrown::HashMap;

use super::metrics::UnreadReason;
use super::noted::NotedTraces;
use super::{Journal, RecoveryClaim, notes};
use crate::PipelineIntake;
use spanscore_ask::judge::JudgeHandle;
use spanscore_assemble::PriorTrace;
use spanscore_base::model::{Claim, TraceId};
use spanscore_base::panics::{Panicked, caught_future};
use spanscore_log::{Record, RecordReader, Skipped, record_bytes};
use spanscore_receive::{Received, unpack};
use spanscore_recordings::REQUEST_BYTES_MAX;

/// Bytes of records read before they are handed on.
const CHUNK_BYTES: usize = 1 << 20;

/// Verdicts of earlier processes, by trace.
pub(crate) type EarlierVerdicts = HashMap<TraceId, PriorTrace>;

/// Recovery task.
pub(crate) struct Restore {
    journal: Arc<Journal>,
    intake: Arc<PipelineIntake>,
    /// Dispatcher that caches logged answers of judges.
    dispatcher: Option<JudgeHandle>,
    /// Claim on the whole log until it is read.
    _all: Claim,
    /// Arrival of the first request, Unix nanoseconds: zero on the shards' clocks.
    origin_ns: u64,
    last_ms: u64,
    requests: u64,
}

impl Restore {
    pub(crate) fn new(
        journal: Arc<Journal>,
        past: RecoveryClaim,
        intake: Arc<PipelineIntake>,
        dispatcher: Option<JudgeHandle>,
    ) -> Self {
        Self { journal, intake, dispatcher, _all: past.0, origin_ns: 0, last_ms: 0, requests: 0 }
    }

    /// Replays the log, then admits requests. Returns false after a fault: requests are then
    /// refused, and the whole log stays for the next start.
    pub(crate) async fn run(self) -> bool {
        let journal = Arc::clone(&self.journal);
        let intake = Arc::clone(&self.intake);
        if let Ok(Some(())) = caught_future(self.run_all()).await {
            return true;
        }
        intake.give_up_restoring();
        journal.log().keep_all();
        tracing::error!(
            "bringing back what an earlier process left met a fault: requests are refused, and the \
             log keeps all for the next start"
        );
        false
    }

    /// Replays the log; `None` after a read error.
    async fn run_all(mut self) -> Option<()> {
        let started = std::time::Instant::now();
        self.journal.metrics.restoring.record(1);
        let journal = Arc::clone(&self.journal);
        let dispatcher = self.dispatcher.take();
        let known = blocking(move || NotedTraces::read(&journal, dispatcher.as_ref())).await?;
        self.origin_ns = known.origin_ns.unwrap_or_else(|| (self.journal.clock)());
        self.intake.begin_restoring(known.into_priors()).await;
        let mut at = 0;
        // Each pass finds only the requests that arrived during the previous one. The final pass
        // blocks new requests, so it must be short.
        for _ in 0..2 {
            at = self.read_from(at).await?;
        }
        let intake = Arc::clone(&self.intake);
        let gate = intake.hold_requests().await;
        self.journal.flush().await;
        self.read_from(at).await?;
        let now_ms = self.ms_of((self.journal.clock)());
        self.intake.resume(now_ms, gate).await;
        self.journal.metrics.restoring.record(0);
        let requests = self.requests;
        let seconds = started.elapsed().as_secs_f64();
        if requests > 0 {
            tracing::info!(requests, seconds, "what an earlier process left is back");
        }
        Some(())
    }

    /// Hands on all requests from a position to the end of the log; returns that end.
    async fn read_from(&mut self, position: u64) -> Option<u64> {
        let mut reader = self.journal.log().records_from(position);
        loop {
            let reading = move || {
                let chunk = read_chunk(&mut reader);
                (chunk, reader)
            };
            let (chunk, rest) = blocking(reading).await?;
            reader = rest;
            if chunk.is_empty() {
                return Some(reader.position());
            }
            for record in chunk {
                match record {
                    Ok(record) => self.hand_on_safely(record).await,
                    Err(Skipped { position, bytes }) => {
                        self.journal.metrics.left_out.add(UnreadReason::Damaged.into_str(), bytes);
                        tracing::error!(position, bytes, "a part of the log cannot be read");
                    }
                }
            }
        }
    }

    /// Hands a record on; skips one that panics, which would block the others at every start.
    async fn hand_on_safely(&mut self, record: Record) {
        let position = record.position;
        let bytes = record.payload.len() as u64;
        if let Err(Panicked) = caught_future(self.hand_on(record)).await {
            self.journal.metrics.left_out.add(UnreadReason::Damaged.into_str(), bytes);
            tracing::error!(position, "a request in the log met a fault; it is passed over");
        }
    }

    async fn hand_on(&mut self, record: Record) {
        let bytes = record_bytes(record.payload.len());
        let claim = self.journal.log().source().claim(record.position, bytes);
        if notes::is_note(record.head.tags) {
            return;
        }
        let bytes = record.payload.len() as u64;
        let Some((signal, raw, sender)) = notes::request(record.head.tags, record.payload) else {
            self.journal.metrics.left_out.add(UnreadReason::Unknown.into_str(), bytes);
            tracing::error!(tags = ?record.head.tags, bytes, "a record of the log is of no kind \
                that this version knows; it is passed over");
            return;
        };
        let at_ms = self.ms_of(record.head.arrival_ns);
        let len = raw.bytes.len() as u64;
        match unpack(signal, &raw, REQUEST_BYTES_MAX) {
            Ok(request) => {
                let is_old = record.position < self.journal.log().found_end();
                self.requests += u64::from(is_old);
                self.journal.metrics.restored.add(u64::from(is_old));
                let kept = Received { signal, request, raw, sender, client: None };
                if let Err(error) = self.intake.restore(&kept, claim, at_ms, is_old).await {
                    self.journal.metrics.left_out.add(UnreadReason::Damaged.into_str(), len);
                    tracing::error!(error, "a request in the log is no request");
                }
            }
            Err(error) => {
                self.journal.metrics.left_out.add(UnreadReason::Damaged.into_str(), len);
                tracing::error!(error, "a request in the log cannot be read");
            }
        }
    }

    /// Converts a time to the shards' clock, which never goes back.
    fn ms_of(&mut self, unix_ns: u64) -> u64 {
        let ms = unix_ns.saturating_sub(self.origin_ns) / 1_000_000;
        self.last_ms = self.last_ms.max(ms);
        self.last_ms
    }
}

/// Reads some records; empty at the end.
fn read_chunk(reader: &mut RecordReader) -> Vec<Result<Record, Skipped>> {
    let mut chunk = Vec::new();
    let mut bytes = 0;
    for record in reader {
        bytes += record.as_ref().map_or(0, |record| record.payload.len());
        chunk.push(record);
        if bytes >= CHUNK_BYTES {
            break;
        }
    }
    chunk
}

/// Runs blocking work off the network's threads; `None` if it panicked, which the panic hook logs.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::worker::WorkerContext;
    use spanscore_base::model::MemoryQuota;
    use spanscore_base::otlp::Signal;
    use spanscore_log::{Durability, LogSettings};
    use spanscore_receive::{Intake, Lack, Refused};
    use spanscore_telemetry::Telemetry;

    #[tokio::test]
    async fn log_without_a_reader_acknowledges_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let telemetry = Telemetry::without_endpoints();
        let telemetry = telemetry.unwrap();
        let limits = LogSettings::default();
        let meter = telemetry.meter();
        let opened = Journal::open(folder.path(), limits.limits(Durability::Os), &meter);
        let (journal, past) = opened.unwrap();
        let (context, _) = WorkerContext::of(&telemetry, Vec::new());
        let context = WorkerContext { journal: Some(Arc::clone(&journal)), ..context };
        let (shard, shard_queue) = tokio::sync::mpsc::channel(4);
        let queue = MemoryQuota::new("queue", 1 << 20);
        let intake = PipelineIntake::new(&context, vec![shard], &queue, &meter);
        let intake = Arc::new(intake);
        let kept = |intake: Arc<PipelineIntake>| async move {
            let request = Received::protobuf(Signal::Traces, bytes::Bytes::new());
            intake.accept(request, &Arc::default()).await.map(drop)
        };
        assert_eq!(kept(Arc::clone(&intake)).await, Ok(()), "it is read when its turn comes");
        let restore = Restore::new(journal, past, Arc::clone(&intake), None);
        // The reader of the log is gone, as after a panic.
        drop((restore, shard_queue));
        intake.give_up_restoring();
        let refused = kept(intake).await.unwrap_err();
        let retry_after = Duration::from_secs(1);
        let why = "what an earlier process left cannot be read";
        assert_eq!(refused, Refused::Later { lack: Lack::Log(why), retry_after });
        assert!(telemetry.exposition().contains("reason=\"restore_failed\"} 1"));
    }
}
