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
//! segment for as long as anything made of it is unfinished. The next process restores the open
//! traces, and those that were judged and may be revised.
//!
//! Each trace has two notes. The first, before its evaluations leave, tells the next process their
//! revision, and by that their ids; the second, once they arrived, that they need not be sent
//! again. Evaluations with the first note alone are sent again under the same ids, by which
//! consumers can drop duplicates.

mod metrics;
pub(super) mod notes;
mod restore;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use opentelemetry::metrics::Meter;

use metrics::JournalMetrics;
use notes::{ANSWER_TAG, DELIVERED_TAG, JUDGED_TAG, JudgedNote};
use spanscore_ask::judge::AnswerLog;
use spanscore_base::model::{Claim, Claims, Receipt};
use spanscore_base::otlp::{RawBody, Signal};
use spanscore_emit::forward::ReadBack;
use spanscore_log::{
    AppendError, Clock, Folder, Log, LogLimits, LogOpenError, Record, RecordHead, Recovered,
    system_clock,
};
use spanscore_receive::Received;

pub(super) use restore::{EarlierVerdicts, Restore};

/// Errors of opening `data_dir`.
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
}

/// Recovery claim: holds all records of earlier processes until they were read.
pub(super) struct RecoveryClaim(Claim);

impl Journal {
    /// Opens the log in `data_dir`.
    ///
    /// # Errors
    /// The folder or the log cannot be used.
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
        let metrics = JournalMetrics::new(meter, &log, &recovered);
        Ok((Arc::new(Self { log, clock, metrics }), RecoveryClaim(all)))
    }

    /// Appends a request with the configured durability; returns a claim on its position.
    ///
    /// # Errors
    /// The log cannot take it.
    pub(super) async fn keep(&self, received: &Received) -> Result<Claim, AppendError> {
        let tags = notes::request_tags(received.signal, &received.raw, received.sender);
        let head = RecordHead { arrival_ns: (self.clock)(), tags };
        let payload = notes::request_payload(&received.raw, received.sender);
        self.log.append(head, payload).await
    }

    /// Notes that traces were judged, before their evaluations leave.
    fn judged(&self, notes: &[JudgedNote]) {
        self.note(JUDGED_TAG, notes, notes::encode_judged(notes));
    }

    /// Notes that the evaluations of traces were delivered.
    fn delivered(&self, notes: &[JudgedNote]) {
        self.note(DELIVERED_TAG, notes, notes::encode_delivered(notes));
    }

    /// Notes that traces were judged; the receipt holds `claims`, and notes the delivery when its
    /// last clone is dropped.
    pub(super) fn receipt(self: &Arc<Self>, claims: Claims, notes: Vec<JudgedNote>) -> Receipt {
        self.judged(&notes);
        let journal = Arc::clone(self);
        Receipt::new(claims, move || journal.delivered(&notes))
    }

    fn note(&self, tag: u8, notes: &[JudgedNote], payload: bytes::Bytes) {
        if notes.is_empty() {
            return;
        }
        let head = RecordHead { arrival_ns: (self.clock)(), tags: [tag, 0, 0, 0] };
        if !self.log.note(head, payload) {
            // The next process then sends these evaluations again, under the same ids.
            self.metrics.notes_lost(notes.len());
        }
    }

    /// Returns a probe that is true while the log can be written. It does not keep the log open.
    pub(super) fn works(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let log = self.log.downgrade();
        move || log.upgrade().is_some_and(|log| !log.usage().is_failing)
    }

    /// Returns the log.
    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// Waits until all records are on disk; returns false if they cannot be.
    pub(super) async fn flush(&self) -> bool {
        self.log.flush().await
    }
}

impl AnswerLog for Journal {
    fn keep(&self, key: [u8; 16], text: String) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let head = RecordHead { arrival_ns: (self.clock)(), tags: [ANSWER_TAG, 0, 0, 0] };
        let payload = notes::encode_answer(key, &text);
        Box::pin(async move {
            // The claim on the judged trace keeps its segment. A lost answer costs a request.
            if self.log.append(head, payload).await.is_err() {
                self.metrics.notes_lost(1);
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
    recovered.tell_of_damage();
    let Recovered { segments, bytes, .. } = *recovered;
    if segments > 0 {
        tracing::info!(segments, bytes, "an earlier process left a log, which is read now");
    }
}
