//! Context shared by the workers of shards and of sessions.

use std::sync::Arc;

use super::long_traces::{LongTask, LongTraces};
use super::{ExpensiveTraceLog, JudgingPace, PartitionWatch, ShardClock, Worker};
use crate::backlog::Backlog;
use crate::journal::{Journal, JudgedTraces};
use crate::judging::Dispatchers;
use crate::kafka::PartitionMetrics;
use crate::metrics::PipelineMetrics;
use crate::pool::BatchPool;
use crate::reload::setup::{HeldSettings, Setup, Translator};
use crate::sessions::{
    LongSessions, QueuedTraces, SessionSender, SessionTask, SessionVerdicts, SessionWorker,
};
use crate::worker::long_thread::LongThread;
use crate::{Outlet, PipelineSettings};
use spanscore_assemble::{Sessions, Shard};
use spanscore_base::model::{Claims, MemoryQuota, Receipt};
use spanscore_emit::forward::Forwards;
use spanscore_store::Store;
use spanscore_telemetry::Heartbeats;

/// Inverse of the share of the traces' memory for waiting long ones.
const LONG_PARTS: usize = 4;

/// Parts shared by all workers; each has a copy, which a reload changes.
#[derive(Clone)]
pub(crate) struct WorkerContext {
    /// Number of shards.
    pub(crate) shard_count: usize,
    pub(crate) setup: Setup,
    pub(crate) outlet: Outlet,
    pub(crate) metrics: Arc<PipelineMetrics>,
    /// Pool for batches after their addition.
    pub(crate) pool: Arc<BatchPool>,
    /// Counts of unjudged data.
    pub(crate) backlog: Arc<Backlog>,
    /// Liveness, reported by each worker in each turn of its loop.
    pub(crate) heartbeats: Arc<Heartbeats>,
    /// Memory quota for judging.
    pub(crate) judging: Arc<MemoryQuota>,
    /// Work budget in steps, of one trace over all its judgements and of a session's judgement.
    pub(crate) trace_steps: u64,
    /// Log of requests before they are acknowledged, and of notes on judged traces.
    pub(crate) journal: Option<Arc<Journal>>,
    /// Dispatchers to judges and external evaluators.
    pub(crate) dispatchers: Dispatchers,
    /// Forwards of requests, which receive verdict notices.
    pub(crate) forwards: Arc<Forwards>,
    /// Store of judged runs.
    pub(crate) store: Option<Arc<Store>>,
    /// Partitions of the traces' topics, if any.
    pub(crate) partitions: Option<Arc<PartitionMetrics>>,
}

impl WorkerContext {
    /// Builds a context without log, dispatchers and store.
    pub(crate) fn new(
        settings: &PipelineSettings,
        setup: Setup,
        outlet: Outlet,
        metrics: Arc<PipelineMetrics>,
    ) -> Self {
        let shard_count = settings.shard_count.max(1);
        Self {
            shard_count,
            setup,
            outlet,
            metrics,
            pool: Arc::default(),
            backlog: Arc::new(Backlog::new(shard_count)),
            heartbeats: heartbeats(shard_count),
            judging: Arc::clone(&settings.memory.judging),
            trace_steps: u64::from(settings.limits.trace_steps),
            journal: None,
            dispatchers: Dispatchers::default(),
            forwards: Arc::clone(&settings.forwards),
            store: None,
            partitions: None,
        }
    }

    /// Returns the receipt of evaluations, which holds their claims. It notes judgement and
    /// delivery in the log, if there is one.
    pub(crate) fn receipt(&self, claims: Claims, notes: JudgedTraces) -> Option<Receipt> {
        match &self.journal {
            Some(journal) => Some(journal.receipt(claims, notes)),
            None => (!claims.is_empty()).then(|| Receipt::new(claims, || {})),
        }
    }

    /// Builds the worker of a shard.
    pub(crate) fn worker(
        &self,
        settings: &PipelineSettings,
        index: usize,
        sessions: Option<SessionSender>,
    ) -> Worker {
        let held = HeldSettings {
            traces: settings.traces,
            sessions: settings.sessions,
            limits: settings.limits,
            reports_ignored: self.forwards.wants_judgements(),
        };
        let empty = empty_shard(held, self.shard_count, self.setup.evaluators.reports_early());
        Worker {
            context: self.clone(),
            index,
            shard: empty(0),
            empty: Box::new(empty),
            memory: Arc::clone(&settings.memory.traces),
            held: 0,
            pace: JudgingPace::default(),
            costly: ExpensiveTraceLog::default(),
            sessions,
            clock: ShardClock::new(),
            translator: Translator::default(),
            long: LongTraces::default(),
            epoch: 0,
            watch: PartitionWatch::default(),
        }
    }

    /// Returns the thread of a shard's long traces, and the index of its heartbeat.
    pub(crate) fn add_long_traces(
        &self,
        settings: &PipelineSettings,
        worker: &mut Worker,
    ) -> (LongThread<LongTask>, usize) {
        let bytes_max = settings.memory.traces.limit() / LONG_PARTS / self.shard_count;
        let (long, thread) = LongTraces::with_thread(bytes_max);
        worker.long = long;
        (thread, self.shard_count + 1 + worker.index)
    }

    /// Builds the worker of all sessions.
    pub(crate) fn session_worker(&self, settings: &PipelineSettings) -> SessionWorker {
        let memory = &settings.memory.sessions;
        let settings = settings.sessions;
        SessionWorker {
            context: self.clone(),
            sessions: Sessions::new(settings, 0),
            memory: Arc::clone(memory),
            held: 0,
            copied: 0,
            translator: Translator::default(),
            place: self.shard_count,
            verdicts: SessionVerdicts::new(&settings, memory),
            long: LongSessions::default(),
            queued_traces: Arc::new(QueuedTraces::new(Arc::clone(memory))),
        }
    }

    /// Returns the thread of long sessions, and the index of its heartbeat.
    pub(crate) fn add_long_sessions(
        &self,
        worker: &mut SessionWorker,
    ) -> (LongThread<SessionTask>, usize) {
        let (long, thread) = LongSessions::with_thread();
        worker.long = long;
        (thread, 2 * self.shard_count + 1)
    }
}

/// Returns the heartbeats of the shards, the sessions, and the threads of long traces and sessions.
/// The last ones start without a requirement to move.
fn heartbeats(shard_count: usize) -> Arc<Heartbeats> {
    let heartbeats = Heartbeats::new(2 * shard_count + 2);
    (shard_count + 1..2 * shard_count + 2).for_each(|place| heartbeats.end(place));
    Arc::new(heartbeats)
}

/// Returns a factory of empty shards for a time in milliseconds; with `is_watched` they report
/// running traces.
pub(crate) fn empty_shard(
    held: HeldSettings,
    shard_count: usize,
    is_watched: bool,
) -> impl Fn(u64) -> Shard + Send + 'static {
    let HeldSettings { traces, limits, reports_ignored, .. } = held;
    move |now_ms| {
        let mut shard = Shard::new(traces, limits, shard_count, now_ms);
        if is_watched {
            shard.watch_running();
        }
        shard.watch_ignored_if(reports_ignored);
        shard
    }
}
