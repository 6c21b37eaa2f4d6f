//! Write-ahead log: checksummed records in segment files that survive the process.
//!
//! ```text
//! append ──► queue ──► writer thread: one write for all that wait, one sync ──► segment files
//!   claim ◄── answered as the durability says                         read, records ◄──┘
//! ```
//!
//! A record's position is its distance from the beginning of the first segment ever, so positions
//! only grow. The oldest segment is removed when no [`Claim`] needs it, by age, or for space if the
//! settings say so. When a log fills up, the claimed records of closed segments are copied together
//! at their positions, and the rest is freed ([compaction](compact)).
//!
//! **Invariants:** an answered record is read again after every crash that its durability survives.
//! Damage never stops a start: a torn end is cut, broken records are skipped and counted, and a
//! file that is not a segment is set aside. Nothing is read that was not written.
//!
//! One thread writes, so file order is the order of positions. All records that wait during a sync
//! share the next write and sync (group commit).
//!
//! Writers define the payloads: requests of senders and notes of the pipeline, or evaluations for
//! an exporter.

mod compact;
mod disk;
mod frame;
mod loan;
mod open;
mod queue;
mod reader;
mod segments;
mod settings;
mod shares;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use frame::frame_bytes;
use queue::WriteQueue;
use segments::Segments;
use spanscore_base::model::{Claim, NoteClaim, Sender, Source};

pub use disk::{Disk, DiskFile, Folder};
pub use frame::{RECORD_HEAD_BYTES, RecordHead};
pub use loan::Loan;
pub use open::{LogOpenError, Recovered};
pub use queue::{AppendError, LogCounts};
pub use reader::{HeadReader, RecordReader, Skipped};
pub use settings::{Durability, LogLimits, LogSettings, WhenFull};
pub use writer::PROBE_TAG;

/// Longest wait of a closing log for its last writes.
const END_WAIT: Duration = Duration::from_secs(5);

/// Clock, unix nanoseconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Returns the clock of the system.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Record read from a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Position in the log.
    pub position: u64,
    /// Metadata.
    pub head: RecordHead,
    /// The appended bytes.
    pub payload: Bytes,
}

/// Snapshot of a log's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogUsage {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Limit on the bytes of all segments, including borrowed space.
    pub bytes_max: u64,
    /// Bytes of its space lent to other logs.
    pub lent: u64,
    /// Number of segments.
    pub segments: usize,
    /// Bytes waiting to be written.
    pub waiting: u64,
    /// True after a failed write or sync, until one of that size succeeds.
    pub is_failing: bool,
    /// True after a record found no space, until there is space for twice as much.
    pub is_full: bool,
    /// Notes released before their records because of the memory limit, since the start.
    pub untied_notes: u64,
    /// Counts since the start.
    pub counts: LogCounts,
}

/// Write-ahead log of records. Clones share the log. Dropping the last one ends its thread, after
/// all waiting records are written or a few seconds have passed.
#[derive(Clone)]
pub struct Log(Arc<LogParts>);

/// Weak handle of a log.
#[derive(Clone, Debug)]
pub struct WeakLog(Weak<LogParts>);

impl WeakLog {
    /// Returns the log, unless it is closed.
    pub fn upgrade(&self) -> Option<Log> {
        self.0.upgrade().map(Log)
    }
}

struct LogParts {
    queue: Arc<WriteQueue>,
    segments: Arc<Segments>,
    source: Arc<Source>,
    /// Position after the records found at the start.
    found_end: u64,
}

impl Log {
    /// Opens the log of a folder: cuts a torn end, sets aside files that are not segments, and
    /// begins a new segment. Without space for that it refuses all records and keeps trying, since
    /// delivering the old records may free space. Reads the whole last segment. The returned claim
    /// covers all old records; drop it once they are read.
    ///
    /// # Errors
    /// If the folder cannot be read, or files in it cannot be written.
    pub fn open(
        disk: Arc<dyn Disk>,
        limits: LogLimits,
        clock: Clock,
    ) -> Result<(Self, Recovered, Claim), LogOpenError> {
        let (segments, recovered) = open::recover(&disk)?;
        let segments = Arc::new(segments);
        let source = Arc::new(Source::default());
        let all = source.claim_onwards(0);
        let queue = Arc::new(WriteQueue::new(limits, recovered.end, segments.bytes()));
        let queued = Arc::clone(&queue);
        let kept = Arc::clone(&segments);
        let mut writer = writer::LogWriter::new(disk, queued, kept, Arc::clone(&source), clock);
        if let Err(error) = writer.begin(recovered.end) {
            use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
            if let PermissionDenied | ReadOnlyFilesystem = error.kind() {
                return Err(LogOpenError::Write(error));
            }
            writer.failed(&error, "begin a segment");
        }
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || writer.run())
            .map_err(LogOpenError::Write)?;
        let found_end = recovered.end;
        let parts = LogParts { queue, segments, source, found_end };
        Ok((Self(Arc::new(parts)), recovered, all))
    }

    /// Appends a record and claims its position. Answers as the durability says: at once, after the
    /// write, or after the sync.
    ///
    /// # Errors
    /// Cause of the refusal; the caller may retry.
    pub async fn append(&self, head: RecordHead, payload: Bytes) -> Result<Claim, AppendError> {
        self.append_of(None, head, payload).await
    }

    /// Appends a record of a sender, within its share of the log.
    ///
    /// # Errors
    /// Cause of the refusal; the caller may retry.
    pub async fn append_of(
        &self,
        sender: Option<Sender>,
        head: RecordHead,
        payload: Bytes,
    ) -> Result<Claim, AppendError> {
        let bytes = frame_bytes(payload.len());
        let claim = |position| self.0.source.claim(position, bytes);
        let (position, written) = self.0.queue.push(sender, (head, payload), claim)?;
        let Some(written) = written else { return Ok(position) };
        match written.await {
            Ok(Ok(())) => Ok(position),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(AppendError::Failed),
        }
    }

    /// Appends a record without an answer, and claims it. `None` without space, of which such notes
    /// have an eighth more than other records. A note that cannot be written is retried from
    /// memory, up to a limit.
    pub fn note(&self, head: RecordHead, payload: Bytes) -> Option<NoteClaim> {
        let claim = NoteClaim::default();
        let pushed = self.0.queue.push_note(head, payload, claim.clone(), &self.0.source);
        pushed.ok().map(|()| claim)
    }

    /// Reads the record at a position. Blocks on the disk.
    ///
    /// # Errors
    /// If there is no record at the position, or it is damaged.
    pub fn read(&self, position: u64) -> io::Result<Record> {
        reader::read(&self.0.segments, position)
    }

    /// Returns the records found at the start, in order. Blocks on the disk.
    pub fn records(&self) -> RecordReader {
        RecordReader::new(Arc::clone(&self.0.segments), self.0.found_end)
    }

    /// Returns the records written so far from a position on, in order. Blocks on the disk.
    pub fn records_from(&self, position: u64) -> RecordReader {
        let end = self.0.segments.end();
        RecordReader::new(Arc::clone(&self.0.segments), end).starting_at(position)
    }

    /// Returns a weak handle, which does not keep the log open.
    pub fn downgrade(&self) -> WeakLog {
        WeakLog(Arc::downgrade(&self.0))
    }

    /// Returns the claims on its positions.
    pub fn source(&self) -> &Arc<Source> {
        &self.0.source
    }

    /// Returns the bytes of the segments with records at or after a position.
    pub fn bytes_from(&self, position: u64) -> u64 {
        let segments = &self.0.segments;
        segments.bytes().saturating_sub(segments.bytes_before(position))
    }

    /// Returns the position after the records found at the start.
    pub fn found_end(&self) -> u64 {
        self.0.found_end
    }

    /// Stops the removal of segments. From now on claims are dropped because the process ends, not
    /// because their work is done.
    pub fn keep_all(&self) {
        self.0.queue.keeps_all.store(true, Ordering::Release);
    }

    /// Waits until all records appended so far are written and synced; false if that fails.
    pub async fn flush(&self) -> bool {
        self.0.queue.flush().await
    }

    /// Returns a snapshot of the log's state.
    pub fn usage(&self) -> LogUsage {
        let queue = &self.0.queue;
        LogUsage {
            bytes: self.0.segments.bytes(),
            bytes_max: queue.limits.size_max.saturating_add(queue.borrowed()),
            lent: queue.lent(),
            segments: self.0.segments.count(),
            waiting: queue.waiting(),
            is_failing: queue.is_failing.load(Ordering::Relaxed),
            is_full: queue.is_full(),
            untied_notes: self.0.source.untied(),
            counts: queue.counts(),
        }
    }
}

impl Drop for LogParts {
    fn drop(&mut self) {
        self.queue.close();
        self.queue.wait_end(END_WAIT);
    }
}

/// Returns the size in a log of a record with a payload of this length.
pub fn record_bytes(payload: usize) -> u64 {
    frame_bytes(payload)
}
