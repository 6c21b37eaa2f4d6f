//! Judgement of one trace, on its shard's thread or on the one for long traces.

use super::asking::TraceAnswer;
use super::long_traces::ATTEMPT_STEPS;
use super::{JudgedCounts, Worker, WorkerContext};
use crate::reading::try_reserve;
use std::sync::Arc;

use spanscore_assemble::{Due, SessionKeyFields};
use spanscore_base::model::{
    Evaluation, GivenVerdict, Reported, SessionKey, TraceSpans, Trajectory, WorkBudget,
};
use spanscore_base::panics::caught;
use spanscore_evaluate::engine::run::{Evidence, Skips};
use spanscore_extract::{Table, reading_steps};
use spanscore_net::clock::now_ns;
use spanscore_store::{Judgement, TrajectoryRecord};

/// Due trace with the context of its judgement.
pub(super) struct JudgingTask<'a> {
    pub(super) due: &'a Due,
    pub(super) trace: &'a TraceSpans,
    pub(super) now_ns: u64,
    /// Fields that name its session, while sessions are judged.
    pub(super) session: Option<SessionKeyFields>,
    /// True for an attempt with fewer steps than the trace has; if they run out it has no effect.
    pub(super) is_attempt: bool,
}

/// Result of a judgement, without its evaluations.
pub(super) struct JudgedTask {
    pub(super) skips: Skips,
    pub(super) session: Option<SessionKey>,
    pub(super) effort: WorkBudget,
    /// Table of its records.
    pub(super) table: Arc<Table>,
}

impl Worker {
    /// Judges a trace; returns the reports on it, `None` after a panic, and the steps taken.
    /// Returns `None` if it exceeds a slice, or others hold the memory.
    pub(super) fn evaluate_one(
        &self,
        due: &Due,
        now_ns: u64,
        judged: &mut JudgedCounts,
        out: &mut TraceAnswer<'_>,
    ) -> Option<(Option<Vec<Reported>>, u64)> {
        let mut reported = self.shard.reported(due.handle).to_vec();
        let steps = self.shard.steps(due.handle).judged;
        let full = self.context.trace_steps.saturating_sub(steps);
        let Some(trace) = self.shard.trace(due.handle) else { return Some((None, 0)) };
        let is_attempt = full > ATTEMPT_STEPS && self.may_put_long();
        if is_attempt && reading_steps(trace) as u64 > ATTEMPT_STEPS {
            return None;
        }
        let reading = if is_attempt {
            try_reserve(&self.context.judging, std::iter::once(trace))
        } else {
            self.reserve(trace)
        };
        if is_attempt && reading.is_none() {
            return None;
        }
        // Without steps the trace is not read, and not evaluable.
        let full = if reading.is_some() { full } else { 0 };
        let steps = if is_attempt { ATTEMPT_STEPS } else { full };
        let session = self.sessions().map(|sessions| sessions.fields);
        let task = JudgingTask { due, trace, now_ns, session, is_attempt };
        let before = out.evaluations.len();
        let done = self.context.judge(&task, WorkBudget::new(steps), &mut reported, out);
        if is_attempt && done.as_ref().is_some_and(|done| done.effort.is_trace_spent()) {
            out.evaluations.truncate(before);
            return None;
        }
        let taken = self.conclude((due, trace), done, (reading.is_some(), steps), judged);
        let is_done = taken.is_ok();
        let taken = taken.unwrap_or_else(|steps| steps);
        if taken > ATTEMPT_STEPS {
            self.context.metrics.stages.long_traces.add("shard", 1);
        }
        Some((is_done.then_some(reported), taken))
    }

    /// Counts a judgement, and passes its trace to the session; returns the steps taken, as an
    /// error after a panic.
    pub(super) fn conclude(
        &self,
        (due, trace): (&Due, &TraceSpans),
        done: Option<JudgedTask>,
        (was_read, given): (bool, u64),
        judged: &mut JudgedCounts,
    ) -> Result<u64, u64> {
        judged.too_large += u64::from(!was_read);
        // The steps before a panic are unknown: a quarter of the budget is charged.
        let Some(JudgedTask { skips, session, effort, table }) = done else {
            return Err(given / 4);
        };
        judged.cut_texts += effort.cut_texts();
        self.hand_to_session(session, (due, trace), &table);
        if !due.is_silent {
            judged.add(due.completion, skips);
        }
        if effort.is_trace_spent() && was_read {
            judged.expensive += 1;
            self.costly.tell(trace.sent_id(), trace.spans.len(), trace.arena.len());
        }
        Ok(effort.taken())
    }
}

impl WorkerContext {
    /// Judges a trace within a work budget; `None` if that panicked.
    pub(super) fn judge(
        &self,
        task: &JudgingTask<'_>,
        effort: WorkBudget,
        reported: &mut Vec<Reported>,
        out: &mut TraceAnswer<'_>,
    ) -> Option<JudgedTask> {
        let JudgingTask { due, trace, now_ns, session, is_attempt } = task;
        let evidence = Evidence {
            digest: due.digest,
            revised: due.revised,
            revision: due.revision,
            completion: due.completion,
            is_partial: due.is_partial,
            now_ns: *now_ns,
        };
        let before = out.evaluations.len();
        let judged = caught(|| {
            let TraceAnswer { evaluations, asked } = out;
            let mut trajectory = self.setup.resolver.resolve_within(trace, effort);
            let skips = if due.is_silent && !self.forwards.wants_judgements() {
                Skips::default()
            } else {
                let trajectory = &mut trajectory;
                self.setup
                    .evaluators
                    .evaluate_or_ask(trajectory, evidence, reported, evaluations, asked)
            };
            if !(*is_attempt && trajectory.effort.is_trace_spent()) {
                self.store(due, trace, &trajectory, (&evaluations[before..], asked.is_empty()));
            }
            let session = session.as_ref().and_then(|fields| fields.of(&trajectory));
            let table = Arc::clone(self.setup.resolver.table());
            JudgedTask { skips, session, effort: trajectory.effort, table }
        });
        if judged.is_err() {
            out.evaluations.truncate(before);
            out.asked.clear();
            self.metrics.stages.panics.add(1);
            let trace_id = trace.sent_id();
            tracing::error!(%trace_id, "judging a trace panicked; it is lost");
        }
        judged.ok()
    }

    /// Stores a judged run, before its evaluations are sent. `done` holds the evaluations so far,
    /// and true if no judge is asked for more.
    fn store(
        &self,
        due: &Due,
        trace: &TraceSpans,
        trajectory: &Trajectory<'_>,
        done: (&[Evaluation], bool),
    ) {
        let Some(store) = self.store.as_ref().filter(|_| !due.is_silent) else { return };
        let (evaluations, is_all) = done;
        let is_passing = is_all && evaluations.iter().all(|it| it.verdict() == GivenVerdict::Pass);
        let with_content = store.has_content() && !trajectory.effort.is_trace_spent();
        let admitted = store.admit(trajectory.sender, is_passing, with_content);
        let Some(with_content) = admitted else { return };
        let judgement = Judgement {
            completion: due.completion,
            is_partial: due.is_partial,
            revision: due.revision,
            spans: trace.spans.len(),
            now_ns: now_ns(),
            is_passing,
        };
        store.trajectory(TrajectoryRecord::new(trajectory, judgement, with_content));
    }
}
