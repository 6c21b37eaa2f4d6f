//! Votes of a session: majority, recheck of suspected injections, escalation, conclusion.
//!
//! Sampling is sequential. After `samples_min` votes it continues, up to `samples_max`, only while
//! the conclusion is unsure or an injection is suspected, so a clear case costs the minimum.

use super::{Phase, SamplingEnd, SamplingSession};
use spanscore_base::model::{JudgeUse, Outcome, Reason};
use spanscore_evaluate::inquiry::{
    AnsweredItem, Inquiry, JudgeAnswer, JudgeAnswers, PROMPT_VERSION,
};

impl SamplingSession {
    /// Takes in the answers to all statements.
    pub(super) fn answered(&mut self, inquiry: &dyn Inquiry, answers: JudgeAnswers) {
        self.answers += 1;
        match std::mem::replace(&mut self.phase, Phase::Sampling) {
            Phase::Rechecking(first) => self.rechecked(inquiry, first, answers),
            Phase::Escalated => {
                let suspects = answers.injection_suspected;
                self.votes = vec![answers];
                self.decide(inquiry, suspects);
            }
            Phase::Sampling => self.sampled(inquiry, answers),
        }
    }

    /// Takes in a vote on the record without the suspected injection, one for each earlier vote.
    fn rechecked(&mut self, inquiry: &dyn Inquiry, first: Vec<JudgeAnswers>, again: JudgeAnswers) {
        self.votes.push(again);
        if self.votes.len() < first.len() {
            self.judge = self.seats.get(self.votes.len()).copied().unwrap_or(self.judge);
            self.phase = Phase::Rechecking(first);
            return;
        }
        let again = std::mem::take(&mut self.votes);
        let suspects = again.iter().any(|vote| vote.injection_suspected);
        self.votes = first.iter().zip(again).map(|(first, vote)| surviving(first, vote)).collect();
        self.decide(inquiry, suspects);
    }

    fn decide(&mut self, inquiry: &dyn Inquiry, suspects: bool) {
        if suspects && self.plan.rechecks_injections {
            return self.recheck(inquiry);
        }
        self.end = Some(SamplingEnd::Concluded(inquiry.conclude(&self.room, &self.votes)));
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
        let conclusion = inquiry.conclude(&self.room, &self.votes);
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

    /// Repeats the question without the suspected injection: without the strings found by our
    /// detectors, or without the lines cited by a suspecting judge. If neither can be withheld, its
    /// answer is discarded.
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
        let first = if self.is_jury_asked() {
            self.judge = self.seats[0];
            std::mem::take(&mut self.votes)
        } else {
            vec![self.majority()]
        };
        self.votes.clear();
        self.prompt = None;
        self.phase = Phase::Rechecking(first);
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

    /// Concludes without a score, since the judge itself suspects an influence.
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

    /// Returns the first vote, with items without a majority set to unclear.
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

    /// Returns the share of one or several models in the evaluation; `None` without answers or
    /// cost.
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

/// Returns the answers that are the same without the suspected injection; others become unclear.
fn surviving(first: &JudgeAnswers, again: JudgeAnswers) -> JudgeAnswers {
    let items = again.items.into_iter().enumerate().map(|(at, item)| {
        let before = first.items.get(at).map(|item| item.answer);
        let answer = if before == Some(item.answer) { item.answer } else { JudgeAnswer::Unclear };
        AnsweredItem { answer, ..item }
    });
    JudgeAnswers { items: items.collect(), injection_suspected: true, ..again }
}
