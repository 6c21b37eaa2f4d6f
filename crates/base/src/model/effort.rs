//! Work budget of judging one trace, counted in steps that are equal on every machine.
//!
//! A step is one value visited, or a few bytes read or compared: about two nanoseconds. Work whose
//! length depends on a sender's data is charged before it is done. Without enough steps it is not
//! done, and the answer says so. No clock is involved, so a trace has the same answer on a busy
//! machine.

use std::cell::Cell;

/// Default of `limits.trace_steps`: steps of one trace for all its judgements together.
pub const TRACE_STEPS: u32 = 100_000_000;

/// Steps of one evaluation. A trajectory that would take more is not evaluable
/// (`trajectory_too_large`).
pub const EVALUATION_STEPS_MAX: usize = 64_000_000;

/// Work budget of one trace and of its running evaluation.
#[derive(Debug)]
pub struct WorkBudget {
    given: u64,
    /// Remaining steps of the trace; `None` once a charge exceeded them.
    trace: Cell<Option<u64>>,
    evaluation: Cell<Option<usize>>,
    /// Number of shortened texts in answers.
    cut: Cell<u64>,
}

impl Default for WorkBudget {
    fn default() -> Self {
        Self::new(u64::from(TRACE_STEPS))
    }
}

impl WorkBudget {
    /// Returns a budget of this many steps for a trace.
    pub fn new(steps: u64) -> Self {
        let evaluation = Cell::new(Some(EVALUATION_STEPS_MAX));
        Self { given: steps, trace: Cell::new(Some(steps)), evaluation, cut: Cell::new(0) }
    }

    /// Charges steps to the evaluation and the trace. Returns `false` if they do not suffice, and
    /// for every later charge.
    #[inline]
    pub fn spend(&self, steps: usize) -> bool {
        // A failed charge leaves `None`, so no smaller one passes after it. A caller may make all
        // its charges and check `is_spent` once.
        let evaluation = self.evaluation.get().and_then(|left| left.checked_sub(steps));
        self.evaluation.set(evaluation);
        self.trace.set(self.trace.get().and_then(|left| left.checked_sub(steps as u64)));
        !self.is_spent()
    }

    /// Begins an evaluation with a full budget and charges its minimum; `false` if the trace has
    /// fewer steps left.
    pub fn begin(&self, steps: usize) -> bool {
        self.evaluation.set(Some(EVALUATION_STEPS_MAX));
        self.spend(steps);
        !self.is_trace_spent()
    }

    /// Begins to read the trace, limited only by the trace's budget, and charges the minimum;
    /// `false` if it does not suffice.
    pub fn begin_reading(&self, steps: usize) -> bool {
        self.evaluation.set(Some(usize::MAX));
        self.spend(steps)
    }

    /// Returns true if a charge exceeded the budget of the evaluation or of the trace.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.evaluation.get().is_none() || self.is_trace_spent()
    }

    /// Returns true if a charge exceeded the budget of the trace.
    #[inline]
    pub fn is_trace_spent(&self) -> bool {
        self.trace.get().is_none()
    }

    /// Returns the remaining steps of the evaluation, at most those of the trace.
    pub fn left(&self) -> usize {
        let trace = usize::try_from(self.trace.get().unwrap_or(0)).unwrap_or(usize::MAX);
        trace.min(self.evaluation.get().unwrap_or(0))
    }

    /// Returns the initial budget of the trace, in steps.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Returns the steps charged to the trace: its whole budget once a charge exceeded it.
    pub fn taken(&self) -> u64 {
        self.given - self.trace.get().unwrap_or(0)
    }

    /// Counts shortened texts of an answer.
    pub fn note_cut(&self, texts: u64) {
        self.cut.set(self.cut.get() + texts);
    }

    /// Returns the number of shortened texts in answers about the trace.
    pub fn cut_texts(&self) -> u64 {
        self.cut.get()
    }

    /// Charges all remaining steps of the trace.
    pub fn exhaust(&self) {
        self.trace.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spent_steps_are_not_returned() {
        let effort = WorkBudget::default();
        assert!(effort.spend(EVALUATION_STEPS_MAX));
        assert!(!effort.is_spent());
        assert!(!effort.spend(1));
        assert!(!effort.spend(0));
        assert!(effort.is_spent() && !effort.is_trace_spent());
    }

    #[test]
    fn evaluations_of_a_trace_share_its_steps() {
        let effort = WorkBudget::new(100);
        assert!(effort.begin(0) && effort.spend(60));
        assert!(effort.begin(0) && effort.spend(40));
        assert_eq!((effort.taken(), effort.left()), (100, 0));
        assert!(!effort.begin(1) && effort.is_trace_spent());
        assert_eq!(effort.taken(), 100);
    }
}
