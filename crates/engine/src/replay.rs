//! In-memory replay of recorded requests by the same stages, without a clock. Traces may be spread
//! over several files, and all are complete at the end of the input. For commands that show traces;
//! [`batch`](super::batch) judges in bounded memory.

use hashbrown::{HashMap, HashSet};

use crate::session::{gather_sessions, joined};
use spanscore_assemble::{
    CutTrace, Due, DueSession, LimitsSettings, SessionKeyFields, Shard, TracesSettings,
};
use spanscore_base::model::{
    Completion, SessionKey, SpanBatch, SpanFlags, SpanId, TraceId, TraceSpans, Trajectory,
    WorkBudget,
};
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::request::Broken;
use spanscore_extract::{
    Extracted, ExtractionCache, Resolver, SessionCalls, TraceExplanation, extract,
};

/// Recorded requests, assembled to traces.
pub struct Replay<'r> {
    resolver: &'r Resolver,
    shard: Shard,
    /// Traces completed early by a limit.
    evicted: Vec<Due>,
    cache: ExtractionCache,
    session_key: SessionKeyFields,
    trace_steps: u64,
    bytes_max: usize,
}

impl<'r> Replay<'r> {
    /// Returns an empty replay. The limits of one trace apply; [`cut_traces`](Self::cut_traces)
    /// lists the traces beyond them. All traces of the input are held, up to `limits.memory_mib`:
    /// [`is_full`](Self::is_full).
    pub fn new(
        resolver: &'r Resolver,
        limits: LimitsSettings,
        session_key: SessionKeyFields,
    ) -> Self {
        let limits = LimitsSettings {
            open_traces_max: u32::MAX,
            traces_mib: Some(u32::MAX),
            remembered_mib: Some(u32::MAX),
            ..limits
        };
        Self {
            resolver,
            shard: Shard::new(TracesSettings::default(), limits, 1, 0),
            evicted: Vec::new(),
            cache: ExtractionCache::default(),
            session_key,
            trace_steps: u64::from(limits.trace_steps),
            bytes_max: (limits.memory_mib.mib() as usize) << 20,
        }
    }

    /// Adds one request; returns the counts of its records.
    pub fn add(&mut self, signal: Signal, body: &[u8]) -> Result<Extracted, Broken> {
        let mut batches = [SpanBatch::default()];
        let table = self.resolver.table();
        let extracted = extract(table, signal, body, &mut self.cache, &mut batches)?;
        let [batch] = batches;
        self.shard.add(&batch, 0, &mut self.evicted);
        Ok(extracted)
    }

    /// Returns true if the traces exceed `limits.memory_mib`.
    pub fn is_full(&self) -> bool {
        self.shard.bytes() > self.bytes_max
    }

    /// Returns the traces that exceeded a limit of one trace: they are shown with their retained
    /// part.
    pub fn cut_traces(&self) -> impl Iterator<Item = CutTrace> {
        self.shard.cut_traces()
    }

    fn sessions(&self, due: &[Due]) -> Vec<DueSession> {
        gather_sessions(due.iter().filter_map(|due| {
            let trace = self.shard.trace(due.handle)?;
            Some((self.session_key.of(&self.resolve(trace))?, due, trace))
        }))
    }

    /// Visits the explanation of every trace, including those without agent spans.
    pub fn explain(&self, mut visit: impl FnMut(&TraceExplanation)) {
        self.shard.traces().for_each(|trace| visit(&self.resolver.explain(trace)));
    }

    /// Returns the spans known to a dialect: of tools, agents or models, or certainly none of
    /// these.
    pub fn known_spans(&self) -> HashSet<(TraceId, SpanId)> {
        let of = |trace: &TraceSpans| {
            let ids: Vec<_> = self.resolver.known_spans(trace).collect();
            let trace_id = trace.trace_id;
            ids.into_iter().map(move |span_id| (trace_id, span_id))
        };
        self.shard.traces().flat_map(of).collect()
    }

    /// Returns the number of traces, including those without agent spans.
    pub fn trace_count(&self) -> usize {
        self.shard.traces().count()
    }

    /// Visits every trajectory, in the order of first spans. Traces of one session correct each
    /// other, within the input.
    pub fn for_each(&mut self, visit: impl FnMut(&Trajectory<'_>)) {
        let due = self.due();
        self.trajectories(&due).iter().for_each(visit);
    }

    /// Visits the trajectories of all traces except those with a failed root; returns the ids of
    /// the latter.
    pub fn for_each_unbroken(&mut self, mut visit: impl FnMut(&Trajectory<'_>)) -> Vec<TraceId> {
        let due = self.due();
        let traces = due.iter().filter_map(|due| self.shard.trace(due.handle));
        let is_broken = |trace: &&TraceSpans| {
            let failed = SpanFlags::ROOT | SpanFlags::ERROR;
            trace.spans.iter().any(|span| span.flags.0 & failed == failed)
        };
        let broken = traces.filter(is_broken).map(TraceSpans::sent_id).collect::<Vec<_>>();
        let whole = self.trajectories(&due);
        whole.iter().filter(|it| !broken.contains(&it.trace_id)).for_each(&mut visit);
        broken
    }

    /// Visits every session as one trajectory, with the ids of its traces.
    pub fn for_each_session(&mut self, mut visit: impl FnMut(&Trajectory<'_>, &[TraceId])) {
        let due = self.due();
        for session in self.sessions(&due) {
            let ids: Vec<_> = session.traces.iter().map(|trace| trace.trace_id).collect();
            if let Some(joined) = joined(self.resolver, &session, self.trace_steps) {
                visit(&joined, &ids);
            }
        }
    }

    fn due(&mut self) -> Vec<Due> {
        let mut due = std::mem::take(&mut self.evicted);
        self.shard.drain(Completion::EndOfInput, 0, &mut due);
        // Nothing was evicted, so handles are in the order of first spans.
        due.sort_by_key(|due| due.handle);
        due
    }

    fn resolve<'t>(&'t self, trace: &'t TraceSpans) -> Trajectory<'t> {
        self.resolver.resolve_within(trace, WorkBudget::new(self.trace_steps))
    }

    fn trajectories(&self, due: &[Due]) -> Vec<Trajectory<'_>> {
        let traces = due.iter().filter_map(|due| self.shard.trace(due.handle));
        let mut trajectories: Vec<_> = traces.map(|trace| self.resolve(trace)).collect();
        reconcile_sessions(&mut trajectories.iter_mut().collect::<Vec<_>>(), self.session_key);
        trajectories
    }
}

/// Corrects the trajectories of each session by each other's calls, in place.
pub(super) fn reconcile_sessions(
    trajectories: &mut [&mut Trajectory<'_>],
    session_key: SessionKeyFields,
) {
    let mut known: HashMap<SessionKey, SessionCalls> = HashMap::new();
    for trajectory in trajectories.iter() {
        if let Some(key) = session_key.of(trajectory) {
            known.entry(key).or_default().add(trajectory);
        }
    }
    for trajectory in trajectories {
        let calls = session_key.of(trajectory).and_then(|key| known.get(&key));
        if let Some(calls) = calls {
            calls.apply(trajectory);
        }
    }
}
