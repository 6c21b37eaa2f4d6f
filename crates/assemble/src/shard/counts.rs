//! Counters of a shard.

use crate::trace::Added;

/// Outcomes of spans, log events aside. Each span that came is counted once, here or as open
/// ([`Shard::open_spans`](super::Shard::open_spans)).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SpanCounts {
    /// Spans of judged traces.
    pub judged: u64,
    /// Spans of traces that held no tool, agent or model span.
    pub ignored: u64,
    /// Dropped: the trace had the same record already.
    pub duplicate: u64,
    /// Dropped: the trace had another record with the same span id and other content, and one of
    /// the two counts.
    pub conflicting: u64,
    /// Dropped: the span came again in a later state.
    pub replaced: u64,
    /// Dropped: the trace had grown beyond a limit.
    pub over_limit: u64,
    /// Lost: their trace was due, and an internal error kept it from being judged.
    pub lost: u64,
    /// Forgotten without an evaluation: an earlier process had judged their trace on other spans.
    pub forgotten: u64,
    /// Left to whoever owns the partition of their trace now.
    pub revoked: u64,
}

impl ShardCounts {
    /// Counts a record; `is_taken` if its trace has one span more.
    pub(super) fn added(&mut self, added: Added, is_taken: bool, is_log: bool) {
        let counter = match (added, is_log) {
            (Added::Duplicate, true) => &mut self.duplicate_logs,
            (Added::LeftOut, true) => &mut self.logs_over_limit,
            (_, true) => return,
            (Added::Duplicate, false) => &mut self.spans.duplicate,
            (Added::LeftOut, false) => &mut self.spans.over_limit,
            (Added::Conflict { .. }, false) => &mut self.spans.conflicting,
            (Added::New, false) if is_taken => return,
            (Added::New, false) => &mut self.spans.replaced,
        };
        *counter += 1;
    }
}

/// Counts of a shard since the last call.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ShardCounts {
    /// Outcomes of spans.
    pub spans: SpanCounts,
    /// Log events that the trace had already.
    pub duplicate_logs: u64,
    /// Log events dropped because their trace had grown beyond a limit.
    pub logs_over_limit: u64,
    /// Traces judged because they grew beyond a limit of one trace.
    pub evicted_by_size: u64,
    /// Traces judged because there were too many.
    pub evicted_by_count: u64,
    /// Traces judged because all together held too much.
    pub evicted_by_memory: u64,
    /// Judged traces evicted before their time, for room.
    pub forgotten_early: u64,
    /// Forgotten traces of which it is no longer known that they were judged, for those of others.
    pub judged_forgotten: u64,
    /// Traces whose root had ended with a longer wait because they lacked something.
    pub waited_longer: u64,
    /// Services and peers whose habits were evicted for those of others.
    pub forgotten_habits: u64,
    /// Judged traces that a late span reopened.
    pub reopened: u64,
    /// Traces that held no tool, agent or model span and were not judged.
    pub without_agent: u64,
    /// Log events whose spans never came.
    pub orphan_logs: u64,
}
