//! Sampling session of one inquiry: majority vote, recheck of suspected injections, escalation.
//!
//! ```text
//! samples, as many as needed ─► again without a suspected injection ─► another judge ─► done
//!    the other suspects one, too: again without it
//!    each: question ─► reply ─► read; if unreadable: one repair
//! ```
//!
//! `voting` decides by the answers, `moving` takes a session to another judge.

mod moving;
mod voting;

use self::moving::{answer_tokens, evidence_tokens};
use super::truncation;
use crate::judge::settings::JudgeSettings;
use crate::judge::wire::{Finish, JudgeQuestion, Reply, TokenUsage};
use spanscore_base::model::{Outcome, Reason};
use spanscore_evaluate::inquiry::{
    Conclusion, Inquiry, JudgeAnswers, JudgePlan, JudgePrompt, MarkKey, PromptRoom,
};

/// Temperature of votes. At a temperature of 0 each vote would repeat the first.
const VOTE_TEMPERATURE: f64 = 0.7;
/// Factor of `max_tokens` for the retry after a truncated answer.
const LONGER: u32 = 4;
/// `error.type` of an evaluation without a readable reply.
const REPLY_INVALID: &str = "judge_reply_invalid";

/// Next step of a session.
#[derive(Debug)]
pub(super) enum SamplingStep {
    /// Render the inquiry within these limits.
    Render(PromptRoom),
    /// Ask a question.
    Ask {
        /// Question.
        question: Box<JudgeQuestion>,
        /// Sample number, so that votes have distinct cache entries.
        sample: u32,
    },
    /// End the inquiry.
    Done(Box<SamplingEnd>),
}

/// Result of a session.
#[derive(Debug)]
pub(super) enum SamplingEnd {
    /// Conclusion of the votes.
    Concluded(Conclusion),
    /// No conclusion.
    GivenUp(Outcome),
}

#[derive(Debug, PartialEq)]
enum Phase {
    Sampling,
    /// Repeats the question with strings withheld, after these votes: of each judge of a jury, or
    /// the majority of one judge.
    Rechecking(Vec<JudgeAnswers>),
    Escalated,
}

/// State of one inquiry between its questions.
#[derive(Debug)]
pub(super) struct SamplingSession {
    plan: JudgePlan,
    /// Failed judges.
    given_up: Vec<usize>,
    /// Judges with a vote, in order: one, or a jury.
    seats: Vec<usize>,
    /// Current judge, and the one for unsure cases.
    pub(super) judge: usize,
    escalate_to: Option<usize>,
    room: PromptRoom,
    prompt: Option<JudgePrompt>,
    /// Answers to earlier windows of a vote.
    part: Option<JudgeAnswers>,
    /// Bytes omitted from the rendered record.
    cut_bytes: u64,
    /// True if our detectors found an injection in the rendered record.
    injection_found: bool,
    phase: Phase,
    is_escalated: bool,
    votes: Vec<JudgeAnswers>,
    /// Readable answers of the current judge, including discarded votes.
    answers: u32,
    remark: Option<String>,
    is_longer: bool,
    is_halved: bool,
    end: Option<SamplingEnd>,
    pub(super) cost_nano: u64,
}

impl SamplingSession {
    /// Starts a session of judges with these settings, for one common record. `bytes_per_token` is
    /// the current estimate for the first.
    pub(super) fn new(
        plan: JudgePlan,
        seats: Vec<usize>,
        escalate_to: Option<usize>,
        settings: &[&JudgeSettings],
        (bytes_per_token, mark_key): (f64, MarkKey),
    ) -> Self {
        let least = |of: fn(&JudgePlan, &JudgeSettings) -> u32| {
            settings.iter().map(|settings| of(&plan, settings)).min().unwrap_or(0)
        };
        let room = PromptRoom {
            evidence_tokens: least(evidence_tokens),
            bytes_per_token,
            answer_tokens: least(answer_tokens),
            withholds_injections: false,
            withheld: Vec::new(),
            window: 0,
            mark_key,
        };
        Self {
            plan,
            given_up: Vec::new(),
            judge: seats.first().copied().unwrap_or(0),
            seats,
            escalate_to,
            room,
            prompt: None,
            part: None,
            cut_bytes: 0,
            injection_found: false,
            phase: Phase::Sampling,
            is_escalated: false,
            votes: Vec::new(),
            answers: 0,
            remark: None,
            is_longer: false,
            is_halved: false,
            end: None,
            cost_nano: 0,
        }
    }

    /// Returns the next step.
    pub(super) fn next(&mut self, settings: &JudgeSettings) -> SamplingStep {
        if let Some(end) = self.end.take() {
            return SamplingStep::Done(Box::new(end));
        }
        let Some(prompt) = &self.prompt else { return SamplingStep::Render(self.room.clone()) };
        let question = Box::new(self.question(prompt.clone(), settings));
        let sample = if self.is_jury() { 0 } else { self.answers };
        SamplingStep::Ask { question, sample }
    }

    /// Takes in the prompt, or the reason that there is none.
    pub(super) fn rendered(&mut self, prompt: Result<JudgePrompt, Outcome>) {
        match prompt {
            Ok(prompt) => {
                self.cut_bytes = prompt.cut_bytes;
                self.injection_found = prompt.injection_found;
                self.prompt = Some(prompt);
            }
            Err(outcome) => self.give_up(outcome),
        }
    }

    fn question(&self, prompt: JudgePrompt, settings: &JudgeSettings) -> JudgeQuestion {
        let is_vote = !self.is_jury()
            && self.plan.samples_max > 1
            && (self.answers > 0 || self.plan.samples_min > 1)
            && self.phase == Phase::Sampling;
        let longer = if self.is_longer { LONGER } else { 1 };
        let max_tokens = settings.max_tokens.max(prompt.answer_tokens).saturating_mul(longer);
        JudgeQuestion {
            prompt,
            remark: self.remark.clone(),
            temperature: if is_vote { VOTE_TEMPERATURE } else { settings.temperature },
            max_tokens,
        }
    }

    /// Estimates the tokens of a question; the output is its limit.
    pub(super) fn estimate(&self, question: &JudgeQuestion) -> TokenUsage {
        let remark = question.remark.as_ref().map_or(0, String::len);
        let bytes = question.prompt.system.len() + question.prompt.user.len() + remark;
        let input = (bytes as f64 / self.room.bytes_per_token).ceil() as u64;
        TokenUsage { input, cached: 0, output: u64::from(question.max_tokens) }
    }

    /// Takes in a reply; returns true if it was readable.
    pub(super) fn replied(
        &mut self,
        inquiry: &dyn Inquiry,
        question: &JudgeQuestion,
        reply: &Reply,
    ) -> bool {
        if truncation::is_cut(question, reply.usage.input) {
            let estimate = self.estimate(question).input;
            self.give_up(truncation::outcome(estimate, reply.usage.input));
            return false;
        }
        match reply.finish {
            Finish::Refused => {
                let explanation = "the judge refused to answer".to_owned();
                self.give_up(Outcome::NotEvaluable { reason: Reason::JudgeRefused, explanation });
                return false;
            }
            Finish::Overflow => {
                self.overflowed();
                return false;
            }
            Finish::Length if !self.is_longer && self.remark.is_none() => {
                self.is_longer = true;
                return false;
            }
            Finish::Length => {
                self.unreadable("it was cut at its longest".to_owned());
                return false;
            }
            Finish::Stop => {}
        }
        match inquiry.read(&self.room, &reply.text) {
            Ok(answers) => {
                (self.remark, self.is_longer) = (None, false);
                if let Some(all) = self.whole(answers) {
                    self.answered(inquiry, all);
                }
                true
            }
            Err(why) if self.remark.is_none() && !self.is_longer => {
                self.remark = Some(format!(
                    "Your last reply could not be used: {why}. Reply again with the JSON object \
                     only."
                ));
                false
            }
            Err(why) => {
                self.unreadable(why.0);
                false
            }
        }
    }

    /// Joins the answers to windows; returns them after the last window, otherwise `None`.
    fn whole(&mut self, answers: JudgeAnswers) -> Option<JudgeAnswers> {
        let windows = self.prompt.as_ref().map_or(1, |prompt| prompt.windows);
        let whole = match self.part.take() {
            None => answers,
            Some(mut before) => {
                before.items.extend(answers.items);
                before.injection_suspected |= answers.injection_suspected;
                before.is_unsure |= answers.is_unsure;
                before
            }
        };
        if windows <= 1 {
            return Some(whole);
        }
        // The prompt covers one window: the next one, or the first of another vote, is rendered.
        self.prompt = None;
        if self.room.window + 1 < windows {
            self.room.window += 1;
            self.part = Some(whole);
            return None;
        }
        self.room.window = 0;
        Some(whole)
    }

    fn unreadable(&mut self, why: String) {
        let error = format!("the judge's reply cannot be used: {why}");
        self.give_up(Outcome::Failed { error_type: REPLY_INVALID, error });
    }

    /// Returns true if the session ends without a readable reply: another judge may give one.
    pub(super) fn is_unreadable(&self) -> bool {
        matches!(
            &self.end,
            Some(SamplingEnd::GivenUp(Outcome::Failed { error_type: REPLY_INVALID, .. }))
        )
    }

    fn give_up(&mut self, outcome: Outcome) {
        self.end = Some(SamplingEnd::GivenUp(outcome));
    }

    /// Returns the end without another answer: by the votes so far if they reach `samples_min`,
    /// otherwise, and at shutdown, with `outcome`.
    pub(super) fn stop(&self, inquiry: &dyn Inquiry, outcome: Outcome) -> SamplingEnd {
        let enough = self.votes.len() >= self.plan.samples_min.max(1) as usize;
        let is_shutdown = matches!(outcome, Outcome::NotEvaluable { reason: Reason::Shutdown, .. });
        if !enough || is_shutdown || matches!(self.phase, Phase::Rechecking(_)) {
            return SamplingEnd::GivenUp(outcome);
        }
        SamplingEnd::Concluded(inquiry.conclude(&self.room, &self.votes))
    }

    /// Handles a request beyond the context: repeats it once with half of the record.
    pub(super) fn overflowed(&mut self) {
        if std::mem::replace(&mut self.is_halved, true) {
            let explanation = "the record does not fit into the judge".to_owned();
            self.give_up(Outcome::NotEvaluable { reason: Reason::EvidenceTooLong, explanation });
            return;
        }
        self.room.evidence_tokens /= 2;
        (self.prompt, self.part, self.room.window) = (None, None, 0);
        self.votes.clear();
        if self.is_jury_asked() {
            self.judge = self.seats[0];
        }
    }

    /// Returns true if several judges vote.
    fn is_jury(&self) -> bool {
        self.seats.len() > 1
    }

    /// Returns true if the votes come from a jury, and not from the judge that decides in its
    /// place.
    fn is_jury_asked(&self) -> bool {
        self.is_jury() && !self.is_escalated
    }

    /// Returns the judges whose answers count: the jury, or the last judge.
    pub(super) fn counted(&self) -> &[usize] {
        if self.is_jury_asked() { &self.seats } else { std::slice::from_ref(&self.judge) }
    }

    /// Returns true without any answer, so that another process can take over for free.
    pub(super) fn is_untouched(&self) -> bool {
        self.votes.is_empty() && self.part.is_none() && self.phase == Phase::Sampling
    }
}
