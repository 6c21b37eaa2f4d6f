//! Queries of a store: lists, figures by group, one run; for commands, the API and pages.
//!
//! A reader never changes the file, and holds it open only briefly: a query that exceeds
//! [`QUERY_MAX`] is aborted, since the write-ahead file cannot shrink meanwhile.

mod agreement;
pub(crate) mod annotation;
mod argument_errors;
mod compare;
pub(crate) mod dataset;
mod field;
mod figures;
mod filter;
mod group;
mod list;
mod offered;
mod page;
mod restore;
mod row;
mod run;
mod tail;
mod time;
pub(crate) mod trajectory;
mod unpack;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde::Serialize;
use spanscore_base::settings::meant_or_known;

pub use agreement::{LABELS_MAX, PersonLabel};
pub use annotation::{AnnotationFilter, StoredAnnotation};
pub use argument_errors::ArgumentError;
pub use compare::{
    CaseCounts, ComparedSide, EvaluatorComparison, NewFailure, SideComparison, ToolComparison,
    ToolSide,
};
pub use dataset::{DatasetItem, DatasetRow};
pub use field::StoreField;
pub use figures::{CaseFigures, EvaluatorVersionRow, ReasonCount, TOOLS_MAX, ToolFigures};
pub use filter::{StoreFilter, TEXT_BYTES_MAX};
pub use group::{FigureInterval, GroupFigures, IntervalDifference};
pub use list::{EvaluationRow, ROWS_MAX, StoreOrder, StoredGroup};
pub use page::{CallRow, CappedCount, PagePlace, RunOrder, RunPage, SessionPage, StoredPage};
pub use restore::{KnownVerdict, RestoredRun};
pub use run::{RunRow, RunVerdict, SessionRow, SessionRun};
pub use tail::LastRows;
pub use time::point_in_time;
pub use trajectory::{StoredCall, StoredTrajectory};

use crate::open::StoreOpenError;
use crate::schema;

/// Longest query.
pub const QUERY_MAX: Duration = Duration::from_secs(5);
/// SQLite virtual machine steps between two checks of the time.
const STEPS_PER_LOOK: i32 = 10_000;

/// Error of a query.
#[derive(Debug, thiserror::Error)]
pub enum StoreQueryError {
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] StoreOpenError),
    /// SQLite refuses.
    #[error("the store cannot be read: {0}")]
    Sqlite(rusqlite::Error),
    /// The query took too long.
    #[error("the query took over 5 s: ask for a shorter time, or for fewer fields")]
    TooLong,
    /// Unknown field.
    #[error("unknown field `{word}` ({help})")]
    Field {
        /// The given name.
        word: String,
        /// Nearest field, or all.
        help: String,
    },
    /// Value outside of a field's set.
    #[error("`{field}` cannot be `{word}`: {}", meant_or_known(word, words))]
    Word {
        /// Name of the field.
        field: &'static str,
        /// The value.
        word: String,
        /// Allowed values.
        words: &'static [&'static str],
    },
    /// Invalid time.
    #[error("`{0}` is no time: write 1h, 7d, yesterday, 2026-11-27 or 2026-11-27T10:00:00Z")]
    Time(String),
    /// Search text beyond the limit.
    #[error("`text` has {bytes} bytes: at most {TEXT_BYTES_MAX}")]
    Text {
        /// Its bytes.
        bytes: usize,
    },
    /// Invalid trace id.
    #[error("`{id}` is no trace id: write at least 4 of its hexadecimal digits")]
    TraceId {
        /// The text.
        id: String,
    },
    /// Invalid digits in a filter of trace ids.
    #[error("`{id}` is no beginning of a trace id: write its hexadecimal digits")]
    TraceStart {
        /// The text.
        id: String,
    },
    /// Unknown trace.
    #[error("the store holds no trace that begins with `{id}`")]
    NoTrace {
        /// The digits.
        id: String,
    },
    /// Several matching traces.
    #[error("several traces begin with `{id}`: {candidates}")]
    Ambiguous {
        /// The digits.
        id: String,
        /// First digits of some of them.
        candidates: String,
    },
}

impl From<rusqlite::Error> for StoreQueryError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Self::TooLong,
            _ => Self::Sqlite(error),
        }
    }
}

/// Numbers that qualify lists and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreLosses {
    /// Evaluations only in sums.
    pub shed_evaluations: i64,
    /// Unstored runs.
    pub shed_trajectories: i64,
    /// Revised evaluations still in sums.
    pub uncorrected: i64,
    /// Evaluations possibly counted twice in sums.
    pub repeated_unseen: i64,
}

/// Read connection to a store, with or without a collector that writes it.
pub struct StoreReader {
    connection: Connection,
    until: Arc<Mutex<Option<Instant>>>,
    /// Device and inode of the file.
    file: Option<(u64, u64)>,
}

impl StoreReader {
    /// Opens a file.
    ///
    /// # Errors
    /// It is missing, of another version, or unreadable.
    pub fn open(path: &Path) -> Result<Self, StoreOpenError> {
        if !path.is_file() {
            return Err(StoreOpenError::Missing { path: path.to_owned() });
        }
        let sqlite = |error| StoreOpenError::Sqlite { path: path.to_owned(), error };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
        connection.busy_timeout(Duration::from_secs(2)).map_err(sqlite)?;
        let found = schema::version(&connection).map_err(sqlite)?;
        if found > schema::VERSION {
            let known = schema::VERSION;
            return Err(StoreOpenError::Newer { path: path.to_owned(), found, known });
        }
        // A new, unprepared file has no version; its tables follow.
        if (1..schema::VERSION).contains(&found) {
            let known = schema::VERSION;
            return Err(StoreOpenError::Older { path: path.to_owned(), found, known });
        }
        connection.execute_batch("PRAGMA query_only = ON").map_err(sqlite)?;
        let until = Arc::new(Mutex::new(None::<Instant>));
        let deadline = Arc::clone(&until);
        let is_over = move || {
            let until = *deadline.lock();
            until.is_some_and(|until| Instant::now() >= until)
        };
        connection.progress_handler(STEPS_PER_LOOK, Some(is_over)).map_err(sqlite)?;
        Ok(Self { connection, until, file: file_id(path) })
    }

    /// Counts runs.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn count_runs(&self, filter: &StoreFilter) -> Result<CappedCount, StoreQueryError> {
        let connection = self.begin();
        let condition = filter.within(connection)?.of_runs(page::CALLED);
        Ok(page::count(connection, page::RUNS, &condition)?)
    }

    /// Returns the figures of each group in each time bucket, whose number is the last key.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn series(
        &self,
        filter: &StoreFilter,
        by: &[StoreField],
        (start_ms, width_ms): (i64, i64),
    ) -> Result<Vec<StoredGroup>, StoreQueryError> {
        Ok(list::groups(self.begin(), filter, by, Some((start_ms, width_ms.max(1))))?)
    }

    /// Returns true if figures for this filter and these fields come from sums.
    pub fn has_sums(&self, filter: &StoreFilter, by: &[StoreField]) -> bool {
        filter.fits_sums() && by.iter().all(|field| field.sums_column().is_some())
    }

    /// Returns true if the path still leads to the opened file, which is replaced after damage.
    pub fn is_of(&self, path: &Path) -> bool {
        file_id(path).is_some_and(|id| self.file == Some(id))
    }

    /// Returns the figures of each group, from sums if these contain all fields. Sums include shed
    /// evaluations, but round time bounds to minutes, and beyond 48 hours to hours.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn groups(
        &self,
        filter: &StoreFilter,
        by: &[StoreField],
    ) -> Result<Vec<StoredGroup>, StoreQueryError> {
        Ok(list::groups(self.begin(), filter, by, None)?)
    }

    /// Finds a run by its trace id, or its first digits.
    ///
    /// # Errors
    /// There is none, or several match.
    pub fn trajectory(&self, id: &str) -> Result<StoredTrajectory, StoreQueryError> {
        trajectory::find(self.begin(), id)
    }

    /// Returns the losses of lists and sums since the file was created.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn losses(&self) -> Result<StoreLosses, StoreQueryError> {
        let connection = self.begin();
        let mut losses = StoreLosses::default();
        let mut query = connection.prepare("SELECT name, count FROM counts")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let count = row.get(1)?;
            match row.get::<_, String>(0)?.as_str() {
                "shed_evaluations" => losses.shed_evaluations = count,
                "shed_trajectories" => losses.shed_trajectories = count,
                "uncorrected" => losses.uncorrected = count,
                "repeated_unseen" => losses.repeated_unseen = count,
                _ => {}
            }
        }
        Ok(losses)
    }

    /// Starts the time limit of a query.
    fn begin(&self) -> &Connection {
        let until = Some(Instant::now() + QUERY_MAX);
        *self.until.lock() = until;
        &self.connection
    }
}

/// Returns device and inode of a file.
fn file_id(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}
