//! Writer: the only thread that changes the file.
//!
//! It opens the file, writes batches of rows in transactions, and deletes old data. While the file
//! is unwritable it retries, and the queue fills and sheds.

mod collected;
mod content;
mod definitions;
mod names;
mod replaced;
mod retention;
mod rows;
mod statements;
mod sums;
mod traces;
mod users;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rusqlite::{ErrorCode, params};

pub(crate) use content::ContentPolicy;
pub use content::RedactValues;
pub(crate) use names::{TOOLS_MAX, cut, may_be_cut};
pub(crate) use retention::RetentionLimits;
use retention::retain;
use rows::RowWriter;

use spanscore_base::panics::{Panicked, caught};

use crate::counters::{StoreCount, StoreCounters};
use crate::edit::QueuedEdit;
use crate::open::{OpenStore, StoreOpenError, beside, is_damage};
use crate::queue::{StoreBatch, StoreQueue, StoreWork};

/// Rows committed together.
pub(crate) const BATCH_ROWS: usize = 1_000;
/// Longest wait of rows for others.
const GATHER: Duration = Duration::from_millis(100);
/// Longest time without a check of limits.
const IDLE: Duration = Duration::from_secs(1);
/// Interval of retries with an unusable file.
const RETRY: Duration = Duration::from_secs(2);
/// Interval of checks of age and size.
const HOUSEKEEPING: Duration = Duration::from_secs(10);
/// Attempts with a batch that fails for a reason of its own.
const ATTEMPTS_MAX: usize = 3;

/// State of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// The file is being opened.
    Opening,
    /// Rows are written.
    Working,
    /// The file is currently unwritable; the writer retries.
    Failing(String),
    /// The file is unusable for this process.
    Refused(String),
    /// The writer has ended.
    Closed,
}

/// Shared state, logged at each change.
pub(crate) struct SharedState {
    state: Mutex<StoreState>,
    counters: Arc<StoreCounters>,
}

impl SharedState {
    pub(crate) fn new(counters: Arc<StoreCounters>) -> Self {
        Self { state: Mutex::new(StoreState::Opening), counters }
    }

    pub(crate) fn get(&self) -> StoreState {
        self.state.lock().clone()
    }

    pub(crate) fn set(&self, next: StoreState) {
        self.counters.set(StoreCount::IsWorking, u64::from(next == StoreState::Working));
        let mut state = self.state.lock();
        if *state == next {
            return;
        }
        match &next {
            StoreState::Failing(error) => {
                tracing::error!(error, "the store cannot be written; the collector runs on");
            }
            StoreState::Refused(error) => {
                tracing::error!(error, "nothing is stored; the collector runs on");
            }
            StoreState::Working if matches!(*state, StoreState::Failing(_)) => {
                tracing::info!("the store is written again");
            }
            _ => {}
        }
        *state = next;
    }
}

/// Parts of a writer.
pub(crate) struct WriterParts {
    pub(crate) path: PathBuf,
    pub(crate) limits: RetentionLimits,
    pub(crate) policy: ContentPolicy,
    pub(crate) queue: Arc<StoreQueue>,
    pub(crate) counters: Arc<StoreCounters>,
    pub(crate) state: Arc<SharedState>,
}

impl WriterParts {
    /// Runs until the queue is closed and empty, or the file is refused.
    pub(crate) fn run(self) {
        let Some(store) = self.open() else {
            self.queue.close();
            self.discard_all();
            return;
        };
        let rows = RowWriter::new(now_ms());
        let last = last_stored(&store);
        let mut writer = StoreWriter {
            parts: self,
            store,
            rows,
            persisted: [0; 6],
            rested: true,
            panicked: false,
        };
        writer.rows.not_before(last);
        writer.run();
    }

    /// Opens the file; retries unless a newer program wrote it.
    fn open(&self) -> Option<OpenStore> {
        loop {
            match OpenStore::open(&self.path) {
                Ok(store) => {
                    self.counters.add(StoreCount::SetAside, usize::from(store.was_damaged));
                    self.state.set(StoreState::Working);
                    return Some(store);
                }
                Err(error @ StoreOpenError::Newer { .. }) => {
                    self.state.set(StoreState::Refused(error.to_string()));
                    return None;
                }
                Err(error) => self.state.set(StoreState::Failing(error.to_string())),
            }
            if self.queue.pause(RETRY) {
                return None;
            }
        }
    }

    /// Counts all waiting work as lost.
    fn discard_all(&self) {
        loop {
            let batch = self.queue.take(BATCH_ROWS, Duration::ZERO, Duration::ZERO);
            self.lose(&batch);
            let is_last = batch.is_last;
            self.queue.done(batch);
            if is_last {
                return;
            }
        }
    }

    fn lose(&self, batch: &StoreBatch) {
        let evaluations = batch.work.iter().map(|work| match work {
            StoreWork::Evaluations { all, .. } => all.len(),
            StoreWork::Collected { all, .. } => all.len(),
            StoreWork::Trajectory { .. } => 0,
        });
        let merged: i64 = batch.merged.values().map(|row| row.sums.evaluations()).sum();
        let merged = usize::try_from(merged).unwrap_or(0);
        self.counters.add(StoreCount::Lost, evaluations.sum::<usize>() + merged);
    }
}

struct StoreWriter {
    parts: WriterParts,
    store: OpenStore,
    rows: RowWriter,
    /// Counts in the file, of [`PERSISTED`].
    persisted: [u64; 6],
    /// True if nothing was written since the last checkpoint.
    rested: bool,
    /// True if the last batch panicked.
    panicked: bool,
}

/// Counts stored with the figures of a file, by name.
const PERSISTED: [(&str, StoreCount); 6] = [
    ("uncorrected", StoreCount::Uncorrected),
    ("repeated_unseen", StoreCount::RepeatedUnseen),
    ("shed_content", StoreCount::ShedContent),
    ("shed_calls", StoreCount::ShedCalls),
    ("shed_trajectories", StoreCount::ShedTrajectories),
    ("shed_evaluations", StoreCount::ShedEvaluations),
];

impl StoreWriter {
    fn run(mut self) {
        let mut looked = Instant::now();
        let mut is_behind = false;
        loop {
            let idle = if is_behind { Duration::ZERO } else { IDLE };
            let mut batch = self.parts.queue.take(BATCH_ROWS, idle, GATHER);
            self.edit(std::mem::take(&mut batch.edits));
            if batch.work.is_empty() && batch.merged.is_empty() {
                self.rest();
            } else {
                self.write(&batch);
            }
            let is_last = batch.is_last;
            self.parts.queue.done(batch);
            if is_last {
                break;
            }
            if is_behind || looked.elapsed() >= HOUSEKEEPING {
                looked = Instant::now();
                is_behind = caught(|| self.housekeep()).unwrap_or(false);
            }
        }
        let _ = caught(|| self.housekeep());
        self.rest();
        self.parts.state.set(StoreState::Closed);
    }

    /// Makes the waiting edits; one that panics is rolled back.
    fn edit(&mut self, edits: Vec<QueuedEdit>) {
        for edit in edits {
            self.rested = false;
            if caught(|| edit(&mut self.store.connection)).is_err() {
                self.parts.counters.add(StoreCount::Failures, 1);
            }
        }
    }

    /// Writes a batch; retries while the file is unwritable.
    fn write(&mut self, batch: &StoreBatch) {
        let mut attempts = 0;
        loop {
            let error = match caught(|| self.try_write(batch)) {
                Ok(Ok(())) => {
                    self.panicked = false;
                    break self.parts.state.set(StoreState::Working);
                }
                Ok(Err(error)) => error,
                Err(Panicked) => break self.give_up(batch),
            };
            attempts += 1;
            self.rows.forget();
            self.parts.counters.add(StoreCount::Failures, 1);
            if is_damage(&error) && attempts < ATTEMPTS_MAX {
                match self.store.begin_anew() {
                    Ok(()) => self.parts.counters.add(StoreCount::SetAside, 1),
                    Err(error) => self.parts.state.set(StoreState::Failing(error.to_string())),
                }
                continue;
            }
            self.parts.state.set(StoreState::Failing(error.to_string()));
            let is_hopeless = !is_of_the_system(&error) && attempts >= ATTEMPTS_MAX;
            if is_hopeless || self.parts.queue.pause(RETRY) {
                break self.parts.lose(batch);
            }
        }
        self.rested = false;
    }

    /// Continues without a batch that panicked, whose transaction is rolled back.
    fn give_up(&mut self, batch: &StoreBatch) {
        self.rows.forget();
        self.parts.counters.add(StoreCount::Failures, 1);
        self.parts.lose(batch);
        if std::mem::replace(&mut self.panicked, true) {
            let error = "batch after batch panics: please report it with the log".to_owned();
            self.parts.state.set(StoreState::Failing(error));
        }
    }

    fn try_write(&mut self, batch: &StoreBatch) -> rusqlite::Result<()> {
        let transaction = self.store.connection.transaction()?;
        self.rows.write(&transaction, &self.parts.policy, batch, now_ms())?;
        transaction.commit()?;
        self.parts.counters.take(&mut self.rows.counts);
        Ok(())
    }

    /// Enforces the limits of age and size; returns true if more remains.
    fn housekeep(&mut self) -> bool {
        let now_ms = self.rows.now_ms().max(now_ms());
        let counters = Arc::clone(&self.parts.counters);
        let deleted =
            || counters.get(StoreCount::DeletedForAge) + counters.get(StoreCount::DeletedForSize);
        let before = deleted();
        let done = retain(&mut self.store.connection, &self.parts.limits, now_ms, &counters)
            .and_then(|more| self.persist().map(|()| more));
        // Ids of deleted rows are reused.
        if done.is_err() || deleted() != before {
            self.rows.forget();
        }
        self.rested = false;
        self.measure();
        done.unwrap_or_else(|error| {
            tracing::warn!(%error, "the limits of the store could not be held");
            false
        })
    }

    /// Adds the new counts to those in the file.
    fn persist(&mut self) -> rusqlite::Result<()> {
        for ((name, count), known) in PERSISTED.iter().zip(&mut self.persisted) {
            let now = self.parts.counters.get(*count);
            let more = now - *known;
            if more > 0 {
                let query = "INSERT INTO counts VALUES (?1, ?2)
                    ON CONFLICT (name) DO UPDATE SET count = count + ?2";
                let more = i64::try_from(more).unwrap_or(i64::MAX);
                statements::run(&self.store.connection, query, params![name, more])?;
                *known = now;
            }
        }
        Ok(())
    }

    /// Checkpoints all rows into the file, once after each period of work.
    fn rest(&mut self) {
        if std::mem::replace(&mut self.rested, true) {
            return;
        }
        // A reader may block it; the next rest retries.
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let _ = self.store.connection.query_row(checkpoint, [], |_| Ok(()));
        self.measure();
    }

    fn measure(&self) {
        let size = |path| std::fs::metadata(path).map_or(0, |file| file.len());
        let counters = &self.parts.counters;
        counters.set(StoreCount::FileBytes, size(self.store.path.clone()));
        counters.set(StoreCount::WalBytes, size(beside(&self.store.path, "-wal")));
    }
}

/// Returns true for an error of disk or locks, rather than of the rows.
fn is_of_the_system(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
        )
    )
}

/// Returns the last storing time in the file, 0 if there is none.
fn last_stored(store: &OpenStore) -> i64 {
    let query = "SELECT max(stored) FROM trajectories";
    let last = store.connection.query_row(query, [], |row| row.get::<_, Option<i64>>(0));
    last.ok().flatten().unwrap_or(0)
}

/// Returns the time, Unix milliseconds.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
