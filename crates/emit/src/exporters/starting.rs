//! Start of one exporter: the builder for its parts, and the running parts.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Exporters;
use crate::ExporterStartError;
use crate::content::{ContentFilter, ContentRedactor, ShownContent};
use crate::counters::{Instruments, WithheldMetrics};
use crate::dead_letters::{DeadLetters, file_name};
use crate::queue::{
    Deliver, Overflow, OverflowLimits, Predecessor, Queue, QueueLimits, QueueSettings, Successor,
};
use crate::scores::{Grouping, Scores};
use spanscore_base::model::Want;
use spanscore_base::settings::HumanDuration;
use spanscore_log::{Durability, WeakLog};
use spanscore_net::client::retry::RetrySettings;
use spanscore_net::metrics::label;

/// Persistence of a process that has a log.
#[derive(Clone, Debug)]
pub struct Persistence {
    /// Data directory; exporters use `exporters` and `dead_letters` below it.
    pub data_dir: PathBuf,
    /// Durability required before data counts as stored.
    pub durability: Durability,
    /// Log of the process, whose free space exporters borrow if their overflow is full.
    pub log: Option<WeakLog>,
}

/// Folder of all exporters' overflow.
pub(super) const OVERFLOW_FOLDER: &str = "exporters";

/// Action at the moment when an exporter is put in use; dropped if the change is refused.
type WhenTaken = Box<dyn FnOnce(&Instruments) + Send + Sync>;

/// Running parts of one exporter.
#[derive(Default)]
pub(super) struct Started {
    pub(super) want: Want,
    pub(super) queue: Option<StartedQueue>,
    /// Scores that count evaluations when they are offered.
    pub(super) scores: Option<Arc<Scores>>,
    /// True if the metrics endpoint of the process shows its scores.
    pub(super) shows_scores: bool,
    /// Tasks that end after the cancellation of their token.
    pub(super) tasks: Vec<(CancellationToken, JoinHandle<()>)>,
    pub(super) when_taken: Vec<WhenTaken>,
}

/// Queue with the task that drains it.
pub(super) struct StartedQueue {
    pub(super) queue: Arc<Queue>,
    /// Task; `None` once its end is awaited.
    pub(super) task: Option<JoinHandle<()>>,
    /// Trigger that starts the task; `None` afterwards.
    pub(super) begin: Option<Successor>,
}

/// Builder of one exporter during its start.
pub struct Starting<'a> {
    pub(super) name: &'a str,
    pub(super) exporters: &'a Exporters,
    /// Replaced exporter of the same name.
    pub(super) before: Option<&'a Started>,
    pub(super) started: Started,
}

impl Starting<'_> {
    /// Returns its name in the config.
    pub(crate) fn name(&self) -> &str {
        self.name
    }

    /// Returns the instruments of the exporters' metrics.
    pub(crate) fn instruments(&self) -> &Instruments {
        &self.exporters.instruments
    }

    /// Returns true if the process has a log, so that evaluations carry receipts.
    pub(crate) fn has_log(&self) -> bool {
        self.exporters.persistence.is_some()
    }

    /// Adds an action for the moment when the exporter is put in use; never run if the config
    /// change is refused.
    pub(crate) fn when_taken(&mut self, act: impl FnOnce(&Instruments) + Send + Sync + 'static) {
        self.started.when_taken.push(Box::new(act));
    }

    /// Returns the exporter's dead letters.
    pub(crate) fn dead_letters(&self) -> DeadLetters {
        let data_dir = self.exporters.persistence.as_ref().map(|kept| kept.data_dir.as_path());
        DeadLetters::new(data_dir, self.name, self.instruments())
    }

    /// Opens the queue's overflow on disk, with this limit in MiB; `None` without a data directory.
    /// An exporter that must deliver borrows space of the log beyond the limit; any other only
    /// sends what is stored already. A replacement reuses its predecessor's overflow.
    pub(crate) fn overflow(
        &mut self,
        must_deliver: bool,
        mib: u32,
    ) -> Result<Option<Arc<Overflow>>, ExporterStartError> {
        let Some(Persistence { data_dir, durability, log }) = &self.exporters.persistence else {
            return Ok(None);
        };
        let folder = data_dir.join(OVERFLOW_FOLDER).join(file_name(self.name));
        let mib = if must_deliver { mib } else { 0 };
        let bytes_max = u64::from(mib) << 20;
        let before = self.before.and_then(|before| before.queue.as_ref());
        if let Some(overflow) = before.and_then(|before| before.queue.overflow()).cloned() {
            let name = self.name.to_owned();
            let taken = Arc::clone(&overflow);
            self.when_taken(move |_| {
                if !taken.take_more(bytes_max) {
                    tracing::warn!(exporter = %name,
                        "`overflow_mib` changed, and holds from the next start on");
                }
            });
            return Ok(Some(overflow));
        }
        let lender = log.clone().filter(|_| must_deliver);
        if mib == 0 && lender.is_none() && !folder.exists() {
            return Ok(None);
        }
        let limits = OverflowLimits { bytes_max, durability: *durability };
        let overflow = Overflow::open(&folder, limits, lender).map_err(|error| {
            let exporter = self.name.to_owned();
            let path = folder.display().to_string();
            ExporterStartError::Overflow { exporter, path, error }
        });
        overflow.map(|overflow| Some(Arc::new(overflow)))
    }

    /// Declares that it shows explanations, and with `content` also the details.
    pub(crate) fn show(&mut self, content: bool, details: bool) {
        self.started.want.explanation = true;
        self.started.want.details |= content && details;
    }

    /// Returns its content filter for this amount of content.
    pub(crate) fn content_filter(&self, content: ShownContent) -> ContentFilter {
        let filter = match content {
            ShownContent::Redacted => {
                let redactor = &self.exporters.redactor;
                let redactor = redactor.get_or_init(|| Arc::new(ContentRedactor::new()));
                ContentFilter::redacting(redactor)
            }
            ShownContent::None | ShownContent::Full => ContentFilter::nothing(),
        };
        let withheld = WithheldMetrics::new(&self.instruments().meter);
        let WithheldMetrics { texts } = withheld.of(&[label("exporter", self.name)]);
        filter.of_exporter(texts, &self.exporters.pool)
    }

    /// Returns the retries of failed requests: endless if delivery is mandatory and there is a log,
    /// unless the settings limit them.
    pub(crate) fn retries(&self, must_deliver: bool, settings: &RetrySettings) -> RetrySettings {
        if must_deliver && self.has_log() {
            settings.without_default_limit()
        } else {
            settings.clone()
        }
    }

    /// Returns the error of a client that cannot be built.
    pub(crate) fn client_error(&self, error: impl ToString) -> ExporterStartError {
        let exporter = self.name.to_owned();
        ExporterStartError::Client { exporter, error: error.to_string() }
    }

    /// Adds the queue of an exporter with a backend: [`Self::queue`], with the limits and overflow
    /// of its `sending_queue`.
    ///
    /// # Errors
    /// An overflow that cannot be opened.
    pub(crate) fn sending_queue(
        &mut self,
        must_deliver: bool,
        settings: &QueueSettings,
        sender: impl Deliver,
    ) -> Result<(), ExporterStartError> {
        let overflow = self.overflow(must_deliver, settings.overflow_mib)?;
        let limits = QueueLimits::from(settings).must_deliver(must_deliver);
        self.queue(limits, overflow, sender);
        Ok(())
    }

    /// Adds its queue of evaluations, which delivers to `end`; without an overflow, evaluations
    /// beyond the memory limit are dropped.
    pub(crate) fn queue(
        &mut self,
        limits: QueueLimits,
        overflow: Option<Arc<Overflow>>,
        end: impl Deliver,
    ) {
        self.started.want.records = true;
        let before = self.before.and_then(|before| before.queue.as_ref());
        let (before, begin) = match before {
            Some(before) => before.queue.predecessor(),
            None => Predecessor::without_predecessor(),
        };
        let share = self.exporters.memory.exporters.clone();
        let places = (overflow, Some(before));
        let instruments = &self.exporters.instruments;
        let (queue, task) = Queue::start(self.name, limits, share, instruments, places, end);
        let queue = Arc::new(queue);
        let shown = Arc::clone(&queue);
        self.when_taken(move |instruments| shown.show(instruments));
        let task = Some(task);
        let begin = Some(begin);
        self.started.queue = Some(StartedQueue { queue, task, begin });
    }

    /// Adds scores that count offered evaluations; they continue those of its predecessor.
    pub(crate) fn scores(
        &mut self,
        grouping: Grouping,
        series_max: usize,
        idle: HumanDuration,
    ) -> Arc<Scores> {
        let before = self.before.and_then(|before| before.scores.as_ref());
        let scores = match before.filter(|before| before.grouping() == grouping) {
            Some(before) => Arc::clone(before),
            None => {
                let share = self.exporters.memory.series.clone();
                Arc::new(Scores::new(grouping, series_max, idle, share))
            }
        };
        let name = self.name.to_owned();
        let taken = Arc::clone(&scores);
        self.when_taken(move |instruments| {
            taken.limit(series_max, idle);
            instruments.gauges.cut.watch(&name, Arc::clone(taken.cut_names()));
        });
        self.started.scores = Some(Arc::clone(&scores));
        scores
    }

    /// Shows its scores on the metrics endpoint of the process.
    pub(crate) fn show_scores(&mut self) -> Result<(), ExporterStartError> {
        self.started.shows_scores = true;
        let exporter = self.name;
        let shown = &self.exporters.shown_scores;
        shown
            .register(&self.exporters.registry)
            .map_err(|error| ExporterStartError::Metrics { exporter: exporter.to_owned(), error })
    }

    /// Adds a task that ends after the cancellation of its token.
    pub(crate) fn task(&mut self, closing: CancellationToken, handle: JoinHandle<()>) {
        self.started.tasks.push((closing, handle));
    }
}
