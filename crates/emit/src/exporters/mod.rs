//! Running exporters: started, fed, changed and stopped together.

mod change;
mod retire;
mod starting;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use opentelemetry::metrics::Meter;
use parking_lot::{Mutex, RwLock};

use self::retire::Retired;
use self::starting::{OVERFLOW_FOLDER, Started};
pub use self::{change::ExportersChange, starting::Persistence, starting::Starting};
use super::content::ContentRedactor;
use super::counters::Instruments;
use super::dead_letters::file_name;
use super::prometheus::ShownScores;
use super::queue::{Abandoned, Queue, size_of_evaluations};
use super::settings::ExporterSettings;
use super::time_left::TimeLeft;
use super::{ExporterStartError, Undelivered};
use spanscore_base::model::{Evaluation, Memory, Receipt, Want};
use spanscore_net::blocking::BlockingPool;

/// Running exporters of the process.
pub struct Exporters {
    instruments: Arc<Instruments>,
    memory: Memory,
    registry: ::prometheus::Registry,
    persistence: Option<Persistence>,
    /// Redactor of personal data and credentials, shared for equal placeholders in all exporters.
    redactor: OnceLock<Arc<ContentRedactor>>,
    /// Blocking threads for slow rendering.
    pool: BlockingPool,
    shown_scores: ShownScores,
    /// Exporters in use. [`Exporters::offer`] holds the read lock for a batch, so that the whole
    /// batch goes to the exporters of one config.
    running: RwLock<Vec<RunningExporter>>,
    /// Replaced or removed exporters that have not ended.
    retired: Mutex<Vec<Retired>>,
}

/// One running exporter.
struct RunningExporter {
    settings: ExporterSettings,
    started: Started,
}

impl Exporters {
    /// Starts all exporters; must be called in a Tokio runtime. Backends may be unreachable.
    /// `meter` receives the exporters' metrics, `registry` the scores of the `prometheus` exporter.
    /// `persistence` is set if the process has a log, so that evaluations carry receipts.
    ///
    /// # Errors
    /// The first exporter that cannot start, with the reason.
    pub fn start(
        settings: &[ExporterSettings],
        memory: &Memory,
        meter: &Meter,
        registry: &::prometheus::Registry,
        persistence: Option<&Persistence>,
    ) -> Result<Self, ExporterStartError> {
        let exporters = Self {
            instruments: Arc::new(Instruments::new(meter)),
            memory: memory.clone(),
            registry: registry.clone(),
            persistence: persistence.cloned(),
            redactor: OnceLock::new(),
            pool: BlockingPool::default(),
            shown_scores: ShownScores::default(),
            running: RwLock::default(),
            retired: Mutex::default(),
        };
        let first = exporters.prepare(settings)?;
        exporters.take(first);
        if let Some(persistence) = persistence {
            warn_of_orphans(&persistence.data_dir, settings);
        }
        Ok(exporters)
    }

    /// Returns the parts of a score that the exporters show; others need not be computed.
    pub fn want(&self) -> Want {
        self.running.read().iter().fold(Want::SCORE, |sum, it| sum.union(it.started.want))
    }

    /// Offers evaluations, preferably all of one trace together, to every exporter. Never waits.
    /// Each exporter that must deliver holds the receipt until it has delivered.
    pub fn offer(&self, evaluations: impl Into<Arc<[Evaluation]>>, receipt: Option<Receipt>) {
        let running = self.running.read();
        if running.is_empty() {
            return;
        }
        let evaluations = evaluations.into();
        let mut bytes = None;
        if evaluations.is_empty() {
            return;
        }
        for RunningExporter { started, .. } in &*running {
            if let Some(scores) = &started.scores {
                scores.record(&evaluations);
            }
            if let Some(end) = &started.queue {
                let bytes = *bytes.get_or_insert_with(|| size_of_evaluations(&evaluations));
                end.queue.offer(&evaluations, bytes, receipt.as_ref());
            }
        }
    }

    /// Returns true while an exporter that must deliver has a queue at least half full.
    pub fn are_behind(&self) -> bool {
        let running = self.running.read();
        running.iter().filter_map(|it| it.started.queue.as_ref()).any(|end| end.queue.is_behind())
    }

    /// Returns the evaluations that each exporter has lost since its start, for any reason.
    pub fn lost(&self) -> Vec<Undelivered> {
        let unsent = |(name, count)| Undelivered { name, count };
        self.instruments.lost().into_iter().map(unsent).collect()
    }

    /// Returns the evaluations that each exporter leaves to the next process: those with receipts
    /// at the end of the queue, and those in its overflow on disk.
    pub fn left(&self) -> Vec<Undelivered> {
        let left = |queue: &Queue, overflown| Undelivered {
            name: queue.name().to_owned(),
            count: queue.left() + overflown,
        };
        let running = self.running.read();
        let queues = running.iter().filter_map(|it| it.started.queue.as_ref());
        let queues = queues.map(|end| left(&end.queue, end.queue.overflown()));
        let retired = self.retired.lock();
        let retired = retired.iter().filter_map(|it| it.queue.as_deref());
        let all = queues.chain(retired.map(|queue| left(queue, 0)));
        all.filter(|unsent| unsent.count > 0).collect()
    }

    /// Delivers the queues' content until `no_more_time` is ready, then gives up, counts and
    /// returns the losses by exporter. Evaluations offered after the call are dropped and counted.
    /// Those with a receipt are not lost but [`left`](Self::left).
    pub async fn shutdown(&self, no_more_time: impl Future<Output = ()>) -> Vec<Undelivered> {
        let mut time = TimeLeft::until(no_more_time);
        let mut unsent = Vec::new();
        let tasks = self.close();
        let all_retired = self.retired.lock().clone();
        for retired in all_retired {
            if !time.allows(retired.ended.cancelled()).await {
                retired.give_up().await;
            }
        }
        for EndingTask { queue, mut task } in tasks {
            time.allows(&mut task).await;
            if task.is_finished() {
                // It ends early if its backend is away; evaluations without a log are then lost.
                let lost = queue.as_ref().map_or(0, |queue| queue.dropped());
                if let Some(queue) = queue.filter(|_| lost > 0) {
                    unsent.push(Undelivered { name: queue.name().to_owned(), count: lost });
                }
                continue;
            }
            let Some(queue) = queue else {
                task.abort();
                continue;
            };
            let Abandoned { lost, left } = queue.abandon(&mut task).await;
            let exporter = queue.name().to_owned();
            tracing::warn!(%exporter, lost, left, "shut down before all evaluations were sent");
            if lost > 0 || left == 0 {
                unsent.push(Undelivered { name: exporter, count: lost });
            }
        }
        unsent
    }

    /// Closes all exporters; returns the tasks to wait for.
    fn close(&self) -> Vec<EndingTask> {
        let mut running = self.running.write();
        let mut tasks = Vec::new();
        for RunningExporter { started, .. } in &mut *running {
            for (closing, task) in started.tasks.drain(..) {
                closing.cancel();
                tasks.push(EndingTask { queue: None, task });
            }
            let Some(end) = &mut started.queue else { continue };
            end.queue.end_with_process();
            let queue = Some(Arc::clone(&end.queue));
            tasks.extend(end.task.take().map(|task| EndingTask { queue, task }));
        }
        tasks
    }
}

/// Task of a closed exporter.
struct EndingTask {
    /// Queue drained by the task, if any.
    queue: Option<Arc<Queue>>,
    task: tokio::task::JoinHandle<()>,
}

/// Warns of overflow on disk whose exporter is no longer in the config.
fn warn_of_orphans(data_dir: &Path, settings: &[ExporterSettings]) {
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
