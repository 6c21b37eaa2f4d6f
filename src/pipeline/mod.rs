//! Pipeline: the one place that knows all stages. Builds them, joins them with bounded queues, and
//! orders the shutdown.
//!
//! ```text
//! receivers -> Intake: extract -> [queue per shard] -> Worker: assemble, evaluate -> Outlet
//! ```
//!
//! A request is refused, extracted and handed to the shards on the task that received it; a large
//! one is extracted on a blocking thread. Each shard has a thread of its own. The bytes of requests
//! that wait for a shard are limited by `limits.queue_mib`; a full queue makes senders wait up to
//! [`ROOM_WAIT`], in a fair order, and then refuses retryably. The outlet never waits.

mod backlog;
mod collector;
mod extraction;
mod idle_trimmer;
mod intake;
mod journal;
mod judging;
mod metrics;
mod panic_recovery;
mod pool;
mod reading;
pub(crate) mod recordings;
mod reload;
mod room;
mod sessions;
mod shutdown_report;
mod threads;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::Meter;
use tokio::sync::mpsc;

use crate::telemetry::Heartbeats;
use spanscore_ask::judge::LaneHandle;
use spanscore_assemble::Sessions;
use spanscore_assemble::{LimitsSettings, SessionsSettings, Shard, TracesSettings};
use spanscore_base::model::{Evaluation, Memory, Receipt};
use spanscore_emit::forward::Forwards;
use spanscore_evaluate::engine::run::Evaluators;
use spanscore_extract::Resolver;
use spanscore_store::Store;

use backlog::Backlog;
pub use backlog::Unjudged;
pub use collector::{Addresses, Collector, CollectorSettings, CollectorStartError};
pub use intake::PipelineIntake;
pub use journal::JournalOpenError;
use journal::{Journal, RecoveryClaim, Restore};
use judging::Lanes;
pub use judging::UNANSWERED_FILE;
use metrics::PipelineMetrics;
use pool::BatchPool;
use reload::setup::{HeldSettings, Reform, Translator};
pub use reload::{ReloadError, ReloadOutcome};
use sessions::{QUEUED_TRACES_MAX, SessionSender, SessionVerdicts, SessionWorker};
pub use shutdown_report::{CarriedOver, ShutdownReport};
use threads::Threads;
use worker::{ExpensiveTraceLog, JudgingPace, ShardClock, ShardMessage, Worker};

/// Longest wait of a sender for room before it is refused.
pub const ROOM_WAIT: Duration = Duration::from_secs(1);
/// Retry hint to a refused sender: above 2 s some SDKs give up at once.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Limit of requests that wait for one shard, whatever their size.
const QUEUED_REQUESTS_MAX: usize = 4096;

/// Consumer of evaluations, with the receipt to hold until they are delivered; must not block.
pub type Outlet = Arc<dyn Fn(Vec<Evaluation>, Option<Receipt>) + Send + Sync>;

/// Settings of the pipeline.
pub struct PipelineSettings {
    /// Completion of traces.
    pub traces: TracesSettings,
    /// Completion of sessions.
    pub sessions: SessionsSettings,
    /// Limits of retained data.
    pub limits: LimitsSettings,
    /// Memory quota of each stage.
    pub memory: Memory,
    /// Number of shards, each with a thread; one per core.
    pub shard_count: usize,
    /// Forwards of requests, which receive verdict notices.
    pub forwards: Arc<Forwards>,
}

/// Running stages between receivers and exporters.
pub struct Pipeline {
    intake: Arc<PipelineIntake>,
    threads: Threads,
    backlog: Arc<Backlog>,
    heartbeats: Arc<Heartbeats>,
    metrics: Arc<PipelineMetrics>,
}

impl Pipeline {
    /// Starts one worker per shard, each on its own thread.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start(
        settings: &PipelineSettings,
        resolver: Arc<Resolver>,
        evaluators: Arc<Evaluators>,
        outlet: &Outlet,
        meter: &Meter,
    ) -> std::io::Result<Self> {
        let links = PipelineLinks {
            metrics: Arc::new(PipelineMetrics::new(meter, &evaluators)),
            journal: None,
            lanes: Lanes::default(),
            store: None,
        };
        Self::start_linked(settings, (resolver, evaluators), outlet, meter, links)
    }

    /// Starts the workers with log, lanes and metrics.
    fn start_linked(
        settings: &PipelineSettings,
        (resolver, evaluators): (Arc<Resolver>, Arc<Evaluators>),
        outlet: &Outlet,
        meter: &Meter,
        PipelineLinks { metrics, journal, lanes, store }: PipelineLinks,
    ) -> std::io::Result<Self> {
        let shard_count = settings.shard_count.max(1);
        let memory = &settings.memory;
        let pool = Arc::default();
        let backlog = Arc::new(Backlog::new(shard_count));
        // The last one is that of the session worker.
        let heartbeats = Arc::new(Heartbeats::new(shard_count + 1));
        show_silence(meter, &heartbeats);
        let shared = WorkerParts {
            settings,
            shard_count,
            resolver: &resolver,
            evaluators: &evaluators,
            outlet,
            metrics: &metrics,
            pool: &pool,
            backlog: &backlog,
            heartbeats: &heartbeats,
            journal: journal.as_ref(),
            lanes: &lanes,
            store: &store,
        };
        let mut threads = Threads::default();
        // Runs even if no evaluator judges sessions: a reload may bring one.
        let (traces, receiver) = mpsc::channel(QUEUED_TRACES_MAX);
        threads.spawn("sessions".to_owned(), shared.session_worker().run(receiver))?;
        let fields = settings.sessions.key;
        let held = Arc::clone(&memory.sessions);
        let sessions = SessionSender { fields, queue: traces, memory: held };
        let mut senders = Vec::with_capacity(shard_count);
        for index in 0..shard_count {
            let (sender, receiver) = mpsc::channel(QUEUED_REQUESTS_MAX);
            senders.push(sender);
            let worker = shared.worker(index, Some(sessions.clone()));
            threads.spawn(format!("shard-{index}"), worker.run(receiver))?;
        }
        drop(sessions);
        let table = Arc::clone(resolver.table());
        let queue = Arc::clone(&memory.queue);
        let known = Arc::clone(&backlog);
        let counted = Arc::clone(&metrics);
        let mut intake = PipelineIntake::new(table, senders, queue, metrics, pool, known, meter)
            .forwarding(&settings.forwards);
        if let Some(journal) = journal {
            intake = intake.with_journal(Arc::clone(&journal));
        }
        let intake = Arc::new(intake);
        let metrics = counted;
        Ok(Self { intake, threads, backlog, heartbeats, metrics })
    }

    /// Starts the restore of an earlier process, beside the receivers; `None` if it left nothing.
    fn restore(
        &self,
        journal: &Arc<Journal>,
        past: RecoveryClaim,
        lane: Option<LaneHandle>,
    ) -> Option<tokio::task::JoinHandle<()>> {
        if journal.log().found_end() == 0 {
            self.intake.go_live();
            return None;
        }
        let restore = Restore::new(Arc::clone(journal), past, self.intake(), lane);
        let heartbeats = Arc::clone(&self.heartbeats);
        Some(tokio::spawn(async move {
            if !restore.run().await {
                heartbeats.fail("what an earlier process left cannot be read back");
            }
        }))
    }

    /// Returns the entry point for receivers.
    pub fn intake(&self) -> Arc<PipelineIntake> {
        Arc::clone(&self.intake)
    }

    /// Returns the heartbeats of shards and sessions.
    fn heartbeats(&self) -> Arc<Heartbeats> {
        Arc::clone(&self.heartbeats)
    }

    /// Returns the counts of data that is not judged; they go on during a shutdown.
    fn backlog(&self) -> Arc<Backlog> {
        Arc::clone(&self.backlog)
    }

    /// Applies a config update, to open traces too.
    async fn reform(&self, reform: Reform) {
        self.metrics.begin(&reform.setup.evaluators);
        self.intake.reform(Arc::new(reform)).await;
    }

    /// Closes the intake, judges open traces with reason `shutdown`, and ends once their
    /// evaluations are with the outlet.
    pub async fn shutdown(self) {
        self.intake.close(ShardMessage::Drain).await;
        self.threads.join().await;
    }
}

/// Shared parts of shards and of the session worker.
struct WorkerParts<'a> {
    settings: &'a PipelineSettings,
    shard_count: usize,
    resolver: &'a Arc<Resolver>,
    evaluators: &'a Arc<Evaluators>,
    outlet: &'a Outlet,
    metrics: &'a Arc<PipelineMetrics>,
    pool: &'a Arc<BatchPool>,
    backlog: &'a Arc<Backlog>,
    heartbeats: &'a Arc<Heartbeats>,
    journal: Option<&'a Arc<Journal>>,
    lanes: &'a Lanes,
    store: &'a Option<Arc<Store>>,
}

/// Parts of the pipeline other than its stages.
struct PipelineLinks {
    metrics: Arc<PipelineMetrics>,
    /// Log that holds requests before they are acknowledged.
    journal: Option<Arc<Journal>>,
    /// Lanes to judges and external evaluators.
    lanes: Lanes,
    /// Store of runs.
    store: Option<Arc<Store>>,
}

impl WorkerParts<'_> {
    fn worker(&self, index: usize, sessions: Option<SessionSender>) -> Worker {
        let memory = &self.settings.memory;
        let PipelineSettings { traces, sessions: of_sessions, limits, .. } = self.settings;
        let held = HeldSettings {
            traces: *traces,
            sessions: *of_sessions,
            limits: *limits,
            tells_ignored: self.settings.forwards.wants_judgements(),
        };
        let empty = empty_shard(held, self.shard_count, self.evaluators.reports_early());
        Worker {
            index,
            shard: empty(0),
            empty: Box::new(empty),
            shard_count: self.shard_count,
            resolver: Arc::clone(self.resolver),
            evaluators: Arc::clone(self.evaluators),
            outlet: Arc::clone(self.outlet),
            metrics: Arc::clone(self.metrics),
            pool: Arc::clone(self.pool),
            memory: Arc::clone(&memory.traces),
            held: 0,
            judging: Arc::clone(&memory.judging),
            trace_steps: u64::from(self.settings.limits.trace_steps),
            pace: JudgingPace::default(),
            costly: ExpensiveTraceLog::default(),
            backlog: Arc::clone(self.backlog),
            heartbeats: Arc::clone(self.heartbeats),
            sessions,
            forwards: Arc::clone(&self.settings.forwards),
            journal: self.journal.cloned(),
            lanes: self.lanes.clone(),
            store: self.store.clone(),
            clock: ShardClock::new(),
            translator: Translator::default(),
        }
    }

    fn session_worker(&self) -> SessionWorker {
        let memory = &self.settings.memory;
        let settings = self.settings.sessions;
        SessionWorker {
            settings,
            sessions: Sessions::new(settings, 0),
            resolver: Arc::clone(self.resolver),
            evaluators: Arc::clone(self.evaluators),
            outlet: Arc::clone(self.outlet),
            metrics: Arc::clone(self.metrics),
            memory: Arc::clone(&memory.sessions),
            held: 0,
            judging: Arc::clone(&memory.judging),
            trace_steps: u64::from(self.settings.limits.trace_steps),
            translator: Translator::default(),
            backlog: Arc::clone(self.backlog),
            heartbeats: Arc::clone(self.heartbeats),
            place: self.shard_count,
            verdicts: SessionVerdicts::new(&settings, &memory.sessions),
            journal: self.journal.cloned(),
            lanes: self.lanes.clone(),
        }
    }
}

/// Returns a factory of empty shards for a time in milliseconds; with `is_watched` they report
/// running traces.
fn empty_shard(
    held: HeldSettings,
    shard_count: usize,
    is_watched: bool,
) -> impl Fn(u64) -> Shard + Send + 'static {
    let HeldSettings { traces, limits, tells_ignored, .. } = held;
    move |now_ms| {
        let mut shard = Shard::new(traces, limits, shard_count, now_ms);
        if is_watched {
            shard.watch_running();
        }
        shard.watch_ignored_if(tells_ignored);
        shard
    }
}

/// Registers a gauge for the longest time without a heartbeat.
fn show_silence(meter: &Meter, heartbeats: &Arc<Heartbeats>) {
    let heartbeats = Arc::clone(heartbeats);
    meter
        .f64_observable_gauge("spanscore.pipeline.silence")
        .with_description("Time since the shard that is held up longest has moved.")
        .with_unit("s")
        .with_callback(move |silence| silence.observe(heartbeats.silence().as_secs_f64(), &[]))
        .build();
}
