//! Lanes: parallel tasks that hand chunks to the sink, in order within a partition.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::chunk::{Chunk, RecordMark, SortedRecords, sort};
use super::metrics::{KafkaMetrics, KeyMismatch, Skip};
use super::ownership::Partition;
use super::poller::ChunkRoom;
use super::settings::RecordEncoding;
use super::{FetchedRequest, RecordClaims, RecordSink, Untaken};
use spanscore_base::otlp::{Signal, json};
use spanscore_base::panics::{Panicked, caught_future};

/// Pause before a request without room is retried.
const ROOM_PAUSE: Duration = Duration::from_millis(50);
/// Shortest interval of log lines of one kind.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Counts and log lines of records that are skipped or wrongly keyed, one line a minute of each.
pub(super) struct SkipLog {
    metrics: KafkaMetrics,
    skipped: Mutex<Option<Instant>>,
    mismatched: Mutex<Option<Instant>>,
}

impl SkipLog {
    pub(super) fn new(metrics: KafkaMetrics) -> Self {
        Self { metrics, skipped: Mutex::default(), mismatched: Mutex::default() }
    }

    /// Counts a skipped record.
    pub(super) fn skip(&self, place: (&Partition, i64), skip: Skip, why: &str) {
        self.skip_all((place, 1), skip, why);
    }

    /// Counts this many skipped records, from a place on.
    fn skip_all(
        &self,
        ((partition, offset), records): ((&Partition, i64), usize),
        skip: Skip,
        why: &str,
    ) {
        self.metrics.passed_over.add(skip.into_str(), records as u64);
        if is_due(&self.skipped) {
            let Partition { topic, number } = partition;
            tracing::warn!(%topic, partition = number, offset, reason = skip.into_str(), why,
                "a record of Kafka is skipped; others within a minute are only counted");
        }
    }

    /// Counts a record whose key differs from its trace.
    fn mismatch(&self, (partition, offset): (&Partition, i64), mismatch: KeyMismatch) {
        self.metrics.key_mismatches.add(mismatch.into_str(), 1);
        if is_due(&self.mismatched) {
            let Partition { topic, number } = partition;
            tracing::warn!(%topic, partition = number, offset, reason = mismatch.into_str(),
                "the key of a record of Kafka is not its only trace id, so parts of a trace may \
                 be judged apart: set `partition_traces_by_id` and `partition_logs_by_trace_id` \
                 in the Collector's exporter");
        }
    }
}

fn is_due(last: &Mutex<Option<Instant>>) -> bool {
    let mut last = last.lock();
    let is_due = last.is_none_or(|last| last.elapsed() >= LOG_INTERVAL);
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

/// Task that hands chunks to the sink in turn.
pub(super) struct Lane<S> {
    pub(super) sink: Arc<S>,
    pub(super) encoding: RecordEncoding,
    pub(super) room: Arc<ChunkRoom>,
    pub(super) metrics: KafkaMetrics,
    pub(super) skips: Arc<SkipLog>,
}

impl<S: RecordSink> Lane<S> {
    /// Runs until the poller has ended and all chunks are handed over.
    pub(super) async fn run(self, mut chunks: mpsc::UnboundedReceiver<Chunk>) {
        while let Some(chunk) = chunks.recv().await {
            let bytes = chunk.held();
            let partition = chunk.origin.partition.clone();
            let offset = chunk.records.first().map_or(0, |record| record.offset);
            let records = chunk.records.len();
            if let Err(Panicked) = caught_future(self.hand_over(chunk)).await {
                let why = "it met a fault of this program, as did those read with it";
                self.skips.skip_all(((&partition, offset), records), Skip::Malformed, why);
            }
            self.room.give_back(bytes);
        }
    }

    async fn hand_over(&self, mut chunk: Chunk) {
        let bytes = std::mem::take(&mut chunk.bytes).freeze();
        match self.encoding {
            RecordEncoding::OtlpProto => self.hand_over_protobuf(&chunk, &bytes).await,
            RecordEncoding::OtlpJson => {
                let mut start = 0;
                for record in &chunk.records {
                    self.hand_over_json(&chunk, record, &bytes[start..record.end]).await;
                    start = record.end;
                }
            }
        }
    }

    async fn hand_over_protobuf(&self, chunk: &Chunk, bytes: &Bytes) {
        let SortedRecords { runs, skipped, mismatches } =
            sort(chunk.origin.signal, bytes, &chunk.records);
        for (index, skip) in skipped {
            self.skip(chunk, index, skip, "it is cut");
        }
        for (index, mismatch) in mismatches {
            let offset = chunk.records[index].offset;
            self.skips.mismatch((&chunk.origin.partition, offset), mismatch);
        }
        for run in runs {
            let count = run.records.len();
            let Some(claims) = run.claims(&chunk.records) else { continue };
            let request = run.request.clone();
            let taken = self.take(chunk, (chunk.origin.signal, request, claims), count).await;
            let Err(Untaken::Malformed(why)) = taken else { continue };
            if count == 1 {
                self.skip(chunk, run.records.start, Skip::Malformed, &why);
                continue;
            }
            // One of them spoils the others, so each is retried alone.
            for index in run.records {
                let start = index.checked_sub(1).map_or(0, |before| chunk.records[before].end);
                let request = bytes.slice(start..chunk.records[index].end);
                let claims = RecordClaims::One(chunk.records[index].claim.clone());
                let taken = self.take(chunk, (chunk.origin.signal, request, claims), 1).await;
                if let Err(Untaken::Malformed(why)) = taken {
                    self.skip(chunk, index, Skip::Malformed, &why);
                }
            }
        }
    }

    /// Hands over a JSON record, which states its signals.
    async fn hand_over_json(&self, chunk: &Chunk, record: &RecordMark, text: &[u8]) {
        let place = (&chunk.origin.partition, record.offset);
        let malformed = |why: &str| self.skips.skip(place, Skip::Malformed, why);
        let signals = match json::signals(text) {
            Ok(signals) if signals.is_empty() => return malformed("it is no OTLP request"),
            Ok(signals) => signals,
            Err(error) => return malformed(&error.to_string()),
        };
        for signal in signals {
            let request = match json::transcode(signal, text) {
                Ok(request) => request,
                Err(error) => return malformed(&error.to_string()),
            };
            let mark = RecordMark { end: request.len(), ..record.clone() };
            for (_, mismatch) in sort(signal, &request, &[mark]).mismatches {
                self.skips.mismatch(place, mismatch);
            }
            let claims = RecordClaims::One(record.claim.clone());
            let taken = self.take(chunk, (signal, request, claims), 1).await;
            if let Err(Untaken::Malformed(why)) = taken {
                malformed(&why);
            }
        }
    }

    /// Offers a request until there is room for it, or another process owns its partition.
    async fn take(
        &self,
        chunk: &Chunk,
        (signal, request, claims): (Signal, Bytes, RecordClaims),
        records: usize,
    ) -> Result<(), Untaken> {
        loop {
            if chunk.source.is_retired() {
                return Ok(());
            }
            let request = request.clone();
            let group = chunk.origin.group;
            let fetched = FetchedRequest { signal, group, request, claims: claims.clone() };
            match self.sink.take(fetched).await {
                Err(Untaken::NoRoom) => {
                    self.metrics.waits.add(1);
                    tokio::time::sleep(ROOM_PAUSE).await;
                }
                taken => {
                    if taken.is_ok() {
                        self.metrics.records.add(records as u64);
                    }
                    return taken;
                }
            }
        }
    }

    fn skip(&self, chunk: &Chunk, index: usize, skip: Skip, why: &str) {
        let offset = chunk.records.get(index).map_or(0, |record| record.offset);
        self.skips.skip((&chunk.origin.partition, offset), skip, why);
    }
}
