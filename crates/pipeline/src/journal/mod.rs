//! Write-ahead log of the pipeline: requests as received, and notes of their progress.
//!
//! ```text
//! request ──► log ──► shards ──► judged: note ──► exporters ──► delivered: note
//!              │ claim: the batch, then its traces while they are open or remembered, then their
//!              │        evaluations until they are delivered
//! next start ◄─┘ restore: notes first, then every request, on the clock of its arrival
//! ```
//!
//! A request is in the log before it is acknowledged, as `durability` says. A claim keeps its
//! segment as long as any work from it is unfinished. The next process restores open traces, and
//! judged ones that may be revised.
//!
//! Each trace has two notes. The first, written before its evaluations are sent, tells the next
//! process their revision and thereby their ids. The second, after delivery, says that they need
//! not be sent again. Evaluations with only the first note are sent again under the same ids, so
//! that consumers can drop duplicates.

mod holders;
mod metrics;
mod noted;
pub(super) mod notes;
mod restore;

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use opentelemetry::metrics::Meter;
use parking_lot::Mutex;

use holders::Holders;
pub(super) use holders::LogHolder;
use metrics::JournalMetrics;
use notes::{ANSWER_TAG, DELIVERED_TAG, JUDGED_TAG, JudgedNote, WITH_RECORDS};
use spanscore_ask::judge::AnswerLog;
use spanscore_base::model::{Claim, Claims, NoteCell, NoteKind, Receipt, TraceSpans};
use spanscore_base::otlp::{RawBody, Signal};
use spanscore_emit::forward::ReadBack;
use spanscore_log::{
    AppendError, Clock, Folder, Log, LogLimits, LogOpenError, Record, RecordHead, Recovered,
    system_clock,
};
use spanscore_receive::Received;

pub(super) use restore::{EarlierVerdicts, Restore};

/// Error of opening `data_dir`.
#[derive(Debug, thiserror::Error)]
pub enum JournalOpenError {
    /// Another process has locked it.
    #[error("`data_dir` {path}: another process uses it; give each a folder of its own")]
    Taken {
        /// Folder.
        path: String,
    },
    /// It cannot be created or locked.
    #[error("`data_dir` {path}: {error}")]
    Folder {
        /// Folder.
        path: String,
        /// Cause.
        error: std::io::Error,
    },
    /// Its log cannot be opened.
    #[error("`data_dir` {path}: {error}")]
    Log {
        /// Folder.
        path: String,
        /// Cause.
        error: LogOpenError,
    },
}

/// Open log with its clock and metrics.
pub(super) struct Journal {
    log: Log,
    clock: Clock,
    metrics: JournalMetrics,
    /// Claims on the latest judge answers, oldest first.
    answers: Mutex<VecDeque<Claim>>,
    holders: Holders,
}

/// Judged traces: each note, with the cell that ties it to the trace's records.
pub(super) type JudgedTraces = Vec<(JudgedNote, NoteCell)>;

/// Limit on judge answers in the log; a later repeat of the question costs a request.
const ANSWERS_MAX: usize = 4096;

/// Recovery claim: holds all records of earlier processes until they are read.
pub(super) struct RecoveryClaim(Claim);

impl Journal {
    /// Opens the log in `data_dir`.
    ///
    /// # Errors
    /// The folder or the log is unusable.
    pub(super) fn open(
        data_dir: &Path,
        limits: LogLimits,
        meter: &Meter,
    ) -> Result<(Arc<Self>, RecoveryClaim), JournalOpenError> {
        let path = data_dir.join("log");
        let shown = path.display().to_string();
        let folder = Folder::open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => JournalOpenError::Taken { path: shown.clone() },
            _ => JournalOpenError::Folder { path: shown.clone(), error },
        })?;
        let clock = system_clock();
        let (log, recovered, all) = Log::open(Arc::new(folder), limits, Arc::clone(&clock))
            .map_err(|error| JournalOpenError::Log { path: shown, error })?;
        tell(&recovered);
        let metrics = JournalMetrics::show(meter, &log, &recovered);
        let answers = Mutex::default();
        let holders = Holders::default();
        holders.show(meter);
        Ok((Arc::new(Self { log, clock, metrics, answers, holders }), RecoveryClaim(all)))
    }

    /// Appends a request with the configured durability; returns a claim on its position.
    ///
    /// # Errors
    /// The log refuses it.
    pub(super) async fn keep(&self, received: &Received) -> Result<Claim, AppendError> {
        let tags = notes::request_tags(received.signal, &received.raw, received.sender);
        let head = RecordHead { arrival_ns: (self.clock)(), tags };
        let payload = notes::request_payload(&received.raw, received.sender);
        self.log.append_of(Some(received.sender), head, payload).await
    }

    /// Notes that traces were judged, before their evaluations are sent.
    fn judged(&self, traces: &JudgedTraces) {
        let head = [JUDGED_TAG, WITH_RECORDS, 0, 0];
        let payload = notes::encode_judged(traces.iter().map(|(note, _)| note));
        self.note((NoteKind::Judged, head), traces, payload);
    }

    /// Notes that the evaluations of traces were delivered.
    fn delivered(&self, traces: &JudgedTraces) {
        let payload = notes::encode_delivered(traces.iter().map(|(note, _)| note));
        self.note((NoteKind::Delivered, [DELIVERED_TAG, 0, 0, 0]), traces, payload);
    }

    /// Notes that traces were judged; the receipt holds `claims`, and notes the delivery when its
    /// last clone is dropped.
    pub(super) fn receipt(self: &Arc<Self>, claims: Claims, traces: JudgedTraces) -> Receipt {
        self.judged(&traces);
        let journal = Arc::clone(self);
        Receipt::new(claims, move || journal.delivered(&traces))
    }

    fn note(
        &self,
        (kind, tags): (NoteKind, [u8; 4]),
        traces: &JudgedTraces,
        payload: bytes::Bytes,
    ) {
        if traces.is_empty() {
            return;
        }
        let head = RecordHead { arrival_ns: (self.clock)(), tags };
        match self.log.note(head, payload) {
            Some(claim) => traces.iter().for_each(|(_, cell)| cell.add(kind, claim.clone())),
            // The next process then sends these evaluations again, under the same ids.
            None => self.metrics.notes_lost.add(traces.len() as u64),
        }
    }

    /// Holds a judge's answer in the log, until many others have followed.
    fn hold_answer(&self, claim: Claim) {
        let mut answers = self.answers.lock();
        if answers.len() >= ANSWERS_MAX {
            answers.pop_front();
        }
        answers.push_back(claim);
    }

    /// Searches for the largest holder of a kind at a place, at intervals while the log is three
    /// quarters full. `largest` returns its name and claimed bytes.
    pub(super) fn look_for_holder<N: std::fmt::Display>(
        &self,
        (holder, place): (LogHolder, usize),
        largest: impl FnOnce() -> Option<(N, u64)>,
    ) {
        if !self.holders.is_due(holder, place) {
            return;
        }
        let usage = self.log.usage();
        if usage.bytes / 3 < usage.bytes_max / 4 {
            return;
        }
        if let Some((name, bytes)) = largest() {
            self.holders.found((holder, place), &name, bytes, usage.bytes_max);
        }
    }

    /// Returns the bytes of the log claimed by forwards, from a request on.
    pub(super) fn held_by_forwards(&self) -> Option<(&'static str, u64)> {
        let onwards = self.log.source().lowest_onwards()?;
        Some(("see spanscore_forward_requests_in_log", self.log.bytes_from(onwards)))
    }

    /// Returns true if all records of a trace are in the log, which can then note its judgement.
    pub(super) fn has_all_of(&self, trace: &TraceSpans) -> bool {
        trace.claims.are_of(self.log.source())
    }

    /// Returns a probe that is true while the log accepts records. It does not keep the log open.
    pub(super) fn works(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let log = self.log.downgrade();
        move || {
            log.upgrade().is_some_and(|log| {
                let usage = log.usage();
                !usage.is_failing && !usage.is_full
            })
        }
    }

    /// Returns the log.
    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// Waits until all records are on disk; returns false if that fails.
    pub(super) async fn flush(&self) -> bool {
        self.log.flush().await
    }
}

impl AnswerLog for Journal {
    fn keep(&self, key: [u8; 16], text: String) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let head = RecordHead { arrival_ns: (self.clock)(), tags: [ANSWER_TAG, 0, 0, 0] };
        let payload = notes::encode_answer(key, &text);
        Box::pin(async move {
            match self.log.append(head, payload).await {
                Ok(claim) => self.hold_answer(claim),
                // A lost answer costs a request.
                Err(_) => self.metrics.notes_lost.add(1),
            }
        })
    }
}

impl ReadBack for Journal {
    fn read_back(&self, position: u64) -> Result<(Signal, RawBody), String> {
        let Record { head, payload, .. } =
            self.log.read(position).map_err(|error| error.to_string())?;
        let unknown = || "this record is no request".to_owned();
        let request = notes::request(head.tags, payload).ok_or_else(unknown);
        request.map(|(signal, raw, _)| (signal, raw))
    }
}

/// Logs the result of opening: damage, and the size of the log.
fn tell(recovered: &Recovered) {
    recovered.log_damage();
    let Recovered { segments, bytes, .. } = *recovered;
    if segments > 0 {
        tracing::info!(segments, bytes, "an earlier process left a log, which is read now");
    }
}
