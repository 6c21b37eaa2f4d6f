//! Completion, supersession and shutdown of inquiries.

use super::core::{LaneAction, LaneCore, LaneCount};
use super::sampling::{DialogEnd, DialogStep};
use spanscore_base::model::{Outcome, Reason};

impl LaneCore {
    /// Ends an inquiry by its votes, or with `outcome` if they do not suffice.
    pub(super) fn stop_task(&mut self, id: u64, outcome: Outcome) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.dialog.stop(&*task.asked.inquiry, outcome);
        if let DialogStep::Done(end) = task.dialog.next(&self.judges) {
            self.finish(id, *end);
        }
    }

    pub(super) fn finish(&mut self, id: u64, end: DialogEnd) {
        let Some(task) = self.remove(id) else { return };
        let judge = Some(task.dialog.judge);
        let used = task.dialog.used(&self.judges, &end);
        let evaluations = match end {
            DialogEnd::Concluded(conclusion) => task.asked.conclude(conclusion, used),
            DialogEnd::GivenUp(outcome) => task.asked.give_up(outcome, used),
        };
        self.actions.push(LaneAction::Emit { evaluations, receipt: task.receipt, judge });
    }

    /// Closes the lane. With `leaves`, inquiries without a request under way are left to the next
    /// process; otherwise they stop settling and are asked now.
    pub(in crate::judge) fn close(&mut self, now_ms: u64, leaves: bool) {
        self.is_leaving = leaves;
        let waiting: Vec<u64> = self.timers.iter().map(|(_, id)| *id).collect();
        for id in waiting {
            if leaves {
                self.leave(id);
            } else if let Some(task) = self.tasks.get_mut(&id) {
                self.timers.remove(&(task.timer_ms, id));
                task.timer_ms = now_ms;
                self.timers.insert((now_ms, id));
            }
        }
        let ready: Vec<u64> = self.states.iter().flat_map(|it| it.ready.iter().copied()).collect();
        ready.into_iter().filter(|_| leaves).for_each(|id| self.leave(id));
    }

    /// Ends all inquiries at once: left to the next process, or not evaluable.
    pub(in crate::judge) fn abandon(&mut self) -> Vec<LaneAction> {
        let mut ids: Vec<u64> = self.tasks.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if self.is_leaving {
                self.leave(id);
            } else {
                self.finish(id, DialogEnd::GivenUp(not_asked(Reason::Shutdown)));
            }
        }
        std::mem::take(&mut self.actions)
    }

    pub(super) fn leave(&mut self, id: u64) {
        let Some(task) = self.remove(id) else { return };
        if let Some(receipt) = &task.receipt {
            receipt.leave();
        }
        self.actions.push(LaneAction::Count(LaneCount::Left));
    }
}

/// Builds the outcome of an inquiry without an answer.
pub(super) fn not_asked(reason: Reason) -> Outcome {
    let explanation = match reason {
        Reason::QueueFull => "too many inquiries wait for judges",
        Reason::BudgetExhausted => "the judge's budget is spent for now",
        Reason::RateLimited => "the judge's rate left no room for it in time",
        Reason::CircuitOpen => "the judge did not work and is left alone for a while",
        Reason::Deadline => "the judge gave no answer in time",
        Reason::Shutdown => "the process ended before the judge could be asked",
        _ => "the judge was not asked",
    };
    Outcome::NotEvaluable { reason, explanation: explanation.to_owned() }
}
