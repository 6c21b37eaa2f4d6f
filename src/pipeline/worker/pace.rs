//! How many traces are judged before the next requests are taken in.
//!
//! Whose requests wait for the shard waits for the traces that are being judged, and one may take
//! all that `limits.trace_steps` allows. Where they are expensive, they are judged one at a time:
//! then nobody waits for more than one of them. Only the order of the work follows from this, never
//! a verdict.

/// Traces judged at once, and requests taken while more traces are due, at most.
pub(super) const SLICE: usize = 8;

/// Steps of some traces together, past which they are too many: about four milliseconds.
pub(super) const SLICE_STEPS: u64 = 2_000_000;

/// Traces that are judged at once.
#[derive(Debug)]
pub(in crate::pipeline) struct JudgingPace {
    most: usize,
}

impl Default for JudgingPace {
    fn default() -> Self {
        Self { most: SLICE }
    }
}

impl JudgingPace {
    /// So many are judged next.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Notes that those that were judged took so many steps together.
    pub(super) fn took(&mut self, steps: u64) {
        self.most = if steps > SLICE_STEPS { 1 } else { (self.most * 2).min(SLICE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expensive_traces_are_judged_one_at_a_time() {
        let mut pace = JudgingPace::default();
        let next = |pace: &mut JudgingPace, steps| {
            pace.took(steps);
            pace.most()
        };
        assert_eq!(next(&mut pace, SLICE_STEPS), SLICE);
        assert_eq!(next(&mut pace, SLICE_STEPS + 1), 1);
        assert_eq!(next(&mut pace, 100_000_000), 1);
        assert_eq!([0; 4].map(|steps| next(&mut pace, steps)), [2, 4, SLICE, SLICE]);
    }
}
