//! Notes on traces: claims that live as long as any record of their trace.
//!
//! ```text
//! trace, receipts ──► NoteCell ──► its notes        while the trace is held, or undelivered
//!                        │ dropped
//!                        ▼
//!       each of its records that others claim ──► its notes, each once
//! ```
//!
//! A record may hold thousands of forgotten traces while one running trace still claims it. Traces
//! judged together share a note, so a record holds few notes for them. Beyond [`TIED_MAX`] in all,
//! notes are dropped and counted. After a restart the evaluations that they cover may then be
//! repeated.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{Claim, ClaimedPlace};

/// Notes of one kind in a cell: those of the last two judgements of a trace.
const NOTES_MAX: usize = 2;
/// Largest number of notes tied to records of one source, counted once per record.
const TIED_MAX: usize = 1 << 18;

/// Claim on a note, which has no position until it is written.
#[derive(Clone, Debug, Default)]
pub struct NoteClaim(Arc<Mutex<Option<Claim>>>);

impl NoteClaim {
    /// Sets the position of the note.
    pub fn set(&self, claim: Claim) {
        *self.0.lock() = Some(claim);
    }
}

impl From<Claim> for NoteClaim {
    fn from(claim: Claim) -> Self {
        Self(Arc::new(Mutex::new(Some(claim))))
    }
}

/// Notes on forgotten traces of one record, by identity: traces judged together share one.
#[derive(Debug, Default)]
pub(super) struct TiedNotes(BTreeMap<usize, NoteClaim>);

impl TiedNotes {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Count of the tied notes of a source, and of those refused by the limit.
#[derive(Debug, Default)]
pub(super) struct TiedCount {
    count: AtomicUsize,
    refused: AtomicU64,
}

impl TiedCount {
    /// Counts one more, if the limit allows it.
    fn take(&self) -> bool {
        // Two concurrent calls may exceed the limit by one.
        let has_room = self.count.load(Ordering::Relaxed) < TIED_MAX;
        if has_room {
            self.count.fetch_add(1, Ordering::Relaxed);
        } else {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    pub(super) fn give_back(&self, count: usize) {
        self.count.fetch_sub(count, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Kinds of notes on a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteKind {
    /// It was judged.
    Judged,
    /// Evaluations of a judgement were delivered.
    Delivered,
}

/// Latest notes on one trace. Clones share the cell. It holds the notes for users of the trace, and
/// hands them to its records when the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub struct NoteCell(Arc<Mutex<CellParts>>);

#[derive(Debug, Default)]
struct CellParts {
    /// By kind, so that many late deliveries displace no judgement.
    notes: [SmallVec<[NoteClaim; 2]>; 2],
    records: SmallVec<[Weak<ClaimedPlace>; 1]>,
}

impl NoteCell {
    /// Adds a note and drops the oldest beyond the limit of its kind.
    pub fn add(&self, kind: NoteKind, note: NoteClaim) {
        let notes = &mut self.0.lock().notes[kind as usize];
        if notes.len() >= NOTES_MAX {
            notes.remove(0);
        }
        notes.push(note);
    }

    /// Ties the notes to a record of the trace.
    pub(super) fn tie(&self, record: &Claim) {
        self.0.lock().records.push(Arc::downgrade(&record.0));
    }
}

impl Drop for CellParts {
    fn drop(&mut self) {
        let records = std::mem::take(&mut self.records);
        for record in records.iter().filter_map(Weak::upgrade) {
            let mut tied = record.notes.lock();
            for note in self.notes.iter().flatten() {
                let key = Arc::as_ptr(&note.0).addr();
                if !tied.0.contains_key(&key) && record.source.tied.take() {
                    tied.0.insert(key, note.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Claims, Source};
    use super::*;

    fn held(log: &Source) -> Vec<u64> {
        log.claimed_records().records.iter().map(|it| it.0).collect()
    }

    #[test]
    fn notes_stay_as_long_as_any_record_of_their_trace_whoever_claims_it() {
        let log = Arc::new(Source::default());
        let shared = log.claim(1, 1);
        let mut trace = Claims::from(shared.clone());
        let notes = trace.notes();
        notes.add(NoteKind::Judged, log.claim(5, 1).into());
        trace.join(&log.claim(9, 1).into());
        drop(trace);
        assert_eq!(held(&log), [1, 5], "its receipt is out");
        notes.add(NoteKind::Delivered, log.claim(11, 1).into());
        drop(notes);
        assert_eq!(held(&log), [1, 5, 11], "another trace needs the first record");
        drop(shared);
        assert_eq!((held(&log), log.tied.count.load(Ordering::Relaxed)), (Vec::new(), 0));
    }

    #[test]
    fn forgotten_traces_of_a_record_cost_it_no_more_than_their_notes() {
        let log = Arc::new(Source::default());
        let record = log.claim(1, 1);
        for judged_together in 0..10 {
            let note = NoteClaim::from(log.claim(100 + judged_together, 1));
            for _ in 0..1000 {
                let mut trace = Claims::from(record.clone());
                trace.notes().add(NoteKind::Judged, note.clone());
            }
        }
        assert_eq!((held(&log).len(), log.tied.count.load(Ordering::Relaxed)), (11, 10));
        assert_eq!(log.untied(), 0);
    }

    #[test]
    fn notes_beyond_the_limit_are_let_go_and_counted() {
        let log = Arc::new(Source::default());
        let record = log.claim(0, 1);
        // Other records hold this many.
        let others = TIED_MAX - 3;
        log.tied.count.store(others, Ordering::Relaxed);
        for position in 1..=5 {
            let mut trace = Claims::from(record.clone());
            trace.notes().add(NoteKind::Judged, log.claim(position, 1).into());
        }
        assert_eq!((held(&log), log.untied()), (vec![0, 1, 2, 3], 2));
        drop(record);
        assert_eq!((log.claim_count(), log.tied.count.load(Ordering::Relaxed)), (0, others));
    }

    #[test]
    fn last_two_notes_of_each_kind_stay() {
        let log = Arc::new(Source::default());
        let cell = NoteCell::default();
        for position in [1, 2, 3] {
            cell.add(NoteKind::Judged, log.claim(position, 1).into());
        }
        for position in [11, 12, 13, 14] {
            cell.add(NoteKind::Delivered, log.claim(position, 1).into());
        }
        assert_eq!(held(&log), [2, 3, 13, 14]);
    }
}
