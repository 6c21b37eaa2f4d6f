//! Budget shared by all judges of a command.

use super::JudgeBackend;
use crate::judge::gate::BudgetRoom;
use crate::judge::wire::TokenUsage;

impl JudgeBackend {
    /// Returns the room for a request within the shared budget.
    pub(super) fn shared_room(
        &self,
        now_ms: u64,
        judge: usize,
        estimate: TokenUsage,
    ) -> BudgetRoom {
        let Some(most) = self.shared_nano else { return BudgetRoom::Free };
        let some = self.judges[judge].gate.cost(estimate);
        let all = self.judges.iter().map(|judge| judge.gate.money.booked(now_ms));
        let (spent, reserved) = all.fold((0u64, 0u64), |(spent, reserved), (own, open)| {
            (spent.saturating_add(own), reserved.saturating_add(open))
        });
        let with = |reserved: u64| spent.saturating_add(reserved).saturating_add(some);
        if with(reserved) <= most {
            BudgetRoom::Free
        } else if reserved > 0 && with(0) <= most {
            BudgetRoom::Reserved
        } else {
            BudgetRoom::Spent
        }
    }
}
