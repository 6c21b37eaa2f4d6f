//! Write queue: records that wait for the disk, bounded by bytes, taken in groups by one thread.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use spanscore_base::model::{NoteClaim, Sender, Source};

use super::frame::{RecordHead, frame_bytes};
use super::settings::{Durability, LogLimits, WhenFull};
use super::shares::{LogRoom, LogShares};

/// Inverse of the part of a log that a record without room counts for at most: one large request
/// says nothing of the usual ones.
const UNFIT_PARTS: u64 = 64;

/// Cause of a refused record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AppendError {
    /// The log has its full size, and all its segments are needed.
    #[error("the log is full, see log.size_max_mib")]
    Full,
    /// The log is nearly full, and its sender has more of it than its part.
    #[error("the log is nearly full, and the sender has its part of it, see log.size_max_mib")]
    Share,
    /// The disk is slower than the appends.
    #[error("the disk does not keep up, see log.waiting_mib")]
    Behind,
    /// The log cannot be written now.
    #[error("the log cannot be written")]
    Failed,
    /// The record is larger than a log of this size takes.
    #[error("larger than an eighth of the log, see log.size_max_mib")]
    TooLarge,
    /// The log is being closed.
    #[error("the log is closed")]
    Closed,
}

/// Counts of a log since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogCounts {
    /// Records that were written.
    pub written: u64,
    /// Groups of records, one write each.
    pub groups: u64,
    /// Syncs.
    pub syncs: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Syncs that failed.
    pub sync_errors: u64,
    /// Segments dropped although a claim needed them: by age, or for room.
    pub dropped_segments: u64,
    /// Bytes of the dropped segments.
    pub dropped_bytes: u64,
    /// Segments that could not be removed.
    pub remove_errors: u64,
    /// Bytes of records that compaction has copied.
    pub copied_bytes: u64,
    /// Segments that compaction has freed, wherever they stood.
    pub freed_segments: u64,
    /// Bytes that compaction has freed.
    pub freed_bytes: u64,
    /// Compactions that failed.
    pub compaction_errors: u64,
    /// Notes that were accepted and never written, for want of room in memory or on disk.
    pub unwritten_notes: u64,
}

/// Record that waits to be written.
pub(super) struct WaitingRecord {
    pub(super) position: u64,
    /// Sender whose share of the log it counts for.
    pub(super) sender: Option<Sender>,
    pub(super) head: RecordHead,
    pub(super) payload: Bytes,
    pub(super) written: Option<oneshot::Sender<Result<(), AppendError>>>,
    /// Claim of a note: nobody waits for that, and it may get another position.
    pub(super) note: Option<NoteClaim>,
}

/// Answer of the writer to one record.
pub(super) type WriteAnswer = oneshot::Receiver<Result<(), AppendError>>;

#[derive(Default)]
struct Waits {
    next: u64,
    records: Vec<WaitingRecord>,
    flushes: Vec<oneshot::Sender<bool>>,
    /// Bytes of the waiting records.
    bytes: u64,
    /// Bytes of the group that is being written.
    writing: u64,
    /// Bytes of the log by their senders.
    shares: LogShares,
    is_closed: bool,
    /// True once the writer has ended.
    has_ended: bool,
}

/// Queue of records and flushes before the writer, with the byte counts that bound it.
pub(super) struct WriteQueue {
    pub(super) limits: LogLimits,
    waits: Mutex<Waits>,
    more: Condvar,
    ended: Condvar,
    /// Bytes of all segments.
    used: AtomicU64,
    /// Bytes of its room lent to other logs.
    lent: AtomicU64,
    /// Bytes beyond its limit, borrowed from another log.
    borrowed: AtomicU64,
    pub(super) is_failing: AtomicBool,
    /// Bytes of the largest record that found no room, as far as they count, until there is room
    /// for twice as many; else 0.
    unfit: AtomicU64,
    /// True once no segment may be removed.
    pub(super) keeps_all: AtomicBool,
    counts: Mutex<LogCounts>,
}

/// Group of records that the writer takes at once.
pub(super) struct Group {
    pub(super) records: Vec<WaitingRecord>,
    pub(super) flushes: Vec<oneshot::Sender<bool>>,
    /// True if nothing comes after it.
    pub(super) is_last: bool,
}

impl WriteQueue {
    pub(super) fn new(limits: LogLimits, next: u64, used: u64) -> Self {
        let waits = Waits { next, ..Waits::default() };
        Self {
            limits,
            waits: Mutex::new(waits),
            more: Condvar::new(),
            ended: Condvar::new(),
            used: AtomicU64::new(used),
            lent: AtomicU64::new(0),
            borrowed: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
            unfit: AtomicU64::new(0),
            keeps_all: AtomicBool::new(false),
            counts: Mutex::default(),
        }
    }

    /// Queues a record of a sender with an answer; `claim` runs under the lock, so the log cannot
    /// remove its segment before the claim is made.
    pub(super) fn push<T>(
        &self,
        sender: Option<Sender>,
        (head, payload): (RecordHead, Bytes),
        claim: impl FnOnce(u64) -> T,
    ) -> Result<(T, Option<WriteAnswer>), AppendError> {
        let (answer, receiver) = oneshot::channel();
        let waits = self.limits.durability != Durability::None;
        if !waits && self.is_failing.load(Ordering::Relaxed) {
            return Err(AppendError::Failed);
        }
        let bytes = frame_bytes(payload.len());
        let written = waits.then_some(answer);
        let note = None;
        let record = |position| WaitingRecord { position, sender, head, payload, written, note };
        let claimed =
            self.add((bytes, sender), &self.limits, claim, record).inspect_err(|error| {
                if *error == AppendError::Full {
                    let bytes_max = self.limits.size_max / UNFIT_PARTS;
                    self.unfit.fetch_max(bytes.min(bytes_max), Ordering::Relaxed);
                }
            })?;
        Ok((claimed, waits.then_some(receiver)))
    }

    /// Queues a record without an answer. Notes tell what became of other records, so they may go
    /// beyond the limits of those.
    pub(super) fn push_note(
        &self,
        head: RecordHead,
        payload: Bytes,
        claim: NoteClaim,
        source: &Arc<Source>,
    ) -> Result<(), AppendError> {
        let bytes = frame_bytes(payload.len());
        let sender = None;
        let written = None;
        let place = |position| claim.set(source.claim(position, bytes));
        let note = Some(claim.clone());
        let record = |position| WaitingRecord { position, sender, head, payload, written, note };
        self.add((bytes, sender), &self.limits.of_notes(), place, record)
    }

    fn add<T>(
        &self,
        (bytes, sender): (u64, Option<Sender>),
        limits: &LogLimits,
        claim: impl FnOnce(u64) -> T,
        record: impl FnOnce(u64) -> WaitingRecord,
    ) -> Result<T, AppendError> {
        if bytes > self.limits.record_max() || bytes > u64::from(u32::MAX) {
            return Err(AppendError::TooLarge);
        }
        let mut waits = self.waits.lock();
        if waits.is_closed {
            return Err(AppendError::Closed);
        }
        // An empty queue takes any record. Bytes that are being written count, too: a burst would
        // pass the limits between two groups otherwise.
        let held = waits.bytes + waits.writing;
        if held > 0 && held + bytes > limits.waiting_max {
            return Err(AppendError::Behind);
        }
        let used = self.used.load(Ordering::Relaxed).saturating_add(held);
        let used = used.saturating_add(self.lent());
        let size_max = limits.size_max.saturating_add(self.borrowed());
        if used.saturating_add(bytes) > size_max && limits.when_full == WhenFull::Refuse {
            return Err(AppendError::Full);
        }
        let room = LogRoom { used, size_max };
        let is_beyond = sender.is_some_and(|sender| !waits.shares.may_add(sender, bytes, room));
        if is_beyond && limits.when_full == WhenFull::Refuse {
            return Err(AppendError::Share);
        }
        let position = waits.next;
        waits.next = position.checked_add(bytes).ok_or(AppendError::Full)?;
        waits.bytes += bytes;
        if let Some(sender) = sender {
            waits.shares.add(sender, (position, bytes), size_max);
        }
        let claimed = claim(position);
        waits.records.push(record(position));
        if waits.records.len() == 1 {
            self.more.notify_one();
        }
        Ok(claimed)
    }

    /// Lends this many bytes of its room, if they are free.
    pub(super) fn lend(&self, bytes: u64) -> bool {
        let waits = self.waits.lock();
        let used = self.used.load(Ordering::Relaxed) + waits.bytes + waits.writing + self.lent();
        let is_free = used.saturating_add(bytes) <= self.limits.size_max;
        if is_free {
            self.lent.fetch_add(bytes, Ordering::Relaxed);
        }
        is_free
    }

    /// Lends this many bytes that are in use already, free or not.
    pub(super) fn lend_used(&self, bytes: u64) {
        self.lent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back lent bytes.
    pub(super) fn take_back(&self, bytes: u64) {
        self.lent.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of its room lent to other logs.
    pub(super) fn lent(&self) -> u64 {
        self.lent.load(Ordering::Relaxed)
    }

    /// Sets the borrowed bytes beyond its limit.
    pub(super) fn set_borrowed(&self, bytes: u64) {
        self.borrowed.store(bytes, Ordering::Relaxed);
    }

    /// Returns the borrowed bytes beyond its limit.
    pub(super) fn borrowed(&self) -> u64 {
        self.borrowed.load(Ordering::Relaxed)
    }

    /// Returns the position of the next record, if none waits. Until a record comes it stays the
    /// next one.
    pub(super) fn next_of_idle(&self) -> Option<u64> {
        let waits = self.waits.lock();
        waits.records.is_empty().then_some(waits.next)
    }

    /// Takes out all records behind those that could not be written, so that the next one stands at
    /// `end`, where the file goes on. If one of them has been answered already, all stay at their
    /// positions. None of the refused ones counts for its sender.
    pub(super) fn refuse_waiting(&self, end: Option<u64>, refused: &mut Vec<WaitingRecord>) {
        let mut waits = self.waits.lock();
        let is_answered =
            |record: &WaitingRecord| record.written.is_none() && record.note.is_none();
        if !waits.records.iter().any(is_answered) {
            waits.bytes = 0;
            waits.next = end.unwrap_or(waits.next);
            refused.append(&mut waits.records);
        }
        for record in refused {
            let Some(sender) = record.sender else { continue };
            waits.shares.take_out(sender, (record.position, record.end() - record.position));
        }
    }

    /// Waits until all records before it are written.
    pub(super) async fn flush(&self) -> bool {
        let (sender, receiver) = oneshot::channel();
        {
            let mut waits = self.waits.lock();
            if waits.has_ended {
                return false;
            }
            waits.flushes.push(sender);
            self.more.notify_one();
        }
        receiver.await.unwrap_or(false)
    }

    /// Takes all waiting records and flushes, after waiting at most so long for one.
    pub(super) fn take(&self, longest: Duration) -> Group {
        let is_idle = |waits: &mut Waits| {
            waits.records.is_empty() && waits.flushes.is_empty() && !waits.is_closed
        };
        let mut waits = self.waits.lock();
        self.more.wait_while_for(&mut waits, is_idle, longest);
        waits.writing = std::mem::take(&mut waits.bytes);
        Group {
            records: std::mem::take(&mut waits.records),
            flushes: std::mem::take(&mut waits.flushes),
            is_last: waits.is_closed,
        }
    }

    /// Closes the queue: the writer ends once all is written.
    pub(super) fn close(&self) {
        self.waits.lock().is_closed = true;
        self.more.notify_one();
    }

    /// Marks the writer as ended, for whatever cause: waiting records are refused, and so are later
    /// ones.
    pub(super) fn end(&self) {
        let mut waits = self.waits.lock();
        (waits.is_closed, waits.has_ended) = (true, true);
        // Dropping the senders wakes everyone who waits for one of them.
        waits.records.clear();
        waits.flushes.clear();
        self.is_failing.store(true, Ordering::Relaxed);
        self.ended.notify_all();
    }

    /// Waits until the writer has ended, at most so long.
    pub(super) fn wait_end(&self, longest: Duration) {
        let goes_on = |waits: &mut Waits| !waits.has_ended;
        // A disk that does not answer must not keep the process from ending.
        self.ended.wait_while_for(&mut self.waits.lock(), goes_on, longest);
    }

    /// Returns the bytes that wait or are being written.
    pub(super) fn waiting(&self) -> u64 {
        let waits = self.waits.lock();
        waits.bytes + waits.writing
    }

    /// Sets the bytes of the segments, with all that was being written, and their positions.
    pub(super) fn set_used(&self, bytes: u64, segments: &[Range<u64>]) {
        let mut waits = self.waits.lock();
        waits.writing = 0;
        waits.shares.keep_within(segments);
        self.used.store(bytes, Ordering::Relaxed);
        let unfit = self.unfit.load(Ordering::Relaxed);
        let used = bytes.saturating_add(waits.bytes).saturating_add(self.lent());
        if used.saturating_add(2 * unfit) <= self.limits.size_max.saturating_add(self.borrowed()) {
            self.unfit.store(0, Ordering::Relaxed);
        }
    }

    /// Returns true from a record that found no room on, until there is room for twice as much: at
    /// the brink it would change with each record.
    pub(super) fn is_full(&self) -> bool {
        self.unfit.load(Ordering::Relaxed) > 0
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut LogCounts)) {
        change(&mut self.counts.lock());
    }

    pub(super) fn counts(&self) -> LogCounts {
        *self.counts.lock()
    }
}
