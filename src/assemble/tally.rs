//! What became of the spans of a trace, each counted once.
//!
//! Over all traces of a shard, taken = judged + of no agent + lost + forgotten + open: what the
//! counters of the stages must add up to.

/// The spans of one trace, without its log events.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct SpanTally {
    /// Spans that the trace holds.
    pub(super) taken: u32,
    /// Of those, the ones of which it is known what became.
    settled: u32,
}

impl SpanTally {
    /// Spans of which it is open what becomes.
    pub(super) fn open(self) -> u32 {
        self.taken - self.settled
    }

    /// Settles what is open, and says how many spans that were.
    pub(super) fn settle(&mut self) -> u32 {
        let open = self.open();
        self.settled = self.taken;
        open
    }
}
