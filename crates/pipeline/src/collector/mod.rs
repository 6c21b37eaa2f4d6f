//! Collector: starts and stops every stage in order.
//!
//! Start: telemetry, exporters, shards, receivers; ready once all run. Stop: not ready, receivers
//! refuse retryably, shards judge open traces, judges answer open inquiries, exporters drain their
//! queues, ports close. All steps are within `shutdown_timeout`, of which exporters get the rest,
//! at least a quarter.

mod dashboard;
mod idle_trimmer;
mod settings;
mod shutdown_report;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::Meter;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::intake::collecting::CollectingIntake;
use super::journal::{Journal, JournalOpenError, RecoveryClaim};
use super::judging::{JudgePlaces, RunningDispatchers};
use super::kafka::{PartitionMetrics, TopicIntake};
use super::metrics::PipelineMetrics;
use super::reload::ReloadMetrics;
use super::reload::setup::Setup;
use super::worker::WorkerContext;
use super::{Outlet, Pipeline, PipelineSettings};
use crate::store;
pub use dashboard::{
    CONNECTIONS_MAX as DASHBOARD_CONNECTIONS_MAX, DashboardStartError, StorePages,
};
use dashboard::{PagesAccess, start_store};
pub use settings::{CollectorSettings, LogFolder, PagesSettings};
pub use shutdown_report::ShutdownReport;
use spanscore_api::LocalAccess;
use spanscore_ask::external::ExternalStartError;
use spanscore_ask::judge::JudgeStartError;
use spanscore_base::model::{Evaluation, Facts, Memory};
use spanscore_emit::forward::{ForwardLog, ForwardStartError, Forwards, HoldTimes, ReadBack};
use spanscore_emit::{self, Exporters, Persistence, Undelivered};
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{Resolver, Table, TableError};
use spanscore_kafka::KafkaReceiver;
use spanscore_net::metrics::CounterBy;
use spanscore_net::tls::Rereader;
use spanscore_receive::settings::ReceiversSettings;
use spanscore_receive::{self, FileReceiver, Receivers};
use spanscore_store::Store;
use spanscore_telemetry::{Addresses, Telemetry, TelemetryError};

/// Time for connections to close at the end.
const CLOSE_TIME: Duration = Duration::from_millis(500);

/// Opened log with its dependents.
#[derive(Default)]
struct OpenedLog {
    journal: Option<Arc<Journal>>,
    past: Option<RecoveryClaim>,
    /// Persistence of exporters' queues.
    kept: Option<Persistence>,
    /// Log access of forwards.
    forward: Option<ForwardLog>,
}

impl OpenedLog {
    fn new(place: &mut Option<LogFolder>, meter: &Meter) -> Result<Self, JournalOpenError> {
        let Some(LogFolder { data_dir, limits }) = place.take() else { return Ok(Self::default()) };
        let (journal, past) = Journal::open(&data_dir, limits, meter)?;
        let log = Arc::clone(&journal) as Arc<dyn ReadBack>;
        let end = journal.log().found_end();
        let lender = journal.log().downgrade();
        Ok(Self {
            journal: Some(journal),
            past: Some(past),
            forward: Some(ForwardLog { log, folder: data_dir.clone(), end }),
            kept: Some(Persistence { data_dir, durability: limits.durability, log: Some(lender) }),
        })
    }
}

/// Start-up error of a collector, by component.
#[derive(Debug, thiserror::Error)]
pub enum CollectorStartError {
    /// Endpoints for metrics and health.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Dialects that do not compile.
    #[error("cannot compile the dialects")]
    Dialects(#[from] TableError),
    /// Exporter.
    #[error(transparent)]
    Exporter(#[from] spanscore_emit::ExporterStartError),
    /// Forward.
    #[error(transparent)]
    Forward(#[from] ForwardStartError),
    /// Thread of a shard.
    #[error("cannot start a thread for each shard: {0}")]
    Threads(std::io::Error),
    /// Judge.
    #[error(transparent)]
    Judges(#[from] JudgeStartError),
    /// External evaluator.
    #[error(transparent)]
    ExternalEvaluators(#[from] ExternalStartError),
    /// Listener of the store's query interface.
    #[error(transparent)]
    Dashboard(#[from] DashboardStartError),
    /// Write-ahead log.
    #[error(transparent)]
    Log(#[from] JournalOpenError),
    /// Kafka receiver.
    #[error(transparent)]
    Kafka(#[from] spanscore_kafka::KafkaStartError),
    /// Receiver.
    #[error(transparent)]
    Receiver(#[from] spanscore_receive::ReceiverStartError),
}

/// Running collector.
pub struct Collector {
    telemetry: Telemetry,
    pub(crate) exporters: Arc<Exporters>,
    pub(crate) forwards: Arc<Forwards>,
    pub(crate) memory: Memory,
    pub(crate) pipeline: Pipeline,
    pub(crate) dispatchers: RunningDispatchers,
    pub(crate) receivers: Receivers,
    journal: Option<Arc<Journal>>,
    restoring: Option<JoinHandle<()>>,
    files: FileReceiver,
    pub(crate) kafka: KafkaReceiver,
    pub(crate) shutdown_timeout: Mutex<Duration>,
    pub(crate) rereader: Rereader,
    pub(crate) reloads: CounterBy,
    pub(crate) store: Option<Arc<Store>>,
    access: Option<PagesAccess>,
    _rereading: DropGuard,
    _trimming: DropGuard,
}

impl Collector {
    /// Starts every stage on the current runtime; on an error nothing is left running.
    pub async fn start(mut settings: CollectorSettings) -> Result<Self, CollectorStartError> {
        let mut telemetry = Telemetry::start(&settings.telemetry).await?;
        let meter = telemetry.meter();
        settings.build.show(&meter);
        let memory = Memory::new(&settings.memory).with_rules(spanscore_detect::memory());
        telemetry.show_memory(&memory);
        let times = hold_times(&settings);
        let OpenedLog { journal, past, kept, forward } = OpenedLog::new(&mut settings.log, &meter)?;
        let own = &settings.exporters;
        let exporters = Exporters::start(own, &memory, &meter, telemetry.registry(), kept.as_ref())
            .map(Arc::new)?;
        let data_dir = kept.as_ref().map(|kept| kept.data_dir.as_path());
        let (store, access) = start_store(&mut settings, data_dir, &memory, &mut telemetry).await?;
        let own = &settings.forward;
        let forwards = Arc::new(Forwards::start(own, &memory, times, &meter, forward.as_ref())?);
        let evaluators = Arc::new(store::evaluators(settings.evaluators, exporters.want(), &store));
        let resolver = resolver(settings.dialects, &store::facts(&evaluators, &store))?;
        let outlet = outlet_of(&exporters, &store);
        let judges = (&settings.judges, &settings.judging);
        let places = JudgePlaces { journal: journal.as_ref(), data_dir, spans: telemetry.spans() };
        let metrics = Arc::new(PipelineMetrics::new(&meter, &evaluators));
        let links = (&outlet, &metrics, &forwards);
        let dispatchers = RunningDispatchers::start(judges, places, &evaluators, links, &meter)?;
        let of_pipeline = PipelineSettings {
            traces: settings.traces,
            sessions: settings.sessions,
            limits: settings.limits,
            memory: memory.clone(),
            shard_count: settings.shard_count.unwrap_or_else(cores),
            forwards: Arc::clone(&forwards),
        };
        let has_sessions = evaluators.has_session_level();
        let context = WorkerContext {
            store: store.clone(),
            journal: journal.clone(),
            dispatchers: dispatchers.handles(),
            partitions: PartitionMetrics::of(&settings.receivers, &meter),
            ..WorkerContext::new(&of_pipeline, Setup { resolver, evaluators }, outlet, metrics)
        };
        let pipeline = Pipeline::start_in(&of_pipeline, context, &meter)
            .map_err(CollectorStartError::Threads)?;
        let past = journal.as_ref().zip(past);
        let restoring = past.and_then(|past| pipeline.restore(past, dispatchers.handles().judge));
        let inputs = (&settings.receivers, has_sessions, data_dir);
        let stages = (&pipeline, &store, &exporters);
        let (receivers, files, kafka) = start_inputs(inputs, stages, &memory, &meter).await?;
        make_ready(&telemetry, &pipeline, works(journal.as_ref(), &kafka));
        let certificates = receivers.files().iter().chain(telemetry.files());
        let (rereader, rereading) = Rereader::start(certificates, &meter);
        Ok(Self {
            telemetry,
            exporters,
            forwards,
            memory,
            _trimming: idle_trimmer::start(pipeline.intake()),
            pipeline,
            dispatchers,
            receivers,
            journal,
            restoring,
            files,
            kafka,
            shutdown_timeout: Mutex::new(settings.shutdown_timeout),
            rereader,
            reloads: ReloadMetrics::new(&meter).of(&[]).reloads,
            store,
            access,
            _rereading: rereading,
        })
    }

    /// Returns the bound addresses.
    pub fn addresses(&self) -> Addresses {
        let grpc = self.receivers.grpc_address();
        Addresses { grpc, http: self.receivers.http_address(), ..self.telemetry.addresses() }
    }

    /// Returns the address of the pages with the access for a browser of this host.
    pub fn pages(&self) -> Option<&LocalAccess> {
        self.access.as_ref().map(PagesAccess::get)
    }

    /// Returns the shutdown timeout of the current config.
    pub fn shutdown_timeout(&self) -> Duration {
        *self.shutdown_timeout.lock()
    }

    /// Returns all metrics in the Prometheus text format.
    pub fn exposition(&self) -> String {
        self.telemetry.exposition()
    }

    /// Stops reading topics: commits positions, and leaves unfinished work to others.
    async fn stop_topics(&self, no_more_time: impl Future<Output = ()>) {
        self.kafka.stop(no_more_time).await;
        self.pipeline.intake().drop_revoked().await;
    }

    /// Stops in order; returns the losses. After `hurry` is cancelled it waits for nothing.
    pub async fn shutdown(mut self, hurry: &CancellationToken) -> ShutdownReport {
        let all = before_closing(self.shutdown_timeout());
        let deadline = Instant::now() + all;
        let no_more_time = async |within: Duration| {
            let _ = tokio::time::timeout(within, hurry.cancelled()).await;
        };
        let left = || deadline.saturating_duration_since(Instant::now());
        // Exporters get the last quarter, however long earlier steps take.
        let part = |most: Duration| most.min(left().saturating_sub(all / 4));
        let lost_before = self.exporters.lost();
        let unforwarded_before = self.forwards.lost();
        self.telemetry.readiness().set(false);
        self.stop_topics(no_more_time(part(all / 4))).await;
        self.files.stop(no_more_time(part(all / 4))).await;
        if !self.receivers.settle(no_more_time(part(all / 4))).await {
            tracing::warn!("requests that did not end were told to come again");
        }
        if let Some(journal) = &self.journal {
            journal.log().keep_all();
        }
        if let Some(restoring) = &self.restoring {
            restoring.abort();
        }
        let backlog = Arc::clone(&self.pipeline.backlog);
        // Keeps the shards' channels open: without it a shard that got no `Drain` would end, too.
        let _intake = self.pipeline.intake();
        tokio::select! {
            // Biased: if `hurry` is cancelled already, the shards are not told to drain.
            biased;
            () = no_more_time(part(all / 2)) => {
                tracing::warn!("open traces could not all be judged in time");
            }
            () = self.pipeline.shutdown() => {}
        }
        self.dispatchers.shutdown(|| no_more_time(part(all / 4))).await;
        let time_left = left().max(all / 4);
        tokio::join!(
            self.exporters.shutdown(no_more_time(time_left)),
            self.forwards.shutdown(no_more_time(time_left)),
            store::close(self.store.clone(), no_more_time(time_left)),
        );
        let close_time = if hurry.is_cancelled() { Duration::ZERO } else { left().min(CLOSE_TIME) };
        self.receivers.drain(close_time).await;
        let is_kept = match &self.journal {
            Some(journal) => {
                let flushing = tokio::time::timeout(left().max(CLOSE_TIME), journal.flush());
                flushing.await.unwrap_or(false)
            }
            None => false,
        };
        // In this order a trace judged meanwhile counts twice rather than not at all.
        let unjudged = backlog.unjudged();
        let lost = ShutdownReport {
            unsent: since(&lost_before, self.exporters.lost()),
            unforwarded: since(&unforwarded_before, self.forwards.lost()),
            ..ShutdownReport::default()
        };
        let left = ShutdownReport {
            unsent: self.exporters.left(),
            unforwarded: self.forwards.left(),
            unjudged,
            kept: None,
        };
        let lost = lost.with(left, is_kept);
        if !hurry.is_cancelled() {
            let time = deadline.saturating_duration_since(Instant::now()).max(CLOSE_TIME);
            let _ = tokio::time::timeout(time, self.telemetry.finish()).await;
        }
        lost
    }
}

/// Starts all inputs, receivers last: data acknowledged by them would be lost in a failed start.
/// `has_sessions` is true if evaluators judge sessions; the folder stores the positions of files.
async fn start_inputs(
    (settings, has_sessions, data_dir): (&ReceiversSettings, bool, Option<&Path>),
    (pipeline, store, exporters): (&Pipeline, &Option<Arc<Store>>, &Arc<Exporters>),
    memory: &Memory,
    meter: &Meter,
) -> Result<(Receivers, FileReceiver, KafkaReceiver), CollectorStartError> {
    let sink = TopicIntake::new(pipeline.intake(), exporters, meter);
    let kafka = sink.receive(settings, has_sessions, memory, meter).await?;
    let intake = CollectingIntake::new(pipeline.intake(), store);
    let receivers = Receivers::start(settings, intake, memory, meter).await?;
    let files = settings.file.as_ref();
    let files = FileReceiver::start(files, pipeline.intake(), memory, meter, data_dir);
    Ok((receivers, files, kafka))
}

/// Reports readiness while shards move and inputs work.
fn make_ready(
    telemetry: &Telemetry,
    pipeline: &Pipeline,
    works: impl Fn() -> bool + Send + Sync + 'static,
) {
    telemetry.readiness().watch(Arc::clone(&pipeline.heartbeats));
    telemetry.readiness().need(works);
    telemetry.readiness().set(true);
}

/// Returns the part of a shutdown's time before the connections close.
fn before_closing(all: Duration) -> Duration {
    all - (2 * CLOSE_TIME).min(all / 8)
}

/// Returns a probe that is true while the inputs accept data.
fn works(
    journal: Option<&Arc<Journal>>,
    kafka: &KafkaReceiver,
) -> impl Fn() -> bool + Send + Sync + 'static {
    let log = journal.map(|journal| journal.works());
    let kafka = kafka.works();
    move || log.as_ref().is_none_or(|works| works()) && kafka()
}

/// Returns the number of cores, one if it is unknown.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns each exporter's or forward's losses since an earlier count, without zeros.
fn since(before: &[Undelivered], now: Vec<Undelivered>) -> Vec<Undelivered> {
    let pairs = now.into_iter().zip(before);
    let lost = pairs
        .map(|(now, before)| Undelivered { count: now.count.saturating_sub(before.count), ..now });
    lost.filter(|lost| lost.count > 0).collect()
}

/// Builds the resolver for these dialects and facts.
fn resolver(dialects: Vec<Dialect>, facts: &Facts) -> Result<Arc<Resolver>, TableError> {
    Ok(Arc::new(Resolver::new(Arc::new(Table::compile(dialects, facts)?))))
}

/// Builds the outlet that offers evaluations to the store and to exporters.
fn outlet_of(exporters: &Arc<Exporters>, store: &Option<Arc<Store>>) -> Outlet {
    let exporters = Arc::clone(exporters);
    let Some(store) = store.clone() else {
        return Arc::new(move |evaluations, receipt| exporters.offer(evaluations, receipt));
    };
    Arc::new(move |evaluations, receipt| {
        let evaluations: Arc<[Evaluation]> = evaluations.into();
        store.evaluations(Arc::clone(&evaluations));
        exporters.offer(evaluations, receipt);
    })
}

/// Returns the longest times for which a tail-sampling forward holds and remembers a trace.
pub(crate) fn hold_times(settings: &CollectorSettings) -> HoldTimes {
    let CollectorSettings { traces, judging, evaluators, .. } = settings;
    let asks = evaluators.iter().any(|configured| configured.asks);
    let asking = if asks { judging.settle.0 + judging.deadline.0 } else { Duration::ZERO };
    let open_max = traces.age_max.0 + traces.quiet_period_max.0 + asking;
    HoldTimes { open_max, remember: traces.remember_period.0 + traces.revision_wait_max.0 }
}
