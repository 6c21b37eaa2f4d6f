//! How many traces are judged before the next requests are taken in.
//!
//! Whose requests wait for the shard waits for the traces that are being judged, and one may take
//! all that `limits.trace_steps` allows. Where they are expensive, they are judged one at a time:
//! then nobody waits for more than one of them. Between two of these as much is taken in as takes
//! about as long as one, however many requests that are: those of many senders, or of one that
//! waited. Only the order of the work follows from this, never a verdict.

/// Traces judged at once, and requests taken while more traces are due, at most.
const SLICE: usize = 8;

/// Requests worked off before deadlines are looked at, while no trace is due.
pub(super) const WORK_MAX: usize = 32;

/// Bytes of requests that are taken between two expensive traces: some milliseconds' work.
const SLICE_BYTES: usize = 1 << 20;

/// Steps of some traces together, past which they are too many: about four milliseconds.
pub(super) const SLICE_STEPS: u64 = 2_000_000;

/// Most that is taken in at once; the last of it may go beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IntakeSlice {
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

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

    /// How much is taken in next.
    pub(super) fn intake(&self, is_behind: bool) -> IntakeSlice {
        match (is_behind, self.most) {
            (false, _) => IntakeSlice { requests: WORK_MAX, bytes: usize::MAX },
            (true, 1) => IntakeSlice { requests: usize::MAX, bytes: SLICE_BYTES },
            (true, _) => IntakeSlice { requests: SLICE, bytes: usize::MAX },
        }
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
        let expensive = pace.intake(true);
        assert_eq!(expensive, IntakeSlice { requests: usize::MAX, bytes: SLICE_BYTES });
        assert_eq!([0; 4].map(|steps| next(&mut pace, steps)), [2, 4, SLICE, SLICE]);
        assert_eq!([true, false].map(|is| pace.intake(is).requests), [SLICE, WORK_MAX]);
    }
}
