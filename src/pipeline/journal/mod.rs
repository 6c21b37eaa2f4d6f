//! What must not be lost: requests as they came, in a log, with notes of what became of them.
//!
//! ```text
//! request ──► log ──► shards ──► judged: note ──► exporters ──► delivered: note
//!              │ claim: the batch, then its traces while they are open or remembered, then their
//!              │        evaluations until they have arrived
//! next start ◄─┘ restore: notes first, then every request, on the clock of its arrival
//! ```
//!
//! A request is in the log before it is acknowledged, as the durability says. The log keeps it for
//! as long as a claim needs it. The next process brings back the open traces, and those that were
//! judged and may be revised; what was delivered is not sent again, what was not is sent under the
//! same ids.

mod metrics;
pub(super) mod notes;
mod restore;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use opentelemetry::metrics::Meter;

use crate::emit::forward::ReadBack;
use crate::judge::AnswerLog;
use crate::log::{
    AppendError, Clock, Folder, Log, LogLimits, LogOpenError, Record, RecordHead, Recovered,
    system_clock,
};
use crate::model::{Claim, Claims, Receipt};
use crate::otlp::{RawBody, Signal};
use crate::receive::Received;
use metrics::JournalMetrics;
use notes::{ANSWER_TAG, DELIVERED_TAG, JUDGED_TAG, JudgedNote};

pub(super) use restore::{Priors, Restore};

/// Why the folder of the data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalOpenError {
    /// Another process uses it.
    #[error("`data_dir` {path}: another process uses it; give each a folder of its own")]
    Taken {
        /// The folder.
        path: String,
    },
    /// It cannot be made or locked.
    #[error("`data_dir` {path}: {error}")]
    Folder {
        /// The folder.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// The log in it cannot be opened.
    #[error("`data_dir` {path}: {error}")]
    Log {
        /// The folder.
        path: String,
        /// What is wrong.
        error: LogOpenError,
    },
}

/// The log of the pipeline.
pub(super) struct Journal {
    log: Log,
    clock: Clock,
    metrics: JournalMetrics,
}

/// What an earlier process left: the claim on it goes once it was looked at.
pub(super) struct Past(Claim);

impl Journal {
    /// Opens the log in a folder of the data.
    ///
    /// # Errors
    /// Where the folder or the log cannot be used.
    pub(super) fn open(
        data_dir: &Path,
        limits: LogLimits,
        meter: &Meter,
    ) -> Result<(Arc<Self>, Past), JournalOpenError> {
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
        Ok((Arc::new(Self { log, clock, metrics }), Past(all)))
    }

    /// Keeps a request, as the durability says; claims its place.
    ///
    /// # Errors
    /// Why it is not kept.
    pub(super) async fn keep(&self, received: &Received) -> Result<Claim, AppendError> {
        let tags = notes::request_tags(received.signal, &received.raw);
        let head = RecordHead { arrival_ns: (self.clock)(), tags };
        self.log.append(head, received.raw.bytes.clone()).await
    }

    /// Notes that traces were judged, before anybody hears of it.
    fn judged(&self, notes: &[JudgedNote]) {
        self.note(JUDGED_TAG, notes, notes::encode_judged(notes));
    }

    /// Notes that the evaluations of traces have arrived.
    fn delivered(&self, notes: &[JudgedNote]) {
        self.note(DELIVERED_TAG, notes, notes::encode_delivered(notes));
    }

    /// Notes that traces were judged, and what is to be noted once their evaluations, made of what
    /// is claimed, have arrived.
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
            // The next process then says again what was said, under the same ids.
            self.metrics.notes_lost(notes.len());
        }
    }

    /// Says, whenever it is asked, whether the log can be written; does not keep it open.
    pub(super) fn works(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let log = self.log.downgrade();
        move || log.upgrade().is_some_and(|log| !log.usage().is_failing)
    }

    /// The log.
    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// Waits until all that was kept is with the disk; false where it cannot be.
    pub(super) async fn flush(&self) -> bool {
        self.log.flush().await
    }
}

impl AnswerLog for Journal {
    fn keep(&self, key: [u8; 16], text: String) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let head = RecordHead { arrival_ns: (self.clock)(), tags: [ANSWER_TAG, 0, 0, 0] };
        let payload = notes::encode_answer(key, &text);
        Box::pin(async move {
            // The claim of what was judged keeps it. Without it a crash only asks again.
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
        notes::request(head.tags, payload).ok_or_else(unknown)
    }
}

/// Says what was found damaged.
fn tell(recovered: &Recovered) {
    recovered.tell_of_damage();
    let Recovered { segments, bytes, .. } = *recovered;
    if segments > 0 {
        tracing::info!(segments, bytes, "an earlier process left a log, which is read now");
    }
}
