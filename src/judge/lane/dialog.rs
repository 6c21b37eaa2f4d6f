//! What is asked for one inquiry, question after question, until it has come to a conclusion.
//!
//! ```text
//! samples, as many as needed ─► again without what seems an injection ─► another judge ─► done
//!    the other suspects one, too: again without it
//!    each: question ─► reply ─► read; not readable: one repair
//! ```

use crate::evaluate::inquiry::{
    AnsweredItem, Conclusion, Inquiry, JudgeAnswer, JudgeAnswers, JudgePlan, JudgePrompt, MarkKey,
    PROMPT_VERSION, PromptRoom,
};
use crate::judge::settings::JudgeSettings;
use crate::judge::wire::{Finish, JudgeQuestion, Reply, TokenUsage};
use crate::model::{JudgeUse, Outcome, Reason};

/// Randomness of an answer that is one of several.
const VOTE_TEMPERATURE: f64 = 0.7;
/// A cut answer is asked for again with so many times the tokens.
const LONGER: u32 = 4;
/// Tokens that instructions and statements may take beside the record.
const OVERHEAD_TOKENS: u32 = 2_000;
/// Below so many tokens an estimate says too little to find a cut by it.
const ESTIMATE_TOKENS_MIN: u64 = 512;

/// What is to be done next.
#[derive(Debug)]
pub(super) enum DialogStep {
    /// Have the inquiry rendered for this room.
    Render(PromptRoom),
    /// Ask this.
    Ask {
        /// The judge, by its place.
        judge: usize,
        /// The question.
        question: Box<JudgeQuestion>,
        /// Its place among the votes.
        sample: u32,
    },
    /// It is done.
    Done(Box<DialogEnd>),
}

/// What a dialog came to.
#[derive(Debug)]
pub(super) enum DialogEnd {
    /// A conclusion.
    Concluded(Conclusion),
    /// None.
    GivenUp(Outcome),
}

#[derive(Debug, PartialEq)]
enum Phase {
    Sampling,
    /// Asked again with strings withheld, after this answer.
    Rechecking(JudgeAnswers),
    Escalated,
}

/// One inquiry on its way through its questions.
#[derive(Debug)]
pub(super) struct Dialog {
    plan: JudgePlan,
    /// Judges that were asked first, and could not tell.
    given_up: Vec<usize>,
    /// The judge that is asked now, and the one for the last word.
    pub(super) judge: usize,
    escalate_to: Option<usize>,
    room: PromptRoom,
    prompt: Option<JudgePrompt>,
    /// Of a vote in several windows, the answers to those before.
    part: Option<JudgeAnswers>,
    /// What was left out of what was shown, bytes.
    cut_bytes: u64,
    /// Our own detectors found an injection in what was shown.
    injection_found: bool,
    phase: Phase,
    is_escalated: bool,
    votes: Vec<JudgeAnswers>,
    /// Answers that were read, whatever became of them.
    answers: u32,
    remark: Option<String>,
    is_longer: bool,
    is_halved: bool,
    end: Option<DialogEnd>,
    pub(super) cost_nano: u64,
}

impl Dialog {
    /// Nothing asked yet. `bytes_per_token` is what is known of the judge.
    pub(super) fn new(
        plan: JudgePlan,
        judge: usize,
        escalate_to: Option<usize>,
        settings: &JudgeSettings,
        (bytes_per_token, mark_key): (f64, MarkKey),
    ) -> Self {
        let room = PromptRoom {
            evidence_tokens: evidence_tokens(&plan, settings),
            bytes_per_token,
            answer_tokens: answer_tokens(&plan, settings),
            withholds_injections: false,
            withheld: Vec::new(),
            window: 0,
            mark_key,
        };
        Self {
            plan,
            given_up: Vec::new(),
            judge,
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

    /// What is to be done next.
    pub(super) fn next(&mut self, judges: &[JudgeSettings]) -> DialogStep {
        match (self.end.take(), &self.prompt, judges.get(self.judge)) {
            (None, None, Some(_)) => DialogStep::Render(self.room.clone()),
            (None, Some(prompt), Some(settings)) => {
                let question = self.question(prompt.clone(), settings);
                DialogStep::Ask {
                    judge: self.judge,
                    question: Box::new(question),
                    sample: self.answers,
                }
            }
            (end, ..) => DialogStep::Done(Box::new(end.unwrap_or_else(|| {
                let error = "the judge is not configured".to_owned();
                DialogEnd::GivenUp(Outcome::Failed { error_type: "judge_unknown", error })
            }))),
        }
    }

    /// Takes what the inquiry was rendered to, or why it could not be.
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
        let is_vote = self.plan.samples_max > 1
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

    /// Tokens that a question takes, as far as that can be said before.
    pub(super) fn estimate(&self, question: &JudgeQuestion) -> TokenUsage {
        let remark = question.remark.as_ref().map_or(0, String::len);
        let bytes = question.prompt.system.len() + question.prompt.user.len() + remark;
        let input = (bytes as f64 / self.room.bytes_per_token).ceil() as u64;
        TokenUsage { input, cached: 0, output: u64::from(question.max_tokens) }
    }

    /// Takes a reply; whether it could be read.
    pub(super) fn replied(
        &mut self,
        inquiry: &dyn Inquiry,
        question: &JudgeQuestion,
        reply: &Reply,
    ) -> bool {
        let estimate = self.estimate(question).input;
        let reported = reply.usage.input;
        if reported > 0 && reported < estimate / 2 && estimate >= ESTIMATE_TOKENS_MIN {
            self.cut_short(estimate, reported);
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

    /// The answers to all windows, once the last of them is answered; before that the next one is
    /// to be asked.
    fn whole(&mut self, answers: JudgeAnswers) -> Option<JudgeAnswers> {
        let windows = self.prompt.as_ref().map_or(1, |prompt| prompt.windows);
        let whole = match self.part.take() {
            None => answers,
            Some(mut before) => {
                before.items.extend(answers.items);
                before.injection_suspected |= answers.injection_suspected;
                before
            }
        };
        if windows <= 1 {
            return Some(whole);
        }
        // The next window, or the first one of another vote.
        self.prompt = None;
        if self.room.window + 1 < windows {
            self.room.window += 1;
            self.part = Some(whole);
            return None;
        }
        self.room.window = 0;
        Some(whole)
    }

    fn cut_short(&mut self, estimate: u64, reported: u64) {
        let error = format!(
            "about {estimate} tokens were sent and {reported} were read: the judge cuts what does \
             not fit; raise its context (for Ollama `num_ctx`) or lower `evidence_tokens`"
        );
        self.give_up(Outcome::Failed { error_type: "judge_context_truncated", error });
    }

    fn unreadable(&mut self, why: String) {
        let error = format!("the judge's reply cannot be used: {why}");
        self.give_up(Outcome::Failed { error_type: "judge_reply_invalid", error });
    }

    fn give_up(&mut self, outcome: Outcome) {
        self.end = Some(DialogEnd::GivenUp(outcome));
    }

    /// No further answer can be had: what is there decides, where it is enough.
    pub(super) fn stop(&mut self, inquiry: &dyn Inquiry, outcome: Outcome) {
        let enough = self.votes.len() >= self.plan.samples_min.max(1) as usize;
        self.end = Some(match (&self.phase, enough) {
            (Phase::Rechecking(_), _) | (_, false) => DialogEnd::GivenUp(outcome),
            (_, true) => DialogEnd::Concluded(inquiry.conclude(&self.room, &self.votes)),
        });
    }

    /// The request did not fit: with half of the record it may.
    pub(super) fn overflowed(&mut self) {
        if std::mem::replace(&mut self.is_halved, true) {
            let explanation = "the record does not fit into the judge".to_owned();
            self.give_up(Outcome::NotEvaluable { reason: Reason::EvidenceTooLong, explanation });
            return;
        }
        self.room.evidence_tokens /= 2;
        (self.prompt, self.part, self.room.window) = (None, None, 0);
        self.votes.clear();
    }

    fn answered(&mut self, inquiry: &dyn Inquiry, answers: JudgeAnswers) {
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
        self.end = Some(DialogEnd::Concluded(conclusion));
    }

    fn conclude(&mut self, inquiry: &dyn Inquiry) {
        let conclusion = inquiry.conclude(&self.room, &self.votes);
        self.end = Some(DialogEnd::Concluded(conclusion));
    }

    /// Asks again without what seems an injection: the strings that our detectors found, else the
    /// lines that a judge which suspects one cites. Where neither is left, it is not believed.
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

    /// What the votes rest on that suspect an injection.
    fn cited(&self) -> Vec<u64> {
        let suspecting = self.votes.iter().filter(|vote| vote.injection_suspected);
        let items = suspecting.flat_map(|vote| &vote.items);
        let sound = items.filter(|item| item.overturned.is_none());
        let mut cited: Vec<u64> = sound.flat_map(|item| item.cites.iter().copied()).collect();
        cited.sort_unstable();
        cited.dedup();
        cited
    }

    /// Concludes without a score: the judge says itself that it may have been swayed.
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
        self.end = Some(DialogEnd::Concluded(conclusion));
    }

    /// The first answer, with what the votes have no majority for as unclear.
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

    /// Whether nothing was answered yet, so that another process may ask in its place.
    pub(super) fn is_untouched(&self) -> bool {
        self.votes.is_empty() && self.part.is_none() && self.phase == Phase::Sampling
    }

    /// Whether a judge may be asked in the place of the one that is asked now: none is twice, and
    /// what was answered does not suffice.
    pub(super) fn may_move_to(&self, other: usize) -> bool {
        let enough = self.votes.len() >= self.plan.samples_min.max(1) as usize;
        self.phase == Phase::Sampling && !enough && !self.given_up.contains(&other)
    }

    /// Has another judge asked from now on. Votes of two judges are not counted together: what the
    /// first one said, be it to some windows of the record, is asked again.
    pub(super) fn move_to(&mut self, other: usize, settings: &JudgeSettings) {
        self.given_up.push(std::mem::replace(&mut self.judge, other));
        self.votes.clear();
        (self.part, self.answers) = (None, 0);
        (self.remark, self.is_longer, self.is_halved) = (None, false, false);
        let evidence_tokens = evidence_tokens(&self.plan, settings);
        let answer_tokens = answer_tokens(&self.plan, settings);
        let room = PromptRoom { evidence_tokens, answer_tokens, window: 0, ..self.room.clone() };
        if room != self.room {
            (self.room, self.prompt) = (room, None);
        }
    }

    /// How the judge came to it; `None` before anything was answered.
    pub(super) fn used(&self, judges: &[JudgeSettings], end: &DialogEnd) -> Option<JudgeUse> {
        let model = judges.get(self.judge)?.model.clone();
        if self.answers == 0 && self.cost_nano == 0 {
            return None;
        }
        let (agreement, injection_suspected) = match end {
            DialogEnd::Concluded(it) => (it.agreement, it.injection_suspected),
            DialogEnd::GivenUp(_) => (0.0, false),
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

/// Tokens of a record that a judge has room for, as far as the plan allows them.
fn evidence_tokens(plan: &JudgePlan, settings: &JudgeSettings) -> u32 {
    let taken = settings.max_tokens.saturating_add(OVERHEAD_TOKENS);
    let fits = settings.context_tokens.saturating_sub(taken).max(OVERHEAD_TOKENS / 2);
    plan.evidence_tokens.min(fits)
}

/// Tokens that an answer to many statements may take: up to twice `max_tokens`, where record and
/// answer fit into the judge.
fn answer_tokens(plan: &JudgePlan, settings: &JudgeSettings) -> u32 {
    let taken = evidence_tokens(plan, settings).saturating_add(OVERHEAD_TOKENS);
    let least = settings.max_tokens;
    settings.context_tokens.saturating_sub(taken).clamp(least, least.saturating_mul(2))
}

/// What of an answer survives when what seems an injection is withheld; all else is unclear.
fn surviving(first: &JudgeAnswers, again: JudgeAnswers) -> JudgeAnswers {
    let items = again.items.into_iter().enumerate().map(|(at, item)| {
        let before = first.items.get(at).map(|item| item.answer);
        let answer = if before == Some(item.answer) { item.answer } else { JudgeAnswer::Unclear };
        AnsweredItem { answer, ..item }
    });
    JudgeAnswers { items: items.collect(), injection_suspected: true, ..again }
}
