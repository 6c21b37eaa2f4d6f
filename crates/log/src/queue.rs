//! Write queue: records waiting for the disk, bounded by bytes, written in groups by one thread.

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

/// Inverse of the largest share of a log that a refused record counts for: one large request says
/// nothing about the usual ones.
const UNFIT_PARTS: u64 = 64;

/// Cause of a refused record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AppendError {
    /// The log has its full size, and all its segments are needed.
    #[error("the log is full, see log.size_max_mib")]
    Full,
    /// The log is nearly full, and the sender exceeds its share.
    #[error("the log is nearly full, and the sender uses its part of it, see log.size_max_mib")]
    Share,
    /// The disk is slower than the appends.
    #[error("the disk does not keep up, see log.waiting_mib")]
    Behind,
    /// The log cannot be written now.
    #[error("the log cannot be written")]
    Failed,
    /// The record exceeds the largest size for the log.
    #[error("larger than an eighth of the log, see log.size_max_mib")]
    TooLarge,
    /// The log is being closed.
    #[error("the log is closed")]
    Closed,
}

/// Counts of a log since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogCounts {
    /// Written records.
    pub written: u64,
    /// Groups of records, with one write each.
    pub groups: u64,
    /// Syncs.
    pub syncs: u64,
    /// Failed writes.
    pub write_errors: u64,
    /// Failed syncs.
    pub sync_errors: u64,
    /// Segments dropped although claimed: by age, or for space.
    pub dropped_segments: u64,
    /// Bytes of the dropped segments.
    pub dropped_bytes: u64,
    /// Failed removals of segments.
    pub remove_errors: u64,
    /// Bytes of records copied by compaction.
    pub copied_bytes: u64,
    /// Segments freed by compaction.
    pub freed_segments: u64,
    /// Bytes freed by compaction.
    pub freed_bytes: u64,
    /// Failed compactions.
    pub compaction_errors: u64,
    /// Notes accepted but never written, for lack of memory or disk space.
    pub unwritten_notes: u64,
}

/// Record waiting to be written.
pub(super) struct WaitingRecord {
    pub(super) position: u64,
    /// Sender of the record, for its share of the log.
    pub(super) sender: Option<Sender>,
    pub(super) head: RecordHead,
    pub(super) payload: Bytes,
    pub(super) written: Option<oneshot::Sender<Result<(), AppendError>>>,
    /// Claim of a note: nothing waits for it, and its position may change.
    pub(super) note: Option<NoteClaim>,
}

/// Answer of the writer to one record.
pub(super) type WriteAnswer = oneshot::Receiver<Result<(), AppendError>>;

#[derive(Default)]
struct Waits {
    next: u64,
    records: Vec<WaitingRecord>,
    flushes: Vec<oneshot::Sender<bool>>,
    /// Bytes of waiting records.
    bytes: u64,
    /// Bytes of the group now being written.
    writing: u64,
    /// Bytes of the log by sender.
    shares: LogShares,
    is_closed: bool,
    /// True once the writer has ended.
    has_ended: bool,
}

/// Queue of records and flushes for the writer, with the byte counts that bound it.
#[derive(Default)]
pub(super) struct WriteQueue {
    pub(super) limits: LogLimits,
    waits: Mutex<Waits>,
    more: Condvar,
    ended: Condvar,
    /// Bytes of all segments.
    used: AtomicU64,
    /// Bytes of its space lent to other logs.
    lent: AtomicU64,
    /// Bytes beyond its limit, borrowed from another log.
    borrowed: AtomicU64,
    pub(super) is_failing: AtomicBool,
    /// Counted bytes of the largest refused record, until there is space for twice as many; else 0.
    unfit: AtomicU64,
    /// True once no segment may be removed.
    pub(super) keeps_all: AtomicBool,
    counts: Mutex<LogCounts>,
}

/// Group of records that the writer takes at once.
pub(super) struct Group {
    pub(super) records: Vec<WaitingRecord>,
    pub(super) flushes: Vec<oneshot::Sender<bool>>,
    /// True for the last group.
    pub(super) is_last: bool,
}

impl WriteQueue {
    pub(super) fn new(limits: LogLimits, next: u64, used: u64) -> Self {
        let waits = Waits { next, ..Waits::default() };
        let waits = Mutex::new(waits);
        Self { limits, waits, used: AtomicU64::new(used), ..Self::default() }
    }

    /// Queues a record of a sender with an answer. `claim` runs under the lock, so that the log
    /// cannot remove its segment before the claim exists.
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

    /// Queues a record without an answer. Notes record the outcome of other records, so they may
    /// exceed the limits for those.
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
        // An empty queue takes any record. Bytes being written count, too; otherwise a burst could
        // pass the limits between two groups.
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

    /// Lends this much of its space, if free.
    pub(super) fn lend(&self, bytes: u64) -> bool {
        let waits = self.waits.lock();
        let used = self.used.load(Ordering::Relaxed) + waits.bytes + waits.writing + self.lent();
        let is_free = used.saturating_add(bytes) <= self.limits.size_max;
        if is_free {
            self.lent.fetch_add(bytes, Ordering::Relaxed);
        }
        is_free
    }

    /// Lends this much space that is already in use, free or not.
    pub(super) fn lend_used(&self, bytes: u64) {
        self.lent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back lent space.
    pub(super) fn take_back(&self, bytes: u64) {
        self.lent.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes lent to other logs.
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

    /// Returns the position of the next record, if none waits. It stays the next one until a record
    /// arrives.
    pub(super) fn next_of_idle(&self) -> Option<u64> {
        let waits = self.waits.lock();
        waits.records.is_empty().then_some(waits.next)
    }

    /// Takes out all records after unwritten ones, so that the next one is at `end`, the end of the
    /// file. If one of them has been answered already, all keep their positions. None of the
    /// refused ones counts for its sender.
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
            waits.shares.remove(sender, (record.position, record.end() - record.position));
        }
    }

    /// Waits until all earlier records are written.
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

    /// Takes all waiting records and flushes, after waiting up to `longest` for one.
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

    /// Closes the queue: the writer ends after writing all records.
    pub(super) fn close(&self) {
        self.waits.lock().is_closed = true;
        self.more.notify_one();
    }

    /// Marks the writer as ended, for any cause: waiting and later records are refused.
    pub(super) fn end(&self) {
        let mut waits = self.waits.lock();
        (waits.is_closed, waits.has_ended) = (true, true);
        // Dropping the senders wakes all that wait for them.
        waits.records.clear();
        waits.flushes.clear();
        self.is_failing.store(true, Ordering::Relaxed);
        self.ended.notify_all();
    }

    /// Waits until the writer has ended, up to a limit.
    pub(super) fn wait_end(&self, longest: Duration) {
        let goes_on = |waits: &mut Waits| !waits.has_ended;
        // A hanging disk must not keep the process alive.
        self.ended.wait_while_for(&mut self.waits.lock(), goes_on, longest);
    }

    /// Returns the bytes waiting or being written.
    pub(super) fn waiting(&self) -> u64 {
        let waits = self.waits.lock();
        waits.bytes + waits.writing
    }

    /// Sets the bytes and positions of the segments after a write.
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

    /// Returns true after a refused record, until there is space for twice as much: near the limit
    /// the state would change with each record.
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
