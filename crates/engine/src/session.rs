//! Judging of a session as one joined trajectory.

use std::sync::Arc;

use spanscore_assemble::{Due, DueSession, Sessions, SessionsSettings};
use spanscore_base::model::session::join_session;
use spanscore_base::model::{
    Completion, Evaluation, SessionKey, TraceSpans, Trajectory, WorkBudget,
};
use spanscore_evaluate::AskedTarget;
use spanscore_evaluate::engine::run::{Evaluators, Evidence, Skips};
use spanscore_extract::{Resolver, reconcile};

/// Joins a session to one trajectory, after its traces have corrected each other.
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
    /// Inquiries to the dispatchers.
    pub asked: Vec<AskedTarget>,
    /// True if the work budget was exhausted.
    pub is_spent: bool,
    /// Shortened texts of answers.
    pub cut_texts: u64,
}

/// Groups judged traces to sessions by key, at the end of all input.
pub(crate) fn gather_sessions<'t>(
    judged: impl IntoIterator<Item = (SessionKey, &'t Due, &'t TraceSpans)>,
) -> Vec<DueSession> {
    // The traces are in memory, so sessions have no separate limits.
    let settings = SessionsSettings {
        open_sessions_max: u32::MAX,
        traces_per_session_max: u32::MAX,
        memory_mib: Some(u32::MAX),
        ..SessionsSettings::default()
    };
    let mut sessions = Sessions::new(settings, 0);
    let mut due_sessions = Vec::new();
    for (key, due, trace) in judged {
        let trace = Arc::new(trace.clone());
        sessions.add(key, (trace, due.digest), 0, &mut due_sessions);
    }
    sessions.drain(Completion::EndOfInput, &mut due_sessions);
    due_sessions
}

/// Judges one session with all its traces.
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
