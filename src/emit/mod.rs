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
//! **Invariant:** no argument and no result leaves the process over OTLP unless `include_content`
//! is set: without it an explanation is exported without what may be content
//! ([`Explanation::without_content`](crate::model::Explanation::without_content)). What an
//! evaluator says is content unless it marks it as plain: names of tools, counts, rules, and names
//! of arguments that stand in criteria, schemas or settings.

pub mod console;
mod counters;
pub mod details;
mod file;
pub mod forward;
mod otlp;
pub mod prometheus;
mod queue;
pub mod record;
#[cfg(test)]
mod sample;
mod scores;
pub mod settings;

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::metrics::Meter;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use counters::Loss;

use crate::model::{Evaluation, Memory, Want};
use crate::settings::HumanDuration;
use counters::{Counters, Instruments};
use queue::{Deliver, Queue, QueueLimits};
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
}

impl Starting<'_> {
    /// Its name in the config.
    fn name(&self) -> &str {
        self.name
    }

    /// The metrics that the process shows.
    fn registry(&self) -> &::prometheus::Registry {
        self.registry
    }

    /// Says whether it shows what may be content, and of that the details.
    fn show(&mut self, content: bool, details: bool) {
        self.exporters.want.explanation = true;
        self.exporters.want.details |= content && details;
    }

    /// Adds a queue of evaluations with something that delivers its batches.
    fn queue(&mut self, limits: QueueLimits, end: impl Deliver) {
        let exporters = &mut *self.exporters;
        exporters.want.records = true;
        let share = self.memory.exporters.clone();
        let (queue, handle) = Queue::start(self.name, limits, share, &exporters.instruments, end);
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
    /// `prometheus` exporter.
    pub fn start(
        settings: &[ExporterSettings],
        memory: &Memory,
        meter: &Meter,
        registry: &::prometheus::Registry,
    ) -> Result<Self, ExporterStartError> {
        let mut exporters = Self {
            instruments: Instruments::new(meter),
            lanes: Vec::new(),
            tasks: Mutex::default(),
            want: Want::SCORE,
        };
        for ExporterSettings { name, exporter } in settings {
            let exporters = &mut exporters;
            exporter.start(&mut Starting { name, exporters, memory, registry })?;
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

    /// Hands evaluations, best all of one trace together, to every exporter. Never waits.
    pub fn offer(&self, evaluations: impl Into<Arc<[Evaluation]>>) {
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
                    queue.offer(&evaluations, *bytes.get_or_insert_with(sizes));
                }
                Lane::Scores(scores) => scores.record(&evaluations),
                Lane::Channel(sender, counters) => {
                    let count = evaluations.len() as u64;
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

    /// Delivers what is held, until there is no more time; then gives up, counts and returns what
    /// is left, by exporter. What is offered from now on is dropped and counted.
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
            let evaluations = queue.abandon(&mut task.handle).await;
            let exporter = queue.name().to_owned();
            tracing::warn!(%exporter, evaluations, "shut down before all evaluations were sent");
            unsent.push(Unsent { exporter, evaluations });
        }
        unsent
    }
}
