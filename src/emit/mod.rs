//! Evaluations out.
//!
//! In come evaluations, in batches that belong to one trace; out they go as text and JSON records
//! ([`record`], [`console`]), files, Prometheus series and OTLP events, spans and metrics. Each
//! exporter has a bounded queue of its own and tries again by itself, so a slow or dead backend
//! never slows the pipeline: [`Exporters::offer`] never waits, and what does not fit is dropped and
//! counted. `docs/output.md` lists every name that is emitted.
//!
//! ```text
//! offer -> queue (bytes) -> batch (200 ms) -> consumers -> convert, compress, send, try again
//! ```
//!
//! **Invariant:** no argument and no result leaves the process over OTLP unless `content` says so:
//! without it an explanation is exported without what may be content
//! ([`Explanation::without_content`](crate::model::Explanation::without_content)). What an
//! evaluator says is content unless it marks it as plain: names of tools, counts, rules, and names
//! of arguments that stand in criteria, schemas or settings.

mod connection;
pub mod console;
mod content;
mod counters;
mod dead_letters;
pub mod details;
mod file;
pub mod forward;
mod native;
mod otlp;
pub mod prometheus;
mod queue;
pub mod record;
pub(crate) mod rotating;
#[cfg(test)]
mod sample;
mod scores;
pub mod settings;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use opentelemetry::metrics::Meter;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use counters::Loss;

use crate::log::{Durability, LogOpenError};
use crate::model::{Evaluation, Memory, Receipt, Want};
use crate::settings::HumanDuration;
use content::ContentRedactor;
pub(crate) use content::{ContentFilter, ShownContent};
use counters::{Counters, Instruments};
use dead_letters::{DeadLetters, file_name};
use queue::{Abandoned, Deliver, Overflow, OverflowLimits, Queue, QueueLimits};
use scores::{Grouping, Scores};
use settings::ExporterSettings;

/// Why an exporter could not start.
#[derive(Debug, thiserror::Error)]
pub enum ExporterStartError {
    /// The file cannot be opened.
    #[error("exporter `{exporter}`: cannot open `{path}` for writing: {error}")]
    File {
        /// The exporter's name in the config.
        exporter: String,
        /// The file.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// A client for the backend cannot be made.
    #[error("exporter `{exporter}`: {error}")]
    Client {
        /// The exporter's name in the config.
        exporter: String,
        /// What is wrong, such as a certificate that cannot be read.
        error: String,
    },
    /// What it keeps while its queue is full cannot be opened.
    #[error("exporter `{exporter}`: cannot keep evaluations in `{path}`: {error}")]
    Overflow {
        /// The exporter's name in the config.
        exporter: String,
        /// The folder.
        path: String,
        /// What is wrong with it.
        error: LogOpenError,
    },
    /// Its metrics cannot be registered.
    #[error("exporter `{exporter}`: only one prometheus exporter can run: {error}")]
    Metrics {
        /// The exporter's name in the config.
        exporter: String,
        /// What the registry says.
        error: ::prometheus::Error,
    },
}

/// Evaluations that an exporter did not deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The exporter's name in the config.
    pub exporter: String,
    /// How many evaluations.
    pub evaluations: u64,
}

/// The running exporters.
pub struct Exporters {
    instruments: Instruments,
    lanes: Vec<Lane>,
    tasks: Mutex<Vec<Task>>,
    want: Want,
    /// Replaces personal data and credentials, for all exporters alike.
    redactor: OnceLock<Arc<ContentRedactor>>,
}

/// Where offered evaluations go.
enum Lane {
    Queue(Arc<Queue>),
    Scores(Arc<Scores>),
    Channel(mpsc::Sender<Arc<[Evaluation]>>, Counters),
}

struct Task {
    /// Tells the task to deliver what it holds and end.
    closing: CancellationToken,
    /// The queue that it empties, if it is not the one of the metrics.
    queue: Option<Arc<Queue>>,
    handle: JoinHandle<()>,
}

/// One exporter while it starts: where it says what it needs.
pub struct Starting<'a> {
    name: &'a str,
    exporters: &'a mut Exporters,
    memory: &'a Memory,
    registry: &'a ::prometheus::Registry,
    persistence: Option<&'a Persistence>,
}

/// Where a process that has a log keeps what outlives it.
#[derive(Clone, Debug)]
pub struct Persistence {
    /// The folder; exporters keep theirs in `exporters` and `dead_letters` below it.
    pub data_dir: PathBuf,
    /// When something counts as kept.
    pub durability: Durability,
}

/// The folder of what exporters keep while their queue is full.
const OVERFLOW_FOLDER: &str = "exporters";

impl Starting<'_> {
    /// Its name in the config.
    fn name(&self) -> &str {
        self.name
    }

    /// The metrics that the process shows.
    fn registry(&self) -> &::prometheus::Registry {
        self.registry
    }

    /// What exporters tell of themselves.
    fn instruments(&self) -> &Instruments {
        &self.exporters.instruments
    }

    /// Whether the process has a log, so that evaluations come with receipts.
    fn has_log(&self) -> bool {
        self.persistence.is_some()
    }

    /// Where it keeps what its backend refuses for good.
    fn dead_letters(&self) -> DeadLetters {
        let data_dir = self.persistence.map(|persistence| persistence.data_dir.as_path());
        DeadLetters::new(data_dir, self.name, self.instruments())
    }

    /// Where its queue keeps what it has no room for, at most so many MiB; nowhere without a
    /// folder. With 0, or where it need not deliver, only what an earlier process left is sent.
    fn overflow(
        &self,
        must_deliver: bool,
        mib: u32,
    ) -> Result<Option<Overflow>, ExporterStartError> {
        let Some(Persistence { data_dir, durability }) = self.persistence else { return Ok(None) };
        let folder = data_dir.join(OVERFLOW_FOLDER).join(file_name(self.name));
        let mib = if must_deliver { mib } else { 0 };
        if mib == 0 && !folder.exists() {
            return Ok(None);
        }
        let limits = OverflowLimits { bytes_max: u64::from(mib) << 20, durability: *durability };
        let overflow = Overflow::open(&folder, limits).map_err(|error| {
            let (exporter, path) = (self.name.to_owned(), folder.display().to_string());
            ExporterStartError::Overflow { exporter, path, error }
        });
        overflow.map(Some)
    }

    /// Says whether it shows what may be content, and of that the details.
    fn show(&mut self, content: bool, details: bool) {
        self.exporters.want.explanation = true;
        self.exporters.want.details |= content && details;
    }

    /// What makes evaluations fit to be shown, where so much of their content is.
    fn content_filter(&self, content: ShownContent) -> ContentFilter {
        match content {
            ShownContent::Redacted => {
                let redactor =
                    self.exporters.redactor.get_or_init(|| Arc::new(ContentRedactor::new()));
                ContentFilter::redacting(redactor)
            }
            ShownContent::None | ShownContent::Full => ContentFilter::nothing(),
        }
    }

    /// Adds a queue of evaluations with something that delivers its batches.
    fn queue(&mut self, limits: QueueLimits, end: impl Deliver) {
        self.queue_with(limits, None, end);
    }

    /// The same, with a place on disk for what it has no room for.
    fn queue_with(&mut self, limits: QueueLimits, overflow: Option<Overflow>, end: impl Deliver) {
        let exporters = &mut *self.exporters;
        exporters.want.records = true;
        let share = self.memory.exporters.clone();
        let instruments = &exporters.instruments;
        let (queue, handle) = Queue::start(self.name, limits, share, instruments, overflow, end);
        let queue = Arc::new(queue);
        exporters.lanes.push(Lane::Queue(queue.clone()));
        exporters.task(Task { closing: queue.closing(), queue: Some(queue), handle });
    }

    /// Adds scores that are counted as evaluations are offered.
    fn scores(
        &mut self,
        grouping: Grouping,
        series_max: usize,
        idle: HumanDuration,
    ) -> Arc<Scores> {
        let share = self.memory.series.clone();
        let scores = Arc::new(Scores::new(grouping, series_max, idle, share));
        let instruments = &self.exporters.instruments;
        instruments.watch_cut(self.name, Arc::clone(scores.cut_names()));
        self.exporters.lanes.push(Lane::Scores(scores.clone()));
        scores
    }

    /// Adds a task that ends by itself after its token is cancelled.
    fn task(&mut self, closing: CancellationToken, handle: JoinHandle<()>) {
        self.exporters.task(Task { closing, queue: None, handle });
    }
}

impl Exporters {
    /// Starts all exporters; must be called in a Tokio runtime. Backends need not be there yet.
    /// `meter` takes what the exporters tell of themselves, `registry` the scores of the
    /// `prometheus` exporter. `persistence` is there where the process has a log, so that
    /// evaluations come with receipts.
    pub fn start(
        settings: &[ExporterSettings],
        memory: &Memory,
        meter: &Meter,
        registry: &::prometheus::Registry,
        persistence: Option<&Persistence>,
    ) -> Result<Self, ExporterStartError> {
        let mut exporters = Self {
            instruments: Instruments::new(meter),
            lanes: Vec::new(),
            tasks: Mutex::default(),
            want: Want::SCORE,
            redactor: OnceLock::new(),
        };
        for ExporterSettings { name, exporter } in settings {
            let exporters = &mut exporters;
            exporter.start(&mut Starting { name, exporters, memory, registry, persistence })?;
        }
        if let Some(persistence) = persistence {
            tell_of_strangers(&persistence.data_dir, settings);
        }
        Ok(exporters)
    }

    fn task(&mut self, task: Task) {
        self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    /// Adds an exporter that hands every batch to the caller, with everything an evaluation can
    /// hold. What the channel has no room for is dropped and counted like in any queue.
    pub fn add_channel(
        &mut self,
        name: &str,
        batches_max: usize,
    ) -> mpsc::Receiver<Arc<[Evaluation]>> {
        let (sender, receiver) = mpsc::channel(batches_max);
        self.lanes.push(Lane::Channel(sender, self.instruments.of(name)));
        self.want = Want::ALL;
        receiver
    }

    /// What the exporters show of a score: the rest need not be made.
    pub fn want(&self) -> Want {
        self.want
    }

    /// Hands evaluations, best all of one trace together, to every exporter. Never waits. The
    /// exporters that must deliver each keep the receipt until they have.
    pub fn offer(&self, evaluations: impl Into<Arc<[Evaluation]>>, receipt: Option<Receipt>) {
        if self.lanes.is_empty() {
            return;
        }
        let (evaluations, mut bytes) = (evaluations.into(), None);
        if evaluations.is_empty() {
            return;
        }
        for lane in &self.lanes {
            match lane {
                Lane::Queue(queue) => {
                    let sizes = || queue::size_of_evaluations(&evaluations);
                    let bytes = *bytes.get_or_insert_with(sizes);
                    queue.offer(&evaluations, bytes, receipt.as_ref());
                }
                Lane::Scores(scores) => scores.record(&evaluations),
                Lane::Channel(sender, counters) => {
                    let count = evaluations.len() as u64;
                    counters.offered(count);
                    match sender.try_send(evaluations.clone()) {
                        Ok(()) => counters.sent(count),
                        Err(mpsc::error::TrySendError::Full(_)) => {
                            counters.lost(Loss::QueueFull, count);
                        }
                        Err(mpsc::error::TrySendError::Closed(_)) => {
                            counters.lost(Loss::ShuttingDown, count);
                        }
                    }
                }
            }
        }
    }

    /// What each exporter has lost since its start, for whatever reason.
    pub fn lost(&self) -> Vec<Unsent> {
        let unsent = |(exporter, evaluations)| Unsent { exporter, evaluations };
        self.instruments.lost().into_iter().map(unsent).collect()
    }

    /// What each exporter leaves to the next process: what receipts still waited for when the queue
    /// ended, which is in the log, and what it keeps on disk itself.
    pub fn left(&self) -> Vec<Unsent> {
        let queues = self.lanes.iter().filter_map(|lane| match lane {
            Lane::Queue(queue) => Some(queue),
            Lane::Scores(_) | Lane::Channel(..) => None,
        });
        let left = queues.map(|queue| Unsent {
            exporter: queue.name().to_owned(),
            evaluations: queue.left() + queue.overflown(),
        });
        left.filter(|unsent| unsent.evaluations > 0).collect()
    }

    /// Delivers what is held, until there is no more time; then gives up, counts and returns what
    /// is lost by that, by exporter. What is offered from now on is dropped and counted. What a
    /// receipt waits for is not lost but [`left`](Self::left).
    pub async fn shutdown(&self, no_more_time: impl Future<Output = ()>) -> Vec<Unsent> {
        let (mut no_more_time, mut is_over) = (pin!(no_more_time), false);
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in &tasks {
            task.closing.cancel();
        }
        let mut unsent = Vec::new();
        for mut task in tasks {
            if !is_over {
                tokio::select! {
                    biased;
                    _ = &mut task.handle => continue,
                    () = no_more_time.as_mut() => is_over = true,
                }
            } else if task.handle.is_finished() {
                continue;
            }
            let Some(queue) = task.queue else {
                task.handle.abort();
                continue;
            };
            let Abandoned { lost, left } = queue.abandon(&mut task.handle).await;
            let exporter = queue.name().to_owned();
            tracing::warn!(%exporter, lost, left, "shut down before all evaluations were sent");
            if lost > 0 || left == 0 {
                unsent.push(Unsent { exporter, evaluations: lost });
            }
        }
        unsent
    }
}

/// Warns of what exporters kept that the config does not name any more.
fn tell_of_strangers(data_dir: &Path, settings: &[ExporterSettings]) {
    let Ok(folders) = std::fs::read_dir(data_dir.join(OVERFLOW_FOLDER)) else { return };
    for folder in folders.flatten() {
        let name = folder.file_name();
        let is_known = settings.iter().any(|known| name == *file_name(&known.name));
        if !is_known {
            let path = folder.path();
            tracing::warn!(path = %path.display(),
                "evaluations of an exporter that is not configured any more stay unsent");
        }
    }
}
