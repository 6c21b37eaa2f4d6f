//! Overflow of a full queue: parcels on disk until the backend takes requests again.
//!
//! ```text
//! put ──► log: evaluations, encoded as they will be sent ──► first, read, confirm ──► a consumer
//! ```
//!
//! A write-ahead log in the folder of the process holds parcels in the order in which they were
//! put, and notes of how far they were delivered; delivered parcels are removed with their segment.
//! Parcels found at the start are of an earlier process and are sent first. After a crash some may
//! be sent twice, with the same ids.
//!
//! A full overflow borrows room of the log of the process: nothing is lost while that has room.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::scores::now_ns;
use spanscore_base::model::Claim;
use spanscore_log::{
    AppendError, Durability, Folder, Loan, Log, LogLimits, LogOpenError, RecordHead, WeakLog,
    WhenFull, system_clock,
};

/// The first tag of a record that holds a parcel; the second is the version of its form.
const PARCEL: u8 = b'P';
/// The first tag of a note that all up to a position is delivered.
const DELIVERED: u8 = b'D';
/// The form of parcels and notes.
const VERSION: u8 = 1;

/// Bytes of the count in front of a parcel.
const COUNT_BYTES: usize = 4;

/// The log has so many segments at least; a parcel fits into one.
const SEGMENTS: u64 = 8;
/// Least size of one that borrows: a segment of it holds any request.
const BORROWER_BYTES: u64 = 64 << 20;
/// Largest segment.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Most bytes that wait to be written.
const WAITING_BYTES_MAX: u64 = 32 << 20;
/// Interval of syncs, unless each record is synced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Wait until a log that cannot be read now is read again.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Some evaluations, encoded as their exporter sends them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parcel {
    /// Number of evaluations.
    pub(crate) count: u32,
    /// Evaluations as encoded by their exporter.
    pub(crate) payload: Bytes,
}

/// A parcel in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OverflowEntry {
    position: u64,
    pub(super) count: u32,
}

/// Limits of an overflow: its size, and the point at which a parcel counts as kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverflowLimits {
    /// Most bytes on disk of its own; with 0 it has none, and takes only what it can borrow for.
    pub(crate) bytes_max: u64,
    /// Point at which a parcel counts as kept.
    pub(crate) durability: Durability,
}

/// The overflow of one queue.
pub(crate) struct Overflow {
    log: Log,
    bytes_max: u64,
    takes: AtomicBool,
    loan: Option<Loan>,
    entries: Mutex<Entries>,
    evaluations: AtomicU64,
    more: Notify,
}

struct Entries {
    waiting: VecDeque<OverflowEntry>,
    /// The claim on the first of them, or on all that was found at the start.
    claim: Option<Claim>,
    /// True once the parcels found at the start have been looked at.
    is_recovered: bool,
}

impl Overflow {
    /// Opens the log in a folder. What finds no room in it borrows that of the `lender`, if any.
    pub(crate) fn open(
        folder: &Path,
        limits: OverflowLimits,
        lender: Option<WeakLog>,
    ) -> Result<Self, LogOpenError> {
        let least = if lender.is_some() { BORROWER_BYTES } else { SEGMENTS << 20 };
        let size_max = limits.bytes_max.max(least);
        let log_limits = LogLimits {
            size_max,
            segment: SEGMENT_BYTES_MAX.min(size_max / SEGMENTS),
            age_max_ns: u64::MAX,
            when_full: WhenFull::Refuse,
            waiting_max: WAITING_BYTES_MAX,
            // All from the first parcel on is claimed: nothing is dead behind it.
            reserve: 0,
            sync_interval: SYNC_INTERVAL,
            durability: limits.durability,
        };
        let disk = Arc::new(Folder::open(folder).map_err(LogOpenError::Write)?);
        let (log, recovered, found) = Log::open(disk, log_limits, system_clock())?;
        recovered.log_damage();
        let entries = Entries { waiting: VecDeque::new(), claim: Some(found), is_recovered: false };
        let loan = lender.map(|lender| Loan::new(&log, limits.bytes_max, lender));
        Ok(Self {
            log,
            loan,
            bytes_max: limits.bytes_max,
            takes: AtomicBool::new(limits.bytes_max > 0),
            entries: Mutex::new(entries),
            evaluations: AtomicU64::new(0),
            more: Notify::new(),
        })
    }

    /// Takes parcels or refuses them from now on, for settings that changed; returns false where it
    /// keeps another size than they say.
    pub(crate) fn take_more(&self, bytes_max: u64) -> bool {
        // One that was opened to take nothing has a log of the smallest size.
        self.takes.store(bytes_max > 0 && self.bytes_max > 0, Ordering::Relaxed);
        bytes_max == self.bytes_max || bytes_max == 0
    }

    fn takes(&self) -> bool {
        self.takes.load(Ordering::Relaxed)
    }

    /// Looks at what an earlier process left, unless another queue did; how many evaluations.
    /// Blocks on the disk.
    pub(super) fn recover(&self) -> u64 {
        if self.entries.lock().is_recovered {
            return 0;
        }
        let mut delivered = None;
        let mut found = VecDeque::new();
        for record in self.log.records().flatten() {
            let position = record.position;
            let payload = &record.payload;
            match record.head.tags {
                [DELIVERED, VERSION, ..] => {
                    let noted = payload.first_chunk().map(|at| u64::from_le_bytes(*at));
                    delivered = noted.or(delivered);
                }
                [PARCEL, VERSION, ..] => found.extend(
                    payload
                        .first_chunk()
                        .map(|count| OverflowEntry { position, count: u32::from_le_bytes(*count) }),
                ),
                _ => {}
            }
        }
        found.retain(|entry| delivered.is_none_or(|delivered| entry.position > delivered));
        let evaluations = found.iter().map(|entry| u64::from(entry.count)).sum();
        self.evaluations.fetch_add(evaluations, Ordering::Relaxed);
        let mut entries = self.entries.lock();
        let put_since = std::mem::replace(&mut entries.waiting, found);
        entries.waiting.extend(put_since);
        entries.is_recovered = true;
        self.claim_first(&mut entries);
        drop(entries);
        self.more.notify_one();
        evaluations
    }

    /// Puts a parcel behind all others.
    pub(super) async fn put(&self, parcel: &Parcel) -> Result<(), AppendError> {
        let mut payload = BytesMut::with_capacity(COUNT_BYTES + parcel.payload.len());
        payload.extend_from_slice(&parcel.count.to_le_bytes());
        payload.extend_from_slice(&parcel.payload);
        let claim = self.append(payload.freeze()).await?;
        let mut entries = self.entries.lock();
        entries
            .waiting
            .push_back(OverflowEntry { position: claim.position(), count: parcel.count });
        entries.claim.get_or_insert_with(|| claim.onwards());
        self.evaluations.fetch_add(parcel.count.into(), Ordering::Relaxed);
        drop(entries);
        self.more.notify_one();
        Ok(())
    }

    async fn append(&self, payload: Bytes) -> Result<Claim, AppendError> {
        let own = if self.takes() {
            self.log.append(head(PARCEL), payload.clone()).await
        } else {
            Err(AppendError::Full)
        };
        match (own, &self.loan) {
            (Err(AppendError::Full), Some(loan)) => {
                loan.give_back(&self.log);
                loan.append(&self.log, head(PARCEL), payload).await
            }
            (own, _) => own,
        }
    }

    /// Waits for the first parcel that is not delivered. One task at a time may ask.
    pub(super) async fn first(&self) -> OverflowEntry {
        loop {
            let more = self.more.notified();
            {
                let entries = self.entries.lock();
                if let Some(first) = entries.waiting.front().filter(|_| entries.is_recovered) {
                    return *first;
                }
            }
            more.await;
        }
    }

    /// Reads a parcel.
    pub(super) async fn read(&self, entry: OverflowEntry) -> io::Result<Parcel> {
        loop {
            let log = self.log.clone();
            let read = tokio::task::spawn_blocking(move || log.read(entry.position));
            match read.await.map_err(io::Error::other)? {
                Ok(record) if record.payload.len() >= COUNT_BYTES => {
                    let payload = record.payload.slice(COUNT_BYTES..);
                    return Ok(Parcel { count: entry.count, payload });
                }
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
                // It may wait to be written.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if !self.log.flush().await {
                        tokio::time::sleep(READ_AGAIN).await;
                    } else if self.log.read(entry.position).is_err() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Notes that the first parcel is delivered, or given up and counted.
    pub(super) fn confirm(&self) {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.waiting.pop_front() else { return };
        self.claim_first(&mut entries);
        drop(entries);
        self.evaluations.fetch_sub(entry.count.into(), Ordering::Relaxed);
        // Without the note it is sent again after a restart, which is harmless.
        let _ =
            self.log.note(head(DELIVERED), Bytes::copy_from_slice(&entry.position.to_le_bytes()));
        if let Some(loan) = &self.loan {
            loan.give_back(&self.log);
        }
    }

    /// Evaluations that wait in it.
    pub(crate) fn evaluations(&self) -> u64 {
        self.evaluations.load(Ordering::Relaxed)
    }

    /// Bytes on disk, with what is delivered and not yet removed.
    pub(crate) fn bytes(&self) -> u64 {
        if let Some(loan) = &self.loan {
            // The entry delivered last is removed behind its confirmation.
            loan.give_back(&self.log);
        }
        self.log.usage().bytes
    }

    /// Most bytes on disk.
    pub(crate) fn bytes_max(&self) -> u64 {
        if self.takes() { self.log.usage().bytes_max } else { 0 }
    }

    fn claim_first(&self, entries: &mut Entries) {
        let first = entries.waiting.front();
        // Claimed before the old claim goes, so that nothing in between is removed.
        entries.claim = first.map(|first| self.log.source().claim_onwards(first.position));
    }
}

impl Drop for Overflow {
    fn drop(&mut self) {
        // Its claim goes with the process, not because something was delivered.
        self.log.keep_all();
    }
}

fn head(kind: u8) -> RecordHead {
    RecordHead { arrival_ns: now_ns(), tags: [kind, VERSION, 0, 0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: OverflowLimits =
        OverflowLimits { bytes_max: 8 << 20, durability: Durability::Os };

    fn parcel(number: u8, len: usize) -> Parcel {
        Parcel { count: u32::from(number), payload: vec![number; len].into() }
    }

    fn open(folder: &Path) -> Overflow {
        Overflow::open(folder, LIMITS, None).expect("opens")
    }

    /// Takes the first parcel out.
    async fn take(overflow: &Overflow) -> Parcel {
        let parcel = overflow.read(overflow.first().await).await.expect("a parcel");
        overflow.confirm();
        parcel
    }

    #[tokio::test]
    async fn parcels_leave_in_the_order_in_which_they_were_put() {
        let folder = tempfile::tempdir().expect("a folder");
        let overflow = open(folder.path());
        assert_eq!(overflow.recover(), 0);
        for number in 1..=3 {
            overflow.put(&parcel(number, 100)).await.expect("room");
        }
        assert_eq!(overflow.evaluations(), 6);
        for number in 1..=3 {
            assert_eq!(take(&overflow).await, parcel(number, 100));
        }
        assert_eq!(overflow.evaluations(), 0);
    }

    #[tokio::test]
    async fn what_was_not_delivered_is_there_after_a_restart_and_only_that() {
        let folder = tempfile::tempdir().expect("a folder");
        let overflow = open(folder.path());
        overflow.recover();
        for number in 1..=4 {
            overflow.put(&parcel(number, 100)).await.expect("room");
        }
        take(&overflow).await;
        take(&overflow).await;
        drop(overflow);
        let overflow = open(folder.path());
        // A parcel that is put before the rest is looked at stands behind it.
        overflow.put(&parcel(9, 10)).await.expect("room");
        assert_eq!((overflow.recover(), overflow.evaluations()), (7, 16));
        for number in [3, 4] {
            assert_eq!(take(&overflow).await, parcel(number, 100));
        }
        assert_eq!(take(&overflow).await, parcel(9, 10));
        drop(overflow);
        assert_eq!(open(folder.path()).recover(), 0);
    }

    #[tokio::test]
    async fn full_overflow_refuses_and_takes_again_once_something_is_delivered() {
        let folder = tempfile::tempdir().expect("a folder");
        let overflow = open(folder.path());
        overflow.recover();
        let large = parcel(1, 900 << 10);
        let mut put = 0;
        while overflow.put(&large).await.is_ok() {
            put += 1;
        }
        assert!((7..=9).contains(&put), "{put}");
        for _ in 0..put {
            assert_eq!(take(&overflow).await, large);
        }
        // The log removes what is delivered by and by.
        let room = async {
            while overflow.put(&large).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), room).await.expect("room again");
    }

    #[tokio::test]
    async fn overflow_that_is_switched_off_only_sends_what_it_finds() {
        let folder = tempfile::tempdir().expect("a folder");
        let overflow = open(folder.path());
        overflow.recover();
        overflow.put(&parcel(5, 10)).await.expect("room");
        drop(overflow);
        let off = OverflowLimits { bytes_max: 0, ..LIMITS };
        let overflow = Overflow::open(folder.path(), off, None).expect("opens");
        assert_eq!(overflow.recover(), 5);
        assert_eq!(overflow.put(&parcel(1, 1)).await, Err(AppendError::Full));
        assert_eq!(take(&overflow).await, parcel(5, 10));
    }
}
