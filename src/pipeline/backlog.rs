//! What is acknowledged and not judged yet, so that an end in haste can say what it lost.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was acknowledged and never judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unjudged {
    /// Spans and log events that still waited for their shard.
    pub records: u64,
    /// Traces that were open, those of no agent among them.
    pub traces: u64,
    /// Sessions that were open; their traces were judged.
    pub sessions: u64,
}

/// What the stages between receivers and exporters hold now.
pub(super) struct Backlog {
    records: AtomicU64,
    /// Those of them that are spans.
    spans: AtomicU64,
    /// By shard.
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

    /// So many records are on their way to a shard.
    pub(super) fn queue(&self, records: usize, is_spans: bool) {
        self.records.fetch_add(records as u64, Ordering::Relaxed);
        if is_spans {
            self.spans.fetch_add(records as u64, Ordering::Relaxed);
        }
    }

    /// So many records have arrived, or have not been taken after all.
    pub(super) fn unqueue(&self, records: usize, is_spans: bool) {
        self.records.fetch_sub(records as u64, Ordering::Relaxed);
        if is_spans {
            self.spans.fetch_sub(records as u64, Ordering::Relaxed);
        }
    }

    /// Spans on their way to a shard.
    pub(super) fn queued_spans(&self) -> u64 {
        self.spans.load(Ordering::Relaxed)
    }

    /// A shard holds so many traces that are not judged.
    pub(super) fn set_traces(&self, shard: usize, traces: usize) {
        if let Some(held) = self.traces.get(shard) {
            held.store(traces as u64, Ordering::Relaxed);
        }
    }

    /// So many sessions are not judged.
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
