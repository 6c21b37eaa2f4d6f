//! Votes of a session: majority, recheck of suspected injections, escalation, conclusion.
//!
//! Sampling is sequential: after `samples_min` votes it goes on, up to `samples_max`, only while
//! the conclusion is unsure or an injection is suspected. A clear case is paid once.

use super::{Phase, SamplingEnd, SamplingSession};
use spanscore_base::model::{JudgeUse, Outcome, Reason};
use spanscore_evaluate::inquiry::{
    AnsweredItem, Inquiry, JudgeAnswer, JudgeAnswers, PROMPT_VERSION,
};

impl SamplingSession {
    /// Takes in the answers to all statements.
    pub(super) fn answered(&mut self, inquiry: &dyn Inquiry, answers: JudgeAnswers) {
        self.answers += 1;
        let suspects = answers.injection_suspected && self.plan.rechecks_injections;
        match std::mem::replace(&mut self.phase, Phase::Sampling) {
            Phase::Rechecking(first) => self.votes = vec![surviving(&first, answers)],
            Phase::Escalated => self.votes = vec![answers],
            Phase::Sampling => return self.sampled(inquiry, answers),
        }
        if suspects { self.recheck(inquiry) } else { self.conclude(inquiry) }
    }

    fn sampled(&mut self, inquiry: &dyn Inquiry, answers: JudgeAnswers) {
        self.votes.push(answers);
        let count = self.votes.len() as u32;
        if count < self.plan.samples_min {
            if let Some(next) = self.seats.get(self.votes.len()) {
                self.judge = *next;
            }
            return;
        }
        let mut conclusion = inquiry.conclude(&self.room, &self.votes);
        // Votes of one model differ by chance; those of several where a case is hard.
        conclusion.is_unsure |= self.is_jury() && conclusion.agreement < 1.0;
        let is_unsure = conclusion.is_unsure || conclusion.injection_suspected;
        if is_unsure && count < self.plan.samples_max {
            return;
        }
        if conclusion.injection_suspected && self.plan.rechecks_injections {
            return self.recheck(inquiry);
        }
        if let Some(other) = self.escalate_to.filter(|_| conclusion.is_unsure) {
            (self.judge, self.phase, self.is_escalated) = (other, Phase::Escalated, true);
            return;
        }
        self.end = Some(SamplingEnd::Concluded(conclusion));
    }

    fn conclude(&mut self, inquiry: &dyn Inquiry) {
        let conclusion = inquiry.conclude(&self.room, &self.votes);
        self.end = Some(SamplingEnd::Concluded(conclusion));
    }

    /// Asks again without the suspected injection: without the strings that our detectors found, or
    /// without the lines cited by a judge that suspects one. If neither is left to withhold, its
    /// answer is not believed.
    fn recheck(&mut self, inquiry: &dyn Inquiry) {
        if self.injection_found && !self.room.withholds_injections {
            self.room.withholds_injections = true;
        } else if self.room.withheld.is_empty() {
            self.room.withheld = self.cited();
            if self.room.withheld.is_empty() {
                return self.disbelieve(inquiry);
            }
        } else {
            return self.disbelieve(inquiry);
        }
        (self.prompt, self.phase) = (None, Phase::Rechecking(self.majority()));
    }

    /// Returns the lines cited by votes that suspect an injection, sorted.
    fn cited(&self) -> Vec<u64> {
        let suspecting = self.votes.iter().filter(|vote| vote.injection_suspected);
        let items = suspecting.flat_map(|vote| &vote.items);
        let sound = items.filter(|item| item.overturned.is_none());
        let mut cited: Vec<u64> = sound.flat_map(|item| item.cites.iter().copied()).collect();
        cited.sort_unstable();
        cited.dedup();
        cited
    }

    /// Concludes without a score, as the judge itself says that it may have been swayed.
    fn disbelieve(&mut self, inquiry: &dyn Inquiry) {
        let mut conclusion = inquiry.conclude(&self.room, &self.votes);
        let calls = conclusion.calls.iter_mut().map(|(_, _, outcome)| outcome);
        for outcome in std::iter::once(&mut conclusion.outcome).chain(calls) {
            if matches!(outcome, Outcome::Scored(_)) {
                let explanation =
                    "the record tries to sway the judge, and what does so cannot be withheld";
                let reason = Reason::InjectionSuspected;
                let explanation = explanation.to_owned();
                *outcome = Outcome::NotEvaluable { reason, explanation };
            }
        }
        self.end = Some(SamplingEnd::Concluded(conclusion));
    }

    /// Returns the first vote, with items that lack a majority set to unclear.
    fn majority(&self) -> JudgeAnswers {
        let mut first = self.votes.first().cloned().unwrap_or_default();
        for (at, item) in first.items.iter_mut().enumerate() {
            let said = self.votes.iter().filter_map(|vote| vote.items.get(at));
            let same = said.clone().filter(|other| other.answer == item.answer).count();
            if same * 2 <= said.count() {
                item.answer = JudgeAnswer::Unclear;
            }
        }
        first
    }

    /// Returns the part of a model, or of several, in the evaluation; `None` if nothing was
    /// answered or paid.
    pub(in crate::judge::backend) fn used(
        &self,
        model: String,
        end: &SamplingEnd,
    ) -> Option<JudgeUse> {
        if self.answers == 0 && self.cost_nano == 0 {
            return None;
        }
        let (agreement, injection_suspected) = match end {
            SamplingEnd::Concluded(it) => (it.agreement, it.injection_suspected),
            SamplingEnd::GivenUp(_) => (0.0, false),
        };
        Some(JudgeUse {
            model,
            prompt_version: PROMPT_VERSION,
            samples: self.answers,
            agreement,
            escalated: self.is_escalated,
            fallback: !self.given_up.is_empty(),
            cost_usd: self.cost_nano as f64 / 1e9,
            injection_suspected,
            cut_bytes: self.cut_bytes,
        })
    }
}

/// Keeps the answers that are the same with the suspected injection withheld; others become
/// unclear.
fn surviving(first: &JudgeAnswers, again: JudgeAnswers) -> JudgeAnswers {
    let items = again.items.into_iter().enumerate().map(|(at, item)| {
        let before = first.items.get(at).map(|item| item.answer);
        let answer = if before == Some(item.answer) { item.answer } else { JudgeAnswer::Unclear };
        AnsweredItem { answer, ..item }
    });
    JudgeAnswers { items: items.collect(), injection_suspected: true, ..again }
}
