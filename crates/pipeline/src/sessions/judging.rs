//! Judgement of sessions: by their worker within a slice, or on a separate thread.

use super::SessionWorker;
use super::long::{SessionJudgement, SessionTask};
use crate::metrics::{EXPENSIVE, TOO_LARGE};
use crate::worker::long_thread::LongWork;
use spanscore_assemble::DueSession;
use spanscore_base::model::{Claims, Completion};
use spanscore_engine::session::SessionAnswer;
use std::sync::Arc;

/// Inverse of the share of the sessions' memory for evicted, unjudged ones.
const EVICTED_PARTS: usize = 8;
/// Inverse of the share of the sessions' memory for those waiting to be judged.
const LONG_PARTS: usize = 2;

impl SessionWorker {
    pub(super) fn judge_all(&mut self, completion: Completion, due: &mut Vec<DueSession>) {
        self.sessions.drain(completion, due);
        self.judge_due(due);
    }

    /// Judges due sessions; those beyond a slice wait for their thread.
    pub(super) fn judge_due(&mut self, due: &mut Vec<DueSession>) {
        let mut left = self.sessions.open_count() + self.long.len() + due.len();
        for due in due.drain(..) {
            self.context.heartbeats.beat(self.place);
            self.context.backlog.set_sessions(left);
            left -= 1;
            let setup = self.context.setup.clone();
            let judging = Arc::clone(&self.context.judging);
            self.judge_or_put(SessionTask { due, setup, judging, steps: self.context.trace_steps });
        }
    }

    fn judge_or_put(&mut self, task: SessionTask) {
        if self.long.thread.is_none() {
            return self.judge_here(task);
        }
        let is_behind = self.long.has(&task.due.key);
        let attempted = if is_behind { Err(Box::new(task)) } else { task.attempt() };
        let task = match attempted {
            Ok(judgement) => return self.conclude(judgement),
            Err(task) => *task,
        };
        let bytes_max = self.memory.limit() / EVICTED_PARTS;
        if task.due.completion == Completion::Evicted && self.sessions.evicted_bytes() > bytes_max {
            return self.conclude(task.pass_over());
        }
        if !self.long.has_room(self.memory.limit() / LONG_PARTS) {
            // A session is judged only after its earlier judgement.
            return if is_behind { self.conclude(task.pass_over()) } else { self.judge_here(task) };
        }
        self.context.metrics.stages.long_sessions.add(1);
        self.long.put(task);
    }

    fn judge_here(&mut self, task: SessionTask) {
        let heartbeats = &self.context.heartbeats;
        let judgement = task.judge(|| heartbeats.beat(self.place));
        self.conclude(judgement);
    }

    /// Concludes a session judged on the thread; `None` if the thread has ended, after which
    /// sessions are judged here.
    pub(super) fn conclude_long(&mut self, judgement: Option<SessionJudgement>) {
        let left = self.long.ended();
        if let Some(judgement) = judgement {
            return self.conclude(judgement);
        }
        tracing::error!("the thread of long sessions ended; their worker judges them");
        let waiting = self.long.give_up();
        left.into_iter().chain(waiting).for_each(|task| self.judge_here(task));
    }

    /// Waits for the session being judged on the thread, then judges the waiting ones.
    pub(super) async fn end_long(&mut self) {
        if self.long.is_running() {
            let judged = self.long.judged().await;
            self.conclude_long(judged);
        }
        for task in self.long.give_up() {
            self.context.heartbeats.beat(self.place);
            self.judge_here(task);
        }
    }

    /// Passes on the evaluations of a session.
    fn conclude(&mut self, judgement: SessionJudgement) {
        let SessionJudgement { due, setup, answer, was_read } = judgement;
        let Some(answer) = answer else {
            self.context.metrics.stages.panics.add(1);
            self.sessions.undo_judgement(&due);
            self.sessions.done(&due);
            tracing::error!("judging a session panicked; it is lost");
            return;
        };
        if due.traces.iter().any(|trace| trace.claims.are_retired()) {
            // The present owner of its partition judges it.
            self.sessions.undo_judgement(&due);
            return self.sessions.done(&due);
        }
        let SessionAnswer { mut evaluations, skips, asked, is_spent, cut_texts } = answer;
        let asked = self.context.dispatchers.unless_unasked(asked, &mut evaluations);
        self.verdicts.supersede(&due, &mut evaluations);
        self.context.metrics.evaluations(&evaluations);
        let limited = if was_read { is_spent.then_some(EXPENSIVE) } else { Some(TOO_LARGE) };
        self.context.metrics.stages.cut_texts.add(cut_texts);
        self.context.metrics.session_judged(skips, limited, &setup.evaluators);
        if !evaluations.is_empty() || !asked.is_empty() {
            let mut claims = Claims::default();
            due.traces.iter().for_each(|trace| claims.join(&trace.claims));
            let receipt = self.context.receipt(claims, Vec::new());
            self.context.dispatchers.ask(asked, receipt.as_ref(), due.sender);
            if !evaluations.is_empty() {
                (self.context.outlet)(evaluations, receipt);
            }
        }
        self.sessions.done(&due);
    }
}
