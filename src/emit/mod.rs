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
//! is set: without it nothing that an evaluator wrote as text is exported.

pub mod console;
mod counters;
mod file;
mod otlp;
pub mod prometheus;
mod queue;
pub mod record;
mod retry;
#[cfg(test)]
mod sample;
mod scores;
pub mod settings;

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::metrics::Meter;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;

pub use counters::Loss;

use crate::client::Protocol;
use crate::model::{Evaluation, Want};
use counters::{Counters, Instruments};
use queue::{Deliver, Queue, QueueLimits};
use scores::{Grouping, Scores};
use settings::{EvaluationForm, ExporterSettings, KindSettings, QueueSettings};

/// Most bytes held for a console or a file.
pub const LOCAL_QUEUE_BYTES_MAX: usize = 64 << 20;

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

impl Exporters {
    /// Starts all exporters; must be called in a Tokio runtime. Backends need not be there yet.
    /// `meter` takes what the exporters tell of themselves, `registry` the scores of the
    /// `prometheus` exporter.
    pub fn start(
        settings: &[ExporterSettings],
        meter: &Meter,
        registry: &::prometheus::Registry,
    ) -> Result<Self, ExporterStartError> {
        let mut exporters = Self {
            instruments: Instruments::new(meter),
            lanes: Vec::new(),
            tasks: Mutex::default(),
            want: Want::SCORE,
        };
        for exporter in settings {
            exporters.add(exporter, registry)?;
        }
        Ok(exporters)
    }

    fn add(
        &mut self,
        exporter: &ExporterSettings,
        registry: &::prometheus::Registry,
    ) -> Result<(), ExporterStartError> {
        let name = exporter.name.as_str();
        match &exporter.kind {
            KindSettings::Console(settings) => {
                self.want.explanation |= settings.include_content;
                self.want.details |=
                    settings.include_content && settings.format == settings::ConsoleFormat::Jsonl;
                self.queue(name, local_limits(Duration::ZERO), console::Console::new(settings));
            }
            KindSettings::File(settings) => {
                self.want.explanation |= settings.include_content;
                self.want.details |= settings.include_content;
                let file = file::RecordFile::open(settings).map_err(|error| {
                    let (exporter, path) = (name.to_owned(), settings.path.clone());
                    ExporterStartError::File { exporter, path, error }
                })?;
                self.queue(name, local_limits(Duration::from_millis(200)), file);
            }
            KindSettings::Prometheus(settings) => {
                let scores = Arc::new(Scores::new(Grouping::Service, settings.series_max));
                prometheus::ScoreCollector::new(scores.clone())
                    .and_then(|collector| registry.register(Box::new(collector)))
                    .map_err(|error| ExporterStartError::Metrics {
                        exporter: name.to_owned(),
                        error,
                    })?;
                self.lanes.push(Lane::Scores(scores));
            }
            KindSettings::Otlp(protocol, settings) => {
                self.add_otlp(name, *protocol, settings)?;
            }
        }
        Ok(())
    }

    fn add_otlp(
        &mut self,
        name: &str,
        protocol: Protocol,
        settings: &settings::OtlpExporterSettings,
    ) -> Result<(), ExporterStartError> {
        self.want.explanation |= settings.include_content;
        self.want.details |= settings.include_content;
        let backend = otlp::Backend::new(name, protocol, settings)
            .map_err(|error| ExporterStartError::Client { exporter: name.to_owned(), error })?;
        let backend = Arc::new(backend);
        if settings.has(EvaluationForm::Metric) {
            let scores = Arc::new(Scores::new(Grouping::Resource, settings.series_max));
            self.lanes.push(Lane::Scores(scores.clone()));
            let interval = settings.metrics_interval.0;
            let (closing, handle) = otlp::report::start(backend.clone(), scores, interval);
            self.task(Task { closing, queue: None, handle });
        }
        if settings.has(EvaluationForm::Event) || settings.has(EvaluationForm::Span) {
            self.queue(name, limits(&settings.sending_queue), otlp::Sender::new(backend, settings));
        }
        Ok(())
    }

    fn queue(&mut self, name: &str, limits: QueueLimits, end: impl Deliver) {
        self.want.records = true;
        let (queue, handle) = Queue::start(name, limits, &self.instruments, end);
        let queue = Arc::new(queue);
        self.lanes.push(Lane::Queue(queue.clone()));
        self.task(Task { closing: queue.closing(), queue: Some(queue), handle });
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
                    let sizes = || evaluations.iter().map(queue::size_of_evaluation).sum();
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

fn local_limits(flush_timeout: Duration) -> QueueLimits {
    QueueLimits {
        bytes_max: LOCAL_QUEUE_BYTES_MAX,
        consumers: 1,
        flush_timeout,
        batch_count: 8192,
        batch_bytes: 1 << 20,
    }
}

fn limits(queue: &QueueSettings) -> QueueLimits {
    let without_queue = queue.batch.max_bytes.saturating_mul(queue.num_consumers.saturating_add(1));
    QueueLimits {
        bytes_max: if queue.enabled { queue.queue_size } else { without_queue },
        consumers: queue.num_consumers,
        flush_timeout: queue.batch.flush_timeout.0,
        batch_count: queue.batch.max_size,
        batch_bytes: queue.batch.max_bytes,
    }
}
