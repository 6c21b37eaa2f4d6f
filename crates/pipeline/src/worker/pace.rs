//! Pacing of a shard: the number of traces judged before the next requests are taken in.
//!
//! Requests for a shard wait for its judgements, and one trace may take all of
//! `limits.trace_steps`. Expensive traces are judged one at a time, so requests wait for at most
//! one of them. Between two of them the shard takes in as many bytes as take about as long. A limit
//! by number failed: twenty small requests a second could not keep up with three expensive traces a
//! second. Pacing changes the order of the work, never a verdict.

/// Limit on traces judged at once, and on requests taken in while more are due.
const SLICE: usize = 8;

/// Limit on requests handled before deadlines are checked, while no trace is due.
pub(super) const WORK_MAX: usize = 32;

/// Bytes of requests taken in between two expensive traces: some milliseconds of work.
const SLICE_BYTES: usize = 1 << 20;

/// Steps above which a slice of traces counts as expensive: about four milliseconds.
pub(super) const SLICE_STEPS: u64 = 2_000_000;

/// Limits of one intake; its last request may exceed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IntakeSlice {
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

/// Number of traces judged at once.
#[derive(Debug)]
pub(crate) struct JudgingPace {
    most: usize,
}

impl Default for JudgingPace {
    fn default() -> Self {
        Self { most: SLICE }
    }
}

impl JudgingPace {
    /// Returns the number of traces to judge next.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Returns the limits of the next intake.
    pub(super) fn intake(&self, is_behind: bool) -> IntakeSlice {
        match (is_behind, self.most) {
            (false, _) => IntakeSlice { requests: WORK_MAX, bytes: usize::MAX },
            (true, 1) => IntakeSlice { requests: usize::MAX, bytes: SLICE_BYTES },
            (true, _) => IntakeSlice { requests: SLICE, bytes: usize::MAX },
        }
    }

    /// Adapts to the steps of the last slice of traces.
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
        let expensive = pace.intake(true);
        assert_eq!(expensive, IntakeSlice { requests: usize::MAX, bytes: SLICE_BYTES });
        assert_eq!([0; 4].map(|steps| next(&mut pace, steps)), [2, 4, SLICE, SLICE]);
        assert_eq!([true, false].map(|is| pace.intake(is).requests), [SLICE, WORK_MAX]);
    }
}
