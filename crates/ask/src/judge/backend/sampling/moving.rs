//! Move of a session to another judge, and the room that a judge's context leaves.

use super::{Phase, SamplingSession};
use crate::judge::settings::JudgeSettings;
use spanscore_evaluate::inquiry::{JudgePlan, PromptRoom};

/// Tokens reserved for instructions and statements beside the record.
const OVERHEAD_TOKENS: u32 = 2_000;

impl SamplingSession {
    /// Returns true if another judge may take over: it was not given up before, and the votes do
    /// not suffice. Nobody takes the place of a judge of a jury.
    pub(in crate::judge::backend) fn may_move_to(&self, other: usize) -> bool {
        let enough = self.votes.len() >= self.plan.samples_min.max(1) as usize;
        let is_free = !self.is_jury() && !self.given_up.contains(&other);
        self.phase == Phase::Sampling && !enough && is_free
    }

    /// Moves to another judge. Votes of two models are not counted together, so earlier answers are
    /// dropped, those to some windows of the record, too.
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

/// Returns the tokens for the record: the plan's limit, or less if the judge's context is smaller.
pub(super) fn evidence_tokens(plan: &JudgePlan, settings: &JudgeSettings) -> u32 {
    let taken = settings.max_tokens.saturating_add(OVERHEAD_TOKENS);
    let fits = settings.context_tokens.saturating_sub(taken).max(OVERHEAD_TOKENS / 2);
    plan.evidence_tokens.min(fits)
}

/// Returns the tokens for an answer to many statements: up to twice `max_tokens`, within the
/// judge's context.
pub(super) fn answer_tokens(plan: &JudgePlan, settings: &JudgeSettings) -> u32 {
    let taken = evidence_tokens(plan, settings).saturating_add(OVERHEAD_TOKENS);
    let least = settings.max_tokens;
    settings.context_tokens.saturating_sub(taken).clamp(least, least.saturating_mul(2))
}
