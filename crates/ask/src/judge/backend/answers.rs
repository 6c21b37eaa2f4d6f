//! Handling of prompts, replies and faults: settlement, retry, adaptation of the request, fallback.

use std::time::Duration;

use super::usage;
use super::{JudgeCall, JudgeCount, JudgeEffect, JudgeProgress, JudgeScheduler, OpenQuestion};
use crate::judge::call::CallTexts;
use crate::judge::gate::Ended;
use crate::judge::wire::{Fault, Finish, Reply, Shape, TokenUsage};
use crate::scheduler::PendingRequest;
use spanscore_base::model::{Outcome, Reason};
use spanscore_base::settings::Address;
use spanscore_evaluate::JudgeRequest;
use spanscore_evaluate::inquiry::{JudgePrompt, RedactionGaps};

/// Limit on the adaptations of one question to refused parameters and shapes.
const ADAPTATIONS_MAX: u32 = 12;

impl JudgeScheduler {
    /// Answers the open question of a request from the cache; false if absent.
    pub(super) fn answer_from_cache(&mut self, id: u64) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let JudgeProgress { session, question: open, .. } = &mut entry.progress;
        let cached = open.as_ref().and_then(|open| self.backend.cache.get(&open.keys));
        let (Some(text), Some(OpenQuestion { question, .. })) = (cached, open.as_ref()) else {
            return false;
        };
        let usage = TokenUsage::default();
        let reply = Reply { text: text.to_owned(), finish: Finish::Stop, usage };
        let judge = session.judge;
        session.replied(&*entry.request.inquiry, question, &reply);
        *open = None;
        self.count(id, judge, JudgeCount::CacheHit);
        true
    }

    /// Takes in the prompt of an inquiry, or the reason that there is none.
    pub(in crate::judge) fn rendered(
        &mut self,
        id: u64,
        judge: usize,
        prompt: Result<JudgePrompt, Outcome>,
    ) {
        self.backend.judges[judge].rendering -= 1;
        let gaps = prompt.as_ref().map_or_else(|_| RedactionGaps::default(), |it| it.gaps);
        // Absent if it was replaced or expired meanwhile.
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.progress.session.rendered(prompt);
        if gaps != RedactionGaps::default() {
            self.count(id, judge, JudgeCount::Gaps(gaps));
        }
        self.requeue_first(id);
    }

    /// Takes in the answer or the fault of a request.
    pub(in crate::judge) fn answered(
        &mut self,
        now_ms: u64,
        id: u64,
        took: Duration,
        answer: Result<Reply, Fault>,
    ) {
        let Some(shape) = self.settle(now_ms, id, took, answer.as_ref()) else { return };
        if self.drop_superseded(id) {
            return;
        }
        match answer {
            Ok(reply) => self.replied(now_ms, id, &reply),
            Err(fault) => self.failed(now_ms, id, &fault, shape),
        }
    }

    /// Gives up the requests in flight; they count as paid.
    pub(in crate::judge) fn cut_off(&mut self, now_ms: u64) {
        for (id, age_ms) in self.in_flight(now_ms) {
            self.settle(now_ms, id, Duration::from_millis(age_ms), Err(&Fault::CutOff));
        }
    }

    /// Settles a request at its gate and records the call; returns the requested shape.
    fn settle(
        &mut self,
        now_ms: u64,
        id: u64,
        took: Duration,
        answer: Result<&Reply, &Fault>,
    ) -> Option<Shape> {
        let (reservation, shape) = self.land(id)?;
        let entry = self.entries.get_mut(&id)?;
        let OpenQuestion { question, estimate, .. } = entry.progress.question.as_ref()?;
        let session = &mut entry.progress.session;
        let judge = session.judge;
        let is_surplus = answer.is_ok_and(|reply| usage::is_surplus(question, reply.usage));
        let (ended, outcome, usage) = match answer {
            Ok(_) if is_surplus => (Ended::Replied(*estimate), "replied", *estimate),
            Ok(reply) => {
                let paid = usage::paid(reply.usage, *estimate);
                (Ended::Replied(paid), "replied", reply.usage)
            }
            Err(fault) => (Ended::Fault(fault), fault.told().0, TokenUsage::default()),
        };
        let cost_nano = self.backend.at_gate(judge, |gate| gate.end(now_ms, reservation, ended));
        let state = &mut self.backend.judges[judge];
        state.wake_ms = None;
        session.cost_nano = session.cost_nano.saturating_add(cost_nano);
        let evaluation = &entry.request.evaluation;
        let call = JudgeCall {
            judge: state.name.clone(),
            provider: state.settings.provider(),
            base_url: Address::from(state.settings.base_url().as_ref()),
            model: state.settings.model.clone(),
            max_tokens: state.settings.max_tokens,
            evaluator: evaluation.evaluator.name.clone(),
            evaluation: evaluation.id,
            trace_id: evaluation.target.trace_id,
            span_id: evaluation.span_id,
            start_ns: 0,
            end_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
            outcome,
            input_tokens: usage.input,
            cached_tokens: usage.cached,
            output_tokens: usage.output,
            cost_usd: cost_nano as f64 / 1e9,
            content: self
                .backend
                .keeps_content
                .then(|| Box::new(CallTexts::of(question, answer.ok()))),
        };
        self.effect(JudgeEffect::Called(Box::new(call)));
        if is_surplus {
            self.count(id, judge, JudgeCount::Surplus);
        }
        Some(shape)
    }

    fn replied(&mut self, now_ms: u64, id: u64, reply: &Reply) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(open) = entry.progress.question.take() else { return };
        let OpenQuestion { question, keys, .. } = open;
        let session = &mut entry.progress.session;
        let judge = session.judge;
        let state = &mut self.backend.judges[judge];
        state.capabilities.proven();
        state.learn_tokens(&question, reply);
        if session.replied(&*entry.request.inquiry, &question, reply) {
            self.backend.cache.keep(keys.own, reply.text.clone());
        }
        entry.attempts = 0;
        let is_unreadable = session.is_unreadable();
        if !(is_unreadable && self.move_to_fallback(now_ms, id)) {
            // Also if the session escalates: its next step is due at the judge that answered.
            self.requeue_first_at(judge, id);
        }
    }

    fn failed(&mut self, now_ms: u64, id: u64, fault: &Fault, shape: Shape) {
        if self.adapt(id, fault, shape) {
            return self.requeue_first(id);
        }
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.attempts += 1;
        if fault.is_retryable() && self.retry(now_ms, id, fault.after()) {
            return;
        }
        let may_help = fault.is_retryable() || matches!(fault, Fault::Locked(..));
        if may_help && self.move_to_fallback(now_ms, id) {
            return;
        }
        let (error_type, error) = fault.told();
        let outcome = match fault {
            Fault::TooMany { text, .. } => {
                let why = JudgeRequest::explain(Reason::RateLimited);
                let explanation = format!("{why}: {text}");
                Outcome::NotEvaluable { reason: Reason::RateLimited, explanation }
            }
            Fault::Refused(text) => refused(text),
            _ => Outcome::Failed { error_type, error: format!("judge: {error}") },
        };
        self.stop(id, outcome);
    }

    /// Adapts the next message to the refusal; false if nothing can be adapted.
    fn adapt(&mut self, id: u64, fault: &Fault, shape: Shape) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let progress = &mut entry.progress;
        let judge = progress.session.judge;
        let capabilities = &mut self.backend.judges[judge].capabilities;
        let mut refused = None;
        let is_adapted = match fault {
            Fault::RefusedParameter(name) => {
                refused = Some(*name).filter(|name| capabilities.refuse(name));
                true
            }
            // Of concurrent requests in one mode only the first steps down: each would skip one.
            Fault::RefusedShape(_) => capabilities.current() != shape || capabilities.step_down(),
            Fault::Overflow => {
                progress.session.overflowed();
                progress.question = None;
                true
            }
            _ => false,
        };
        progress.adaptations += u32::from(is_adapted);
        let is_within = progress.adaptations <= ADAPTATIONS_MAX;
        if let Some(parameter) = refused {
            self.count(id, judge, JudgeCount::Refused(parameter));
        }
        is_adapted && is_within
    }

    /// Moves a request to the `fallback` of its judge, if there is one with a closed circuit.
    pub(super) fn move_to_fallback(&mut self, now_ms: u64, id: u64) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let session = &mut entry.progress.session;
        let fallback = self.backend.judges[session.judge].settings.fallback.as_ref();
        let other = fallback.and_then(|name| self.backend.find(name));
        let other = other.filter(|other| session.may_move_to(*other));
        let other = other.map(|other| (other, &self.backend.judges[other]));
        let Some((other, state)) = other.filter(|(_, state)| state.gate.is_open(now_ms)) else {
            return false;
        };
        session.move_to(other, &state.settings);
        entry.attempts = 0;
        (entry.progress.question, entry.progress.adaptations) = (None, 0);
        self.requeue(id);
        true
    }
}

/// Returns the outcome of a request refused by a filter of the judge.
fn refused(text: &str) -> Outcome {
    let explanation = format!("the judge refused to answer: {text}");
    Outcome::NotEvaluable { reason: Reason::JudgeRefused, explanation }
}
