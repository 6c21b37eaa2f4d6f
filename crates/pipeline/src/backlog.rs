//! Counts of acknowledged, unjudged data, for the report of a hasty shutdown.

use std::sync::atomic::{AtomicU64, Ordering};

/// Acknowledged data that was never judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unjudged {
    /// Spans and log events still queued for their shard.
    pub records: u64,
    /// Open traces, including those without agent spans.
    pub traces: u64,
    /// Open sessions; their traces were judged.
    pub sessions: u64,
}

/// Live counts of the data between receivers and exporters.
pub(super) struct Backlog {
    records: AtomicU64,
    /// Spans among the records.
    spans: AtomicU64,
    /// Traces by shard.
    traces: Vec<AtomicU64>,
    sessions: AtomicU64,
}

impl Backlog {
    pub(super) fn new(shard_count: usize) -> Self {
        let traces = std::iter::repeat_with(AtomicU64::default).take(shard_count).collect();
        Self {
            records: AtomicU64::default(),
            spans: AtomicU64::default(),
            traces,
            sessions: AtomicU64::default(),
        }
    }

    /// Adds records on their way to a shard.
    pub(super) fn queue(&self, records: usize, is_spans: bool) {
        self.records.fetch_add(records as u64, Ordering::Relaxed);
        if is_spans {
            self.spans.fetch_add(records as u64, Ordering::Relaxed);
        }
    }

    /// Removes records taken by a shard, or not handed over after all.
    pub(super) fn unqueue(&self, records: usize, is_spans: bool) {
        self.records.fetch_sub(records as u64, Ordering::Relaxed);
        if is_spans {
            self.spans.fetch_sub(records as u64, Ordering::Relaxed);
        }
    }

    /// Returns the spans on their way to a shard.
    pub(super) fn queued_spans(&self) -> u64 {
        self.spans.load(Ordering::Relaxed)
    }

    /// Sets the number of a shard's unjudged traces.
    pub(super) fn set_traces(&self, shard: usize, traces: usize) {
        if let Some(held) = self.traces.get(shard) {
            held.store(traces as u64, Ordering::Relaxed);
        }
    }

    /// Sets the number of unjudged sessions.
    pub(super) fn set_sessions(&self, sessions: usize) {
        self.sessions.store(sessions as u64, Ordering::Relaxed);
    }

    pub(super) fn unjudged(&self) -> Unjudged {
        Unjudged {
            records: self.records.load(Ordering::Relaxed),
            traces: self.traces.iter().map(|traces| traces.load(Ordering::Relaxed)).sum(),
            sessions: self.sessions.load(Ordering::Relaxed),
        }
    }
}
