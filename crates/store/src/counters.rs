//! Counters of the store: stored, shed, deleted, refused.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number counted by the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreCount {
    /// Stored runs.
    Trajectories,
    /// Tool calls of those runs.
    Calls,
    /// Stored evaluations.
    Evaluations,
    /// Evaluations that were already stored.
    Repeated,
    /// Runs judged in several parts: the part with more spans is stored.
    Fragments,
    /// Passing runs without content: the queue was half full.
    ShedContent,
    /// Passing runs with only a row: the queue was three quarters full.
    ShedCalls,
    /// Unstored runs: the queue was full.
    ShedTrajectories,
    /// Evaluations only in the sums.
    ShedEvaluations,
    /// Evaluations in no sum: the file is unusable, or there were too many sums.
    Lost,
    /// Revised evaluations still in the sums: their rows had been shed.
    Uncorrected,
    /// Evaluations possibly counted twice in the sums: no row identifies a repeat.
    RepeatedUnseen,
    /// Stored evaluations of other processes.
    Collected,
    /// Those among them beside an own verdict, not current.
    CollectedBesideOwn,
    /// Evaluations of other processes beyond the limit of their trace.
    CollectedBeyond,
    /// Evaluations of other processes without room in the queue.
    CollectedUnstored,
    /// Malformed events of other processes.
    CollectedMalformed,
    /// Runs deleted for their age.
    DeletedForAge,
    /// Runs deleted for the size of the file.
    DeletedForSize,
    /// Failed transactions.
    Failures,
    /// Damaged files that were set aside.
    SetAside,
    /// Texts withheld because they could not be redacted.
    Withheld,
    /// Runs with incomplete tool definitions: too long, or too many sets.
    DefinitionsLeftOut,
    /// New names of evaluators, sources and tools that share a row: the table is full, or the
    /// sender's share of it. A sender's name counts once while it is remembered.
    NamesLeftOut,
    /// Bytes waiting to be written: a gauge.
    QueueBytes,
    /// Bytes of the file: a gauge.
    FileBytes,
    /// Bytes of the write-ahead file of SQLite: a gauge.
    WalBytes,
    /// 1 while the file is writable, else 0: a gauge.
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

    /// Adds another's counts, and clears them.
    pub(crate) fn take(&self, others: &mut Self) {
        for (count, more) in self.0.iter().zip(&mut others.0) {
            count.fetch_add(std::mem::take(more.get_mut()), Ordering::Relaxed);
        }
    }

    pub(crate) fn set(&self, count: StoreCount, value: u64) {
        self.0[count as usize].store(value, Ordering::Relaxed);
    }
}
