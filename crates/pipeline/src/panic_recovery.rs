//! Panic recovery for the owners of traces and sessions.

use spanscore_base::panics::caught;

/// State machine that survives panics of its steps by restarting.
pub(super) trait PanicRecovery {
    /// Complete unit waiting for evaluation.
    type Due;

    /// Counts and logs a panic; `again` if it occurred during the recovery from one.
    fn panicked(&self, again: bool);

    /// Evaluates all open units as they stand, and the unevaluated ones of `due`.
    fn evaluate_rest(&mut self, now_ms: u64, due: &mut Vec<Self::Due>);

    /// Replaces the state by an empty one.
    fn reset(&mut self, now_ms: u64);

    /// Reports the number of open units, which a hasty shutdown would lose.
    fn report_open(&mut self);

    /// Takes one step. After a panic the state may be inconsistent: open units are evaluated as
    /// they stand, and the state restarts.
    fn guarded(
        &mut self,
        now_ms: u64,
        due: &mut Vec<Self::Due>,
        step: impl FnOnce(&mut Self, &mut Vec<Self::Due>),
    ) {
        if caught(|| step(self, due)).is_ok() {
            self.report_open();
            return;
        }
        self.panicked(false);
        if caught(|| self.evaluate_rest(now_ms, due)).is_err() {
            self.panicked(true);
        }
        due.clear();
        self.reset(now_ms);
        self.report_open();
    }
}
