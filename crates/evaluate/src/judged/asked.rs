//! Inquiry of a judged kind: renders, parses and concludes a question within limits.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::conclude::{self, Answered, no_score};
use super::form;
use super::mark;
use super::prompt;
use super::question::{Question, QuestionItem, ReplyForm, Scoring};
use super::record::RecordLine;
use super::redact;
use super::render::{
    RecordTooLong, RecordWindow, RenderLimits, WINDOWS_MAX, parts, render, render_orders,
    render_windows, swap_back,
};
use super::settings::{OnInjection, Redact};
use crate::inquiry::{
    Conclusion, Inquiry, JudgeAnswer, JudgeAnswers, JudgePrompt, PromptRoom, UnreadableReply,
};
use crate::shared::report;
use spanscore_base::model::{Explanation, Label, Outcome, Reason, Want};
use spanscore_base::value::{Map, Value};
use spanscore_detect::redactor::RedactionGaps;

/// Distance of a score from the threshold within which the answer is unsure.
const UNSURE_WITHIN: f64 = 0.1;

/// Question with the settings for asking it.
pub(super) struct AskedQuestion {
    pub(super) question: Question,
    pub(super) redact: Redact,
    pub(super) on_injection: OnInjection,
    /// True if several models vote: they differ on hard cases, votes of one model by chance.
    pub(super) is_jury: bool,
    pub(super) threshold: f64,
    pub(super) want: Want,
    /// Last layout, and its limits.
    pub(super) rendered: Mutex<Option<(PromptRoom, Arc<RenderedQuestion>)>>,
}

/// Record rendered within its limits: usually one window with all statements.
pub(super) struct RenderedQuestion {
    windows: Vec<RecordWindow>,
    injection_found: bool,
}

impl RenderedQuestion {
    fn window(&self, room: &PromptRoom) -> Option<&RecordWindow> {
        self.windows.get(room.window)
    }

    /// Returns the bytes cut from the record, the minimum over windows.
    fn cut_bytes(&self) -> u64 {
        self.windows.iter().map(|window| window.record.cut_bytes).min().unwrap_or(0)
    }
}

/// Hides the content.
impl fmt::Debug for AskedQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AskedQuestion({} statements)", self.question.items.len())
    }
}

impl AskedQuestion {
    /// Renders the record within its limits, or reuses the last layout if it fits them. Also
    /// returns the failures of redaction, only for a new layout.
    fn render_question(
        &self,
        room: &PromptRoom,
    ) -> Result<(Arc<RenderedQuestion>, RedactionGaps), Outcome> {
        let mut kept = self.rendered.lock();
        if let Some((known, rendered)) = &*kept
            && *known == (PromptRoom { window: 0, ..room.clone() })
        {
            return Ok((Arc::clone(rendered), RedactionGaps::default()));
        }
        let lines = &self.question.record.lines;
        let sendable = redact::sendable(lines, self.redact, room)?;
        let render_room = RenderLimits {
            tokens: room.evidence_tokens,
            bytes_per_token: room.bytes_per_token,
            asks_calls: self.question.items.iter().any(|item| item.call.is_some()),
        };
        let statements = self.statements_max(room)?;
        let windows = self.windows(&sendable.lines, statements, render_room)?;
        let rendered = RenderedQuestion { windows, injection_found: sendable.injection_found };
        let rendered = Arc::new(rendered);
        *kept = Some((PromptRoom { window: 0, ..room.clone() }, Arc::clone(&rendered)));
        Ok((rendered, sendable.gaps))
    }

    /// Returns the limit on statements per request: as many as the answer's tokens allow, and up to
    /// twice as many to limit the number of requests.
    fn statements_max(&self, room: &PromptRoom) -> Result<usize, Outcome> {
        let count = self.asked().count();
        let form = self.question.form;
        let most = form::statements_in(form, room.answer_tokens);
        let needed = count.div_ceil(WINDOWS_MAX);
        if needed > most.max(form::statements_in(form, room.answer_tokens.saturating_mul(2))) {
            let words = format!(
                "there are {count} statements, more than can be answered in {WINDOWS_MAX} requests \
                 with the judge's `max_tokens`"
            );
            return Err(no_score(Reason::EvidenceTooLong, words));
        }
        Ok(most.max(needed))
    }

    /// Renders the record as one window, repeated for each part of the statements. If it is too
    /// long and calls are asked about, renders several windows.
    fn windows(
        &self,
        lines: &[RecordLine],
        statements: usize,
        room: RenderLimits,
    ) -> Result<Vec<RecordWindow>, Outcome> {
        if self.question.scoring == Scoring::Preference {
            return render_orders(lines, room).map_err(too_long_to_show);
        }
        let count = self.asked().count();
        let too_long = match render(lines, room) {
            Ok(record) => {
                let record = Arc::new(record);
                let window = |items| RecordWindow { record: Arc::clone(&record), items };
                return Ok(parts(count, count.div_ceil(statements)).map(window).collect());
            }
            Err(long) => long,
        };
        let Question { form, ref record, .. } = self.question;
        let seq = |item: &QuestionItem| Some(record.calls.get(item.call.as_ref()?.place)?.seq);
        let windows = if room.asks_calls && form == ReplyForm::Items {
            let calls: Vec<_> = self.asked().map(seq).collect();
            render_windows(lines, &calls, statements, room)
        } else {
            Err(too_long)
        };
        windows.map_err(too_long_to_show)
    }

    fn asked(&self) -> impl Iterator<Item = &QuestionItem> {
        self.question.items.iter().filter(|item| item.settled.is_none())
    }

    /// Sets answers with invalid cites to unclear.
    fn verify(&self, asked: &[&QuestionItem], answers: &mut JudgeAnswers) {
        let last = self.question.record.lines.last().map_or(0, |line| line.seq);
        for (item, answered) in asked.iter().zip(&mut answers.items) {
            let is_none = |cite: &u64| *cite == 0 || *cite > last;
            let is_late = |cite: &u64| {
                answered.answer == JudgeAnswer::Yes
                    && item.sources_before.is_some_and(|before| *cite > before)
            };
            let overturned = if answered.cites.iter().any(is_none) {
                Some("it cites what is not in the record")
            } else if answered.cites.iter().any(is_late) {
                Some("it cites what came after the call")
            } else {
                None
            };
            if overturned.is_some() {
                answered.answer = JudgeAnswer::Unclear;
                answered.overturned = overturned;
            }
        }
    }

    fn scored(&self, value: f64, answered: &[Answered], facts: &VoteFacts) -> Outcome {
        let vetoed = self
            .question
            .items
            .iter()
            .zip(answered)
            .find(|(item, answered)| item.veto && answered.answer == JudgeAnswer::No);
        let explain = || self.explain(value, answered, facts);
        let details = || self.details(answered, facts);
        report::labelled(vetoed.map(|_| Label::Fail), value, self.want, explain, details)
    }

    fn explain(&self, value: f64, answered: &[Answered], facts: &VoteFacts) -> Explanation {
        let holds = |(item, answered): &(&QuestionItem, &Answered)| {
            let kept = if item.inverted { JudgeAnswer::No } else { JudgeAnswer::Yes };
            answered.answer == kept
        };
        let pairs = || self.question.items.iter().zip(answered);
        let apply = pairs().filter(|(_, one)| one.answer != JudgeAnswer::NotApplicable).count();
        let kept = pairs().filter(holds).count();
        let mut words = Explanation::plain(match self.question.scoring {
            Scoring::Given => format!("the judge gives {value:.2}"),
            Scoring::Preference => conclude::preferred(kept, apply, answered.len()),
            _ => format!("{kept} of {apply} statements hold"),
        });
        if facts.injection_suspected {
            words.push(" (the record tries to sway the judge)");
        }
        let broken =
            pairs().filter(|pair| !holds(pair) && pair.1.answer != JudgeAnswer::NotApplicable);
        report::few(&mut words, broken, |words, (item, answered)| {
            words.push(&format!("{}: {}", item.shown(), answered.answer.as_str()));
            tell_reason(words, answered);
        });
        if let Some(reason) = &facts.given_reason {
            words.hide(&format!("; {reason}"), "");
        }
        words
    }

    fn details(&self, answered: &[Answered], facts: &VoteFacts) -> Map<'static> {
        let items = self.question.items.iter().zip(answered).map(|(item, answered)| {
            let mut entry: Map<'static> = Map::new();
            entry.insert("statement", item.shown().to_owned());
            entry.insert("answer", answered.answer.as_str());
            entry.insert("by", if answered.by_code { "code" } else { "judge" });
            if answered.votes.len() > 1 {
                let votes = answered.votes.iter().map(|vote| Value::from(vote.as_str()));
                entry.insert("votes", Value::List(votes.collect()));
            }
            if let Some(told) = &answered.item {
                let cites = told.cites.iter().map(|cite| Value::from(*cite));
                entry.insert("cites", Value::List(cites.collect()));
                entry.insert("reason", told.reason.clone());
                if let Some(overturned) = told.overturned {
                    entry.insert("overturned", overturned);
                }
            }
            Value::Map(entry)
        });
        let mut details: Map<'static> = Map::new();
        details.insert("items", Value::List(items.collect()));
        details.insert("agreement", facts.agreement);
        details.insert("injection_suspected", facts.injection_suspected);
        if facts.is_unsure {
            details.insert(Reason::JudgeUnsure.as_str(), true);
        }
        details.insert("cut_bytes", facts.cut_bytes);
        if let Some(reason) = &facts.given_reason {
            details.insert("reason", reason.clone());
        }
        details
    }

    /// Concludes without a judge, if code settled all statements.
    pub(super) fn settled(&self) -> Conclusion {
        Conclusion { is_unsure: false, ..self.concluded(&[], false, 0) }
    }

    fn concluded(&self, votes: &[JudgeAnswers], found: bool, cut_bytes: u64) -> Conclusion {
        let given = match self.question.scoring {
            Scoring::Given => conclude::given(votes),
            _ => None,
        };
        let (answered, agreement) = conclude::tally(&self.question.items, votes);
        let reason = votes.first().filter(|_| given.is_some()).and_then(|vote| vote.items.first());
        let agreement = given.map_or(agreement, |(_, agreement)| agreement);
        let is_split = self.is_jury && agreement < 1.0;
        let facts = VoteFacts {
            agreement,
            injection_suspected: found || votes.iter().any(|vote| vote.injection_suspected),
            is_unsure: is_split || votes.iter().any(|vote| vote.is_unsure),
            cut_bytes,
            given_reason: reason.map(|item| item.reason.clone()),
        };
        let score = match given {
            Some((value, _)) => Ok(value),
            None => conclude::score(self.question.scoring, &self.question.items, &answered),
        };
        let is_near = score
            .as_ref()
            .map_or(true, |score| (score - self.threshold).abs() <= UNSURE_WITHIN + f64::EPSILON);
        let shown = if given.is_some() { &[] } else { &answered[..] };
        let outcome = score.map_or_else(|none| none, |value| self.scored(value, shown, &facts));
        let is_open = |one: &Answered| {
            !one.by_code
                && (one.answer == JudgeAnswer::Unclear
                    || one.item.as_ref().is_some_and(|item| item.overturned.is_some()))
        };
        Conclusion {
            outcome: self.unless_injected(outcome, &facts),
            calls: self.calls(&answered, &facts),
            agreement: facts.agreement,
            is_unsure: is_near
                || facts.is_unsure
                || facts.injection_suspected
                || shown.iter().any(is_open),
            injection_suspected: facts.injection_suspected,
        }
    }

    /// Returns the outcome of each call with a statement; none if the reply has one score for all,
    /// which judges no single call.
    fn calls(&self, answered: &[Answered], facts: &VoteFacts) -> Vec<JudgedCallOutcome> {
        if self.question.scoring == Scoring::Given {
            return Vec::new();
        }
        let pairs = self.question.items.iter().zip(answered);
        let calls = pairs.filter_map(|(item, answered)| {
            let call = item.call.as_ref()?;
            let one = std::slice::from_ref(item);
            let outcome = match conclude::score(Scoring::Share, one, std::slice::from_ref(answered))
            {
                Ok(value) => self.scored_call(value, item, answered, facts),
                Err(outcome) => outcome,
            };
            Some((call.place, call.span_id, self.unless_injected(outcome, facts)))
        });
        calls.collect()
    }

    fn scored_call(
        &self,
        value: f64,
        item: &QuestionItem,
        answered: &Answered,
        facts: &VoteFacts,
    ) -> Outcome {
        let explain = || {
            let by = if answered.by_code { "code" } else { "the judge" };
            let answer = answered.answer.as_str();
            let mut words = Explanation::plain(format!("{}: {answer}, says {by}", item.shown()));
            tell_reason(&mut words, answered);
            words
        };
        let details = || {
            let mut details: Map<'static> = Map::new();
            details.insert("answer", answered.answer.as_str());
            details.insert("by", if answered.by_code { "code" } else { "judge" });
            details.insert("injection_suspected", facts.injection_suspected);
            details
        };
        report::scored(value, self.want, explain, details)
    }

    fn unless_injected(&self, outcome: Outcome, facts: &VoteFacts) -> Outcome {
        let is_void = facts.injection_suspected && self.on_injection == OnInjection::NotEvaluable;
        match outcome {
            Outcome::Scored(_) if is_void => {
                no_score(Reason::InjectionSuspected, "the record tries to sway the judge")
            }
            outcome => outcome,
        }
    }
}

fn too_long_to_show(long: RecordTooLong) -> Outcome {
    let words = format!(
        "the record takes {} bytes where {} may be shown, cut as far as it may be",
        long.bytes, long.bytes_max
    );
    no_score(Reason::EvidenceTooLong, words)
}

/// Outcome of one call, with its index and span.
type JudgedCallOutcome = (usize, spanscore_base::model::SpanId, Outcome);

/// Facts common to all votes.
struct VoteFacts {
    agreement: f64,
    injection_suspected: bool,
    /// True if a vote has no finding about injections, or a jury disagrees.
    is_unsure: bool,
    cut_bytes: u64,
    /// Reason given by the judge for its own score.
    given_reason: Option<String>,
}

fn tell_reason(words: &mut Explanation, answered: &Answered) {
    let Some(told) = &answered.item else { return };
    if let Some(overturned) = told.overturned {
        words.push(&format!(" ({overturned})"));
    }
    if !told.reason.is_empty() {
        words.hide(&format!(" ({})", told.reason), "");
    }
}

impl Inquiry for AskedQuestion {
    fn prompt(&self, room: &PromptRoom) -> Result<JudgePrompt, Outcome> {
        let (rendered, gaps) = self.render_question(room)?;
        let Some(RecordWindow { record, items }) = rendered.window(room) else {
            let error = "there is no such part of the record".to_owned();
            return Err(Outcome::Failed { error_type: "internal_error", error });
        };
        let asked = self.asked().skip(items.start).take(items.len());
        let statements: Vec<&str> = asked.map(|item| item.statement.as_str()).collect();
        let mark = mark::mark(&room.mark_key, &self.question.record.identity, record.text());
        let words = form::words(self.question.form, statements.len());
        let guidance = &self.question.guidance;
        Ok(JudgePrompt {
            system: prompt::marked(&words.system, &mark),
            user: prompt::user(&mark, record, guidance, &statements, &words.closing),
            schema: words.schema,
            statements: statements.len(),
            answer_tokens: form::answer_tokens(self.question.form, statements.len()),
            digest: prompt::digest(record, (&words.system, &words.closing), guidance, &statements),
            cut_bytes: record.cut_bytes,
            injection_found: rendered.injection_found,
            gaps,
            windows: rendered.windows.len(),
        })
    }

    fn read(&self, room: &PromptRoom, reply: &str) -> Result<JudgeAnswers, UnreadableReply> {
        let mut asked: Vec<&QuestionItem> = self.asked().collect();
        if let Ok((rendered, _)) = self.render_question(room)
            && let Some(window) = rendered.window(room)
        {
            asked = asked[window.items.clone()].to_vec();
        }
        let mut answers = form::read(self.question.form, reply, &asked)?;
        if self.question.scoring == Scoring::Preference && room.window > 0 {
            swap_back(&self.question.record.lines, &mut answers);
        }
        self.verify(&asked, &mut answers);
        Ok(answers)
    }

    fn conclude(&self, room: &PromptRoom, votes: &[JudgeAnswers]) -> Conclusion {
        match self.render_question(room) {
            Ok((rendered, _)) => {
                self.concluded(votes, rendered.injection_found, rendered.cut_bytes())
            }
            Err(_) => self.concluded(votes, false, 0),
        }
    }

    fn statements(&self) -> usize {
        if self.question.scoring == Scoring::Given { 0 } else { self.question.items.len() }
    }

    fn bytes(&self) -> usize {
        let words: usize = self.question.items.iter().map(|item| item.statement.len() + 96).sum();
        // The stored layout takes at most about as much again.
        self.question.record.bytes() * 2 + words + self.question.guidance.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inquiry::AnsweredItem;
    use crate::judged::record::RunRecord;

    fn check(is_jury: bool, votes: &[JudgeAnswer], expected: bool) {
        let items = vec![QuestionItem::new("It holds.".to_owned())];
        let asked = AskedQuestion {
            question: Question::of(RunRecord::default(), "", items),
            redact: Redact::default(),
            on_injection: OnInjection::default(),
            is_jury,
            threshold: 0.5,
            want: Want::ALL,
            rendered: Mutex::new(None),
        };
        let vote = |answer: &JudgeAnswer| {
            let item = AnsweredItem {
                answer: *answer,
                cites: Vec::new(),
                reason: String::new(),
                overturned: None,
            };
            JudgeAnswers { items: vec![item], ..JudgeAnswers::default() }
        };
        let votes: Vec<_> = votes.iter().map(vote).collect();
        let conclusion = asked.concluded(&votes, false, 0);
        let Outcome::Scored(score) = &conclusion.outcome else { panic!("{conclusion:?}") };
        let Value::Map(details) = &score.details else { panic!("{score:?}") };
        let told = details.get("judge_unsure").is_some();
        assert_eq!((conclusion.is_unsure, told), (expected, expected), "{is_jury} {votes:?}");
    }

    #[test]
    fn a_jury_that_differs_is_unsure_and_says_so() {
        use JudgeAnswer::{No, Yes};
        check(true, &[Yes, Yes, No], true);
        check(true, &[Yes, Yes, Yes], false);
        check(false, &[Yes, Yes, No], false);
    }
}
