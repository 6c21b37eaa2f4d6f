//! Long traces between the shard and their thread.

use super::long_traces::{LongJudgement, LongTask};
use super::{JudgedCounts, Worker};
use spanscore_assemble::{ChargedSteps, Due};
use spanscore_base::model::Reported;

impl Worker {
    /// Returns true if a trace that exceeds a slice may wait. Traces of an earlier process are
    /// judged in order.
    pub(super) fn may_put_long(&self) -> bool {
        self.long.has_room() && !self.shard.is_restoring()
    }

    /// Queues a due trace for the thread; a waiting one is judged once, in its latest state.
    pub(super) fn put_long(&mut self, mut due: Due) {
        if let Some(before) = self.long.waiting(due.handle) {
            self.shard.join_due(&before, &mut due);
        }
        self.put_long_as(due);
    }

    /// Replaces an earlier due of a waiting trace.
    fn join_long(&mut self, earlier: &Due, mut next: Due) {
        self.shard.join_due(earlier, &mut next);
        self.put_long_as(next);
    }

    fn put_long_as(&mut self, due: Due) {
        let Some(sender) = self.shard.sender(due.handle) else { return };
        let bytes = self.shard.trace(due.handle).map_or(0, |trace| trace.bytes());
        self.shard.wait(due.handle);
        self.long.put(due, sender, bytes);
    }

    /// Hands the next long trace to the thread, if it is free.
    pub(super) fn begin_long(&mut self) {
        while let Some(due) = self.long.next() {
            if !self.shard.is_due(&due) {
                // It has grown: it will be due again, with all of its spans.
                self.shard.take_back(&due);
                continue;
            }
            let Some(trace) = self.shard.lend(due.handle) else { continue };
            let judged = self.shard.steps(due.handle).judged;
            let is_begun = self.long.begin(LongTask {
                context: self.context.clone(),
                due,
                trace,
                reported: self.shard.reported(due.handle).to_vec(),
                session: self.sessions().map(|sessions| sessions.fields),
                steps: self.context.trace_steps.saturating_sub(judged),
                epoch: self.epoch,
            });
            if !is_begun {
                self.shard.returned(due.handle);
                self.judge_without_thread(Some(due));
            }
            return;
        }
    }

    /// Judges the remaining traces of an ended thread on the shard.
    fn judge_without_thread(&mut self, left: Option<Due>) {
        tracing::error!(
            shard = self.index,
            "the thread of long traces ended; the shard judges them"
        );
        if let Some(left) = left {
            match self.long.waiting(left.handle) {
                Some(next) => self.join_long(&left, next),
                None => self.put_long_as(left),
            }
        }
        let mut due = self.long.lose_thread();
        due.retain(|due| {
            let is_due = self.shard.is_due(due);
            if !is_due {
                self.shard.take_back(due);
            }
            is_due
        });
        self.judge_due(&mut due);
    }

    /// Passes on the evaluations of a long trace; `None` if its thread has ended, and the shard
    /// judges the rest.
    pub(super) fn conclude_long(&mut self, judgement: Option<LongJudgement>) {
        let running = self.long.ended();
        let Some(judgement) = judgement else {
            let left = running.filter(|(_, epoch)| *epoch == self.epoch);
            if let Some((due, _)) = left {
                self.shard.returned(due.handle);
            }
            return self.judge_without_thread(left.map(|(due, _)| due));
        };
        let LongJudgement { due, trace, mut evaluations, mut asked, .. } = judgement;
        let LongJudgement { mut reported, judged: done, was_read, .. } = judgement;
        let LongJudgement { steps, took, epoch, setup, .. } = judgement;
        let is_ours = epoch == self.epoch;
        let mut judged = JudgedCounts::default();
        let taken = self.conclude((&due, &*trace), done, (was_read, steps), &mut judged);
        let of = (trace.trace_id, trace.sender);
        self.notify_forwards_of(of, &due, &evaluations, &asked);
        if due.is_silent {
            evaluations.clear();
            asked.clear();
        }
        let asked = self.context.dispatchers.unless_unasked(asked, &mut evaluations);
        if is_ours {
            self.supersede(due.handle, &mut evaluations);
        }
        let note = self.note_of_trace(&due, &trace).filter(|_| is_ours);
        let claims = trace.claims.clone();
        let sender = trace.sender;
        // Returned first: a change while it is lent makes a copy.
        drop(trace);
        if is_ours && self.shard.returned(due.handle) > 0 {
            self.context.metrics.stages.copied_traces.add(1);
        }
        let notes = note.map(|note| (note, self.shard.notes(due.handle))).into_iter().collect();
        self.hand_out_with(sender, evaluations, asked, (claims, notes));
        self.context.metrics.judged(&judged, took, &setup.evaluators);
        self.context.metrics.stages.long_traces.add("own", 1);
        if is_ours {
            self.renumber_since(&setup, &mut reported);
            let reported = taken.is_ok().then_some(reported);
            self.settle_long(&due, reported, taken.unwrap_or_else(|steps| steps));
        }
    }

    /// Notes that a long trace was judged or lost; one that waits again is not done.
    fn settle_long(&mut self, due: &Due, reported: Option<Vec<Reported>>, steps: u64) {
        let Some(next) = self.long.waiting(due.handle) else {
            return self.settle(due, reported, steps);
        };
        self.shard.charge_steps(due.handle, ChargedSteps { judged: steps, early: 0 });
        match reported {
            Some(reported) => self.shard.keep_reported(due.handle, reported),
            // The next judgement revises the predecessor of this one.
            None => self.join_long(due, next),
        }
    }
}
