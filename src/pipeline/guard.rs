//! An owner of traces or sessions that lives through a panic of its own steps.

use crate::panics::caught;

/// Something that assembles, takes one step after the other, and can begin anew.
pub(super) trait Guarded {
    /// What is complete and waits to be evaluated.
    type Due;

    /// Counts a panic and says in the log what follows from it; `again` if it struck while the rest
    /// was evaluated.
    fn panicked(&self, again: bool);

    /// Evaluates as it stands all that is open; of `due`, what was not evaluated yet.
    fn evaluate_rest(&mut self, now_ms: u64, due: &mut Vec<Self::Due>);

    /// Forgets all that is open.
    fn start_anew(&mut self, now_ms: u64);

    /// Tells how much is open now, for what an end in haste would lose.
    fn report_open(&mut self);

    /// Takes one step. After a panic the state may not add up any more: what is open is evaluated
    /// as it stands, and the rest begins anew.
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
        self.start_anew(now_ms);
        self.report_open();
    }
}
