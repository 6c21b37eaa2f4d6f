//! Scheduler of the lane: which inquiry waits for which judge, and which request is sent now.
//!
//! Pure: `(state, event, now) -> actions`; times are Unix milliseconds. An inquiry waits until it
//! has settled, then for its judge's gate; it goes through its dialog, and comes out as
//! evaluations. Every inquiry that goes in comes out once, or is superseded, or is left to the next
//! process.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;

use super::ending::not_asked;
use super::sampling::{DialogStep, SamplingSession};
use crate::judge::cache::{AnswerCache, QuestionKey, key_of};
use crate::judge::gate::{GateBlock, JudgeGate, Reservation};
use crate::judge::settings::JudgeSettings;
use crate::judge::wire::{JudgeQuestion, ProviderCapabilities, Reply, Shape, TokenUsage};
use spanscore_base::model::{Evaluation, Outcome, Reason, Receipt, SpanId, WaitingPlace};
use spanscore_evaluate::JudgeRequest;
use spanscore_evaluate::inquiry::{Inquiry, JudgePrompt, MarkKey, PromptRoom, RedactionGaps};

/// Assumed bytes per token, before a judge has reported its count.
const BYTES_PER_TOKEN: f64 = 3.5;

/// Limit of inquiries rendered at once for one judge; its others wait.
const RENDERED_AT_ONCE: u32 = 4;

/// Waiting times of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::judge) struct LaneLimits {
    /// Wait for a revision of the target, milliseconds.
    pub(in crate::judge) settle_ms: u64,
    /// Time for an answer after that, milliseconds.
    pub(in crate::judge) deadline_ms: u64,
    /// True if an inquiry waits for an open circuit, false if it is given up at once.
    pub(in crate::judge) waits_for_circuit: bool,
}

/// Instruction to the driver of the core.
#[derive(Debug)]
pub(in crate::judge) enum LaneAction {
    /// Render an inquiry and report the prompt; takes long for large records.
    Render {
        /// Inquiry.
        id: u64,
        /// Index of the judge that it is rendered for.
        judge: usize,
        /// Inquiry that renders itself.
        inquiry: Arc<dyn Inquiry>,
        /// Limits of the prompt.
        room: PromptRoom,
    },
    /// Ask a judge and report the answer.
    Send {
        /// Inquiry.
        id: u64,
        /// Index of the judge.
        judge: usize,
        /// Digest of the question.
        key: QuestionKey,
        /// Parameters and shapes that the judge refuses.
        quirks: ProviderCapabilities,
        /// Question.
        question: Box<JudgeQuestion>,
    },
    /// Pass on evaluations.
    Emit {
        /// Evaluations of one inquiry.
        evaluations: Vec<Evaluation>,
        /// Receipt, held until they are delivered.
        receipt: Option<Receipt>,
        /// Index of the judge that was asked last, or would have been.
        judge: Option<usize>,
    },
    /// Count a finished request.
    Asked {
        /// Index of the judge.
        judge: usize,
        /// Name of the evaluator that asked.
        evaluator: String,
        /// `replied`, or an `error.type`.
        outcome: &'static str,
        /// Usage.
        usage: TokenUsage,
        /// Cost, nano-dollars.
        cost_nano: u64,
    },
    /// Count another event.
    Count(LaneCount),
}

/// Counted events other than requests. Fields begin with judge and evaluator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::judge) enum LaneCount {
    /// The cache held the answer.
    CacheHit(usize, String),
    /// Wait of an inquiry until its first request, milliseconds.
    Waited(usize, String, u64),
    /// Redaction of a record left gaps.
    Gaps(usize, String, RedactionGaps),
    /// A revision replaced an inquiry that waited.
    Replaced,
    /// An answer came for an inquiry that was revised meanwhile: paid, and dropped.
    Superseded,
    /// An inquiry is left to the next process.
    Left,
    /// A judge reported more tokens than a request can take, which are not believed.
    Surplus(usize, String),
    /// A judge refused a parameter, which is left out from now on.
    Refused(usize, &'static str),
}

#[derive(Debug)]
pub(super) struct JudgeState {
    pub(super) gate: JudgeGate,
    pub(super) quirks: ProviderCapabilities,
    pub(super) bytes_per_token: f64,
    pub(super) ready: VecDeque<u64>,
    /// Inquiries being rendered for it.
    pub(super) rendering: u32,
    /// Earliest time at which its gate may open, and the limit that keeps it closed.
    pub(super) wake_ms: Option<u64>,
    pub(super) blocked: Option<Reason>,
}

#[derive(Debug)]
pub(super) struct LaneTask {
    pub(super) asked: JudgeRequest,
    pub(super) receipt: Option<Receipt>,
    pub(super) dialog: SamplingSession,
    pub(super) question: Option<OpenQuestion>,
    pub(super) attempts: u32,
    pub(super) adaptations: u32,
    pub(super) under_way: Option<(Reservation, Shape)>,
    /// Time of the last request, Unix milliseconds.
    pub(super) asked_ms: u64,
    pub(super) is_superseded: bool,
    pub(super) arrived_ms: u64,
    /// True until its first request.
    pub(super) is_new: bool,
    pub(super) timer_ms: u64,
    pub(super) deadline_ms: u64,
    pub(super) _place: WaitingPlace,
}

#[derive(Debug)]
pub(super) struct OpenQuestion {
    pub(super) judge: usize,
    pub(super) question: Box<JudgeQuestion>,
    pub(super) key: QuestionKey,
    pub(super) estimate: TokenUsage,
}

/// Inquiries with their judges and timers.
#[derive(Debug)]
pub(in crate::judge) struct LaneCore {
    pub(super) limits: LaneLimits,
    /// Secret for the marks that frame records in prompts.
    pub(super) mark_key: MarkKey,
    pub(super) names: Vec<String>,
    pub(super) judges: Vec<JudgeSettings>,
    pub(super) states: Vec<JudgeState>,
    pub(super) tasks: HashMap<u64, LaneTask>,
    pub(super) timers: BTreeSet<(u64, u64)>,
    pub(super) deadlines: BTreeSet<(u64, u64)>,
    pub(super) by_subject: HashMap<[u8; 16], u64>,
    pub(super) cache: AnswerCache,
    pub(super) actions: Vec<LaneAction>,
    pub(super) next_id: u64,
    pub(super) is_leaving: bool,
}

impl JudgeState {
    pub(super) fn new(judge: &JudgeSettings) -> Self {
        Self {
            gate: JudgeGate::new(judge),
            quirks: ProviderCapabilities::new(judge.structured_output),
            bytes_per_token: BYTES_PER_TOKEN,
            ready: VecDeque::new(),
            rendering: 0,
            wake_ms: None,
            blocked: None,
        }
    }
}

impl LaneCore {
    /// Creates a lane without inquiries.
    pub(in crate::judge) fn new(
        judges: Vec<(String, JudgeSettings)>,
        limits: LaneLimits,
        mark_key: MarkKey,
    ) -> Self {
        let (names, judges): (Vec<_>, Vec<_>) = judges.into_iter().unzip();
        Self {
            limits,
            mark_key,
            names,
            states: judges.iter().map(JudgeState::new).collect(),
            judges,
            tasks: HashMap::new(),
            timers: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            by_subject: HashMap::new(),
            cache: AnswerCache::default(),
            actions: Vec::new(),
            next_id: 0,
            is_leaving: false,
        }
    }

    /// Returns the gates by judge name, for state that survives the process.
    pub(in crate::judge) fn gates(&mut self) -> impl Iterator<Item = (&str, &mut JudgeGate)> {
        let gates = self.states.iter_mut().map(|state| &mut state.gate);
        self.names.iter().map(String::as_str).zip(gates)
    }

    /// Caches an answer from an earlier process.
    pub(in crate::judge) fn remember(&mut self, key: QuestionKey, text: String) {
        self.cache.keep(key, text);
    }

    /// Returns the evaluation that a request under way is for.
    pub(super) fn asking(&self, id: u64) -> Option<&Evaluation> {
        let task = self.tasks.get(&id).filter(|task| task.under_way.is_some())?;
        Some(&task.asked.evaluation)
    }

    /// Takes the actions due to events so far, without looking at the time.
    pub(super) fn take_actions(&mut self) -> Vec<LaneAction> {
        std::mem::take(&mut self.actions)
    }

    /// Returns true if no inquiry waits and no request is under way.
    pub(in crate::judge) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the index of the newest judge of a name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().rposition(|known| known == name)
    }

    /// Takes in an inquiry; it starts to settle.
    pub(in crate::judge) fn arrive(
        &mut self,
        now_ms: u64,
        mut asked: JudgeRequest,
        receipt: Option<Receipt>,
        place: WaitingPlace,
    ) {
        let Some(judge) = self.find(&asked.plan.judge) else {
            let error = format!("judge `{}` is not configured", asked.plan.judge);
            let outcome = Outcome::Failed { error_type: "judge_unknown", error };
            let evaluations = asked.give_up(outcome, None);
            return self.actions.push(LaneAction::Emit { evaluations, receipt, judge: None });
        };
        let escalate_to = asked.plan.escalate_to.as_deref().and_then(|name| self.find(name));
        self.replace(&mut asked);
        let settings = &self.judges[judge];
        let state = &self.states[judge];
        let plan = asked.plan.clone();
        let known = (state.bytes_per_token, self.mark_key);
        let dialog = SamplingSession::new(plan, judge, escalate_to, settings, known);
        let id = self.next_id;
        self.next_id += 1;
        let timer_ms = now_ms.saturating_add(self.limits.settle_ms);
        let deadline_ms = timer_ms.saturating_add(self.limits.deadline_ms);
        self.by_subject.insert(asked.subject, id);
        self.timers.insert((timer_ms, id));
        self.deadlines.insert((deadline_ms, id));
        let task = LaneTask {
            asked,
            receipt,
            dialog,
            question: None,
            attempts: 0,
            adaptations: 0,
            under_way: None,
            asked_ms: 0,
            is_superseded: false,
            arrived_ms: now_ms,
            is_new: true,
            timer_ms,
            deadline_ms,
            _place: place,
        };
        self.tasks.insert(id, task);
    }

    /// Replaces an older inquiry about the same target: removed while it waits, superseded while a
    /// request for it is under way. The new one inherits the revision that the old one was to
    /// correct.
    fn replace(&mut self, asked: &mut JudgeRequest) {
        let Some(id) = self.by_subject.remove(&asked.subject) else { return };
        let Some(older) = self.tasks.get_mut(&id) else { return };
        let evaluation = &older.asked.evaluation;
        let spans: Vec<SpanId> = older.asked.calls.iter().map(|call| call.span_id).collect();
        asked.take_place_of((evaluation.revision, evaluation.revises, &spans));
        if older.under_way.is_some() {
            older.is_superseded = true;
            return;
        }
        self.remove(id);
        self.actions.push(LaneAction::Count(LaneCount::Replaced));
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<LaneTask> {
        let task = self.tasks.remove(&id)?;
        self.timers.remove(&(task.timer_ms, id));
        self.deadlines.remove(&(task.deadline_ms, id));
        if self.by_subject.get(&task.asked.subject) == Some(&id) {
            self.by_subject.remove(&task.asked.subject);
        }
        Some(task)
    }

    /// Advances all inquiries to `now_ms`; returns the actions due.
    pub(in crate::judge) fn poll(&mut self, now_ms: u64) -> Vec<LaneAction> {
        self.expire(now_ms);
        while let Some((at_ms, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now_ms) {
            self.timers.remove(&(at_ms, id));
            if let Some(task) = self.tasks.get(&id) {
                self.states[task.dialog.judge].ready.push_back(id);
            }
        }
        // A fallback with a lower index has had its turn when an inquiry moves to it.
        for _ in 0..2 {
            (0..self.states.len()).for_each(|judge| self.ask_ready(now_ms, judge));
        }
        if self.tasks.is_empty() {
            self.states.iter_mut().for_each(|state| state.ready.clear());
        }
        std::mem::take(&mut self.actions)
    }

    fn expire(&mut self, now_ms: u64) {
        while let Some((at_ms, id)) =
            self.deadlines.first().copied().filter(|(at, _)| *at <= now_ms)
        {
            self.deadlines.remove(&(at_ms, id));
            // A request under way is paid and has its own time limit: its reply still counts.
            let idle = self.tasks.get(&id).filter(|task| task.under_way.is_none());
            if let Some(judge) = idle.map(|task| task.dialog.judge) {
                let reason = self.states[judge].blocked.unwrap_or(Reason::Deadline);
                self.stop_task(id, not_asked(reason));
            }
        }
    }

    fn ask_ready(&mut self, now_ms: u64, judge: usize) {
        if self.states[judge].wake_ms.is_some_and(|wake| wake > now_ms) {
            return;
        }
        self.states[judge].wake_ms = None;
        while let Some(id) = self.states[judge].ready.pop_front() {
            let Some(block) = self.advance(now_ms, id) else { continue };
            let Some(at) = self.tasks.get(&id).map(|task| task.dialog.judge) else { continue };
            let state = &mut self.states[at];
            if at != judge {
                state.ready.push_back(id);
                continue;
            }
            match block {
                GateBlock::Circuit { until_ms, is_locked } => {
                    if self.move_to_fallback(now_ms, id, judge) {
                        continue;
                    }
                    if is_locked || !self.limits.waits_for_circuit {
                        self.stop_task(id, not_asked(Reason::CircuitOpen));
                        continue;
                    }
                    self.wait(id, judge, until_ms, Reason::CircuitOpen);
                    return;
                }
                GateBlock::Busy => return state.ready.push_front(id),
                GateBlock::Reserved => {
                    self.wait(id, judge, None, Reason::BudgetExhausted);
                    return;
                }
                GateBlock::Rate { until_ms } => {
                    self.wait(id, judge, Some(until_ms), Reason::RateLimited);
                    return;
                }
                GateBlock::Budget => self.stop_task(id, not_asked(Reason::BudgetExhausted)),
            }
        }
    }

    fn wait(&mut self, id: u64, judge: usize, until_ms: Option<u64>, reason: Reason) {
        let state = &mut self.states[judge];
        (state.wake_ms, state.blocked) = (until_ms, Some(reason));
        state.ready.push_front(id);
        // Nothing pops the ids of expired inquiries while the gate stays closed.
        state.ready.retain(|id| self.tasks.contains_key(id));
    }

    /// Advances an inquiry to its next request, or to its end; returns the limit that is in its
    /// way.
    fn advance(&mut self, now_ms: u64, id: u64) -> Option<GateBlock> {
        let end = loop {
            let task = self.tasks.get_mut(&id)?;
            if self.is_leaving && task.dialog.is_untouched() && task.under_way.is_none() {
                self.leave(id);
                return None;
            }
            if task.question.is_none() {
                match task.dialog.next(&self.judges) {
                    DialogStep::Done(end) => break end,
                    DialogStep::Render(room) => {
                        let judge = task.dialog.judge;
                        let state = &mut self.states[judge];
                        if state.rendering >= RENDERED_AT_ONCE {
                            return Some(GateBlock::Busy);
                        }
                        state.rendering += 1;
                        let inquiry = Arc::clone(&task.asked.inquiry);
                        self.actions.push(LaneAction::Render { id, judge, inquiry, room });
                        return None;
                    }
                    DialogStep::Ask { judge, question, sample } => {
                        let key = key_of(&self.judges[judge], &question, sample);
                        let estimate = task.dialog.estimate(&question);
                        task.question = Some(OpenQuestion { judge, question, key, estimate });
                    }
                }
            }
            let open = task.question.as_ref()?;
            if let Some(text) = self.cache.get(&open.key) {
                let usage = TokenUsage::default();
                let finish = crate::judge::wire::Finish::Stop;
                let reply = Reply { text: text.to_owned(), finish, usage };
                let open = task.question.take()?;
                self.actions
                    .push(LaneAction::Count(LaneCount::CacheHit(open.judge, evaluator_of(task))));
                task.dialog.replied(&*task.asked.inquiry, &open.question, &reply);
                continue;
            }
            let state = &mut self.states[open.judge];
            let reservation = match state.gate.begin(now_ms, open.estimate) {
                Ok(reservation) => reservation,
                Err(block) => return Some(block),
            };
            state.blocked = None;
            task.under_way = Some((reservation, state.quirks.current()));
            task.asked_ms = now_ms;
            if std::mem::take(&mut task.is_new) {
                let waited = now_ms.saturating_sub(task.arrived_ms);
                let count = LaneCount::Waited(open.judge, evaluator_of(task), waited);
                self.actions.push(LaneAction::Count(count));
            }
            self.actions.push(LaneAction::Send {
                id,
                judge: open.judge,
                key: open.key,
                quirks: state.quirks.clone(),
                question: open.question.clone(),
            });
            return None;
        };
        self.finish(id, *end);
        None
    }

    /// Takes in the prompt of an inquiry, or the reason why it has none.
    pub(in crate::judge) fn rendered(
        &mut self,
        id: u64,
        judge: usize,
        prompt: Result<JudgePrompt, Outcome>,
    ) {
        self.states[judge].rendering -= 1;
        // Gone if it was replaced or expired meanwhile.
        if let Some(task) = self.tasks.get_mut(&id) {
            if let Ok(JudgePrompt { gaps, .. }) = &prompt
                && *gaps != RedactionGaps::default()
            {
                let count = LaneCount::Gaps(judge, evaluator_of(task), *gaps);
                self.actions.push(LaneAction::Count(count));
            }
            task.dialog.rendered(prompt);
            self.states[task.dialog.judge].ready.push_front(id);
        }
    }

    /// Returns the time of the next poll if no event comes before it.
    pub(in crate::judge) fn next_wake_ms(&self) -> Option<u64> {
        let first = |set: &BTreeSet<(u64, u64)>| set.first().map(|(at, _)| *at);
        let gates = self.states.iter().filter(|state| !state.ready.is_empty());
        let gates = gates.filter_map(|state| state.wake_ms);
        gates.chain(first(&self.timers)).chain(first(&self.deadlines)).min()
    }
}

/// Returns the name of the evaluator that asks.
pub(super) fn evaluator_of(task: &LaneTask) -> String {
    task.asked.evaluation.evaluator.name.clone()
}
