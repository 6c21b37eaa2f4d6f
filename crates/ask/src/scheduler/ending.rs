//! Supersession and shutdown of requests, and unsent requests.

use super::{
    Action, Emission, PendingRequest, ScheduledRequest, Scheduler, SchedulerBackend, SilentEnd,
    not_sent,
};
use spanscore_base::model::{Outcome, Reason, Receipt, WaitingPlace};

impl<B: SchedulerBackend> Scheduler<B> {
    /// Replaces an older request about the same subject: a waiting one is removed, one in flight is
    /// superseded.
    pub(super) fn supersede(&mut self, request: &mut B::Request) {
        let Some(id) = self.by_subject.remove(request.subject()) else { return };
        let Some(older) = self.entries.get_mut(&id) else { return };
        request.supersede(&older.request);
        if older.ticket.is_some() {
            older.is_superseded = true;
        } else {
            self.end_silently(id, SilentEnd::Replaced);
        }
    }

    /// Ends requests of the largest holders, newest first, for one that entered beyond its sender's
    /// share; those without paid answers go first.
    pub(super) fn make_room_for(&mut self, place: &WaitingPlace) {
        while let Some(richest) = place.displaces() {
            let own = self.by_sender.range((richest, 0)..=(richest, u64::MAX)).rev();
            let idle = own.filter_map(|(_, id)| {
                let entry = self.entries.get(id).filter(|entry| entry.ticket.is_none())?;
                Some((*id, B::is_untouched(&entry.progress)))
            });
            let untouched = idle.clone().find(|(_, is_untouched)| *is_untouched);
            let Some((newest, _)) = untouched.or_else(|| idle.clone().next()) else { return };
            self.stop(newest, not_sent::<B::Request>(Reason::QueueFull));
        }
    }

    /// Ends a completed request that a revision superseded meanwhile.
    pub(crate) fn drop_superseded(&mut self, id: u64) -> bool {
        let is_superseded = self.entries.get(&id).is_some_and(|entry| entry.is_superseded);
        if is_superseded {
            self.end_silently(id, SilentEnd::Superseded);
        }
        is_superseded
    }

    /// Closes the scheduler. With `leaves`, waiting requests are left to the next process, as are
    /// those whose records another process reads; the rest stops settling.
    pub(crate) fn close(&mut self, now_ms: u64, leaves: bool) {
        self.is_leaving = leaves;
        let timed: Vec<u64> = self.timers.iter().map(|(_, id)| *id).collect();
        let queued = self.queues.iter().flat_map(|line| line.iter().copied());
        let waiting: Vec<u64> = timed.iter().copied().chain(queued).collect();
        for id in waiting {
            if self.is_left(id) {
                self.leave(id);
            }
        }
        for id in timed {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            if entry.sent_ms.is_none() || B::CLOSE_ENDS_BACK_OFF {
                self.timers.remove(&(entry.timer_ms, id));
                entry.timer_ms = now_ms;
                self.timers.insert((now_ms, id));
            }
        }
    }

    /// Ends all requests at once: left to the next process, or not evaluable.
    pub(crate) fn abandon(&mut self) -> Vec<Action<B::Effect>> {
        let mut ids: Vec<u64> = self.entries.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if self.is_left(id) {
                self.leave(id);
            } else {
                self.stop(id, not_sent::<B::Request>(Reason::Shutdown));
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// Returns true if another process will do a request after this one ends: the next one, or the
    /// present reader of its records, which repeats the question under the same identity.
    fn is_left(&self, id: u64) -> bool {
        let receipt = self.entries.get(&id).and_then(|entry| entry.receipt.as_ref());
        self.is_leaving || receipt.is_some_and(|receipt| receipt.claims().are_retired())
    }

    /// Leaves a request to the next process.
    pub(crate) fn leave(&mut self, id: u64) {
        self.end_silently(id, SilentEnd::Left);
    }

    /// Leaves a request to the next process at shutdown, unless answers are paid.
    pub(crate) fn leave_if_untouched(&mut self, id: u64) -> bool {
        let entry = self.entries.get(&id).filter(|_| self.is_leaving);
        let leaves = entry.is_some_and(|entry| B::is_untouched(&entry.progress));
        if leaves {
            self.leave(id);
        }
        leaves
    }

    fn end_silently(&mut self, id: u64, end: SilentEnd) {
        let Some(entry) = self.remove(id) else { return };
        if let (SilentEnd::Left, Some(receipt)) = (end, &entry.receipt) {
            receipt.leave();
        }
        self.actions.push(Action::Count(end));
    }

    /// Removes a request with its timers.
    pub(super) fn remove(&mut self, id: u64) -> Option<ScheduledRequest<B>> {
        let mut entry = self.entries.remove(&id)?;
        self.timers.remove(&(entry.timer_ms, id));
        self.deadlines.remove(&(entry.deadline_ms, id));
        self.by_sender.remove(&(entry.sender().without_group(), id));
        let subject = entry.request.subject();
        if self.by_subject.get(subject) == Some(&id) {
            self.by_subject.remove(subject);
        }
        Some(entry)
    }
}

impl Emission {
    /// Gives up a request outside of the scheduler.
    pub(super) fn unsent<R: PendingRequest>(
        mut request: R,
        receipt: Option<Receipt>,
        outcome: Outcome,
    ) -> Self {
        let subject = *request.subject();
        let recipient = request.recipient().to_owned();
        Self { subject, recipient, evaluations: request.give_up(outcome), receipt }
    }
}
