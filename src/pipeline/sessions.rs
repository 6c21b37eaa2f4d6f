//! The owner of all sessions: one task beside the shards, running only when an evaluator judges
//! sessions.
//!
//! Shards hand over a copy of each trace they have judged. The queue is bounded; a trace that finds
//! it full is missing from its session, and counted.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::Outlet;
use super::metrics::PipelineMetrics;
use super::worker::{TICK, elapsed_ms, unix_ns};
use crate::assemble::{DueSession, Sessions};
use crate::evaluate::run::{Evidence, Judge, WhenErrors};
use crate::extract::resolve::{Resolver, reconcile};
use crate::model::session::join_session;
use crate::model::{Completion, Evaluation, TraceSpans, Trajectory};

/// Traces that may wait for the owner of sessions.
pub(super) const QUEUED_TRACES_MAX: usize = 4096;

/// A judged trace on its way to its session.
pub(super) struct SessionTrace {
    pub(super) session_id: String,
    pub(super) trace: Arc<TraceSpans>,
    pub(super) digest: [u8; 16],
}

/// The sessions with all that is needed to judge them.
pub(super) struct SessionWorker {
    pub(super) sessions: Sessions,
    pub(super) resolver: Arc<Resolver>,
    pub(super) judge: Arc<Judge>,
    pub(super) outlet: Outlet,
    pub(super) metrics: Arc<PipelineMetrics>,
}

impl SessionWorker {
    /// Works until every shard has ended, then judges what is open.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<SessionTrace>) {
        let start = Instant::now();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due = Vec::new();
        loop {
            tokio::select! {
                received = queue.recv() => {
                    let Some(SessionTrace { session_id, trace, digest }) = received else { break };
                    let now_ms = elapsed_ms(start);
                    self.sessions.add(&session_id, trace, digest, now_ms, &mut due);
                }
                _ = ticks.tick() => {
                    self.sessions.tick(elapsed_ms(start), &mut due);
                    self.metrics.sessions(&mut self.sessions);
                }
            }
            self.judge_due(&mut due);
        }
        self.sessions.drain(Completion::Shutdown, &mut due);
        self.judge_due(&mut due);
        self.metrics.sessions(&mut self.sessions);
    }

    fn judge_due(&self, due: &mut Vec<DueSession>) {
        for due in due.drain(..) {
            let evaluations =
                judge_session(&self.resolver, &self.judge, &due, unix_ns(SystemTime::now()));
            self.metrics.evaluations(&evaluations.0);
            self.metrics.session_judged(&evaluations.1);
            if !evaluations.0.is_empty() {
                (self.outlet)(evaluations.0.into());
            }
        }
    }
}

/// A session as one trajectory, its traces corrected by what they know of each other.
pub(super) fn joined<'a>(resolver: &'a Resolver, due: &'a DueSession) -> Option<Trajectory<'a>> {
    let mut trajectories: Vec<_> = due.traces.iter().map(|trace| resolver.resolve(trace)).collect();
    trajectories.sort_by_key(|trajectory| trajectory.start_ns);
    reconcile(&mut trajectories);
    join_session(trajectories)
}

/// Judges one session on all its traces.
pub(super) fn judge_session(
    resolver: &Resolver,
    judge: &Judge,
    due: &DueSession,
    now_ns: u64,
) -> (Vec<Evaluation>, WhenErrors) {
    let mut out = Vec::new();
    let evidence = Evidence {
        digest: due.digest,
        revised: due.revised,
        revision: due.revision,
        completion: due.completion,
        now_ns,
    };
    let errors = joined(resolver, due)
        .map(|session| judge.judge_session(&session, evidence, &mut out))
        .unwrap_or_default();
    (out, errors)
}
