//! Scheduler of requests to judges and external evaluators: queues, retries by back-off, deadlines,
//! supersession of older revisions, completion and shutdown.
//!
//! ```text
//! handle: bounds ─► settle ─► queue of a target ─► backend: dispatch ─► in flight ─► completed
//!                                    ▲                                     │
//!                                    └───── back-off, the next question ───┘
//! ```
//!
//! Pure: `(state, event, now) -> actions`; times are Unix milliseconds. A [`SchedulerBackend`]
//! chooses messages and interprets answers; an [`Executor`] performs the actions. Every request
//! ends once: as evaluations, replaced by a later one, or left to the next process.

mod backend;
mod driver;
mod ending;
mod handle;

use std::collections::BTreeSet;
use std::time::Duration;

use hashbrown::HashMap;

pub(crate) use backend::{Action, Emission, PendingRequest, SchedulerBackend, SilentEnd, not_sent};
pub(crate) use driver::{Driver, Executor};
pub(crate) use handle::{EmissionOutlet, SchedulerHandle, SchedulerTask, ask_all};

use spanscore_base::model::{Evaluation, FairQueue, Outcome, Receipt, Sender, WaitingPlace};
use spanscore_net::backoff::back_off_ms;

/// Attempts of one request.
const ATTEMPTS: u32 = 3;
/// Limit on ended requests in the queue of a target, in addition to the number of living ones.
const ENDED_MAX: usize = 64;

/// Waiting times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitLimits {
    /// Wait for a revision of the target, milliseconds.
    pub(crate) settle_ms: u64,
    /// Time for an answer after that, milliseconds.
    pub(crate) deadline_ms: u64,
}

/// Request in the scheduler.
pub(crate) struct ScheduledRequest<B: SchedulerBackend> {
    /// Request.
    pub(crate) request: B::Request,
    /// State of the request between its messages.
    pub(crate) progress: B::Progress,
    /// Attempts so far, as counted by the backend.
    pub(crate) attempts: u32,
    /// Present while it is in flight.
    ticket: Option<B::Ticket>,
    receipt: Option<Receipt>,
    /// Time of arrival, Unix milliseconds.
    pub(crate) arrived_ms: u64,
    /// Time of the last message; `None` before the first.
    sent_ms: Option<u64>,
    timer_ms: u64,
    deadline_ms: u64,
    is_superseded: bool,
    place: WaitingPlace,
}

impl<B: SchedulerBackend> ScheduledRequest<B> {
    /// Returns its sender.
    pub(crate) fn sender(&self) -> Sender {
        self.place.sender()
    }
}

/// Requests with their queues and timers.
pub(crate) struct Scheduler<B: SchedulerBackend> {
    /// Targets and their admission.
    pub(crate) backend: B,
    /// Waiting times of later requests.
    pub(crate) limits: WaitLimits,
    /// Requests by number.
    pub(crate) entries: HashMap<u64, ScheduledRequest<B>>,
    /// Actions due.
    pub(crate) actions: Vec<Action<B::Effect>>,
    /// Sendable requests, by target.
    queues: Vec<FairQueue<u64>>,
    /// Ends of settling and of back-offs.
    timers: BTreeSet<(u64, u64)>,
    deadlines: BTreeSet<(u64, u64)>,
    by_subject: HashMap<[u8; 16], u64>,
    by_sender: BTreeSet<(Sender, u64)>,
    next_id: u64,
    /// True if a closed scheduler leaves requests to the next process.
    is_leaving: bool,
}

impl<B: SchedulerBackend> Scheduler<B> {
    /// Returns a scheduler without requests.
    pub(crate) fn new(backend: B, limits: WaitLimits) -> Self {
        Self {
            backend,
            limits,
            entries: HashMap::new(),
            actions: Vec::new(),
            queues: Vec::new(),
            timers: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            by_subject: HashMap::new(),
            by_sender: BTreeSet::new(),
            next_id: 0,
            is_leaving: false,
        }
    }

    /// Returns true if no request is waiting or in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes in a request; it starts to settle.
    pub(crate) fn arrive(
        &mut self,
        now_ms: u64,
        mut request: B::Request,
        receipt: Option<Receipt>,
        place: WaitingPlace,
    ) {
        let progress = match B::begin(self, &request) {
            Ok(progress) => progress,
            Err(outcome) => {
                let emission = Emission::unsent(request, receipt, outcome);
                return self.actions.push(Action::Emit(emission));
            }
        };
        self.supersede(&mut request);
        self.make_room_for(&place);
        let id = self.next_id;
        self.next_id += 1;
        let timer_ms = now_ms.saturating_add(self.limits.settle_ms);
        let deadline_ms = timer_ms.saturating_add(self.limits.deadline_ms);
        self.by_subject.insert(*request.subject(), id);
        self.timers.insert((timer_ms, id));
        self.deadlines.insert((deadline_ms, id));
        self.by_sender.insert((place.sender().without_group(), id));
        let entry = ScheduledRequest {
            request,
            progress,
            attempts: 0,
            ticket: None,
            receipt,
            arrived_ms: now_ms,
            sent_ms: None,
            timer_ms,
            deadline_ms,
            is_superseded: false,
            place,
        };
        self.entries.insert(id, entry);
    }

    /// Advances all requests to `now_ms`; returns the due actions.
    pub(crate) fn poll(&mut self, now_ms: u64) -> Vec<Action<B::Effect>> {
        self.expire(now_ms);
        while let Some(id) = take_due(&mut self.timers, now_ms) {
            self.requeue(id);
        }
        B::dispatch(self, now_ms);
        // Nothing removes the ids of expired requests while a target admits none.
        for target in 0..self.queues.len() {
            self.front(target);
            self.sweep(target);
        }
        std::mem::take(&mut self.actions)
    }

    /// Returns the time of the next poll without an earlier event.
    pub(crate) fn next_wake_ms(&self) -> Option<u64> {
        let first = |set: &BTreeSet<(u64, u64)>| set.first().map(|(at, _)| *at);
        let wakes = [B::wake_ms(self), first(&self.timers), first(&self.deadlines)];
        wakes.into_iter().flatten().min()
    }

    /// Schedules an effect.
    pub(crate) fn effect(&mut self, effect: B::Effect) {
        self.actions.push(Action::Effect(effect));
    }

    /// Returns the queue of a target.
    pub(crate) fn queue(&mut self, target: usize) -> &mut FairQueue<u64> {
        if self.queues.len() <= target {
            self.queues.resize_with(target + 1, FairQueue::default);
        }
        &mut self.queues[target]
    }

    /// Returns the first request in the queue of a target; drops those that have ended.
    pub(crate) fn front(&mut self, target: usize) -> Option<u64> {
        loop {
            let id = self.queue(target).peek().copied()?;
            if self.entries.contains_key(&id) {
                return Some(id);
            }
            self.queue(target).take();
        }
    }

    /// Drops the ended requests in the queue of a target when they are most of it: those behind a
    /// living one stay as long as it does.
    fn sweep(&mut self, target: usize) {
        let Self { entries, queues, .. } = self;
        let queue = &mut queues[target];
        if queue.len() > 2 * entries.len() + ENDED_MAX {
            queue.retain(|id| entries.contains_key(id));
        }
    }

    /// Returns the first entry in the queue of a target, unless it has ended.
    pub(crate) fn peek(&self, target: usize) -> Option<&ScheduledRequest<B>> {
        self.entries.get(self.queues.get(target)?.peek()?)
    }

    /// Takes the first request of a sender that is not held from the queue of a target; returns it
    /// with its sender. It may have ended.
    pub(crate) fn take_unless(
        &mut self,
        target: usize,
        is_held: impl Fn(Sender) -> bool,
    ) -> Option<(u64, Sender)> {
        let Self { entries, queues, .. } = self;
        let sender = |id: &u64| entries.get(id).map(ScheduledRequest::sender);
        let queue = queues.get_mut(target)?;
        let id = queue.take_unless(|id| sender(id).is_some_and(&is_held))?;
        Some((id, sender(&id).unwrap_or_default()))
    }

    /// Puts a request into the queue of its target.
    pub(crate) fn requeue(&mut self, id: u64) {
        if let Some(entry) = self.entries.get(&id) {
            let target = B::target(&entry.progress);
            let sender = entry.sender();
            self.queue(target).put(sender, 1, id);
        }
    }

    /// Puts a request in front of the queue of its target.
    pub(crate) fn requeue_first(&mut self, id: u64) {
        if let Some(entry) = self.entries.get(&id) {
            let target = B::target(&entry.progress);
            self.requeue_first_at(target, id);
        }
    }

    /// Puts a request in front of the queue of a target.
    pub(crate) fn requeue_first_at(&mut self, target: usize, id: u64) {
        if self.entries.contains_key(&id) {
            self.queue(target).put_first(id);
        }
    }

    /// Returns the target of a request that has not ended.
    pub(crate) fn target(&self, id: u64) -> Option<usize> {
        Some(B::target(&self.entries.get(&id)?.progress))
    }

    /// Marks a request as in flight; returns its wait before the first message, milliseconds.
    pub(crate) fn depart(&mut self, now_ms: u64, id: u64, ticket: B::Ticket) -> Option<u64> {
        let entry = self.entries.get_mut(&id)?;
        entry.ticket = Some(ticket);
        let is_first = entry.sent_ms.replace(now_ms).is_none();
        is_first.then(|| now_ms.saturating_sub(entry.arrived_ms))
    }

    /// Marks a request as no longer in flight; `None` if it was not.
    pub(crate) fn land(&mut self, id: u64) -> Option<B::Ticket> {
        self.entries.get_mut(&id)?.ticket.take()
    }

    /// Returns the requests in flight with their ages in milliseconds, by number.
    pub(crate) fn in_flight(&self, now_ms: u64) -> Vec<(u64, u64)> {
        let flying = self.entries.iter().filter(|(_, entry)| entry.ticket.is_some());
        let age =
            |entry: &ScheduledRequest<B>| now_ms.saturating_sub(entry.sent_ms.unwrap_or(now_ms));
        let mut flying: Vec<_> = flying.map(|(id, entry)| (*id, age(entry))).collect();
        flying.sort_unstable();
        flying
    }

    /// Schedules a retry after a back-off; false after the last attempt, or if the deadline comes
    /// first. At shutdown an untouched request is left to the next process.
    pub(crate) fn retry(&mut self, now_ms: u64, id: u64, after: Option<Duration>) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let at_ms = now_ms.saturating_add(back_off_ms(id, entry.attempts, after));
        if entry.attempts >= ATTEMPTS || at_ms > entry.deadline_ms {
            return false;
        }
        entry.timer_ms = at_ms;
        self.timers.insert((at_ms, id));
        self.leave_if_untouched(id);
        true
    }

    /// Ends a request by its answers so far, or with `outcome` if they do not suffice.
    pub(crate) fn stop(&mut self, id: u64, outcome: Outcome) {
        self.complete(id, |backend, entry| backend.stop(entry, outcome));
    }

    /// Ends a request with the evaluations from `conclude`.
    pub(crate) fn complete(
        &mut self,
        id: u64,
        conclude: impl FnOnce(&B, ScheduledRequest<B>) -> Vec<Evaluation>,
    ) {
        let Some(mut entry) = self.remove(id) else { return };
        let subject = *entry.request.subject();
        let recipient = self.backend.name(B::target(&entry.progress)).to_owned();
        let receipt = entry.receipt.take();
        let evaluations = conclude(&self.backend, entry);
        self.actions.push(Action::Emit(Emission { subject, recipient, evaluations, receipt }));
    }

    fn expire(&mut self, now_ms: u64) {
        while let Some(id) = take_due(&mut self.deadlines, now_ms) {
            // A request in flight is paid and has its own time limit: its answer still counts.
            let idle = self.entries.get(&id).filter(|entry| entry.ticket.is_none());
            if let Some(entry) = idle {
                let outcome = self.backend.expired(entry);
                self.stop(id, outcome);
            }
        }
    }
}

/// Takes the first due id.
fn take_due(times: &mut BTreeSet<(u64, u64)>, now_ms: u64) -> Option<u64> {
    let (at_ms, id) = times.first().copied().filter(|(at_ms, _)| *at_ms <= now_ms)?;
    times.remove(&(at_ms, id));
    Some(id)
}
