//! The lane without its task: what waits for which evaluator, and what is to be sent now.
//!
//! Pure: `(state, event, now) -> actions`; times are milliseconds. A task waits for its evaluator
//! to be described and to have room, is sent, and comes out as evaluations. Every task that goes in
//! comes out once, or is replaced by a later one, or is left to the next process.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use super::channel::{Channel, ChannelState};
use crate::external::transport::{Description, ExternalFault, ExternalPayload};
use spanscore_base::model::{Evaluation, Outcome, Reason, Receipt, WaitingPlace};
use spanscore_evaluate::ExternalRequest;
use spanscore_evaluate::external::ExternalPlan;
use spanscore_evaluate::external::answer::IgnoredAnswers;

/// Time that tasks wait for an evaluator that was never reached, milliseconds.
const NEVER_THERE_MS: u64 = 10_000;
/// Times that an evaluator is looked for where nobody waits for long.
const LOOKS_MAX: u32 = 3;

/// Patience of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::external) struct ExternalPatience {
    /// Time limit of an answer, milliseconds.
    pub(in crate::external) deadline_ms: u64,
    /// True if it waits for an evaluator that is away, rather than give up after a few attempts.
    pub(in crate::external) waits: bool,
}

/// Action for the runner, which does all I/O.
#[derive(Debug)]
pub(in crate::external) enum ExternalAction {
    /// Prepare a client for a new channel.
    Open(usize, Arc<ExternalPlan>),
    /// Let go of the client of a channel that is no more.
    Close(usize),
    /// Ask an evaluator what it evaluates.
    Describe(usize),
    /// Send a request, and tell what came of it.
    Send {
        /// The evaluator.
        channel: usize,
        /// The request.
        id: u64,
        /// Payload.
        request: ExternalPayload,
    },
    /// Hand these out.
    Emit {
        /// Of which evaluator and target.
        subject: [u8; 16],
        /// The evaluations of one task.
        evaluations: Vec<Evaluation>,
        /// Held until they have arrived.
        receipt: Option<Receipt>,
    },
    /// Count something.
    Count(ExternalCount),
}

/// Event to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::external) enum ExternalCount {
    /// An evaluator was asked what it evaluates: which, and what became of it.
    Described(usize, &'static str),
    /// A request ended so: the evaluator, and what became of it.
    Request(usize, &'static str),
    /// A request was tried again.
    Retry(usize),
    /// Answers that fit no task.
    Ignored(usize, IgnoredAnswers),
    /// A task was sent after waiting so long, milliseconds.
    Waited(usize, u64),
    /// A revision took the place of a task that waited.
    Replaced,
    /// An answer came for what had been revised meanwhile.
    Superseded,
    /// Left to the next process.
    Left,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) asked: ExternalRequest,
    pub(super) receipt: Option<Receipt>,
    pub(super) channel: usize,
    pub(super) attempts: u32,
    pub(super) is_in_flight: bool,
    pub(super) is_superseded: bool,
    pub(super) arrived_ms: u64,
    pub(super) deadline_ms: u64,
    /// Time of the next attempt.
    pub(super) timer_ms: Option<u64>,
    pub(super) _place: WaitingPlace,
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct SentRequest {
    pub(super) channel: usize,
    /// Its tasks, and what each is called in it.
    pub(super) tasks: Vec<(u64, String)>,
    pub(super) version: String,
}

/// Scheduler of tasks for external evaluators: queues, deadlines and retries, without I/O.
#[derive(Debug)]
pub(in crate::external) struct ExternalCore {
    pub(super) patience: ExternalPatience,
    pub(super) channels: Vec<Channel>,
    pub(super) tasks: HashMap<u64, Pending>,
    pub(super) requests: HashMap<u64, SentRequest>,
    pub(super) by_subject: HashMap<[u8; 16], u64>,
    pub(super) deadlines: BTreeSet<(u64, u64)>,
    pub(super) timers: BTreeSet<(u64, u64)>,
    pub(super) actions: Vec<ExternalAction>,
    pub(super) next_id: u64,
    pub(super) is_leaving: bool,
}

impl ExternalCore {
    /// Nothing waits.
    pub(in crate::external) fn new(patience: ExternalPatience) -> Self {
        Self {
            patience,
            channels: Vec::new(),
            tasks: HashMap::new(),
            requests: HashMap::new(),
            by_subject: HashMap::new(),
            deadlines: BTreeSet::new(),
            timers: BTreeSet::new(),
            actions: Vec::new(),
            next_id: 0,
            is_leaving: false,
        }
    }

    /// The channel of an evaluator; a new one where it is new, or asked otherwise than before.
    pub(in crate::external) fn channel(&mut self, name: &str, plan: &Arc<ExternalPlan>) -> usize {
        let known = self.channels.iter().rposition(|channel| channel.name == name);
        if let Some(known) = known {
            let own = &self.channels[known].plan;
            if Arc::ptr_eq(own, plan) || **own == **plan {
                return known;
            }
            let before = &mut self.channels[known];
            before.name.clear();
            if before.in_flight == 0 && before.queue.is_empty() {
                self.actions.push(ExternalAction::Close(known));
            }
        }
        self.channels.push(Channel::new(name.to_owned(), Arc::clone(plan)));
        let channel = self.channels.len() - 1;
        self.actions.push(ExternalAction::Open(channel, Arc::clone(plan)));
        channel
    }

    /// The name of an evaluator.
    pub(in crate::external) fn name(&self, channel: usize) -> &str {
        self.channels.get(channel).map_or("", |channel| channel.name.as_str())
    }

    /// Returns true if no task waits or is under way.
    pub(in crate::external) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Takes in a task.
    pub(in crate::external) fn arrive(
        &mut self,
        now_ms: u64,
        mut asked: ExternalRequest,
        receipt: Option<Receipt>,
        place: WaitingPlace,
    ) {
        let name = asked.evaluation.evaluator.name.clone();
        let channel = self.channel(&name, &asked.inquiry.plan);
        self.replace(&mut asked);
        let id = self.next_id;
        self.next_id += 1;
        let deadline_ms = now_ms.saturating_add(self.patience.deadline_ms);
        self.by_subject.insert(asked.subject, id);
        self.deadlines.insert((deadline_ms, id));
        self.channels[channel].queue.push_back(id);
        let task = Pending {
            asked,
            receipt,
            channel,
            attempts: 0,
            is_in_flight: false,
            is_superseded: false,
            arrived_ms: now_ms,
            deadline_ms,
            timer_ms: None,
            _place: place,
        };
        self.tasks.insert(id, task);
    }

    /// Drops an older task about the same target: it is replaced while it waits, and superseded
    /// while it is under way.
    fn replace(&mut self, asked: &mut ExternalRequest) {
        let Some(id) = self.by_subject.remove(&asked.subject) else { return };
        let Some(older) = self.tasks.get_mut(&id) else { return };
        asked.take_place_of(&older.asked);
        if older.is_in_flight {
            older.is_superseded = true;
            return;
        }
        self.remove(id);
        self.actions.push(ExternalAction::Count(ExternalCount::Replaced));
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Pending> {
        let task = self.tasks.remove(&id)?;
        if let Some(timer_ms) = task.timer_ms {
            self.timers.remove(&(timer_ms, id));
        }
        self.deadlines.remove(&(task.deadline_ms, id));
        if self.by_subject.get(&task.asked.subject) == Some(&id) {
            self.by_subject.remove(&task.asked.subject);
        }
        Some(task)
    }

    /// Takes the description of an evaluator, or the fault of asking for it.
    pub(in crate::external) fn described(
        &mut self,
        now_ms: u64,
        channel: usize,
        said: Result<Description, ExternalFault>,
    ) {
        let outcome = said.as_ref().err().map_or("described", |fault| fault.told().0);
        self.actions.push(ExternalAction::Count(ExternalCount::Described(channel, outcome)));
        let Some(known) = self.channels.get_mut(channel) else { return };
        let was_failing = known.failures > 0;
        known.described(now_ms, said);
        match &known.state {
            ChannelState::Ready(description) => {
                let evaluator = &known.name;
                let version = &description.version;
                tracing::info!(%evaluator, %version, "an external evaluator is there");
            }
            ChannelState::Refused { error, .. } => {
                tracing::error!(evaluator = %known.name, %error, "an external evaluator refuses");
            }
            _ if !was_failing => {
                let evaluator = &known.name;
                let error = known.why();
                tracing::warn!(%evaluator, error, "an external evaluator is not there");
            }
            _ => {}
        }
    }

    /// Returns the actions that are due.
    pub(in crate::external) fn poll(&mut self, now_ms: u64) -> Vec<ExternalAction> {
        self.expire(now_ms);
        while let Some((at_ms, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now_ms) {
            self.timers.remove(&(at_ms, id));
            if let Some(task) = self.tasks.get_mut(&id) {
                task.timer_ms = None;
                self.channels[task.channel].queue.push_back(id);
            }
        }
        for channel in 0..self.channels.len() {
            self.attend(now_ms, channel);
        }
        std::mem::take(&mut self.actions)
    }

    fn attend(&mut self, now_ms: u64, channel: usize) {
        let tasks = &self.tasks;
        let known = &mut self.channels[channel];
        // Of those that were replaced nothing is left.
        known.queue.retain(|id| tasks.contains_key(id));
        let is_wanted = !known.queue.is_empty();
        let is_current = !known.name.is_empty();
        if (is_current || is_wanted) && known.begin_describing(now_ms, is_wanted) {
            self.actions.push(ExternalAction::Describe(channel));
            return;
        }
        match &known.state {
            ChannelState::Ready(_) => self.send_ready(now_ms, channel),
            ChannelState::Refused { error_type, error, .. } => {
                let error_type = *error_type;
                let error = error.clone();
                self.stop_queue(channel, &Outcome::Failed { error_type, error });
            }
            ChannelState::Unknown { .. } if !self.patience.waits && known.failures >= LOOKS_MAX => {
                let outcome = unavailable(known);
                self.stop_queue(channel, &outcome);
            }
            ChannelState::Unknown { .. } | ChannelState::Asked => {
                self.lose_patience(now_ms, channel)
            }
        }
    }

    /// Nobody waits for long for what was never there.
    fn lose_patience(&mut self, now_ms: u64, channel: usize) {
        while let Some(id) = self.first_out_of_patience(now_ms, channel) {
            let outcome = unavailable(&self.channels[channel]);
            self.channels[channel].queue.pop_front();
            self.stop_task(id, outcome);
        }
    }

    fn first_out_of_patience(&self, now_ms: u64, channel: usize) -> Option<u64> {
        let channel = &self.channels[channel];
        let id = *channel.queue.front().filter(|_| self.patience.waits && !channel.was_ready)?;
        let task = self.tasks.get(&id)?;
        (task.arrived_ms.saturating_add(NEVER_THERE_MS) <= now_ms).then_some(id)
    }

    fn stop_queue(&mut self, channel: usize, outcome: &Outcome) {
        for id in std::mem::take(&mut self.channels[channel].queue) {
            self.stop_task(id, outcome.clone());
        }
    }

    fn expire(&mut self, now_ms: u64) {
        while let Some((at_ms, id)) =
            self.deadlines.first().copied().filter(|(at, _)| *at <= now_ms)
        {
            self.deadlines.remove(&(at_ms, id));
            // What is under way ends by the time of its request.
            let Some(task) = self.tasks.get(&id).filter(|task| !task.is_in_flight) else {
                continue;
            };
            let channel = &self.channels[task.channel];
            let outcome = match &channel.state {
                ChannelState::Ready(_) => not_sent(Reason::Deadline),
                _ => unavailable(channel),
            };
            self.stop_task(id, outcome);
        }
    }

    /// Ends a task that has no answer.
    pub(super) fn stop_task(&mut self, id: u64, outcome: Outcome) {
        let Some(mut task) = self.remove(id) else { return };
        let subject = task.asked.subject;
        if let ChannelState::Ready(description) = &self.channels[task.channel].state {
            task.asked.know_version(&description.version);
        }
        let evaluations = task.asked.give_up(outcome);
        self.actions.push(ExternalAction::Emit { subject, evaluations, receipt: task.receipt });
    }

    /// Returns the time of the next poll, if no event comes before.
    pub(in crate::external) fn next_wake_ms(&self) -> Option<u64> {
        let first = |set: &BTreeSet<(u64, u64)>| set.first().map(|(at, _)| *at);
        let wakes = self.channels.iter().flat_map(|channel| {
            let front = channel.queue.front().and_then(|id| self.tasks.get(id));
            let front = front.filter(|_| self.patience.waits && !channel.was_ready);
            let patience = front.map(|task| task.arrived_ms.saturating_add(NEVER_THERE_MS));
            let looked_for = !channel.name.is_empty() || !channel.queue.is_empty();
            channel.next_ms().filter(|_| looked_for).into_iter().chain(patience)
        });
        wakes.chain(first(&self.timers)).chain(first(&self.deadlines)).min()
    }
}

/// The outcome of a task whose evaluator is not there.
pub(super) fn unavailable(channel: &Channel) -> Outcome {
    let explanation = format!("the evaluator cannot be asked: {}", channel.why());
    Outcome::NotEvaluable { reason: Reason::EvaluatorUnavailable, explanation }
}

/// The outcome of a task that was never sent.
pub(super) fn not_sent(reason: Reason) -> Outcome {
    let explanation = match reason {
        Reason::QueueFull => "too many tasks wait for external evaluators",
        Reason::Deadline => "the evaluator had no room for it in time",
        Reason::Shutdown => "the process ended before the evaluator could be asked",
        _ => "the evaluator was not asked",
    };
    Outcome::NotEvaluable { reason, explanation: explanation.to_owned() }
}
