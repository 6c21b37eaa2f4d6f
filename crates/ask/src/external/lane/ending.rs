//! Shutdown of the lane.

use super::core::{ExternalAction, ExternalCore, ExternalCount, not_sent};
use spanscore_base::model::Reason;

impl ExternalCore {
    /// No more comes. `leaves`: the next process sends what is not under way.
    pub(in crate::external) fn close(&mut self, leaves: bool) {
        self.is_leaving = leaves;
        if leaves {
            let waiting = self.tasks.iter().filter(|(_, task)| !task.is_in_flight);
            let mut waiting: Vec<u64> = waiting.map(|(id, _)| *id).collect();
            waiting.sort_unstable();
            waiting.into_iter().for_each(|id| self.leave(id));
        }
    }

    /// There is no more time: what is left is left, or told as not evaluable.
    pub(in crate::external) fn abandon(&mut self) -> Vec<ExternalAction> {
        let mut ids: Vec<u64> = self.tasks.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if self.is_leaving {
                self.leave(id);
            } else {
                self.stop_task(id, not_sent(Reason::Shutdown));
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// Leaves a task to the next process.
    pub(super) fn leave(&mut self, id: u64) {
        let Some(task) = self.remove(id) else { return };
        if let Some(receipt) = &task.receipt {
            receipt.leave();
        }
        self.actions.push(ExternalAction::Count(ExternalCount::Left));
    }
}
