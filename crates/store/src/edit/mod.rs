//! Edits by people: annotations and dataset items.
//!
//! The writer makes them between its batches, each in its own transaction. The caller waits for
//! that, within a limit; an edit without a waiting caller is skipped.

mod annotation;
mod dataset;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

pub use annotation::{AnnotationChange, NewAnnotation};
pub use dataset::{DatasetItemChange, NewDatasetItem};

use crate::query::StoreQueryError;
use crate::store::StoreView;

/// Longest wait for the writer.
pub const EDIT_MAX: Duration = Duration::from_secs(5);

/// Approximate bytes of a run in the file: rows and their indexes, content, definitions (a shared
/// set counts with each run), evaluations, annotations and items. Lengths are read without the
/// texts.
const RUN_BYTES: &str = "4096
    + (SELECT count(*) * 128 FROM calls c WHERE c.trajectory = t.seq)
    + ifnull((SELECT length(content) FROM trajectory_contents c WHERE c.seq = t.seq), 0)
    + ifnull((SELECT length(content) FROM definitions d WHERE d.id = t.definitions), 0)
    + (SELECT ifnull(sum(512 + octet_length(ifnull(e.explanation, ifnull(e.error, '')))
        + ifnull(octet_length(d.details), 0)), 0)
        FROM evaluations e LEFT JOIN evaluation_details d ON d.seq = e.seq
        WHERE e.trajectory = t.seq)
    + ifnull((SELECT sum(octet_length(comment)) FROM annotations a WHERE a.trajectory = t.seq), 0)
    + ifnull((SELECT sum(octet_length(criteria)) FROM dataset_items d
        WHERE d.trace_id = t.trace_id), 0)";

/// Reason for a refused edit.
#[derive(Debug, thiserror::Error)]
pub enum StoreEditError {
    /// Its run is missing.
    #[error(transparent)]
    Run(#[from] StoreQueryError),
    /// An invalid value.
    #[error("{what}")]
    Value {
        /// Name of the parameter.
        name: &'static str,
        /// Description, with the remedy.
        what: String,
    },
    /// Missing subject.
    #[error("there is no {what}")]
    Missing {
        /// Description.
        what: String,
    },
    /// It already exists.
    #[error("there is {what} already: change it, or choose another name")]
    Exists {
        /// Description.
        what: String,
    },
    /// It was changed meanwhile.
    #[error("it was changed meanwhile, to revision {revision}: read it again")]
    Changed {
        /// Revision in the store.
        revision: i64,
    },
    /// A limit was reached.
    #[error("there are {most} {what}, the most that are kept: delete some")]
    Full {
        /// Description.
        what: &'static str,
        /// Limit.
        most: i64,
    },
    /// Too many edits are waiting.
    #[error("too many changes wait for the store: try again in a second")]
    Busy,
    /// The writer has ended, or does not answer in time.
    #[error("the store cannot be written now: see its state at `/status`")]
    Unavailable,
}

impl From<rusqlite::Error> for StoreEditError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Run(error.into())
    }
}

/// Edit waiting for the writer.
pub(crate) type QueuedEdit = Box<dyn FnOnce(&mut Connection) + Send>;

impl StoreView {
    /// Sends an edit to the writer and waits for it; must not run on a network thread.
    fn edit<T: Send + 'static>(
        &self,
        edit: impl FnOnce(&Transaction<'_>) -> Result<T, StoreEditError> + Send + 'static,
    ) -> Result<T, StoreEditError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let is_awaited = Arc::new(AtomicBool::new(true));
        let goes_on = Arc::clone(&is_awaited);
        let queued: QueuedEdit = Box::new(move |connection| {
            if goes_on.load(Ordering::Acquire) {
                // Fails only without a waiting caller.
                let _ = sender.send(committed(connection, edit));
            }
        });
        self.queue.put_edit(queued)?;
        receiver.recv_timeout(EDIT_MAX).unwrap_or_else(|_| {
            is_awaited.store(false, Ordering::Release);
            Err(StoreEditError::Unavailable)
        })
    }
}

fn committed<T>(
    connection: &mut Connection,
    edit: impl FnOnce(&Transaction<'_>) -> Result<T, StoreEditError>,
) -> Result<T, StoreEditError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = edit(&transaction)?;
    transaction.commit()?;
    Ok(done)
}

/// Refuses to retain more runs while retained ones take this many bytes: the rest of the file is
/// for others.
fn check_pinned(connection: &Connection, bytes_max: i64) -> Result<(), StoreEditError> {
    let query = "SELECT ifnull(sum(count), 0) FROM counts WHERE name = 'pinned_bytes'";
    if connection.query_row(query, [], |row| row.get::<_, i64>(0))? < bytes_max {
        return Ok(());
    }
    let what = "MiB of runs with a verdict of a person or in a dataset";
    Err(StoreEditError::Full { what, most: bytes_max >> 20 })
}

/// Retains a run while an annotation or an item refers to it, and counts its bytes.
fn pin(connection: &Connection, trace_id: &[u8]) -> rusqlite::Result<()> {
    let pinned = "SELECT ifnull(sum(pinned), 0) FROM trajectories WHERE trace_id = ?1";
    let pinned = || connection.query_row(pinned, [trace_id], |row| row.get::<_, i64>(0));
    let before = pinned()?;
    let update = format!(
        "UPDATE trajectories AS t SET pinned = CASE
         WHEN EXISTS (SELECT 1 FROM annotations a WHERE a.trajectory = t.seq)
         OR EXISTS (SELECT 1 FROM dataset_items d WHERE d.trace_id = t.trace_id)
         THEN {RUN_BYTES} ELSE 0 END WHERE trace_id = ?1"
    );
    connection.execute(&update, [trace_id])?;
    connection.execute(
        "INSERT INTO counts VALUES ('pinned_bytes', ?1)
         ON CONFLICT (name) DO UPDATE SET count = count + ?1",
        [pinned()? - before],
    )?;
    Ok(())
}

/// Checks that a revision is the expected one.
fn check_revision(found: i64, expected: Option<i64>) -> Result<(), StoreEditError> {
    match expected {
        Some(expected) if expected != found => Err(StoreEditError::Changed { revision: found }),
        _ => Ok(()),
    }
}

/// Checks the length of a text.
fn check_text(name: &'static str, text: &str, most: usize) -> Result<(), StoreEditError> {
    if text.len() <= most {
        return Ok(());
    }
    let what = format!("`{name}` has {} bytes: at most {most}", text.len());
    Err(StoreEditError::Value { name, what })
}

/// Checks that a table has room for one more row.
fn check_room(
    connection: &Connection,
    count: &str,
    values: impl rusqlite::Params,
    (what, most): (&'static str, i64),
) -> Result<(), StoreEditError> {
    let rows: i64 = connection.query_row(count, values, |row| row.get(0))?;
    if rows < most { Ok(()) } else { Err(StoreEditError::Full { what, most }) }
}
