//! A log of records in files, that survives the process.
//!
//! ```text
//! append ──► queue ──► writer thread: one write for all that waits, one sync ──► segment files
//!   claim ◄── answered as the durability says                         read, records ◄──┘
//! ```
//!
//! Records stand one after another in segments; a record's position is its distance from the
//! beginning of the first segment there ever was, so positions only grow. A segment is removed when
//! no [`Claim`] needs a position in it, or by its age, or, where the log is told so, for room.
//!
//! **Invariants:** what was answered is read again after a crash that the durability survives;
//! damage never stops a start: what is torn is cut, what is broken is passed over and counted, a
//! file that is no segment is set aside; nothing is read that was not written.
//!
//! What the payloads mean is their writers' affair: requests of senders and notes of the pipeline,
//! or evaluations on their way to an exporter.

mod disk;
#[cfg(test)]
mod fake;
mod frame;
mod loan;
mod open;
mod queue;
mod reader;
mod segments;
mod settings;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::model::{Claim, Source};
use frame::frame_bytes;
use queue::WriteQueue;
use segments::Segments;

pub use disk::{Disk, DiskFile, Folder};
pub use frame::{RECORD_HEAD_BYTES, RecordHead};
pub use loan::Loan;
pub use open::{LogOpenError, Recovered};
pub use queue::{AppendError, LogCounts};
pub use reader::{HeadReader, RecordReader, Skipped};
pub use settings::{Durability, LogLimits, LogSettings, WhenFull};
pub use writer::PROBE_TAG;

/// Longest that closing a log waits for what is being written.
const END_WAIT: Duration = Duration::from_secs(5);

/// Tells the time, unix nanoseconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The clock of the machine.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// One record, read again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Where it stands.
    pub position: u64,
    /// What is kept beside the payload.
    pub head: RecordHead,
    /// What was appended.
    pub payload: Bytes,
}

/// How a log stands now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogUsage {
    /// Bytes of all segments.
    pub bytes: u64,
    /// How many there may be.
    pub bytes_max: u64,
    /// Bytes of its room that others use.
    pub lent: u64,
    /// Segments.
    pub segments: usize,
    /// Bytes that wait to be written.
    pub waiting: u64,
    /// A write or a sync failed, and nothing as large has succeeded since.
    pub is_failing: bool,
    /// What happened since the start.
    pub counts: LogCounts,
}

/// A log of records. Clones are the same log; the last one to go ends its thread, once all that
/// waits is written, or after some seconds.
#[derive(Clone)]
pub struct Log(Arc<LogParts>);

/// A log that may have been closed.
#[derive(Clone)]
pub struct WeakLog(Weak<LogParts>);

impl std::fmt::Debug for WeakLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WeakLog")
    }
}

impl WeakLog {
    /// The log, unless it was closed.
    pub fn upgrade(&self) -> Option<Log> {
        self.0.upgrade().map(Log)
    }
}

struct LogParts {
    queue: Arc<WriteQueue>,
    segments: Arc<Segments>,
    source: Arc<Source>,
    /// Where the records ended that were there at the start.
    found_end: u64,
}

impl Log {
    /// Opens the log of a folder: cuts what is torn, sets aside what is no segment, and begins a
    /// new segment. Where there is no room for that it refuses all records, and goes on trying:
    /// what is found may make room. Reads the last segment as a whole. The claim is on all that was
    /// found: it goes once that was looked at.
    ///
    /// # Errors
    /// Where the folder cannot be read, or nobody may write to it.
    pub fn open(
        disk: Arc<dyn Disk>,
        limits: LogLimits,
        clock: Clock,
    ) -> Result<(Self, Recovered, Claim), LogOpenError> {
        let (segments, recovered) = open::recover(&disk)?;
        let segments = Arc::new(segments);
        let source = Arc::new(Source::default());
        let all = source.claim(0);
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

    /// Appends a record, and claims its position. Answers as the durability says: at once, when the
    /// system has it, or when the disk has it.
    ///
    /// # Errors
    /// Why it is not kept; the caller may try again.
    pub async fn append(&self, head: RecordHead, payload: Bytes) -> Result<Claim, AppendError> {
        let (position, written) =
            self.0.queue.push(head, payload, |position| self.0.source.claim(position))?;
        let Some(written) = written else { return Ok(position) };
        match written.await {
            Ok(Ok(())) => Ok(position),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(AppendError::Failed),
        }
    }

    /// Appends a record that nobody waits for and nobody claims; false where there is no room, of
    /// which it has an eighth more than others. One that cannot be written is kept for a while.
    pub fn note(&self, head: RecordHead, payload: Bytes) -> bool {
        self.0.queue.push_note(head, payload).is_ok()
    }

    /// Reads the record at a position again. Blocks on the disk.
    ///
    /// # Errors
    /// Where it is not there, no more or not yet, and where it is damaged.
    pub fn read(&self, position: u64) -> io::Result<Record> {
        reader::read(&self.0.segments, position)
    }

    /// The records that were there at the start, in order. Blocks on the disk.
    pub fn records(&self) -> RecordReader {
        RecordReader::new(Arc::clone(&self.0.segments), self.0.found_end)
    }

    /// The records from a position on that are written now, in order. Blocks on the disk.
    pub fn records_from(&self, position: u64) -> RecordReader {
        let end = self.0.segments.end();
        RecordReader::new(Arc::clone(&self.0.segments), end).starting_at(position)
    }

    /// The same log, which does not keep it open.
    pub fn downgrade(&self) -> WeakLog {
        WeakLog(Arc::downgrade(&self.0))
    }

    /// The claims on its positions.
    pub fn source(&self) -> &Arc<Source> {
        &self.0.source
    }

    /// Where the records ended that were there at the start.
    pub fn found_end(&self) -> u64 {
        self.0.found_end
    }

    /// Removes nothing any more: from now on claims are let go because the process ends, not
    /// because their work is done.
    pub fn keep_all(&self) {
        self.0.queue.keeps_all.store(true, Ordering::Release);
    }

    /// Waits until all that was appended so far is with the system, and with the disk where that
    /// can be had; false where it cannot be written.
    pub async fn flush(&self) -> bool {
        self.0.queue.flush().await
    }

    /// How it stands.
    pub fn usage(&self) -> LogUsage {
        let queue = &self.0.queue;
        LogUsage {
            bytes: self.0.segments.bytes(),
            bytes_max: queue.limits.size_max.saturating_add(queue.borrowed()),
            lent: queue.lent(),
            segments: self.0.segments.count(),
            waiting: queue.waiting(),
            is_failing: queue.is_failing.load(Ordering::Relaxed),
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

/// Bytes that a record with so long a payload takes in a log.
pub fn record_bytes(payload: usize) -> u64 {
    frame_bytes(payload)
}
