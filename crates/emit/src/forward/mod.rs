//! Forwards: pass received requests on to other OTLP backends.
//!
//! ```text
//! offer -> [chosen traces: held until judged] -> queue (bytes, or places in the log) -> consumers
//! ```
//!
//! In comes each request that was accepted, once. A protobuf request reaches the backend byte by
//! byte as it came, JSON too where the backend speaks HTTP; only the compression is that of the
//! hop. [`Forwards::offer`] never waits, so a dead backend slows no receiver. A request that finds
//! no room is read from the log again when its turn comes; without a log it is dropped and counted.
//!
//! **Invariant:** items that were accepted are sent, failed, dropped, not chosen, held or queued,
//! and counted as one of these ([`books`]).

mod books;
mod change;
mod memory;
mod parcel;
mod passed;
mod places;
mod queue;
mod running;
mod select;
mod send;
mod settings;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry::metrics::Meter;
use parking_lot::{Mutex, RwLock};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use change::ForwardsChange;
pub use passed::{ForwardLog, ReadBack};
pub use select::JudgedTrace;
pub use settings::{FORWARD_KINDS, ForwardSettings, forward_schema, read_forwards};

use super::Undelivered;
use books::ForwardMetrics;
use change::RetiredForward;
use passed::PassedFile;
use running::RunningForward;
use spanscore_base::model::{Claim, Memory, MemoryQuota, Sender};
use spanscore_base::otlp::{RawBody, Signal};

/// Failure of a forward to start.
#[derive(Debug, thiserror::Error)]
#[error("forward `{forward}`: {error}")]
pub struct ForwardStartError {
    /// Its name in the config.
    pub forward: String,
    /// Text of the failure, such as that a certificate cannot be read.
    pub error: String,
}

/// Times for which chosen traces are held and remembered: the same as in the shards.
#[derive(Clone, Copy, Debug)]
pub struct HoldTimes {
    /// The longest that a trace stays open.
    pub open_max: Duration,
    /// Time for which a judged trace is remembered.
    pub remember: Duration,
}

/// A request that was accepted.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// Signal of its items.
    pub signal: Signal,
    /// Protobuf, not compressed.
    pub request: &'a Bytes,
    /// The form it came in.
    pub raw: &'a RawBody,
    /// Its spans, log records or data points.
    pub items: u64,
    /// Its sender.
    pub sender: Sender,
}

impl Passing<'_> {
    /// Returns true if the request is part of a larger buffer of its connection.
    fn is_shared(&self) -> bool {
        self.raw.compression.is_none() && !self.raw.is_json
    }
}

/// The running forwards; by default none, and none can be added.
#[derive(Default)]
pub struct Forwards {
    /// Forwards of one config; an offer holds the read lock, so it never sees those of two.
    running: RwLock<Vec<RunningForward>>,
    common: Option<ForwardCommon>,
    /// Those that were removed and have not ended.
    retired: Mutex<Vec<RetiredForward>>,
    /// The log has been replayed.
    is_replayed: AtomicBool,
    file_stop: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// Parts that all forwards are made with.
struct ForwardCommon {
    share: Arc<MemoryQuota>,
    books: ForwardMetrics,
    log: Option<ForwardLog>,
    file: Option<Arc<PassedFile>>,
}

impl Forwards {
    /// Starts all forwards; must be called in a Tokio runtime. Backends need not be there yet.
    ///
    /// # Errors
    /// A fault of a backend's settings, or with a file that they name.
    pub fn start(
        settings: &[ForwardSettings],
        memory: &Memory,
        times: HoldTimes,
        meter: &Meter,
        log: Option<&ForwardLog>,
    ) -> Result<Self, ForwardStartError> {
        let file = log.map(|log| Arc::new(PassedFile::open(&log.folder, log.end)));
        let share = Arc::clone(&memory.forward);
        let books = ForwardMetrics::new(meter, &memory.forward);
        let common = ForwardCommon { share, books, log: log.cloned(), file: file.clone() };
        let forwards = Self { common: Some(common), ..Self::default() };
        let first = forwards.prepare(settings, times)?;
        forwards.take(first);
        if let Some(file) = file {
            let writing = tokio::spawn(file.run(forwards.file_stop.clone()));
            forwards.tasks.lock().push(writing);
        }
        Ok(forwards)
    }

    /// Returns true if any forward needs the judgements of traces.
    pub fn wants_judgements(&self) -> bool {
        self.running.read().iter().any(|forward| forward.choosers().next().is_some())
    }

    /// Returns true if requests of this signal are passed on, and so have to be in the log.
    pub fn wants(&self, signal: Signal) -> bool {
        self.running.read().iter().any(|forward| forward.has(signal))
    }

    /// Takes a request that was accepted. With a claim, what finds no room stays in the log. One
    /// that a forward has passed on before a restart is not passed on again. Never waits.
    pub fn offer(&self, passing: &Passing<'_>, claim: Option<&Claim>) {
        for forward in &*self.running.read() {
            forward.offer(passing, claim);
        }
    }

    /// Takes what was judged of traces: each time that one is judged, and of those without an agent
    /// once they are given up. Never waits.
    pub fn judged(&self, judged: JudgedTrace) {
        for chooser in self.running.read().iter().flat_map(RunningForward::choosers) {
            chooser.judged(judged);
        }
    }

    /// Says that the log has been replayed: what was not offered again is not in it any more.
    pub fn replayed(&self) {
        self.is_replayed.store(true, Ordering::Release);
        self.running.read().iter().for_each(RunningForward::replayed);
    }

    /// Returns the items that each forward has lost since its start, for whatever reason.
    pub fn lost(&self) -> Vec<Undelivered> {
        let Some(common) = &self.common else { return Vec::new() };
        let all = common.books.all.read();
        let lost = all
            .iter()
            .map(|books| Undelivered { name: books.name.clone(), count: books.lost_items() });
        lost.collect()
    }

    /// Returns the items that each forward leaves in the log for the next process, once it was shut
    /// down; forwards that leave nothing do not appear.
    pub fn left(&self) -> Vec<Undelivered> {
        let Some(common) = self.common.as_ref().filter(|common| common.log.is_some()) else {
            return Vec::new();
        };
        let all = common.books.all.read();
        let left = all
            .iter()
            .map(|books| Undelivered { name: books.name.clone(), count: books.left_items() });
        left.filter(|left| left.count > 0).collect()
    }

    /// Sends what is queued, until there is no more time. What is left stays in the log, where
    /// there is one, or is lost and counted. The log must be closed before this is dropped, so that
    /// it keeps what is left.
    pub async fn shutdown(&self, no_more_time: impl Future<Output = ()>) {
        let mut no_more_time = pin!(no_more_time);
        let mut is_over = false;
        let mut endings: Vec<_> =
            self.running.read().iter().map(RunningForward::begin_end).collect();
        for ending in &mut endings {
            ending.end_holding().await;
        }
        let retired: Vec<_> = self.retired.lock().drain(..).collect();
        for retired in retired {
            is_over |= !retired.end_until(no_more_time.as_mut(), is_over).await;
        }
        for ending in endings {
            is_over |= !ending.end_until(no_more_time.as_mut(), is_over).await;
        }
        self.file_stop.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            let _ = task.await;
        }
        let file = self.common.as_ref().and_then(|common| common.file.as_ref());
        if let Some(Err(error)) = file.map(|file| file.write(true)) {
            tracing::warn!(%error, "cannot note what was passed on; a restart sends it again");
        }
    }
}
