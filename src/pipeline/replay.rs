//! Judges recorded requests with the same stages, without a clock: traces may be spread over
//! several files, and all are complete when the input ends.

use std::sync::Arc;

use hashbrown::HashMap;

use super::sessions::{joined, judge_session};
use crate::assemble::{
    Due, DueSession, LimitsSettings, Sessions, SessionsSettings, Shard, TracesSettings,
};
use crate::evaluate::run::{Evidence, Judge};
use crate::extract::cache::Cache;
use crate::extract::collect::extract_traces;
use crate::extract::logs::extract_logs;
use crate::extract::outcome::Extracted;
use crate::extract::resolve::{Explanation, Resolver, SessionCalls};
use crate::model::{Completion, Evaluation, SpanBatch, TraceId, Trajectory};
use crate::otlp::metrics::count_points;
use crate::otlp::request::Broken;
use crate::receive::Signal;

/// Gathers recorded requests, then judges or shows what they hold.
pub struct Replay<'r> {
    resolver: &'r Resolver,
    shard: Shard,
    resources: Cache,
}

impl<'r> Replay<'r> {
    /// Starts empty. The limits of one trace hold here too; all traces of the input are kept.
    pub fn new(resolver: &'r Resolver, limits: LimitsSettings) -> Self {
        let limits = LimitsSettings { open_traces_max: u32::MAX, memory_mib: u32::MAX, ..limits };
        Self {
            resolver,
            shard: Shard::new(TracesSettings::default(), limits, 1, 0),
            resources: Cache::default(),
        }
    }

    /// Adds one request; says what of it was taken.
    pub fn add(&mut self, signal: Signal, body: &[u8]) -> Result<Extracted, Broken> {
        let mut batches = [SpanBatch::default()];
        let (table, resources) = (self.resolver.table(), &mut self.resources);
        let extracted = match signal {
            Signal::Traces => extract_traces(table, body, resources, &mut batches),
            Signal::Logs => extract_logs(table, body, resources, &mut batches),
            Signal::Metrics => count_points(body).map(Extracted::counted),
        }?;
        let [batch] = batches;
        // What a limit makes due here is due at the end with all the rest.
        self.shard.add(&batch, 0, &mut Vec::new());
        Ok(extracted)
    }

    /// Judges every trace in the order of their first spans, then every session.
    pub fn judge(&mut self, judge: &Judge, now_ns: u64) -> Vec<Evaluation> {
        let mut out = Vec::new();
        let due = self.due();
        let mut trajectories = self.trajectories(&due);
        for (trajectory, due) in trajectories.iter_mut().zip(&due) {
            let evidence = Evidence {
                digest: due.digest,
                revised: None,
                revision: 0,
                completion: Completion::EndOfInput,
                now_ns,
            };
            judge.judge_trace(trajectory, evidence, &mut Vec::new(), &mut out);
        }
        if judge.judges_sessions() {
            drop(trajectories);
            self.judge_sessions(judge, &due, now_ns, &mut out);
        }
        out
    }

    fn judge_sessions(&self, judge: &Judge, due: &[Due], now_ns: u64, out: &mut Vec<Evaluation>) {
        for due in &self.sessions(due) {
            out.append(&mut judge_session(self.resolver, judge, due, now_ns).0);
        }
    }

    fn sessions(&self, due: &[Due]) -> Vec<DueSession> {
        // All traces of the input are kept, so all sessions are.
        let settings = SessionsSettings {
            open_sessions_max: u32::MAX,
            traces_per_session_max: u32::MAX,
            memory_mib: u32::MAX,
            ..SessionsSettings::default()
        };
        let mut sessions = Sessions::new(settings, 0);
        let mut due_sessions = Vec::new();
        for due in due {
            let Some(trace) = self.shard.trace(due.handle) else { continue };
            let session_id = self.resolver.resolve(trace).session_id.map(|id| id.into_owned());
            if let Some(id) = session_id {
                let trace = Arc::new(trace.clone());
                sessions.add(&id, trace, due.digest, 0, &mut due_sessions);
            }
        }
        sessions.drain(Completion::EndOfInput, &mut due_sessions);
        due_sessions
    }

    /// Tells how every trace was read, those without anything of an agent too.
    pub fn explain(&self, mut visit: impl FnMut(&Explanation)) {
        self.shard.traces().for_each(|trace| visit(&self.resolver.explain(trace)));
    }

    /// Traces that were put together, those without anything of an agent too.
    pub fn trace_count(&self) -> usize {
        self.shard.traces().count()
    }

    /// Shows every trajectory in the order of their first spans. The traces of one session tell of
    /// each other's calls, as far as the input holds them.
    pub fn for_each(&mut self, visit: impl FnMut(&Trajectory<'_>)) {
        let due = self.due();
        self.trajectories(&due).iter().for_each(visit);
    }

    /// Shows every session: its calls as one trajectory, and the traces they come from.
    pub fn for_each_session(&mut self, mut visit: impl FnMut(&Trajectory<'_>, &[TraceId])) {
        let due = self.due();
        for session in self.sessions(&due) {
            let ids: Vec<_> = session.traces.iter().map(|trace| trace.trace_id).collect();
            if let Some(joined) = joined(self.resolver, &session) {
                visit(&joined, &ids);
            }
        }
    }

    fn due(&mut self) -> Vec<Due> {
        let mut due = Vec::new();
        self.shard.drain(Completion::EndOfInput, 0, &mut due);
        due
    }

    fn trajectories(&self, due: &[Due]) -> Vec<Trajectory<'_>> {
        let traces = due.iter().filter_map(|due| self.shard.trace(due.handle));
        let mut trajectories: Vec<_> = traces.map(|trace| self.resolver.resolve(trace)).collect();
        reconcile_sessions(&mut trajectories);
        trajectories
    }
}

/// Corrects the trajectories of each session by what they know of each other; their order stays.
fn reconcile_sessions(trajectories: &mut [Trajectory<'_>]) {
    let mut known: HashMap<String, SessionCalls> = HashMap::new();
    for trajectory in trajectories.iter() {
        if let Some(id) = trajectory.session_id.as_deref() {
            known.entry_ref(id).or_default().add(trajectory);
        }
    }
    for trajectory in trajectories {
        let calls = trajectory.session_id.as_deref().and_then(|id| known.get(id));
        if let Some(calls) = calls {
            calls.apply(trajectory);
        }
    }
}
