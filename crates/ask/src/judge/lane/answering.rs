//! Handling of replies and faults: settlement, retry, adaptation of the request, fallback.

use super::core::{JudgeState, LaneAction, LaneCore, LaneCount, OpenQuestion, evaluator_of};
use super::ending::not_asked;
use super::usage;
use crate::judge::gate::Ended;
use crate::judge::wire::{Fault, JudgeQuestion, Reply, Shape, TokenUsage};
use spanscore_base::model::{Outcome, Reason};
use spanscore_net::client::back_off_ms;

/// Tries of one question.
const ATTEMPTS: u32 = 3;
/// Limit of adaptations of one question to parameters and shapes that the judge refused.
const ADAPTATIONS_MAX: u32 = 12;
/// Range of the learnt bytes per token.
const BYTES_PER_TOKEN_RANGE: (f64, f64) = (2.0, 5.0);

impl LaneCore {
    /// Takes in the answer or the fault of a request.
    pub(in crate::judge) fn answered(
        &mut self,
        now_ms: u64,
        id: u64,
        answer: Result<Reply, Fault>,
    ) {
        let Some((judge, shape)) = self.settle(now_ms, id, answer.as_ref()) else { return };
        if self.tasks.get(&id).is_some_and(|task| task.is_superseded) {
            self.remove(id);
            return self.actions.push(LaneAction::Count(LaneCount::Superseded));
        }
        match answer {
            Ok(reply) => self.replied(now_ms, id, judge, &reply),
            Err(fault) => self.met(now_ms, id, judge, (fault, shape)),
        }
    }

    /// Returns the requests under way, as inquiry and age in milliseconds, by inquiry.
    pub(in crate::judge) fn under_way(&self, now_ms: u64) -> Vec<(u64, u64)> {
        let asked = self.tasks.iter().filter(|(_, task)| task.under_way.is_some());
        let mut asked: Vec<_> =
            asked.map(|(id, task)| (*id, now_ms.saturating_sub(task.asked_ms))).collect();
        asked.sort_unstable();
        asked
    }

    /// Gives up a request under way; it counts as paid.
    pub(in crate::judge) fn cut_off(&mut self, now_ms: u64, id: u64) {
        self.settle(now_ms, id, Err(&Fault::CutOff));
    }

    /// Settles a request at its gate and counts it; returns its judge and the shape that it asked
    /// for.
    fn settle(
        &mut self,
        now_ms: u64,
        id: u64,
        answer: Result<&Reply, &Fault>,
    ) -> Option<(usize, Shape)> {
        let task = self.tasks.get_mut(&id)?;
        let evaluator = evaluator_of(task);
        let open = task.question.as_ref()?;
        let judge = open.judge;
        let (reservation, shape) = task.under_way.take()?;
        let state = &mut self.states[judge];
        let (ended, outcome, usage) = match answer {
            Ok(reply) if usage::is_surplus(&open.question, reply.usage) => {
                let count = LaneCount::Surplus(judge, evaluator.clone());
                self.actions.push(LaneAction::Count(count));
                (Ended::Replied(open.estimate), "replied", open.estimate)
            }
            Ok(reply) => {
                let paid = usage::paid(reply.usage, open.estimate);
                (Ended::Replied(paid), "replied", reply.usage)
            }
            Err(fault) => (Ended::Fault(fault), fault.told().0, TokenUsage::default()),
        };
        let cost_nano = state.gate.end(now_ms, reservation, ended);
        state.wake_ms = None;
        task.dialog.cost_nano = task.dialog.cost_nano.saturating_add(cost_nano);
        self.actions.push(LaneAction::Asked { judge, evaluator, outcome, usage, cost_nano });
        Some((judge, shape))
    }

    fn replied(&mut self, now_ms: u64, id: u64, judge: usize, reply: &Reply) {
        let (Some(task), state) = (self.tasks.get_mut(&id), &mut self.states[judge]) else {
            return;
        };
        let Some(OpenQuestion { question, key, .. }) = task.question.take() else { return };
        state.quirks.proven();
        learn_tokens(state, &question, reply);
        if task.dialog.replied(&*task.asked.inquiry, &question, reply) {
            self.cache.keep(key, reply.text.clone());
        }
        task.attempts = 0;
        let is_unreadable = task.dialog.is_unreadable();
        if !(is_unreadable && self.move_to_fallback(now_ms, id, judge)) {
            self.states[judge].ready.push_front(id);
        }
    }

    fn met(&mut self, now_ms: u64, id: u64, judge: usize, (fault, shape): (Fault, Shape)) {
        let (Some(task), state) = (self.tasks.get_mut(&id), &mut self.states[judge]) else {
            return;
        };
        let is_adapted = match &fault {
            Fault::RefusedParameter(name) => {
                if state.quirks.refuse(name) {
                    self.actions.push(LaneAction::Count(LaneCount::Refused(judge, name)));
                }
                true
            }
            // Of requests under way in one mode only the first steps down: each would skip one.
            Fault::RefusedShape(_) => state.quirks.current() != shape || state.quirks.step_down(),
            Fault::Overflow => {
                task.dialog.overflowed();
                task.question = None;
                true
            }
            _ => false,
        };
        task.adaptations += u32::from(is_adapted);
        if is_adapted && task.adaptations <= ADAPTATIONS_MAX {
            return state.ready.push_front(id);
        }
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.attempts += 1;
        let wait_ms = back_off_ms(id, task.attempts, fault.after());
        let at_ms = now_ms.saturating_add(wait_ms);
        if fault.is_retryable() && task.attempts < ATTEMPTS && at_ms <= task.deadline_ms {
            task.timer_ms = at_ms;
            self.timers.insert((at_ms, id));
            return;
        }
        let may_help = fault.is_retryable() || matches!(fault, Fault::Locked(..));
        if may_help && self.move_to_fallback(now_ms, id, judge) {
            return;
        }
        let (error_type, error) = fault.told();
        let outcome = match fault {
            Fault::TooMany { .. } => not_asked(Reason::RateLimited),
            Fault::Refused(text) => refused(&text),
            _ => Outcome::Failed { error_type, error: format!("judge: {error}") },
        };
        self.stop_task(id, outcome);
    }

    /// Moves an inquiry to the judge's `fallback`, if that one exists and its circuit is not open.
    pub(super) fn move_to_fallback(&mut self, now_ms: u64, id: u64, judge: usize) -> bool {
        let fallback = self.judges[judge].fallback.as_ref();
        let other = fallback.and_then(|name| self.find(name));
        let Some(other) = other.filter(|other| self.states[*other].gate.is_open(now_ms)) else {
            return false;
        };
        let task = self.tasks.get_mut(&id);
        let Some(task) = task.filter(|task| task.dialog.may_move_to(other)) else { return false };
        task.dialog.move_to(other, &self.judges[other]);
        (task.question, task.attempts, task.adaptations) = (None, 0, 0);
        self.states[other].ready.push_back(id);
        true
    }
}

/// Builds the outcome of a request that a filter of the judge refused.
fn refused(text: &str) -> Outcome {
    let explanation = format!("the judge refused to answer: {text}");
    Outcome::NotEvaluable { reason: Reason::JudgeRefused, explanation }
}

/// Corrects the estimate of bytes per token by the judge's count: a moving average, 0.1 for the
/// newest.
fn learn_tokens(state: &mut JudgeState, question: &JudgeQuestion, reply: &Reply) {
    if reply.usage.input == 0 || usage::is_surplus(question, reply.usage) {
        return;
    }
    let bytes = question.prompt.system.len() + question.prompt.user.len();
    let seen = bytes as f64 / reply.usage.input as f64;
    let (least, most) = BYTES_PER_TOKEN_RANGE;
    state.bytes_per_token = (state.bytes_per_token * 0.9 + seen * 0.1).clamp(least, most);
}
