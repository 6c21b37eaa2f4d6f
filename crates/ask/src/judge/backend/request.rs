//! Requests to judges in the scheduler.

use crate::scheduler::PendingRequest;
use spanscore_base::model::{Evaluation, Outcome, Reason, SpanId};
use spanscore_evaluate::JudgeRequest;

impl PendingRequest for JudgeRequest {
    fn subject(&mut self) -> &mut [u8; 16] {
        &mut self.subject
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }

    fn recipient(&self) -> &str {
        &self.plan.judge
    }

    fn supersede(&mut self, older: &Self) {
        let spans: Vec<SpanId> = older.calls.iter().map(|call| call.span_id).collect();
        self.take_place_of((older.evaluation.revision, older.evaluation.revises, &spans));
    }

    fn give_up(self, outcome: Outcome) -> Vec<Evaluation> {
        Self::give_up(self, outcome, None)
    }

    fn explain(reason: Reason) -> &'static str {
        match reason {
            Reason::QueueFull => "too many inquiries wait for judges",
            Reason::BudgetExhausted => "the judge's budget is spent for now",
            Reason::BudgetShare => {
                "the sender has its share of the judge's budget, and the rest is kept for others \
                 that may come: raise the budget, or judge a sample"
            }
            Reason::RateLimited => "the judge's rate left no room for it in time",
            Reason::CircuitOpen => "the judge did not work and is left alone for a while",
            Reason::Deadline => "the judge gave no answer in time",
            Reason::Shutdown => "the process ended before the judge could be asked",
            _ => "the judge was not asked",
        }
    }
}
