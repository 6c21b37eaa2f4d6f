//! Span accounting: each span of a trace counts once for its final outcome.
//!
//! Over all traces of a shard, taken = judged + without agent + lost + forgotten + open; the
//! counters of the stages must add up to this.

/// Span counts of one trace, without log events.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct SpanTally {
    /// Spans that the trace holds.
    pub(super) taken: u32,
    /// Spans with a final outcome.
    settled: u32,
}

impl SpanTally {
    /// Returns the number of spans without a final outcome.
    pub(super) fn open(self) -> u32 {
        self.taken - self.settled
    }

    /// Settles all spans without a final outcome, and returns their number.
    pub(super) fn settle(&mut self) -> u32 {
        let open = self.open();
        self.settled = self.taken;
        open
    }
}
