//! Counters of a shard.

use crate::trace::Added;

/// Outcomes of spans, without log events. Each received span counts once, here or as open
/// ([`Shard::open_spans`](super::Shard::open_spans)).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SpanCounts {
    /// Spans of judged traces.
    pub judged: u64,
    /// Spans of traces without a tool, agent or model span.
    pub ignored: u64,
    /// Dropped: the trace already had the same record.
    pub duplicate: u64,
    /// Dropped: the trace had another record with the same span id and other content, and one of
    /// them was chosen.
    pub conflicting: u64,
    /// Dropped: a later state of the span arrived.
    pub replaced: u64,
    /// Dropped: the trace exceeded a limit.
    pub over_limit: u64,
    /// Lost: an internal error prevented the judgement of their trace.
    pub lost: u64,
    /// Forgotten without an evaluation: an earlier process had judged their trace with other spans.
    pub forgotten: u64,
    /// Left to the present owner of their trace's partition.
    pub revoked: u64,
}

impl ShardCounts {
    /// Counts a record; `is_taken` if its trace gains a span.
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
    /// Log events that the trace already had.
    pub duplicate_logs: u64,
    /// Log events dropped because their trace exceeded a limit.
    pub logs_over_limit: u64,
    /// Traces judged because they exceeded a limit of one trace.
    pub evicted_by_size: u64,
    /// Traces judged because of the limit on their number.
    pub evicted_by_count: u64,
    /// Traces judged because of the limit on their memory.
    pub evicted_by_memory: u64,
    /// Judged traces evicted early.
    pub forgotten_early: u64,
    /// Forgotten traces no longer known as judged: their entries were evicted.
    pub judged_forgotten: u64,
    /// Traces with a longer wait after their root ended, because of gaps.
    pub waited_longer: u64,
    /// Evicted services and peers with learnt habits.
    pub forgotten_habits: u64,
    /// Judged traces reopened by a late span.
    pub reopened: u64,
    /// Traces without a tool, agent or model span, not judged.
    pub without_agent: u64,
    /// Log events without spans.
    pub orphan_logs: u64,
}
