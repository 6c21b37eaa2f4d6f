//! Overflow of a full queue: parcels on disk until the backend takes requests again.
//!
//! ```text
//! put ──► log: evaluations, encoded as they will be sent ──► first, read, confirm ──► a consumer
//! ```
//!
//! A write-ahead log in the data directory holds parcels in order, and notes of the delivered
//! positions; delivered parcels are removed with their segment. Parcels found at the start are of
//! an earlier process and are sent first. After a crash some may be sent twice, with the same ids.
//!
//! A full overflow borrows space from the log of the process: nothing is lost while that has any.

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

/// First byte of a parcel's tag; the second is the format version.
const PARCEL: u8 = b'P';
/// First byte of the tag of a note that everything up to a position is delivered.
const DELIVERED: u8 = b'D';
/// Format version of parcels and notes.
const VERSION: u8 = 1;

/// Bytes of the count before a parcel.
const COUNT_BYTES: usize = 4;

/// Least number of segments; a parcel fits in one.
const SEGMENTS: u64 = 8;
/// Least size of an overflow that borrows, bytes: then any request fits in one of its segments.
const BORROWER_BYTES: u64 = 64 << 20;
/// Largest segment, bytes.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Limit on unwritten bytes.
const WAITING_BYTES_MAX: u64 = 32 << 20;
/// Interval of syncs, unless each record is synced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Wait before rereading a log after an error.
const READ_RETRY: Duration = Duration::from_secs(1);

/// Evaluations encoded in their exporter's format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parcel {
    /// Number of evaluations.
    pub(crate) count: u32,
    /// Encoded evaluations.
    pub(crate) payload: Bytes,
}

/// Position of a parcel in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OverflowEntry {
    position: u64,
    pub(super) count: u32,
}

/// Limits of an overflow: its size, and the durability of a stored parcel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverflowLimits {
    /// Limit on its own bytes on disk; with 0 it has none, and stores only with borrowed space.
    pub(crate) bytes_max: u64,
    /// Durability required before a parcel counts as stored.
    pub(crate) durability: Durability,
}

/// Overflow of one queue.
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
    /// Claim on the first parcel, or on all found at the start.
    claim: Option<Claim>,
    /// True once the parcels found at the start have been scanned.
    is_recovered: bool,
}

impl Overflow {
    /// Opens the log in a folder. Beyond its size it borrows space of the `lender`, if any.
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
            // All records from the first parcel on are claimed, so none of them is garbage.
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

    /// Applies changed settings: accepts or refuses parcels; returns false if the size differs from
    /// theirs.
    pub(crate) fn take_more(&self, bytes_max: u64) -> bool {
        // An overflow opened without space has a log of the smallest size.
        self.takes.store(bytes_max > 0 && self.bytes_max > 0, Ordering::Relaxed);
        bytes_max == self.bytes_max || bytes_max == 0
    }

    fn takes(&self) -> bool {
        self.takes.load(Ordering::Relaxed)
    }

    /// Scans the parcels of an earlier process, unless another queue did; returns the number of
    /// evaluations. Blocks on the disk.
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

    /// Appends a parcel.
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

    /// Waits for the first undelivered parcel. Only one task at a time may call it.
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
                // It may not be written yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if !self.log.flush().await {
                        tokio::time::sleep(READ_RETRY).await;
                    } else if self.log.read(entry.position).is_err() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Notes the first parcel as delivered, or given up and counted.
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

    /// Returns the number of its evaluations.
    pub(crate) fn evaluations(&self) -> u64 {
        self.evaluations.load(Ordering::Relaxed)
    }

    /// Returns its bytes on disk, with delivered parcels that are not yet removed.
    pub(crate) fn bytes(&self) -> u64 {
        if let Some(loan) = &self.loan {
            // The last delivered entry is removed after its confirmation.
            loan.give_back(&self.log);
        }
        self.log.usage().bytes
    }

    /// Returns the limit on its bytes on disk.
    pub(crate) fn bytes_max(&self) -> u64 {
        if self.takes() { self.log.usage().bytes_max } else { 0 }
    }

    fn claim_first(&self, entries: &mut Entries) {
        let first = entries.waiting.front();
        // Claimed before the old claim is dropped, so that nothing in between is removed.
        entries.claim = first.map(|first| self.log.source().claim_onwards(first.position));
    }
}

impl Drop for Overflow {
    fn drop(&mut self) {
        // Its claim ends with the process, not with a delivery.
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

    /// Takes the first parcel.
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
        // A parcel appended before the scan of the rest comes after it.
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
        // The log removes delivered records with a delay.
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
