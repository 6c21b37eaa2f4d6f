//! Reference counts on log positions: a record stays while unfinished work claims it.
//!
//! A source gives each record a position: a place in a log, or an offset of a partition. Work holds
//! a [`Claim`] on each record that a restart would have to read again. A queued batch holds one; an
//! open or remembered trace holds those of all its records; undelivered evaluations hold those of
//! their traces. Work that reads a source in order claims everything from its next record on. A
//! source may delete unclaimed records.
//!
//! Notes on a trace stay as long as any of its records ([`NoteCell`]), so a restart never reads a
//! record without its notes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool, AtomicU64};

use parking_lot::Mutex;
use smallvec::SmallVec;

pub use notes::{NoteCell, NoteClaim, NoteKind};
use notes::{TiedCount, TiedNotes};

mod notes;
#[cfg(test)]
mod tests;

/// Origin of records, such as a log, with its claimed positions.
///
/// A partition of a topic is a source while this process owns it. After that it is
/// [retired](Self::retire), and its next owner reads the claimed records.
#[derive(Debug, Default)]
pub struct Source {
    claimed: Mutex<Claimed>,
    tied: TiedCount,
    is_retired: AtomicBool,
    /// Position after the last record known to be read by an earlier process.
    read_before: AtomicU64,
}

#[derive(Debug, Default)]
struct Claimed {
    /// Claims on single records, by position.
    records: BTreeMap<u64, ClaimCount>,
    /// Number of claims on all positions from one on.
    onwards: BTreeMap<u64, u32>,
    /// Bytes of the claimed records.
    bytes: u64,
}

#[derive(Debug, Default)]
struct ClaimCount {
    count: u32,
    /// Bytes of the record.
    bytes: u32,
}

/// Claimed records of a source at one time.
#[derive(Clone, Debug, Default)]
pub struct ClaimedRecords {
    /// Positions and bytes of single records, ordered.
    pub records: Vec<(u64, u32)>,
    /// Position from which all records are claimed.
    pub onwards: Option<u64>,
}

impl Source {
    /// Claims a record of so many bytes in a log, or 0 outside of one. A clone is the same claim.
    pub fn claim(self: &Arc<Self>, position: u64, bytes: u64) -> Claim {
        let mut claimed = self.claimed.lock();
        let entry = claimed.records.entry(position).or_default();
        entry.count += 1;
        if entry.count == 1 {
            entry.bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            claimed.bytes += u64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        drop(claimed);
        Claim::new(self, position, bytes, false)
    }

    /// Claims all records from a position on.
    pub fn claim_onwards(self: &Arc<Self>, position: u64) -> Claim {
        *self.claimed.lock().onwards.entry(position).or_default() += 1;
        Claim::new(self, position, 0, true)
    }

    /// Marks the source as read by another process, which takes over the work on its records.
    pub fn retire(&self) {
        self.is_retired.store(true, atomic::Ordering::Release);
    }

    /// Returns true if another process reads it.
    pub fn is_retired(&self) -> bool {
        self.is_retired.load(atomic::Ordering::Acquire)
    }

    /// Notes that an earlier process has read all records before a position.
    pub fn note_read_before(&self, position: u64) {
        self.read_before.store(position, atomic::Ordering::Relaxed);
    }

    /// Returns the lowest claimed position.
    pub fn lowest(&self) -> Option<u64> {
        let claimed = self.claimed.lock();
        let record = claimed.records.first_key_value().map(|(position, _)| *position);
        let onwards = claimed.onwards.first_key_value().map(|(position, _)| *position);
        record.into_iter().chain(onwards).min()
    }

    /// Returns the position from which on all records are claimed.
    pub fn lowest_onwards(&self) -> Option<u64> {
        self.claimed.lock().onwards.first_key_value().map(|(position, _)| *position)
    }

    /// Returns the number of claimed positions.
    pub fn claim_count(&self) -> usize {
        let claimed = self.claimed.lock();
        claimed.records.len() + claimed.onwards.len()
    }

    /// Returns the bytes of the records that are claimed one by one.
    pub fn claimed_bytes(&self) -> u64 {
        self.claimed.lock().bytes
    }

    /// Returns the number of notes that could not be tied to a record of a forgotten trace, because
    /// of the limit. After a restart such traces may be reported again.
    pub fn untied(&self) -> u64 {
        self.tied.refused()
    }

    /// Returns a snapshot of all claims.
    pub fn claimed_records(&self) -> ClaimedRecords {
        let claimed = self.claimed.lock();
        let records = claimed.records.iter().map(|(position, it)| (*position, it.bytes)).collect();
        let onwards = claimed.onwards.first_key_value().map(|(position, _)| *position);
        ClaimedRecords { records, onwards }
    }
}

#[derive(Debug)]
struct ClaimedPlace {
    source: Arc<Source>,
    position: u64,
    bytes: u64,
    is_onwards: bool,
    /// Notes on forgotten traces of the record, which live as long.
    notes: Mutex<TiedNotes>,
}

impl Drop for ClaimedPlace {
    fn drop(&mut self) {
        let notes = self.notes.get_mut();
        self.source.tied.give_back(notes.len());
        let mut claimed = self.source.claimed.lock();
        if self.is_onwards {
            if let Some(count) = claimed.onwards.get_mut(&self.position) {
                *count -= 1;
                if *count == 0 {
                    claimed.onwards.remove(&self.position);
                }
            }
        } else if let Some(entry) = claimed.records.get_mut(&self.position) {
            entry.count -= 1;
            if entry.count == 0 {
                let bytes = u64::from(entry.bytes);
                claimed.records.remove(&self.position);
                claimed.bytes -= bytes;
            }
        }
    }
}

/// Claim on a position of a source: its record stays until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Claim(Arc<ClaimedPlace>);

impl Claim {
    fn new(source: &Arc<Source>, position: u64, bytes: u64, is_onwards: bool) -> Self {
        let source = Arc::clone(source);
        let notes = Mutex::default();
        Self(Arc::new(ClaimedPlace { source, position, bytes, is_onwards, notes }))
    }

    /// Returns the claimed position.
    pub fn position(&self) -> u64 {
        self.0.position
    }

    /// Returns a claim on all from this record on.
    pub fn onwards(&self) -> Self {
        self.0.source.claim_onwards(self.0.position)
    }

    /// Sort key of claims: source, then position.
    fn key(&self) -> (usize, u64) {
        (Arc::as_ptr(&self.0.source) as usize, self.0.position)
    }
}

/// Largest number of claims that are inserted one by one; more are merged.
const INSERTED_MAX: usize = 4;

/// Claims on the records behind some work, ordered. Small, since most work has one.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    first: Option<Claim>,
    more: Option<Box<MoreClaims>>,
}

#[derive(Clone, Debug, Default)]
struct MoreClaims {
    /// Claims behind the first.
    claims: Vec<Claim>,
    /// Notes on their trace.
    notes: Option<NoteCell>,
}

impl Claims {
    /// Bytes of one claim of a trace, with the reference from its record to the notes.
    const CLAIM_BYTES: usize = size_of::<Claim>() + size_of::<NoteCell>();
    /// Bytes of the notes on a trace.
    const NOTES_BYTES: usize = 160;

    /// Adds the claims of another.
    pub fn join(&mut self, other: &Self) {
        let new = other.iter().filter(|claim| !self.has(claim)).cloned();
        let new: SmallVec<[Claim; INSERTED_MAX]> = new.collect();
        new.iter().for_each(|claim| self.tie_own(claim));
        if new.len() <= INSERTED_MAX {
            return new.into_iter().for_each(|claim| self.insert(claim));
        }
        let notes = self.more.as_mut().and_then(|more| more.notes.take());
        *self = Self::of(self.iter().cloned().chain(new).collect());
        if notes.is_some() {
            self.more.get_or_insert_default().notes = notes;
        }
    }

    /// Inserts a claim that is not among them.
    fn insert(&mut self, claim: Claim) {
        let Some(first) = &mut self.first else {
            self.first = Some(claim);
            return;
        };
        let is_first = claim.key() < first.key();
        let claim = if is_first { std::mem::replace(first, claim) } else { claim };
        let claims = &mut self.more.get_or_insert_default().claims;
        let at = claims.partition_point(|own| own.key() < claim.key());
        claims.insert(at, claim);
    }

    /// Returns these claims without duplicates.
    fn of(mut claims: Vec<Claim>) -> Self {
        // Linear for a few sorted runs.
        claims.sort_by_key(Claim::key);
        claims.dedup_by_key(|claim| claim.key());
        let mut claims = claims.into_iter();
        let first = claims.next();
        let claims: Vec<Claim> = claims.collect();
        let more = MoreClaims { claims, notes: None };
        Self { first, more: (!more.claims.is_empty()).then(|| Box::new(more)) }
    }

    fn has(&self, claim: &Claim) -> bool {
        let key = claim.key();
        let more = self.more.as_ref().map_or(&[][..], |more| &more.claims);
        self.first.as_ref().is_some_and(|first| first.key() == key)
            || more.binary_search_by_key(&key, Claim::key).is_ok()
    }

    fn tie_own(&self, claim: &Claim) {
        if let Some(notes) = self.more.as_ref().and_then(|more| more.notes.as_ref()) {
            notes.tie(claim);
        }
    }

    /// Returns the notes of their trace, tied to each record now and to those that join later.
    pub fn notes(&mut self) -> NoteCell {
        if let Some(notes) = self.more.as_ref().and_then(|more| more.notes.as_ref()) {
            return notes.clone();
        }
        let notes = NoteCell::default();
        self.tie(&notes);
        self.more.get_or_insert_default().notes = Some(notes.clone());
        notes
    }

    /// Ties notes to each record.
    pub fn tie(&self, notes: &NoteCell) {
        self.iter().for_each(|claim| notes.tie(claim));
    }

    fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.first.iter().chain(self.more.iter().flat_map(|more| &more.claims))
    }

    /// Returns the claimed positions, in order.
    pub fn positions(&self) -> impl Iterator<Item = u64> {
        self.iter().map(Claim::position)
    }

    /// Returns the bytes of the claimed log records, including those that others claim too.
    pub fn record_bytes(&self) -> u64 {
        self.iter().map(|claim| claim.0.bytes).sum()
    }

    /// Returns the heap bytes that they hold.
    pub fn bytes(&self) -> usize {
        self.more.as_ref().map_or(0, |more| {
            let notes = more.notes.as_ref().map_or(0, |_| Self::NOTES_BYTES);
            size_of::<MoreClaims>() + more.claims.len() * Self::CLAIM_BYTES + notes
        })
    }

    /// Returns true if another process now reads all of the records.
    pub fn are_retired(&self) -> bool {
        !self.is_empty() && self.iter().all(|claim| claim.0.source.is_retired())
    }

    /// Returns true if another process now reads some of the records.
    pub fn has_retired(&self) -> bool {
        self.iter().any(|claim| claim.0.source.is_retired())
    }

    /// Returns true if an earlier process is known to have read some of the records.
    pub fn were_read_before(&self) -> bool {
        let of = |source: &Source| source.read_before.load(atomic::Ordering::Relaxed);
        self.iter().any(|claim| claim.0.position < of(&claim.0.source))
    }

    /// Returns true if all of the records are of this source.
    pub fn are_of(&self, source: &Arc<Source>) -> bool {
        self.iter().all(|claim| Arc::ptr_eq(&claim.0.source, source))
    }

    /// Returns true if nothing is claimed, as for records outside of a log.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl From<Claim> for Claims {
    fn from(claim: Claim) -> Self {
        Self { first: Some(claim), more: None }
    }
}

/// Merges many claims at once.
impl FromIterator<Self> for Claims {
    fn from_iter<I: IntoIterator<Item = Self>>(all: I) -> Self {
        Self::of(
            all.into_iter().flat_map(|claims| claims.iter().cloned().collect::<Vec<_>>()).collect(),
        )
    }
}

/// Delivery receipt of evaluations: each deliverer holds a clone and drops it after delivery, or
/// after giving up and counting the loss.
///
/// Dropping the last clone drops the claims of the evaluations and calls `arrived`, unless a holder
/// [left](Self::leave) them undelivered.
#[derive(Clone)]
pub struct Receipt(Arc<ReceiptParts>);

struct ReceiptParts {
    claims: Claims,
    is_left: AtomicBool,
    arrived: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Receipt {
    /// Returns a receipt that holds these claims and calls `arrived` after all deliveries.
    pub fn new(claims: Claims, arrived: impl FnOnce() + Send + 'static) -> Self {
        let arrived = Mutex::new(Some(Box::new(arrived) as Box<dyn FnOnce() + Send>));
        Self(Arc::new(ReceiptParts { claims, is_left: AtomicBool::new(false), arrived }))
    }

    /// Marks the evaluations as undelivered. This process makes no further attempt; the next one
    /// does.
    pub fn leave(&self) {
        self.0.is_left.store(true, atomic::Ordering::Release);
    }

    /// Returns the claims on the records behind the evaluations.
    pub fn claims(&self) -> &Claims {
        &self.0.claims
    }
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receipt").field("claims", &self.0.claims).finish_non_exhaustive()
    }
}

impl Drop for ReceiptParts {
    fn drop(&mut self) {
        if self.is_left.load(atomic::Ordering::Acquire) {
            return;
        }
        if let Some(arrived) = self.arrived.get_mut().take() {
            arrived();
        }
    }
}
