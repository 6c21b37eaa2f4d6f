//! Second pass: assembles and judges windows of traces on all cores.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use hashbrown::{HashMap, HashSet};

use super::pieces::TracePieces;
use super::{
    BatchCounts, BatchError, BatchOrder, BatchPlan, BatchProgress, BatchWatch, JudgedGroup,
    WatchedRun,
};
use crate::replay::reconcile_sessions;
use crate::session::{evaluate_session, gather_sessions};
use spanscore_assemble::{CutTrace, Due, LimitsSettings, Shard, TracesSettings};
use spanscore_base::model::{Completion, SessionKey, TraceId, TraceSpans, Trajectory, WorkBudget};
use spanscore_evaluate::engine::run::{Evidence, Skips, when_errors};

/// Size limit of a window, bytes of records; a larger trace has its own window.
const WINDOW_BYTES: u64 = 8 << 20;
/// Limit of a window, traces.
const WINDOW_TRACES: usize = 1024;

/// Traces judged together, by index.
type Window = Vec<usize>;

/// Results of one window.
#[derive(Default)]
struct WindowAnswer {
    evaluations: Vec<JudgedGroup>,
    judged: usize,
    when_errors: Vec<usize>,
    without_agent: Vec<TraceId>,
    cut: Vec<(usize, CutTrace)>,
    /// Traces waiting for the rest of their session, which the second round judges.
    waiting: Vec<(SessionKey, usize)>,
}

pub(super) struct BatchJudge<'a> {
    settings: &'a BatchPlan<'a>,
    watch: Option<BatchWatch<'a>>,
    pieces: &'a TracePieces,
    progress: &'a BatchProgress,
    /// Limits of one trace; the number of traces is not limited.
    limits: LimitsSettings,
}

/// Conversion of a window's evaluations, on the thread that judged it.
type Prepare<'p, T> = &'p (dyn Fn(Vec<JudgedGroup>) -> T + Sync);
/// Consumer of converted windows; returns false to stop.
type Visit<'v, T> = &'v mut dyn FnMut(T) -> bool;
/// Converted evaluations of a window, and its other results.
type PreparedWindow<T> = (T, WindowAnswer);

impl<'a> BatchJudge<'a> {
    pub(super) fn new(
        (settings, watch): (&'a BatchPlan<'a>, Option<BatchWatch<'a>>),
        pieces: &'a TracePieces,
        progress: &'a BatchProgress,
    ) -> Self {
        let limits = LimitsSettings {
            open_traces_max: u32::MAX,
            traces_mib: Some(u32::MAX),
            remembered_mib: Some(u32::MAX),
            ..settings.limits
        };
        Self { settings, watch, pieces, progress, limits }
    }

    pub(super) fn run<T: Send>(
        &self,
        prepare: Prepare<'_, T>,
        visit: Visit<'_, T>,
    ) -> Result<BatchCounts, BatchError> {
        let count = self.pieces.len();
        self.progress.traces.store(count as u64, Ordering::Relaxed);
        let mut all = WindowAnswer::default();
        let windows = self.windows((0..count).map(|trace| vec![trace]));
        self.judge_all(&windows, true, prepare, visit, &mut all)?;
        let mut sessions: HashMap<SessionKey, Window> = HashMap::new();
        all.waiting.sort_by_key(|(_, trace)| *trace);
        for (key, trace) in all.waiting.drain(..) {
            sessions.entry(key).or_default().push(trace);
        }
        let mut sessions: Vec<Window> = sessions.into_values().collect();
        sessions.sort_unstable();
        let windows = self.windows(sessions.into_iter());
        self.judge_all(&windows, false, prepare, visit, &mut all)?;
        all.cut.sort_by_key(|(trace, _)| *trace);
        all.without_agent.sort_unstable();
        Ok(BatchCounts {
            judged_traces: all.judged,
            when_errors: all.when_errors,
            without_agent: all.without_agent,
            cut: all.cut.into_iter().map(|(_, cut)| cut).collect(),
        })
    }

    /// Packs groups into windows by next fit; a group is never split.
    fn windows(&self, groups: impl Iterator<Item = Window>) -> Vec<Window> {
        let mut windows: Vec<Window> = Vec::new();
        let mut bytes = 0;
        for group in groups {
            let own: u64 = group.iter().map(|trace| self.pieces.bytes(*trace)).sum();
            match windows.last_mut() {
                Some(last)
                    if bytes + own <= WINDOW_BYTES && last.len() + group.len() <= WINDOW_TRACES =>
                {
                    last.extend(group);
                    bytes += own;
                }
                _ => {
                    windows.push(group);
                    bytes = own;
                }
            }
        }
        windows
    }

    fn judge_all<T: Send>(
        &self,
        windows: &[Window],
        is_first: bool,
        prepare: Prepare<'_, T>,
        visit: Visit<'_, T>,
        all: &mut WindowAnswer,
    ) -> Result<(), BatchError> {
        let next = AtomicUsize::new(0);
        let cores = self.settings.cores.clamp(1, windows.len().max(1));
        std::thread::scope(|scope| {
            let (answers, given) = sync_channel(cores);
            for _ in 0..cores {
                let answers = answers.clone();
                let next = &next;
                scope.spawn(move || self.work(windows, next, is_first, prepare, &answers));
            }
            drop(answers);
            for answer in given {
                let (prepared, answer) = answer?;
                if !visit(prepared) || self.progress.stop.load(Ordering::Relaxed) {
                    return Err(BatchError::Stopped);
                }
                all.judged += answer.judged;
                all.when_errors.extend(answer.when_errors);
                all.without_agent.extend(answer.without_agent);
                all.cut.extend(answer.cut);
                all.waiting.extend(answer.waiting);
            }
            Ok(())
        })
    }

    fn work<T: Send>(
        &self,
        windows: &[Window],
        next: &AtomicUsize,
        is_first: bool,
        prepare: Prepare<'_, T>,
        answers: &SyncSender<io::Result<PreparedWindow<T>>>,
    ) {
        while let Some(window) = windows.get(next.fetch_add(1, Ordering::Relaxed))
            && !self.progress.stop.load(Ordering::Relaxed)
        {
            let answer = self.judge(window, is_first);
            let judged = answer.as_ref().map_or(0, |answer| answer.judged);
            self.progress.judged.fetch_add(judged as u64, Ordering::Relaxed);
            let prepared = answer.map(|mut answer| {
                let evaluations = std::mem::take(&mut answer.evaluations);
                (prepare(evaluations), answer)
            });
            if answers.send(prepared).is_err() {
                return;
            }
        }
    }

    /// Judges a window: in the first round the traces without a session, in the second all.
    fn judge(&self, window: &[usize], is_first: bool) -> io::Result<WindowAnswer> {
        let mut shard = Shard::new(TracesSettings::default(), self.limits, 1, 0);
        let mut due = Vec::new();
        for trace in window {
            self.pieces.read(*trace, |batch| shard.add(batch, 0, &mut due))?;
        }
        shard.drain(Completion::EndOfInput, 0, &mut due);
        // Nothing was evicted, so handles are in the order of first spans.
        due.sort_by_key(|due| due.handle);
        let places: HashMap<TraceId, usize> =
            window.iter().map(|trace| (self.pieces.id(*trace), *trace)).collect();
        let place = |id: TraceId| places.get(&id).copied().unwrap_or(0);
        let mut answer = WindowAnswer::default();
        let found = due.iter().filter_map(|due| Some((due, shard.trace(due.handle)?)));
        let mut read: Vec<_> =
            found.map(|(due, trace)| (due, trace, self.resolve(trace))).collect();
        if is_first {
            answer.cut = shard.cut_traces().map(|cut| (place(cut.trace_id), cut)).collect();
            let judged: HashSet<TraceId> = read.iter().map(|(_, it, _)| it.trace_id).collect();
            let ids = window.iter().map(|trace| self.pieces.id(*trace));
            answer.without_agent = ids.filter(|id| !judged.contains(id)).collect();
            read.retain(|(_, trace, trajectory)| match self.settings.session_key.of(trajectory) {
                Some(key) => {
                    answer.waiting.push((key, place(trace.trace_id)));
                    false
                }
                None => true,
            });
        } else {
            let mut trajectories: Vec<_> = read.iter_mut().map(|(.., it)| it).collect();
            reconcile_sessions(&mut trajectories, self.settings.session_key);
        }
        for (due, trace, trajectory) in &mut read {
            let order = BatchOrder::Trace(place(trace.trace_id));
            let mut judged = JudgedGroup { order, evaluations: Vec::new(), asked: Vec::new() };
            let passes = self.evaluate(due, trajectory, &mut judged);
            if let Some(watch) = self.watch {
                let spans = trace.spans.len();
                watch(&WatchedRun { trajectory, due, spans, judged: &judged });
            }
            answer.when_errors.extend(when_errors(&passes));
            answer.judged += 1;
            answer.evaluations.push(judged);
        }
        if !is_first && self.settings.evaluators.has_session_level() {
            let keyed = read.iter().filter_map(|(due, trace, trajectory)| {
                Some((self.settings.session_key.of(trajectory)?, *due, *trace))
            });
            let keyed: Vec<_> = keyed.collect();
            self.judge_sessions(keyed, place, &mut answer);
        }
        Ok(answer)
    }

    fn evaluate(
        &self,
        due: &Due,
        trajectory: &mut Trajectory<'_>,
        JudgedGroup { evaluations, asked, .. }: &mut JudgedGroup,
    ) -> Skips {
        let evidence = Evidence {
            is_partial: due.is_partial,
            ..Evidence::first(due.digest, due.completion, self.settings.now_ns)
        };
        let evaluators = self.settings.evaluators;
        evaluators.evaluate_or_ask(trajectory, evidence, &mut Vec::new(), evaluations, asked)
    }

    fn judge_sessions(
        &self,
        judged: Vec<(SessionKey, &Due, &TraceSpans)>,
        place: impl Fn(TraceId) -> usize,
        answer: &mut WindowAnswer,
    ) {
        let BatchPlan { resolver, evaluators, now_ns, .. } = *self.settings;
        for due in &gather_sessions(judged) {
            let first = due.traces.iter().map(|trace| place(trace.trace_id)).min().unwrap_or(0);
            let steps = u64::from(self.limits.trace_steps);
            let judged = evaluate_session(resolver, evaluators, due, steps, now_ns);
            answer.evaluations.push(JudgedGroup {
                order: BatchOrder::Session(first),
                evaluations: judged.evaluations,
                asked: judged.asked,
            });
        }
    }

    fn resolve<'t>(&'t self, trace: &'t TraceSpans) -> Trajectory<'t> {
        let effort = WorkBudget::new(u64::from(self.limits.trace_steps));
        self.settings.resolver.resolve_within(trace, effort)
    }
}
