//! Counters of the store: what was stored, shed, deleted, refused.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number that the store counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreCount {
    /// Runs that were stored.
    Trajectories,
    /// Tool calls of those runs.
    Calls,
    /// Evaluations that were stored.
    Evaluations,
    /// Evaluations that were stored before.
    Repeated,
    /// Runs of which another part was judged: the part with more spans is stored.
    Fragments,
    /// Passing runs whose content was left out: the queue was half full.
    ShedContent,
    /// Passing runs of which only the row was stored: the queue was three quarters full.
    ShedCalls,
    /// Runs that were not stored: the queue was full.
    ShedTrajectories,
    /// Evaluations that are in the sums alone.
    ShedEvaluations,
    /// Evaluations that are in no sum: the file cannot be used, or there were too many sums.
    Lost,
    /// Revised evaluations that the sums still hold: their rows had been shed.
    Uncorrected,
    /// Evaluations in the sums that may be there twice: no row tells a repeat.
    RepeatedUnseen,
    /// Evaluations of other processes that were stored.
    Collected,
    /// Those of them that stand beside own verdicts, not current.
    CollectedBesideOwn,
    /// Evaluations of other processes that were left out: their trace has too many.
    CollectedBeyond,
    /// Those for which the queue had no room.
    CollectedUnstored,
    /// Events of other processes that are no evaluations.
    CollectedMalformed,
    /// Runs deleted for their age.
    DeletedForAge,
    /// Runs deleted for the size of the file.
    DeletedForSize,
    /// Transactions that failed.
    Failures,
    /// Damaged files that were set aside.
    SetAside,
    /// Texts that could not be redacted, and were withheld.
    Withheld,
    /// Runs whose definitions of tools are not whole: too long, or there are too many sets.
    DefinitionsLeftOut,
    /// New names of evaluators, sources and tools that share a row: their sender has its part of
    /// the table, or it is full. A name of a sender counts once while it is remembered.
    NamesLeftOut,
    /// Bytes that wait to be written: a gauge.
    QueueBytes,
    /// Bytes of the file: a gauge.
    FileBytes,
    /// Bytes of the write-ahead file of SQLite: a gauge.
    WalBytes,
    /// 1 while the file can be written, else 0: a gauge.
    IsWorking,
}

/// Number of counters.
const COUNTS: usize = StoreCount::IsWorking as usize + 1;

/// All counters of a store.
#[derive(Debug, Default)]
pub struct StoreCounters([AtomicU64; COUNTS]);

impl StoreCounters {
    /// Returns a count.
    pub fn get(&self, count: StoreCount) -> u64 {
        self.0[count as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: StoreCount, more: usize) {
        self.0[count as usize].fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Adds the counts of others, and clears them.
    pub(crate) fn take(&self, others: &mut Self) {
        for (count, more) in self.0.iter().zip(&mut others.0) {
            count.fetch_add(std::mem::take(more.get_mut()), Ordering::Relaxed);
        }
    }

    pub(crate) fn set(&self, count: StoreCount, value: u64) {
        self.0[count as usize].store(value, Ordering::Relaxed);
    }
}
