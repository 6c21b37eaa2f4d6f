//! What judging one trace may cost, in steps: the same on every machine.
//!
//! A step is a value that is looked at, a few bytes that are read, or a few of either that are
//! compared: about two nanoseconds. What a sender's data can make long takes its steps before it is
//! done. Where they are not left it is not done, and the answer says so; no clock has a say in it.

use std::cell::Cell;

/// Steps of one trace unless `limits.trace_steps` says otherwise, all its judgements together.
pub const TRACE_STEPS: u32 = 100_000_000;

/// Steps of one evaluation. A trajectory that would take more is not evaluable
/// (`trajectory_too_large`).
pub const EVALUATION_STEPS_MAX: usize = 64_000_000;

/// What is left of the steps of one trace, and of one evaluation of it.
#[derive(Debug)]
pub struct Effort {
    given: u64,
    /// `None` once more was asked for than there was.
    trace: Cell<Option<u64>>,
    evaluation: Cell<Option<usize>>,
    /// Texts of answers that were cut.
    cut: Cell<u64>,
}

impl Default for Effort {
    fn default() -> Self {
        Self::new(u64::from(TRACE_STEPS))
    }
}

impl Effort {
    /// So many steps for a trace.
    pub fn new(steps: u64) -> Self {
        let evaluation = Cell::new(Some(EVALUATION_STEPS_MAX));
        Self { given: steps, trace: Cell::new(Some(steps)), evaluation, cut: Cell::new(0) }
    }

    /// Takes so many steps; `false` where they are not left, and ever after.
    #[inline]
    pub fn spend(&self, steps: usize) -> bool {
        let evaluation = self.evaluation.get().and_then(|left| left.checked_sub(steps));
        self.evaluation.set(evaluation);
        self.trace.set(self.trace.get().and_then(|left| left.checked_sub(steps as u64)));
        !self.is_spent()
    }

    /// Begins an evaluation, which takes so many steps at least; `false` where they are not left.
    pub fn begin(&self, steps: usize) -> bool {
        self.evaluation.set(Some(EVALUATION_STEPS_MAX));
        self.spend(steps);
        !self.is_trace_spent()
    }

    /// Begins to read the trace, which takes so many steps at least; `false` where they are not
    /// left.
    pub fn begin_reading(&self, steps: usize) -> bool {
        self.evaluation.set(Some(usize::MAX));
        self.spend(steps)
    }

    /// Whether more was asked for than there was, of the evaluation or of the trace.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.evaluation.get().is_none() || self.is_trace_spent()
    }

    /// Whether more was asked for than the trace has.
    #[inline]
    pub fn is_trace_spent(&self) -> bool {
        self.trace.get().is_none()
    }

    /// Steps that are left for what asks for them now.
    pub fn left(&self) -> usize {
        let trace = usize::try_from(self.trace.get().unwrap_or(0)).unwrap_or(usize::MAX);
        trace.min(self.evaluation.get().unwrap_or(0))
    }

    /// Steps that the trace was given.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Steps that the trace has taken: all it was given once it asked for more.
    pub fn taken(&self) -> u64 {
        self.given - self.trace.get().unwrap_or(0)
    }

    /// Notes that so many texts of an answer were cut.
    pub fn note_cut(&self, texts: u64) {
        self.cut.set(self.cut.get() + texts);
    }

    /// Texts of answers about the trace that were cut.
    pub fn cut_texts(&self) -> u64 {
        self.cut.get()
    }

    /// Takes all that is left of the trace.
    pub fn exhaust(&self) {
        self.trace.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_stays_spent() {
        let effort = Effort::default();
        assert!(effort.spend(EVALUATION_STEPS_MAX));
        assert!(!effort.is_spent());
        assert!(!effort.spend(1));
        assert!(!effort.spend(0));
        assert!(effort.is_spent() && !effort.is_trace_spent());
    }

    #[test]
    fn evaluations_of_a_trace_share_its_steps() {
        let effort = Effort::new(100);
        assert!(effort.begin(0) && effort.spend(60));
        assert!(effort.begin(0) && effort.spend(40));
        assert_eq!((effort.taken(), effort.left()), (100, 0));
        assert!(!effort.begin(1) && effort.is_trace_spent());
        assert_eq!(effort.taken(), 100);
    }
}
