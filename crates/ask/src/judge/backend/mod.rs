//! Judges as targets of the scheduler: sampling sessions, admission by gates, and the answer cache.
//!
//! Pure, like the scheduler. A request is rendered, passes through the questions of its
//! [`SamplingSession`], each admitted by its judge's gate, and is concluded.

mod answers;
mod forecast;
mod held;
mod reload;
mod request;
mod sampling;
mod shared_budget;
pub(super) mod spent;
mod state;
#[cfg(test)]
mod tests;
mod truncation;
mod usage;

use std::sync::Arc;

pub use self::forecast::{CostForecast, CostForecaster};
use self::held::HeldSenders;
pub(super) use self::reload::is_alike;
use self::sampling::{SamplingEnd, SamplingSession, SamplingStep};
use self::state::JudgeState;
use super::cache::{AnswerCache, QuestionKey, QuestionKeys};
use super::call::JudgeCall;
use super::gate::{GateBlock, Reservation};
use super::metrics::JudgeCount;
use super::settings::JudgeSettings;
use super::wire::{JudgeQuestion, ProviderCapabilities, Shape, TokenUsage};
use crate::scheduler::{ScheduledRequest, Scheduler, SchedulerBackend, not_sent};
use spanscore_base::model::{Evaluation, Outcome, Reason};
use spanscore_evaluate::JudgeRequest;
use spanscore_evaluate::inquiry::{Inquiry, JudgePlan, MarkKey, PromptRoom};

/// Limit on inquiries rendered at once for one judge.
const RENDERED_AT_ONCE: u32 = 4;

/// Scheduler of requests to judges.
pub(super) type JudgeScheduler = Scheduler<JudgeBackend>;

/// Instruction to the executor.
#[derive(Debug)]
pub(super) enum JudgeEffect {
    /// Renders an inquiry and reports the prompt; slow for large records.
    Render {
        /// Request.
        id: u64,
        /// Index of the judge of the prompt.
        judge: usize,
        /// Inquiry that renders itself.
        inquiry: Arc<dyn Inquiry>,
        /// Limits of the prompt.
        room: PromptRoom,
    },
    /// Asks a judge and reports the answer.
    Send {
        /// Request.
        id: u64,
        /// Index of the judge.
        judge: usize,
        /// Keys that the answer may be kept under.
        keys: QuestionKeys,
        /// Parameters and shapes that the judge takes.
        capabilities: ProviderCapabilities,
        /// Question.
        question: Box<JudgeQuestion>,
    },
    /// Records a finished call; its times begin at 0.
    Called(Box<JudgeCall>),
    /// Counts another event: names of judge and evaluator, and the event.
    Count(String, String, JudgeCount),
}

/// Session of a request, with its open question.
#[derive(Debug)]
pub(super) struct JudgeProgress {
    session: SamplingSession,
    question: Option<OpenQuestion>,
    adaptations: u32,
}

#[derive(Debug)]
struct OpenQuestion {
    question: Box<JudgeQuestion>,
    keys: QuestionKeys,
    estimate: TokenUsage,
}

/// All judges by index, including replaced ones.
#[derive(Debug)]
pub(super) struct JudgeBackend {
    pub(super) judges: Vec<JudgeState>,
    cache: AnswerCache,
    /// Secret for the marks that frame records in prompts.
    mark_key: MarkKey,
    /// True if inquiries wait for an open circuit, false if they are given up at once.
    waits_for_circuit: bool,
    /// Budget shared by all judges, nano-dollars.
    pub(super) shared_nano: Option<u64>,
    /// True if calls are recorded with prompt and reply.
    pub(super) keeps_content: bool,
}

impl JudgeBackend {
    /// Returns a backend of these judges, with an empty cache.
    pub(super) fn new(
        judges: Vec<(String, JudgeSettings)>,
        mark_key: MarkKey,
        waits_for_circuit: bool,
    ) -> Self {
        let states = judges.into_iter().map(|(name, settings)| JudgeState::new(name, settings));
        let cache = AnswerCache::default();
        Self {
            judges: states.collect(),
            cache,
            mark_key,
            waits_for_circuit,
            shared_nano: None,
            keeps_content: false,
        }
    }

    /// Caches an earlier process's answer.
    pub(super) fn remember(&mut self, key: QuestionKey, text: String) {
        self.cache.keep(key, text);
    }

    /// Returns true unless another judge gives its answers from elsewhere, by a model of the same
    /// name and the same parameters: where nothing is to be told apart, a judge may move.
    fn is_alone(&self, judge: usize) -> bool {
        let own = &self.judges[judge].settings;
        let place = own.place();
        let mut others = self.judges.iter().map(|other| &other.settings);
        !others.any(|other| other.identity() == own.identity() && other.place() != place)
    }

    /// Returns the index of the newest judge of a name.
    fn find(&self, name: &str) -> Option<usize> {
        self.judges.iter().rposition(|judge| judge.name == name)
    }

    /// Starts a session for a plan.
    fn session(&self, plan: &JudgePlan) -> Result<SamplingSession, Outcome> {
        let judge = self.find(&plan.judge).ok_or_else(|| Outcome::Failed {
            error_type: "judge_unknown",
            error: format!("judge `{}` is not configured", plan.judge),
        })?;
        let jury = plan.jury.iter().map(|name| {
            self.find(name).ok_or_else(|| Outcome::Failed {
                error_type: "judge_unknown",
                error: format!("judge `{name}` of the jury is not configured"),
            })
        });
        let jury = jury.collect::<Result<Vec<_>, _>>()?;
        let seats: Vec<usize> = std::iter::once(judge).chain(jury).collect();
        let escalate_to = plan.escalate_to.as_deref().and_then(|name| self.find(name));
        let settings: Vec<_> = seats.iter().map(|at| &self.judges[*at].settings).collect();
        let known = (self.judges[judge].bytes_per_token, self.mark_key);
        Ok(SamplingSession::new(plan.clone(), seats, escalate_to, &settings, known))
    }

    /// Fills in the end of a session.
    fn end(&self, entry: ScheduledRequest<Self>, end: SamplingEnd) -> Vec<Evaluation> {
        let ScheduledRequest { request, progress: JudgeProgress { session, .. }, .. } = entry;
        let models = session.counted().iter().map(|at| &*self.judges[*at].settings.model);
        let used = session.used(models.collect::<Vec<_>>().join(", "), &end);
        match end {
            SamplingEnd::Concluded(conclusion) => request.conclude(conclusion, used),
            SamplingEnd::GivenUp(outcome) => request.give_up(outcome, used),
        }
    }
}

impl SchedulerBackend for JudgeBackend {
    type Request = JudgeRequest;
    type Progress = JudgeProgress;
    type Ticket = (Reservation, Shape);
    type Effect = JudgeEffect;
    const CLOSE_ENDS_BACK_OFF: bool = true;

    fn begin(
        scheduler: &mut JudgeScheduler,
        request: &JudgeRequest,
    ) -> Result<JudgeProgress, Outcome> {
        let session = scheduler.backend.session(&request.plan)?;
        Ok(JudgeProgress { session, question: None, adaptations: 0 })
    }

    fn target(progress: &JudgeProgress) -> usize {
        progress.session.judge
    }

    fn name(&self, judge: usize) -> &str {
        &self.judges[judge].name
    }

    fn dispatch(scheduler: &mut JudgeScheduler, now_ms: u64) {
        // A fallback with a lower index was dispatched before an inquiry moves to it. The turns of
        // connections rest on two rounds too: the second tries those that the first has left.
        for _ in 0..2 {
            let judges = 0..scheduler.backend.judges.len();
            judges.for_each(|judge| scheduler.ask_queued(now_ms, judge));
        }
    }

    fn wake_ms(scheduler: &JudgeScheduler) -> Option<u64> {
        let judges = scheduler.backend.judges.iter().enumerate();
        let waiting = judges.filter(|(judge, _)| scheduler.peek(*judge).is_some());
        waiting.filter_map(|(_, state)| state.wake_ms).min()
    }

    fn expired(&self, entry: &ScheduledRequest<Self>) -> Outcome {
        let state = &self.judges[entry.progress.session.judge];
        let sender = entry.sender();
        // What came by no connection waits like the others, and has no share.
        let reason = if sender.peer == 0 { Reason::BudgetExhausted } else { Reason::BudgetShare };
        let held = state.held.contains(sender).then_some(reason);
        not_sent::<JudgeRequest>(held.or(state.blocked).unwrap_or(Reason::Deadline))
    }

    fn is_untouched(progress: &JudgeProgress) -> bool {
        progress.session.is_untouched()
    }

    fn stop(&self, entry: ScheduledRequest<Self>, outcome: Outcome) -> Vec<Evaluation> {
        let end = entry.progress.session.stop(&*entry.request.inquiry, outcome);
        self.end(entry, end)
    }
}

impl JudgeScheduler {
    fn ask_queued(&mut self, now_ms: u64, judge: usize) {
        if self.backend.judges[judge].wake_ms.is_some_and(|wake| wake > now_ms) {
            return;
        }
        self.backend.judges[judge].wake_ms = None;
        let mut passed = Vec::new();
        let mut held = std::mem::take(&mut self.backend.judges[judge].held).next();
        self.ask_unless_held(now_ms, judge, &mut passed, &mut held);
        for id in passed.into_iter().rev() {
            self.requeue_first_at(judge, id);
        }
        self.backend.judges[judge].held = held;
    }

    /// Sends queued requests until a limit stops all of them. `passed` collects requests that wait
    /// for others of their senders, which are held from then on.
    fn ask_unless_held(
        &mut self,
        now_ms: u64,
        judge: usize,
        passed: &mut Vec<u64>,
        held: &mut HeldSenders,
    ) {
        while let Some((id, sender)) = self.take_unless(judge, |sender| held.contains(sender)) {
            let Some(block) = self.advance(now_ms, id) else { continue };
            if self.target(id) != Some(judge) {
                self.requeue(id);
                continue;
            }
            match block {
                GateBlock::Circuit { until_ms, is_locked } => {
                    if self.move_to_fallback(now_ms, id) {
                        continue;
                    }
                    if !is_locked && self.backend.waits_for_circuit {
                        return self.wait(id, judge, until_ms, Reason::CircuitOpen);
                    }
                    self.stop(id, not_sent::<JudgeRequest>(Reason::CircuitOpen));
                }
                GateBlock::Busy => return self.requeue_first(id),
                GateBlock::Reserved => {
                    return self.wait(id, judge, None, Reason::BudgetExhausted);
                }
                GateBlock::ShareReserved(holder) => {
                    held.hold(sender, holder);
                    passed.push(id);
                }
                GateBlock::Rate { until_ms } => {
                    return self.wait(id, judge, Some(until_ms), Reason::RateLimited);
                }
                GateBlock::Budget => {
                    self.stop(id, not_sent::<JudgeRequest>(Reason::BudgetExhausted));
                }
                GateBlock::OthersShare => {
                    self.stop(id, not_sent::<JudgeRequest>(Reason::BudgetShare));
                }
            }
        }
    }

    fn wait(&mut self, id: u64, judge: usize, until_ms: Option<u64>, reason: Reason) {
        let state = &mut self.backend.judges[judge];
        (state.wake_ms, state.blocked) = (until_ms, Some(reason));
        self.requeue_first(id);
    }

    /// Advances a request to its next question or end; returns the limit that stops it.
    fn advance(&mut self, now_ms: u64, id: u64) -> Option<GateBlock> {
        loop {
            if self.leave_if_untouched(id) {
                return None;
            }
            let entry = self.entries.get_mut(&id)?;
            let JudgeProgress { session, question: open, .. } = &mut entry.progress;
            let judge = session.judge;
            let state = &mut self.backend.judges[judge];
            if open.is_none() {
                match session.next(&state.settings) {
                    SamplingStep::Done(end) => {
                        self.complete(id, |backend, entry| backend.end(entry, *end));
                        return None;
                    }
                    SamplingStep::Render(_) if state.rendering >= RENDERED_AT_ONCE => {
                        return Some(GateBlock::Busy);
                    }
                    SamplingStep::Render(room) => {
                        state.rendering += 1;
                        let inquiry = Arc::clone(&entry.request.inquiry);
                        self.effect(JudgeEffect::Render { id, judge, inquiry, room });
                        return None;
                    }
                    SamplingStep::Ask { question, sample } => {
                        let is_alone = self.backend.is_alone(judge);
                        let settings = &self.backend.judges[judge].settings;
                        let keys = QuestionKeys::new(settings, is_alone, &question, sample);
                        let estimate = session.estimate(&question);
                        *open = Some(OpenQuestion { question, keys, estimate });
                    }
                }
            }
            if !self.answer_from_cache(id) {
                return self.send(now_ms, id);
            }
        }
    }

    fn send(&mut self, now_ms: u64, id: u64) -> Option<GateBlock> {
        let entry = self.entries.get(&id)?;
        let progress = &entry.progress;
        let open = progress.question.as_ref()?;
        let judge = progress.session.judge;
        if let Some(block) = self.backend.shared_room(now_ms, judge, open.estimate).block() {
            return Some(block);
        }
        let sender = entry.sender();
        let estimate = open.estimate;
        let begun = self.backend.at_gate(judge, |gate| gate.begin(now_ms, estimate, sender));
        let reservation = match begun {
            Ok(reservation) => reservation,
            Err(block) => return Some(block),
        };
        let state = &mut self.backend.judges[judge];
        state.blocked = None;
        let capabilities = state.capabilities.clone();
        let ticket = (reservation, capabilities.current());
        let question = open.question.clone();
        let keys = open.keys;
        let send = JudgeEffect::Send { id, judge, keys, capabilities, question };
        if let Some(waited_ms) = self.depart(now_ms, id, ticket) {
            self.count(id, judge, JudgeCount::Waited(waited_ms));
        }
        self.effect(send);
        None
    }

    fn count(&mut self, id: u64, judge: usize, count: JudgeCount) {
        let Some(entry) = self.entries.get(&id) else { return };
        let evaluator = entry.request.evaluation.evaluator.name.clone();
        let judge = self.backend.judges[judge].name.clone();
        self.effect(JudgeEffect::Count(judge, evaluator, count));
    }
}
