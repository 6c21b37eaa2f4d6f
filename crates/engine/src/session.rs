//! Judging of a session: its traces joined to one trajectory.

use std::sync::Arc;

use spanscore_assemble::DueSession;
use spanscore_base::model::session::join_session;
use spanscore_base::model::{Evaluation, TraceSpans, Trajectory, WorkBudget};
use spanscore_evaluate::AskedTarget;
use spanscore_evaluate::engine::run::{Evaluators, Evidence, Skips};
use spanscore_extract::{Resolver, reconcile};

/// Joins a session to one trajectory, its traces corrected by their knowledge of each other.
pub fn joined<'a>(
    resolver: &'a Resolver,
    due: &'a DueSession,
    trace_steps: u64,
) -> Option<Trajectory<'a>> {
    let read =
        |trace: &'a Arc<TraceSpans>| resolver.resolve_within(trace, WorkBudget::new(trace_steps));
    let mut trajectories: Vec<_> = due.traces.iter().map(read).collect();
    trajectories.sort_by_key(|trajectory| (trajectory.start_ns, trajectory.trace_id));
    reconcile(&mut trajectories);
    // No turn of another that says to have been earlier decides whose it is.
    join_session(trajectories).map(|session| Trajectory { sender: due.sender, ..session })
}

/// Results of judging a session.
#[derive(Default)]
pub struct SessionAnswer {
    /// Evaluations of the session.
    pub evaluations: Vec<Evaluation>,
    /// Skips of evaluators.
    pub skips: Skips,
    /// Inquiries to the lanes.
    pub asked: Vec<AskedTarget>,
    /// True if the work budget was exhausted.
    pub is_spent: bool,
    /// Texts of answers that were cut.
    pub cut_texts: u64,
}

/// Judges one session on all its traces.
pub fn evaluate_session(
    resolver: &Resolver,
    evaluators: &Evaluators,
    due: &DueSession,
    trace_steps: u64,
    now_ns: u64,
) -> SessionAnswer {
    let mut answer = SessionAnswer::default();
    let evidence = Evidence {
        digest: due.digest,
        revised: due.revised,
        revision: due.revision,
        completion: due.completion,
        is_partial: false,
        now_ns,
    };
    if let Some(mut session) = joined(resolver, due, trace_steps) {
        let SessionAnswer { evaluations, skips, asked, .. } = &mut answer;
        *skips = evaluators.evaluate_session(&mut session, &due.key, evidence, evaluations, asked);
        answer.is_spent = session.effort.is_trace_spent();
        answer.cut_texts = session.effort.cut_texts();
    }
    answer
}
