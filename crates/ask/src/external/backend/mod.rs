//! External evaluators as targets of the scheduler: their descriptions, concurrency and batches.
//!
//! Pure, like the scheduler. A task waits for its evaluator's description and for room, is sent,
//! and ends as evaluations. A target is the [`Channel`] of an evaluator.

mod channel;
mod sending;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hashbrown::HashMap;

use self::channel::{Channel, ChannelState};
use super::transport::{Description, ExternalFault, ExternalPayload};
use crate::scheduler::{PendingRequest, ScheduledRequest, Scheduler, SchedulerBackend, not_sent};
use spanscore_base::model::{Evaluation, Outcome, Reason};
use spanscore_evaluate::ExternalRequest;
use spanscore_evaluate::external::ExternalPlan;
use spanscore_evaluate::external::answer::IgnoredAnswers;

/// Wait of a task for an evaluator that was never reachable, milliseconds.
const NEVER_THERE_MS: u64 = 10_000;
/// Shortest interval of checks for tasks that waited too long, milliseconds.
const LATE_LOOK_MS: u64 = 100;
/// Number of queries for an evaluator in a batch run.
const LOOKS_MAX: u32 = 3;

/// Scheduler of tasks to external evaluators.
pub(super) type ExternalScheduler = Scheduler<ExternalBackend>;

/// Instruction to the executor.
#[derive(Debug)]
pub(super) enum ExternalEffect {
    /// Creates a client for a new channel.
    Open(usize, Arc<ExternalPlan>),
    /// Drops the client of a replaced channel.
    Close(usize),
    /// Queries an evaluator's description.
    Describe(usize),
    /// Sends a request and reports the answer.
    Send {
        /// Channel.
        channel: usize,
        /// Request.
        id: u64,
        /// Message.
        request: ExternalPayload,
    },
    /// Counts an event of a channel.
    Count(usize, ExternalCount),
}

/// Counted events of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExternalCount {
    /// A description was queried: the outcome.
    Described(&'static str),
    /// A request ended: the outcome.
    Request(&'static str),
    /// A task is retried.
    Retry,
    /// Answers that match no task.
    Ignored(IgnoredAnswers),
    /// Wait of a task before its request, milliseconds.
    Waited(u64),
}

/// Request in flight.
#[derive(Debug)]
struct SentRequest {
    channel: usize,
    /// Its tasks, with their names in the request.
    tasks: Vec<(u64, String)>,
    version: String,
}

/// All channels by index, including replaced ones.
#[derive(Debug)]
pub(super) struct ExternalBackend {
    channels: Vec<Channel>,
    requests: HashMap<u64, SentRequest>,
    next_request: u64,
    /// True if tasks wait for an unavailable evaluator, false if they are given up after a few
    /// queries.
    waits: bool,
}

impl ExternalBackend {
    /// Returns a backend without channels.
    pub(super) fn new(waits: bool) -> Self {
        Self { channels: Vec::new(), requests: HashMap::new(), next_request: 0, waits }
    }
}

impl PendingRequest for ExternalRequest {
    fn subject(&mut self) -> &mut [u8; 16] {
        &mut self.subject
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }

    fn recipient(&self) -> &str {
        &self.evaluation.evaluator.name
    }

    fn supersede(&mut self, older: &Self) {
        self.take_place_of(older);
    }

    fn give_up(self, outcome: Outcome) -> Vec<Evaluation> {
        Self::give_up(self, outcome)
    }

    fn explain(reason: Reason) -> &'static str {
        match reason {
            Reason::QueueFull => "too many tasks wait for external evaluators",
            Reason::Deadline => "the evaluator had no room for it in time",
            Reason::Shutdown => "the process ended before the evaluator could be asked",
            _ => "the evaluator was not asked",
        }
    }
}

impl SchedulerBackend for ExternalBackend {
    type Request = ExternalRequest;
    type Progress = usize;
    type Ticket = ();
    type Effect = ExternalEffect;
    const CLOSE_ENDS_BACK_OFF: bool = false;

    fn begin(
        scheduler: &mut ExternalScheduler,
        request: &ExternalRequest,
    ) -> Result<usize, Outcome> {
        let name = &request.evaluation.evaluator.name;
        Ok(scheduler.channel(name, &request.inquiry.plan))
    }

    fn target(channel: &usize) -> usize {
        *channel
    }

    fn name(&self, channel: usize) -> &str {
        &self.channels[channel].name
    }

    fn dispatch(scheduler: &mut ExternalScheduler, now_ms: u64) {
        let channels = 0..scheduler.backend.channels.len();
        channels.for_each(|channel| scheduler.attend(now_ms, channel));
    }

    fn wake_ms(scheduler: &ExternalScheduler) -> Option<u64> {
        let channels = scheduler.backend.channels.iter().enumerate();
        let wakes = channels.flat_map(|(at, channel)| {
            let front = scheduler.peek(at);
            let looked_for = !channel.name.is_empty() || front.is_some();
            let patience = front.filter(|_| scheduler.backend.waits && !channel.was_ready);
            let patience = patience.map(|_| channel.late_ms);
            channel.next_ms().filter(|_| looked_for).into_iter().chain(patience)
        });
        wakes.min()
    }

    fn expired(&self, entry: &ScheduledRequest<Self>) -> Outcome {
        let channel = &self.channels[entry.progress];
        match channel.state {
            ChannelState::Ready(_) => not_sent::<ExternalRequest>(Reason::Deadline),
            _ => channel.unavailable(),
        }
    }

    fn stop(&self, mut entry: ScheduledRequest<Self>, outcome: Outcome) -> Vec<Evaluation> {
        if let ChannelState::Ready(description) = &self.channels[entry.progress].state {
            entry.request.know_version(&description.version);
        }
        entry.request.give_up(outcome)
    }
}

impl ExternalScheduler {
    /// Returns the channel of an evaluator, a new one for a new plan.
    pub(super) fn channel(&mut self, name: &str, plan: &Arc<ExternalPlan>) -> usize {
        let channels = &mut self.backend.channels;
        let known = channels.iter().rposition(|channel| channel.name == name);
        if let Some(known) = known {
            let before = &mut channels[known];
            if Arc::ptr_eq(&before.plan, plan) || *before.plan == **plan {
                return known;
            }
            before.name.clear();
            self.close_if_idle(known);
        }
        self.backend.channels.push(Channel::new(name.to_owned(), Arc::clone(plan)));
        let channel = self.backend.channels.len() - 1;
        self.effect(ExternalEffect::Open(channel, Arc::clone(plan)));
        channel
    }

    /// Closes a replaced channel without tasks.
    fn close_if_idle(&mut self, channel: usize) {
        let is_replaced = self.backend.channels[channel].name.is_empty();
        if is_replaced && !self.entries.values().any(|task| task.progress == channel) {
            self.effect(ExternalEffect::Close(channel));
        }
    }

    /// Takes in the description of an evaluator, or the reason that there is none.
    pub(super) fn described(
        &mut self,
        now_ms: u64,
        channel: usize,
        answer: Result<Description, ExternalFault>,
    ) {
        let outcome = answer.as_ref().err().map_or("described", |fault| fault.told().0);
        self.count(channel, ExternalCount::Described(outcome));
        let Some(known) = self.backend.channels.get_mut(channel) else { return };
        let was_failing = known.failures > 0;
        known.described(now_ms, answer);
        let evaluator = &known.name;
        match &known.state {
            ChannelState::Ready(description) => {
                let version = &description.version;
                tracing::info!(%evaluator, %version, "an external evaluator is there");
            }
            ChannelState::Refused { error, .. } => {
                tracing::error!(%evaluator, %error, "an external evaluator refuses");
            }
            _ if !was_failing => {
                let error = known.why();
                tracing::warn!(%evaluator, error, "an external evaluator is not there");
            }
            _ => {}
        }
    }

    fn attend(&mut self, now_ms: u64, channel: usize) {
        let is_wanted = self.front(channel).is_some();
        let known = &mut self.backend.channels[channel];
        let is_current = !known.name.is_empty();
        if (is_current || is_wanted) && known.begin_describing(now_ms, is_wanted) {
            return self.effect(ExternalEffect::Describe(channel));
        }
        match &known.state {
            ChannelState::Ready(_) => self.send_ready(now_ms, channel),
            ChannelState::Refused { error_type, error, .. } => {
                let outcome = Outcome::Failed { error_type, error: error.clone() };
                self.stop_queue(channel, &outcome, |_| true);
            }
            ChannelState::Unknown { .. } if !self.backend.waits && known.failures >= LOOKS_MAX => {
                let outcome = known.unavailable();
                self.stop_queue(channel, &outcome, |_| true);
            }
            // Tasks do not wait long for an evaluator that was never reachable.
            ChannelState::Unknown { .. } | ChannelState::Asked
                if self.backend.waits && !known.was_ready && is_wanted =>
            {
                self.stop_late(now_ms, channel);
            }
            ChannelState::Unknown { .. } | ChannelState::Asked => {}
        }
    }

    /// Stops the tasks of a queue that waited long enough.
    fn stop_late(&mut self, now_ms: u64, channel: usize) {
        let known = &self.backend.channels[channel];
        if now_ms < known.late_ms {
            return;
        }
        let outcome = known.unavailable();
        let late_ms = |arrived_ms: u64| arrived_ms.saturating_add(NEVER_THERE_MS);
        self.stop_queue(channel, &outcome, |arrived_ms| late_ms(arrived_ms) <= now_ms);
        // Tasks not yet in the queue may have arrived before queued ones.
        let left = self.entries.values().filter(|task| task.progress == channel);
        let oldest_ms = left.map(|task| task.arrived_ms).min().unwrap_or(now_ms);
        self.backend.channels[channel].late_ms =
            late_ms(oldest_ms).max(now_ms.saturating_add(LATE_LOOK_MS));
    }

    /// Stops the tasks of a queue whose arrival time matches.
    fn stop_queue(&mut self, channel: usize, outcome: &Outcome, stops: impl Fn(u64) -> bool) {
        let queued: Vec<u64> = self.queue(channel).iter().copied().collect();
        for id in queued {
            if self.entries.get(&id).is_some_and(|task| stops(task.arrived_ms)) {
                self.stop(id, outcome.clone());
            }
        }
    }

    fn count(&mut self, channel: usize, count: ExternalCount) {
        self.effect(ExternalEffect::Count(channel, count));
    }
}
