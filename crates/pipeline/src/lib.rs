//! Pipeline: joins all stages with bounded queues, and orders the shutdown.
//!
//! ```text
//! receivers -> Intake: extract -> [queue per shard] -> Worker: assemble, evaluate -> Outlet
//! ```
//!
//! Requests are refused, extracted and handed to the shards on the receiving task; large ones are
//! extracted on a blocking thread. Each shard has its own thread. `limits.queue_mib` bounds the
//! bytes waiting for shards. With a full queue senders wait up to
//! [`ROOM_WAIT`](spanscore_receive::ROOM_WAIT), in a fair order, and are then refused retryably.
//! The outlet never waits.

mod backlog;
mod collector;
mod extraction;
mod intake;
mod journal;
mod judging;
mod kafka;
mod metrics;
mod panic_recovery;
mod pool;
mod reading;
pub mod recordings;
mod reload;
mod request_queue;
mod sessions;
mod store;
mod threads;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::Meter;
use tokio::sync::mpsc;

use spanscore_ask::judge::JudgeHandle;
use spanscore_assemble::{LimitsSettings, SessionsSettings, TracesSettings};
use spanscore_base::model::{Evaluation, Memory, Receipt};
use spanscore_emit::forward::Forwards;
use spanscore_evaluate::engine::run::Evaluators;
use spanscore_extract::Resolver;
use spanscore_telemetry::Heartbeats;

use backlog::Backlog;
pub use backlog::Unjudged;
pub use collector::{
    Collector, CollectorSettings, CollectorStartError, DASHBOARD_CONNECTIONS_MAX,
    DashboardStartError, LogFolder, PagesSettings, ShutdownReport, StorePages,
};
pub use intake::PipelineIntake;
pub use journal::JournalOpenError;
use journal::{Journal, RecoveryClaim, Restore};
pub use judging::UNANSWERED_FILE;
use metrics::PipelineMetrics;
use reload::setup::{ConfigUpdate, Setup};
pub use reload::{ReloadError, ReloadOutcome};
use sessions::{QUEUED_TRACES_MAX, SessionSender};
use threads::Threads;
use worker::{ShardMessage, WorkerContext};

// jemalloc frees to the arena that a block came from and has a thread that returns pages: after
// each shape of load that was measured a process was back at 1.1 times its idle size. mimalloc
// found memory that another thread had freed only after thousands of allocations. It is set here
// because each allocation goes through code of the crate that sets it, and the program's own is not
// optimised in release builds.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Retry hint to a refused sender: above 2 s some SDKs give up at once.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Limit on requests waiting for one shard, of any size.
const QUEUED_REQUESTS_MAX: usize = 4096;

/// Consumer of evaluations, with the receipt to hold until they are delivered; must not block.
pub type Outlet = Arc<dyn Fn(Vec<Evaluation>, Option<Receipt>) + Send + Sync>;

/// Settings of the pipeline.
#[derive(Default)]
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
    /// The system refused a thread.
    pub fn start(
        settings: &PipelineSettings,
        resolver: Arc<Resolver>,
        evaluators: Arc<Evaluators>,
        outlet: &Outlet,
        meter: &Meter,
    ) -> std::io::Result<Self> {
        let metrics = Arc::new(PipelineMetrics::new(meter, &evaluators));
        let setup = Setup { resolver, evaluators };
        let context = WorkerContext::new(settings, setup, Arc::clone(outlet), metrics);
        Self::start_in(settings, context, meter)
    }

    /// Starts the workers in a context.
    fn start_in(
        settings: &PipelineSettings,
        context: WorkerContext,
        meter: &Meter,
    ) -> std::io::Result<Self> {
        let memory = &settings.memory;
        show_silence(meter, &context.heartbeats);
        let mut threads = Threads::default();
        // Runs even without an evaluator of sessions: a reload may add one.
        let (traces, receiver) = mpsc::channel(QUEUED_TRACES_MAX);
        let mut worker = context.session_worker(settings);
        let (long, place) = context.add_long_sessions(&mut worker);
        let queued_traces = Arc::clone(&worker.queued_traces);
        threads
            .spawn("long-sessions".to_owned(), long.run(Arc::clone(&context.heartbeats), place))?;
        threads.spawn("sessions".to_owned(), worker.run(receiver))?;
        let sessions =
            SessionSender { fields: settings.sessions.key, queue: traces, queued_traces };
        let mut senders = Vec::with_capacity(context.shard_count);
        for index in 0..context.shard_count {
            let (sender, receiver) = mpsc::channel(QUEUED_REQUESTS_MAX);
            senders.push(sender);
            let mut worker = context.worker(settings, index, Some(sessions.clone()));
            let (long, place) = context.add_long_traces(settings, &mut worker);
            let heartbeats = Arc::clone(&context.heartbeats);
            threads.spawn(format!("long-{index}"), long.run(heartbeats, place))?;
            threads.spawn(format!("shard-{index}"), worker.run(receiver))?;
        }
        drop(sessions);
        let intake = Arc::new(PipelineIntake::new(&context, senders, &memory.queue, meter));
        let WorkerContext { backlog, heartbeats, metrics, .. } = context;
        Ok(Self { intake, threads, backlog, heartbeats, metrics })
    }

    /// Starts the restore of an earlier process, beside the receivers; `None` if there is nothing
    /// to restore.
    fn restore(
        &self,
        (journal, past): (&Arc<Journal>, RecoveryClaim),
        dispatcher: Option<JudgeHandle>,
    ) -> Option<tokio::task::JoinHandle<()>> {
        if journal.log().found_end() == 0 {
            self.intake.go_live();
            return None;
        }
        let restore = Restore::new(Arc::clone(journal), past, self.intake(), dispatcher);
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

    /// Applies a config update, also to open traces.
    async fn update(&self, update: ConfigUpdate) {
        self.metrics.begin(&update.setup.evaluators);
        self.intake.update(Arc::new(update)).await;
    }

    /// Closes the intake, judges open traces with reason `shutdown`, and ends after their
    /// evaluations reach the outlet.
    pub async fn shutdown(self) {
        self.intake.close(ShardMessage::Drain).await;
        self.threads.join().await;
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
