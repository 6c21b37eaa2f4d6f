//! Handle of the store: takes runs and evaluations without waiting, ends in order.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use spanscore_base::model::{Evaluation, Facts, Sender};

use crate::collected::CollectedEvents;
use crate::counters::{StoreCount, StoreCounters};
use crate::queue::{StoreQueue, StoreQueueLimits};
use crate::record::TrajectoryRecord;
use crate::settings::{StoreSettings, StoredContent};
use crate::writer::{
    BATCH_ROWS, ContentPolicy, RedactValues, RetentionLimits, SharedState, StoreState, WriterParts,
    now_ms,
};

/// Limit on the mebibytes of a temporary file.
const TEMPORARY_MIB: u32 = 256;

/// Running store.
pub struct Store {
    view: StoreView,
    with_content: bool,
    /// Clients with stored evaluations.
    accepted: BTreeSet<String>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Folder of a temporary file, deleted on drop.
    _temporary: Option<tempfile::TempDir>,
}

impl Store {
    /// Starts the writer, which opens the file; the caller continues even if that fails.
    ///
    /// # Errors
    /// The system refused a thread or temporary folder.
    pub fn start(
        settings: StoreSettings,
        data_dir: Option<&Path>,
        redact: RedactValues,
    ) -> io::Result<Self> {
        let limits = StoreQueueLimits::of(settings.queue_bytes);
        Self::start_within(settings, data_dir, redact, limits)
    }

    pub(crate) fn start_within(
        settings: StoreSettings,
        data_dir: Option<&Path>,
        redact: RedactValues,
        limits: StoreQueueLimits,
    ) -> io::Result<Self> {
        let temporary = match data_dir {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("spanscore-").tempdir()?),
        };
        let folder = temporary.as_ref().map(|folder| folder.path()).or(data_dir);
        let path = folder.unwrap_or(Path::new("")).join(&settings.path);
        let counters = Arc::new(StoreCounters::default());
        let state = Arc::new(SharedState::new(Arc::clone(&counters)));
        let queue = Arc::new(StoreQueue::new(limits, Arc::clone(&counters)));
        let size_max_mib = if temporary.is_some() { TEMPORARY_MIB } else { u32::MAX };
        let retention = RetentionLimits::new(&settings.retention, size_max_mib);
        let with_content = settings.content != StoredContent::None;
        let accepted = settings.accept_evaluations.clone();
        let parts = WriterParts {
            path: path.clone(),
            limits: retention,
            policy: ContentPolicy::new(&settings, redact, Arc::clone(&counters)),
            queue: Arc::clone(&queue),
            counters: Arc::clone(&counters),
            state: Arc::clone(&state),
        };
        let writer = std::thread::Builder::new().name("store".into()).spawn(|| {
            yield_to_others();
            parts.run();
        })?;
        let writer = Mutex::new(Some(writer));
        let view = StoreView { queue, counters, state, path, pinned_max: retention.pinned() };
        Ok(Self { view, with_content, accepted, writer, _temporary: temporary })
    }

    /// Returns `None`, counted, without room for a sender's run; else true if its record may
    /// include content. Called before a record is built, so that shards build nothing in vain.
    pub fn admit(&self, sender: Sender, is_passing: bool, with_content: bool) -> Option<bool> {
        self.view.queue.admit(sender, is_passing, with_content)
    }

    /// Returns true if nothing would be shed now.
    pub fn has_room(&self) -> bool {
        self.view.queue.has_room()
    }

    /// Stores a judged run; called before its evaluations are stored.
    pub fn trajectory(&self, record: TrajectoryRecord) {
        self.view.queue.put_trajectory(Box::new(record), now_ms());
    }

    /// Stores evaluations, those of one trace together.
    pub fn evaluations(&self, evaluations: Arc<[Evaluation]>) {
        if !evaluations.is_empty() {
            self.view.queue.put_evaluations(evaluations, now_ms());
        }
    }

    /// Returns true if evaluations of a client's process are stored.
    pub fn accepts(&self, client: &str) -> bool {
        self.accepted.contains(client)
    }

    /// Returns true if there is room for evaluations of another process, which otherwise are
    /// retried.
    pub fn has_room_for(&self, sender: Sender) -> bool {
        self.view.queue.has_room_for(sender)
    }

    /// Stores evaluations of a client's process in parts; returns the number without room.
    pub fn collect(&self, events: CollectedEvents, client: &Arc<str>) -> usize {
        self.view.counters.add(StoreCount::CollectedMalformed, events.malformed);
        let mut left = events.evaluations.into_iter();
        let mut unstored = 0;
        loop {
            let part: Vec<_> = left.by_ref().take(BATCH_ROWS).collect();
            if part.is_empty() {
                return unstored;
            }
            unstored += self.view.queue.put_collected(part, Arc::clone(client), now_ms());
        }
    }

    /// Returns true if arguments, results, inputs and outputs are stored.
    pub fn has_content(&self) -> bool {
        self.with_content
    }

    /// Returns the stored facts of traces.
    pub fn facts(&self) -> Facts {
        Facts {
            arguments: self.with_content,
            results: self.with_content,
            user_input: self.with_content,
            final_output: self.with_content,
            tool_definitions: self.with_content,
            usage: true,
            user_id: true,
            ..Facts::default()
        }
    }

    /// Returns the view of the store; a clone of it does not hold the file.
    pub fn view(&self) -> &StoreView {
        &self.view
    }

    /// Writes the rest and waits for the writer's end; must not run on a network thread.
    pub fn close(&self) {
        self.view.queue.close();
        let writer = self.writer.lock().take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the writer of the store panicked");
        }
    }
}

/// View of a store: counters, state, path, edits. A temporary file is deleted despite its views.
#[derive(Clone)]
pub struct StoreView {
    pub(crate) queue: Arc<StoreQueue>,
    counters: Arc<StoreCounters>,
    state: Arc<SharedState>,
    path: PathBuf,
    /// Limit on the bytes of runs retained by people.
    pub(crate) pinned_max: i64,
}

impl StoreView {
    /// Returns the counters.
    pub fn counters(&self) -> &Arc<StoreCounters> {
        &self.counters
    }

    /// Returns the state of the file.
    pub fn state(&self) -> StoreState {
        self.state.get()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// Yields to all other threads: on a busy core the writer gets about a tenth. At 2,000 runs a
/// second it would otherwise take half of it from the shards; now its queue sheds content instead.
/// Except on Linux the call would slow the whole process.
#[cfg(target_os = "linux")]
fn yield_to_others() {
    if let Err(error) = rustix::process::nice(10) {
        tracing::debug!(%error, "the writer of the store keeps its priority");
    }
}

#[cfg(not(target_os = "linux"))]
fn yield_to_others() {}
