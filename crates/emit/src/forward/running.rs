//! One forward: its queue with what empties it, and its settings of that time.

use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::memory::ForwardMemory;
use super::parcel::KeptBody;
use super::passed::{LogPlace, PassedOn};
use super::queue::ForwardQueue;
use super::select::Chooser;
use super::send::{ForwardSender, ForwardWay};
use super::settings::ForwardedTraces;
use super::{ForwardCommon, ForwardSettings, ForwardStartError, HoldTimes, Passing};
use crate::counters::Loss;
use spanscore_base::model::Claim;
use spanscore_base::otlp::{ContentCoding, Signal};
use spanscore_net::client::{Client, Compression};

/// One forward, as its settings say. Where these change there is another one around the same
/// [`ForwardParts`].
pub(super) struct RunningForward {
    pub(super) settings: ForwardSettings,
    is_http: bool,
    parts: Arc<ForwardParts>,
    chooser: Option<Arc<Chooser>>,
    /// Those of earlier settings, as long as they hold something.
    finishing: Vec<Arc<Chooser>>,
}

/// Parts of a forward that survive a change of its settings.
struct ForwardParts {
    queue: Arc<ForwardQueue>,
    sender: Arc<ForwardSender>,
    passed: Arc<PassedOn>,
    tasks: Mutex<ForwardTasks>,
}

/// The tasks of a forward, until it is shut down.
#[derive(Default)]
struct ForwardTasks {
    holding: Vec<JoinHandle<()>>,
    sending: Option<JoinHandle<()>>,
}

impl ForwardSettings {
    /// The way to the backend; with a log it is tried without end unless the settings say one.
    pub(super) fn way(&self, has_log: bool) -> Result<ForwardWay, ForwardStartError> {
        let failed = |error: String| ForwardStartError { forward: self.name.clone(), error };
        let client = self.client().map_err(|error| failed(error.to_string()))?;
        let client = Client::new(&client).map_err(failed)?;
        let mut retries = self.backend.retry_on_failure.clone();
        if has_log {
            retries = retries.without_default_limit();
        }
        Ok(ForwardWay { client, compression: self.backend.compression, retries })
    }

    /// Most bytes that it holds; without a queue, those on their way.
    fn bytes_max(&self) -> usize {
        let queue = &self.backend.sending_queue;
        match queue.queue_size {
            _ if !queue.enabled => (queue.num_consumers + 1) << 20,
            size => size.unwrap_or(usize::MAX),
        }
    }
}

impl RunningForward {
    /// Starts it; must be called in a Tokio runtime.
    pub(super) fn start(
        common: &ForwardCommon,
        settings: ForwardSettings,
        way: ForwardWay,
        times: HoldTimes,
    ) -> Self {
        let books = common.books.begin(&settings.name);
        let memory = Arc::new(ForwardMemory::new(books, Arc::clone(&common.share)));
        let is_http = way.client.takes_bodies();
        let log = common.log.as_ref().map(|it| Arc::clone(&it.log));
        let sender = Arc::new(ForwardSender::new(Arc::clone(&memory), way, log));
        let file = common.file.as_ref();
        let passed = file.map(|file| file.begin(&settings.name)).unwrap_or_default();
        let consumers = settings.backend.sending_queue.num_consumers;
        memory.set_bytes_max(settings.bytes_max());
        let (queue, sending) = ForwardQueue::start(memory, consumers, Arc::clone(&sender), &passed);
        let tasks = Mutex::new(ForwardTasks { holding: Vec::new(), sending: Some(sending) });
        let parts = Arc::new(ForwardParts { queue, sender, passed, tasks });
        let chooser = None;
        let finishing = Vec::new();
        let forward = Self { settings, is_http, parts, chooser, finishing };
        let chooser = forward.start_chooser(common, times);
        Self { chooser, ..forward }
    }

    /// The same with other settings: what waits goes the other way, what is held until it is judged
    /// is chosen as it would have been.
    pub(super) fn changed(
        self,
        common: &ForwardCommon,
        settings: ForwardSettings,
        way: ForwardWay,
        times: HoldTimes,
    ) -> Self {
        let queue = &self.parts.queue;
        queue.memory.set_bytes_max(settings.bytes_max());
        queue.set_consumers(settings.backend.sending_queue.num_consumers);
        self.parts.sender.change(way);
        let chooses_alike = settings.backend.traces == self.settings.backend.traces;
        let mut forward = Self { settings, ..self };
        if !chooses_alike {
            let before = forward.chooser.take();
            forward.finishing.extend(before.inspect(|chooser| chooser.finish()));
            forward.chooser = forward.start_chooser(common, times);
        }
        forward.finishing.retain(|chooser| !chooser.has_ended());
        forward
    }

    fn start_chooser(&self, common: &ForwardCommon, times: HoldTimes) -> Option<Arc<Chooser>> {
        let only_failed = match self.settings.backend.traces {
            ForwardedTraces::All => return None,
            ForwardedTraces::Agent => false,
            ForwardedTraces::Fail => true,
        };
        let log = common.log.as_ref().map(|it| Arc::clone(&it.log));
        let (chooser, holding) =
            Chooser::start(Arc::clone(&self.parts.queue), only_failed, times, log);
        self.parts.tasks.lock().holding.push(holding);
        Some(Arc::new(chooser))
    }

    /// Holds and remembers as long as the shards do from now on.
    pub(super) fn limit(&self, times: HoldTimes) {
        self.chooser.iter().for_each(|chooser| chooser.limit(times));
    }

    /// Returns the number of earlier choosers that still hold something.
    pub(super) fn finishing(&self) -> usize {
        self.finishing.iter().filter(|chooser| !chooser.has_ended()).count()
    }

    /// Returns true if a signal is passed on.
    pub(super) fn has(&self, signal: Signal) -> bool {
        self.settings.backend.has(signal)
    }

    /// All that have to be told what was judged.
    pub(super) fn choosers(&self) -> impl Iterator<Item = &Chooser> {
        self.chooser.iter().chain(&self.finishing).map(|chooser| &**chooser)
    }

    /// Says that the log has been replayed.
    pub(super) fn replayed(&self) {
        self.parts.passed.replayed();
    }

    /// Begins its shutdown, and returns the queue and tasks to wait for; nothing may be offered
    /// after.
    pub(super) fn begin_end(&self) -> ForwardEnd {
        let mut tasks = self.parts.tasks.lock();
        let ForwardTasks { holding, sending } = std::mem::take(&mut *tasks);
        self.choosers().for_each(Chooser::end);
        ForwardEnd { queue: Arc::clone(&self.parts.queue), holding, sending }
    }

    /// The same of a forward that the config has no more.
    pub(super) fn begin_removal(&self) -> ForwardEnd {
        self.parts.queue.memory.remove();
        self.begin_end()
    }

    /// Takes a request that was accepted; see [`Forwards::offer`](super::Forwards::offer).
    pub(super) fn offer(&self, passing: &Passing<'_>, claim: Option<&Claim>) {
        let Passing { signal, items, .. } = *passing;
        if !self.has(signal) {
            return;
        }
        let claim = claim.filter(|_| self.parts.queue.has_log());
        if claim.is_some_and(|claim| !self.parts.passed.offered(claim.position())) {
            return;
        }
        let place = |claim: &Claim| self.parts.passed.place(claim.position(), claim.clone());
        self.parts.queue.books().accepted(signal, items);
        if self.parts.queue.memory.closing.is_cancelled() {
            return self.refuse(signal, items, claim.map(place));
        }
        if let (Some(chooser), true) = (&self.chooser, signal != Signal::Metrics) {
            return chooser.offer(passing, claim.map(place));
        }
        let body = self.body(passing);
        self.parts.queue.offer(passing.sender, (signal, items), &body, claim);
    }

    /// Leaves a request that comes too late in the log for the next process, or counts it as lost.
    fn refuse(&self, signal: Signal, items: u64, place: Option<LogPlace>) {
        match place {
            Some(place) => {
                self.parts.queue.books().held(signal, items);
                place.leave();
            }
            None => self.parts.queue.drop_items(signal, Loss::ShuttingDown, items),
        }
    }

    /// The form in which a request is kept: as it came where it is sent so.
    fn body<'a>(&self, passing: &Passing<'a>) -> KeptBody<'a> {
        let Passing { raw, request, .. } = *passing;
        let is_packed = match raw.compression {
            Some(ContentCoding::Gzip) => self.settings.backend.compression == Compression::Gzip,
            Some(ContentCoding::Zstd) => self.settings.backend.compression == Compression::Zstd,
            Some(ContentCoding::Deflate) | None => false,
        };
        if self.is_http && (raw.is_json || is_packed) {
            let coding = raw.compression;
            let is_json = raw.is_json;
            return KeptBody { bytes: &raw.bytes, coding, is_json, is_shared: true };
        }
        let is_shared = passing.is_shared();
        KeptBody { bytes: request, coding: None, is_json: false, is_shared }
    }
}

/// A forward that is to end.
pub(super) struct ForwardEnd {
    pub(super) queue: Arc<ForwardQueue>,
    holding: Vec<JoinHandle<()>>,
    sending: Option<JoinHandle<()>>,
}

impl ForwardEnd {
    /// Lets go of what is held until it is judged; then the queue takes nothing more.
    pub(super) async fn end_holding(&mut self) {
        for holding in self.holding.drain(..) {
            // Its parcels are bounded, and it waits for nobody.
            let _ = holding.await;
        }
        self.queue.memory.closing.cancel();
    }

    /// Sends what is queued until there is no more time, and gives up the rest; whether there was.
    pub(super) async fn end_until(
        self,
        no_more_time: Pin<&mut impl Future<Output = ()>>,
        is_over: bool,
    ) -> bool {
        let Some(mut sending) = self.sending else { return true };
        if !is_over {
            tokio::select! {
                biased;
                _ = &mut sending => return true,
                () = no_more_time => {}
            }
        }
        self.queue.given_up.cancel();
        // A task that panicked has settled what waited, which counts it.
        let _ = sending.await;
        false
    }
}
