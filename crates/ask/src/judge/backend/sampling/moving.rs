//! Move of a session to another judge, and the room in a judge's context.

use super::{Phase, SamplingSession};
use crate::judge::settings::JudgeSettings;
use spanscore_evaluate::inquiry::{JudgePlan, PromptRoom};

/// Tokens reserved for instructions and statements.
const OVERHEAD_TOKENS: u32 = 2_000;

impl SamplingSession {
    /// Returns true if another judge may take over: it has not failed, and the votes do not
    /// suffice. A judge of a jury is never replaced.
    pub(in crate::judge::backend) fn may_move_to(&self, other: usize) -> bool {
        let enough = self.votes.len() >= self.plan.samples_min.max(1) as usize;
        let is_free = !self.is_jury() && !self.given_up.contains(&other);
        self.phase == Phase::Sampling && !enough && is_free
    }

    /// Moves to another judge. Votes of two models are not comparable, so earlier answers are
    /// dropped, including those to some windows.
    pub(in crate::judge::backend) fn move_to(&mut self, other: usize, settings: &JudgeSettings) {
        self.given_up.push(std::mem::replace(&mut self.judge, other));
        self.votes.clear();
        (self.part, self.answers, self.end) = (None, 0, None);
        (self.remark, self.is_longer, self.is_halved) = (None, false, false);
        let evidence_tokens = evidence_tokens(&self.plan, settings);
        let answer_tokens = answer_tokens(&self.plan, settings);
        let room = PromptRoom { evidence_tokens, answer_tokens, window: 0, ..self.room.clone() };
        if room != self.room {
            (self.room, self.prompt) = (room, None);
        }
    }
}

/// Returns the token limit of the record: the plan's, or less for a small context.
pub(super) fn evidence_tokens(plan: &JudgePlan, settings: &JudgeSettings) -> u32 {
    let taken = settings.max_tokens.saturating_add(OVERHEAD_TOKENS);
    let fits = settings.context_tokens.saturating_sub(taken).max(OVERHEAD_TOKENS / 2);
    plan.evidence_tokens.min(fits)
}

/// Returns the token limit of an answer to many statements: up to twice `max_tokens`, within the
/// judge's context.
pub(super) fn answer_tokens(plan: &JudgePlan, settings: &JudgeSettings) -> u32 {
    let taken = evidence_tokens(plan, settings).saturating_add(OVERHEAD_TOKENS);
    let least = settings.max_tokens;
    settings.context_tokens.saturating_sub(taken).clamp(least, least.saturating_mul(2))
}
