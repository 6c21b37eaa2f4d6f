//! Running forward: its queue and the sampler of its current settings.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::memory::ForwardMemory;
use super::parcel::KeptBody;
use super::progress::{ForwardProgress, LogPlace};
use super::queue::ForwardQueue;
use super::select::TraceSampler;
use super::send::{ForwardRoute, ForwardSender};
use super::settings::ForwardedTraces;
use super::{ForwardCommon, ForwardSettings, ForwardStartError, HoldTimes, Passing};
use crate::counters::Loss;
use crate::time_left::TimeLeft;
use spanscore_base::model::Claim;
use spanscore_base::otlp::Signal;

/// Running forward with its settings. A change of these makes another around the same
/// [`ForwardParts`].
pub(super) struct RunningForward {
    pub(super) settings: ForwardSettings,
    is_http: bool,
    parts: Arc<ForwardParts>,
    sampler: Option<Arc<TraceSampler>>,
    /// Samplers of earlier settings that still hold requests.
    finishing: Vec<Arc<TraceSampler>>,
}

/// Parts of a forward that survive a change of its settings.
struct ForwardParts {
    queue: Arc<ForwardQueue>,
    sender: Arc<ForwardSender>,
    progress: Arc<ForwardProgress>,
    tasks: Mutex<ForwardTasks>,
}

/// Tasks of a forward, until its shutdown.
#[derive(Default)]
struct ForwardTasks {
    holding: Vec<JoinHandle<()>>,
    sending: Option<JoinHandle<()>>,
}

impl ForwardSettings {
    /// Builds the client of the backend; with a log it retries without end unless the settings
    /// limit it.
    pub(super) fn route(&self, has_log: bool) -> Result<ForwardRoute, ForwardStartError> {
        let failed = |error: String| ForwardStartError { forward: self.name.clone(), error };
        let client = self.backend.connection(self.protocol).open().map_err(failed)?;
        let mut retries = self.backend.retry_on_failure.clone();
        if has_log {
            retries = retries.without_default_limit();
        }
        Ok(ForwardRoute { client, compression: self.backend.compression, retries })
    }

    /// Returns the limit on its bytes; without a queue, that of requests in flight.
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
        route: ForwardRoute,
        times: HoldTimes,
    ) -> Self {
        let counters = common.counters.begin(&settings.name);
        let memory = Arc::new(ForwardMemory::new(counters, Arc::clone(&common.share)));
        let is_http = route.client.takes_bodies();
        let log = common.log.as_ref().map(|it| Arc::clone(&it.log));
        let sender = Arc::new(ForwardSender::new(Arc::clone(&memory), route, log));
        let file = common.file.as_ref();
        let progress = file.map(|file| file.begin(&settings.name)).unwrap_or_default();
        let consumers = settings.backend.sending_queue.num_consumers;
        memory.set_bytes_max(settings.bytes_max());
        let (queue, sending) =
            ForwardQueue::start(memory, consumers, Arc::clone(&sender), &progress);
        let tasks = Mutex::new(ForwardTasks { holding: Vec::new(), sending: Some(sending) });
        let parts = Arc::new(ForwardParts { queue, sender, progress, tasks });
        let sampler = None;
        let finishing = Vec::new();
        let forward = Self { settings, is_http, parts, sampler, finishing };
        let sampler = forward.start_sampler(common, times);
        Self { sampler, ..forward }
    }

    /// Returns it with other settings: queued requests use the new client; held requests keep the
    /// sampler that they came to.
    pub(super) fn changed(
        self,
        common: &ForwardCommon,
        settings: ForwardSettings,
        route: ForwardRoute,
        times: HoldTimes,
    ) -> Self {
        let queue = &self.parts.queue;
        queue.memory.set_bytes_max(settings.bytes_max());
        queue.set_consumers(settings.backend.sending_queue.num_consumers);
        self.parts.sender.change(route);
        let chooses_alike = settings.backend.traces == self.settings.backend.traces;
        let mut forward = Self { settings, ..self };
        if !chooses_alike {
            let before = forward.sampler.take();
            forward.finishing.extend(before.inspect(|sampler| sampler.finish()));
            forward.sampler = forward.start_sampler(common, times);
        }
        forward.finishing.retain(|sampler| !sampler.has_ended());
        forward
    }

    fn start_sampler(&self, common: &ForwardCommon, times: HoldTimes) -> Option<Arc<TraceSampler>> {
        let only_failed = match self.settings.backend.traces {
            ForwardedTraces::All => return None,
            ForwardedTraces::Agent => false,
            ForwardedTraces::Fail => true,
        };
        let log = common.log.as_ref().map(|it| Arc::clone(&it.log));
        let (sampler, holding) =
            TraceSampler::start(Arc::clone(&self.parts.queue), only_failed, times, log);
        self.parts.tasks.lock().holding.push(holding);
        Some(Arc::new(sampler))
    }

    /// Sets the times for holding and remembering traces to those of the shards.
    pub(super) fn limit(&self, times: HoldTimes) {
        self.sampler.iter().for_each(|sampler| sampler.limit(times));
    }

    /// Returns the number of earlier samplers that still hold requests.
    pub(super) fn finishing(&self) -> usize {
        self.finishing.iter().filter(|sampler| !sampler.has_ended()).count()
    }

    /// Returns true if a signal is forwarded.
    pub(super) fn has(&self, signal: Signal) -> bool {
        self.settings.backend.has(signal)
    }

    /// Returns all samplers, which need the verdicts on traces.
    pub(super) fn samplers(&self) -> impl Iterator<Item = &TraceSampler> {
        self.sampler.iter().chain(&self.finishing).map(|sampler| &**sampler)
    }

    /// Reports the end of the log's replay.
    pub(super) fn replayed(&self) {
        self.parts.progress.replayed();
    }

    /// Starts its shutdown, and returns the queue and tasks to wait for; no offer may follow.
    pub(super) fn begin_end(&self) -> ForwardEnd {
        let mut tasks = self.parts.tasks.lock();
        let ForwardTasks { holding, sending } = std::mem::take(&mut *tasks);
        self.samplers().for_each(TraceSampler::end);
        ForwardEnd { queue: Arc::clone(&self.parts.queue), holding, sending }
    }

    /// Starts its removal from the config, likewise.
    pub(super) fn begin_removal(&self) -> ForwardEnd {
        self.parts.queue.memory.remove();
        self.begin_end()
    }

    /// Offers an accepted request; see [`Forwards::offer`](super::Forwards::offer).
    pub(super) fn offer(&self, passing: &Passing<'_>, claim: Option<&Claim>) {
        let Passing { signal, items, .. } = *passing;
        if !self.has(signal) {
            return;
        }
        let claim = claim.filter(|_| self.parts.queue.has_log());
        if claim.is_some_and(|claim| !self.parts.progress.offered(claim.position())) {
            return;
        }
        let place = |claim: &Claim| self.parts.progress.place(claim.position(), claim.clone());
        self.parts.queue.counters().of(signal).accepted.add(1, items);
        if self.parts.queue.memory.closing.is_cancelled() {
            return self.refuse(signal, items, claim.map(place));
        }
        if let (Some(sampler), true) = (&self.sampler, signal != Signal::Metrics) {
            return sampler.offer(passing, claim.map(place));
        }
        let body = self.body(passing);
        self.parts.queue.offer(passing.sender, (signal, items), &body, claim);
    }

    /// Leaves a late request in the log for the next process, or counts it as lost.
    fn refuse(&self, signal: Signal, items: u64, place: Option<LogPlace>) {
        match place {
            Some(place) => {
                self.parts.queue.counters().of(signal).held.add(0, items);
                place.leave();
            }
            None => self.parts.queue.drop_items(signal, Loss::ShuttingDown, items),
        }
    }

    /// Returns the form in which a request is stored: as received if it is sent so.
    fn body<'a>(&self, passing: &Passing<'a>) -> KeptBody<'a> {
        let Passing { raw, request, .. } = *passing;
        let coding = self.settings.backend.compression.coding();
        let is_packed = coding.is_some() && raw.compression == coding;
        if self.is_http && (raw.is_json || is_packed) {
            let coding = raw.compression;
            let is_json = raw.is_json;
            return KeptBody { bytes: &raw.bytes, coding, is_json, is_shared: true };
        }
        let is_shared = passing.is_shared();
        KeptBody { bytes: request, coding: None, is_json: false, is_shared }
    }
}

/// Forward that is shutting down.
pub(super) struct ForwardEnd {
    pub(super) queue: Arc<ForwardQueue>,
    holding: Vec<JoinHandle<()>>,
    sending: Option<JoinHandle<()>>,
}

impl ForwardEnd {
    /// Ends the sampling of held requests; then the queue takes nothing more.
    pub(super) async fn end_holding(&mut self) {
        for holding in self.holding.drain(..) {
            // Its parcels are bounded, and it waits for no one.
            let _ = holding.await;
        }
        self.queue.memory.closing.cancel();
    }

    /// Sends the queue while there is time, then gives up the rest.
    pub(super) async fn end_within(self, time: &mut TimeLeft<impl Future<Output = ()>>) {
        let Some(mut sending) = self.sending else { return };
        if !time.allows(&mut sending).await {
            self.queue.given_up.cancel();
            // A panicked task has settled the queued requests, and so counted them.
            let _ = sending.await;
        }
    }
}
