//! One exporter while it starts: where it says what it needs, and what came of it.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Exporters;
use crate::emit::ExporterStartError;
use crate::emit::content::{ContentFilter, ContentRedactor, ShownContent};
use crate::emit::counters::Instruments;
use crate::emit::dead_letters::{DeadLetters, file_name};
use crate::emit::queue::{
    Deliver, Overflow, OverflowLimits, Predecessor, Queue, QueueLimits, Succession,
};
use crate::emit::scores::{Grouping, Scores};
use crate::log::{Durability, WeakLog};
use crate::model::Want;
use crate::settings::HumanDuration;

/// Where a process that has a log keeps what outlives it.
#[derive(Clone, Debug)]
pub struct Persistence {
    /// The folder; exporters keep theirs in `exporters` and `dead_letters` below it.
    pub data_dir: PathBuf,
    /// When something counts as kept.
    pub durability: Durability,
    /// The log of the process, whose room exporters borrow where their own is full.
    pub log: Option<WeakLog>,
}

/// The folder of what exporters keep while their queue is full.
pub(super) const OVERFLOW_FOLDER: &str = "exporters";

/// Something to do once an exporter is in use, and not where the change is refused.
type WhenTaken = Box<dyn FnOnce(&Instruments) + Send + Sync>;

/// What runs of one exporter.
#[derive(Default)]
pub(super) struct Started {
    pub(super) want: Want,
    pub(super) queue: Option<StartedQueue>,
    /// Counts scores as evaluations are offered.
    pub(super) scores: Option<Arc<Scores>>,
    /// Whether the metrics endpoint of the process shows its scores.
    pub(super) shows_scores: bool,
    /// Tasks that end by themselves after their token is cancelled.
    pub(super) tasks: Vec<(CancellationToken, JoinHandle<()>)>,
    pub(super) when_taken: Vec<WhenTaken>,
}

/// A queue with the task that empties it.
pub(super) struct StartedQueue {
    pub(super) queue: Arc<Queue>,
    /// Gone once somebody waits for its end.
    pub(super) task: Option<JoinHandle<()>>,
    /// Lets it begin; gone once it has.
    pub(super) begin: Option<Succession>,
}

/// One exporter while it starts.
pub struct Starting<'a> {
    pub(super) name: &'a str,
    pub(super) exporters: &'a Exporters,
    /// The exporter of the same name whose place it takes.
    pub(super) before: Option<&'a Started>,
    pub(super) started: Started,
}

impl Starting<'_> {
    /// Its name in the config.
    pub(in crate::emit) fn name(&self) -> &str {
        self.name
    }

    /// What exporters tell of themselves.
    pub(in crate::emit) fn instruments(&self) -> &Instruments {
        &self.exporters.instruments
    }

    /// Whether the process has a log, so that evaluations come with receipts.
    pub(in crate::emit) fn has_log(&self) -> bool {
        self.exporters.persistence.is_some()
    }

    /// Does something once it is in use: where a change of the config is refused, what it starts
    /// never is.
    pub(in crate::emit) fn when_taken(
        &mut self,
        act: impl FnOnce(&Instruments) + Send + Sync + 'static,
    ) {
        self.started.when_taken.push(Box::new(act));
    }

    /// Where it keeps what its backend refuses for good.
    pub(in crate::emit) fn dead_letters(&self) -> DeadLetters {
        let data_dir = self.exporters.persistence.as_ref().map(|kept| kept.data_dir.as_path());
        DeadLetters::new(data_dir, self.name, self.instruments())
    }

    /// Where its queue keeps what it has no room for, at most so many MiB; nowhere without a
    /// folder. Beyond that it borrows room of the log where it must deliver; where it need not,
    /// only what is there already is sent. An exporter that takes the place of another goes on
    /// with its overflow.
    pub(in crate::emit) fn overflow(
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

    /// Says whether it shows what may be content, and of that the details.
    pub(in crate::emit) fn show(&mut self, content: bool, details: bool) {
        self.started.want.explanation = true;
        self.started.want.details |= content && details;
    }

    /// What makes evaluations fit to be shown, where so much of their content is.
    pub(in crate::emit) fn content_filter(&self, content: ShownContent) -> ContentFilter {
        let filter = match content {
            ShownContent::Redacted => {
                let redactor = &self.exporters.redactor;
                let redactor = redactor.get_or_init(|| Arc::new(ContentRedactor::new()));
                ContentFilter::redacting(redactor)
            }
            ShownContent::None | ShownContent::Full => ContentFilter::nothing(),
        };
        filter.of_exporter(self.instruments().withheld(self.name), &self.exporters.aside)
    }

    /// Adds its queue of evaluations with something that delivers its batches.
    pub(in crate::emit) fn queue(&mut self, limits: QueueLimits, end: impl Deliver) {
        self.queue_with(limits, None, end);
    }

    /// The same, with a place on disk for what it has no room for.
    pub(in crate::emit) fn queue_with(
        &mut self,
        limits: QueueLimits,
        overflow: Option<Arc<Overflow>>,
        end: impl Deliver,
    ) {
        self.started.want.records = true;
        let before = self.before.and_then(|before| before.queue.as_ref());
        let (before, begin) = match before {
            Some(before) => before.queue.predecessor(),
            None => Predecessor::nobody(),
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

    /// Adds scores that are counted as evaluations are offered; those of an exporter whose place it
    /// takes count on.
    pub(in crate::emit) fn scores(
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
            instruments.watch_cut(&name, Arc::clone(taken.cut_names()));
        });
        self.started.scores = Some(Arc::clone(&scores));
        scores
    }

    /// Shows the scores that it counts on the metrics endpoint of the process.
    pub(in crate::emit) fn show_scores(&mut self) -> Result<(), ExporterStartError> {
        self.started.shows_scores = true;
        let exporter = self.name;
        let shown = &self.exporters.shown_scores;
        shown
            .register(&self.exporters.registry)
            .map_err(|error| ExporterStartError::Metrics { exporter: exporter.to_owned(), error })
    }

    /// Adds a task that ends by itself after its token is cancelled.
    pub(in crate::emit) fn task(&mut self, closing: CancellationToken, handle: JoinHandle<()>) {
        self.started.tasks.push((closing, handle));
    }
}
