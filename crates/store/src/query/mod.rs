//! Questions to a store: lists, figures by group, one run. For commands, an API and pages alike.
//!
//! A reader never changes the file, and never holds it open for long: a query that takes more than
//! [`QUERY_MAX`] is ended, since the write-ahead file cannot shrink meanwhile.

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
/// Steps of SQLite's machine between two looks at the clock.
const STEPS_PER_LOOK: i32 = 10_000;

/// Error of a question.
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
    /// No such field.
    #[error("unknown field `{word}` ({help})")]
    Field {
        /// The word.
        word: String,
        /// Nearest field, or all.
        help: String,
    },
    /// Value that a field never has.
    #[error("`{field}` cannot be `{word}`: {}", meant_or_known(word, words))]
    Word {
        /// Word of the field.
        field: &'static str,
        /// The value.
        word: String,
        /// Values that it has.
        words: &'static [&'static str],
    },
    /// No time.
    #[error("`{0}` is no time: write 1h, 7d, yesterday, 2026-11-27 or 2026-11-27T10:00:00Z")]
    Time(String),
    /// Text to search for that is too long.
    #[error("`text` has {bytes} bytes: at most {TEXT_BYTES_MAX}")]
    Text {
        /// Bytes that it has.
        bytes: usize,
    },
    /// No trace id.
    #[error("`{id}` is no trace id: write at least 4 of its hexadecimal digits")]
    TraceId {
        /// The text.
        id: String,
    },
    /// No digits to filter trace ids by.
    #[error("`{id}` is no beginning of a trace id: write its hexadecimal digits")]
    TraceStart {
        /// The text.
        id: String,
    },
    /// No such trace.
    #[error("the store holds no trace that begins with `{id}`")]
    NoTrace {
        /// The digits.
        id: String,
    },
    /// Several traces.
    #[error("several traces begin with `{id}`: {candidates}")]
    Ambiguous {
        /// The digits.
        id: String,
        /// First digits of some.
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

/// Numbers that say how far lists and sums can be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreLosses {
    /// Evaluations that only sums hold.
    pub shed_evaluations: i64,
    /// Runs that are not stored.
    pub shed_trajectories: i64,
    /// Revised evaluations that sums still hold.
    pub uncorrected: i64,
    /// Evaluations that sums may hold twice.
    pub repeated_unseen: i64,
}

/// Connection that reads a store, beside a collector that writes it or without one.
pub struct StoreReader {
    connection: Connection,
    until: Arc<Mutex<Option<Instant>>>,
    /// Device and number of the file.
    file: Option<(u64, u64)>,
}

impl StoreReader {
    /// Opens a file.
    ///
    /// # Errors
    /// There is none, or it is of a newer program.
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
        // A new file that nobody has prepared yet has no version; its tables come.
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

    /// Returns the figures of each group in each bucket of time, whose number is the last key.
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

    /// Returns true if figures of this filter and these fields come from sums.
    pub fn has_sums(&self, filter: &StoreFilter, by: &[StoreField]) -> bool {
        filter.fits_sums() && by.iter().all(|field| field.sums_column().is_some())
    }

    /// Returns true if the path leads to the file that was opened: a damaged one is replaced.
    pub fn is_of(&self, path: &Path) -> bool {
        file_id(path).is_some_and(|id| self.file == Some(id))
    }

    /// Returns the figures of each group. From sums if they tell all fields: then nothing that was
    /// left out of the lists is missing, and the bounds of the time are whole minutes, beyond 48
    /// hours whole hours.
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

    /// Finds a run by its trace id, or the first digits of it.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn trajectory(&self, id: &str) -> Result<StoredTrajectory, StoreQueryError> {
        trajectory::find(self.begin(), id)
    }

    /// Returns what was left out of lists and sums since the file was begun.
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

    /// Starts the time of a query.
    fn begin(&self) -> &Connection {
        let until = Some(Instant::now() + QUERY_MAX);
        *self.until.lock() = until;
        &self.connection
    }
}

/// Returns device and number of a file.
fn file_id(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}
