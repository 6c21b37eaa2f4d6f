//! What was received, passed on to other OTLP backends.
//!
//! ```text
//! offer -> [chosen traces: held until judged] -> queue (bytes, or places in the log) -> consumers
//! ```
//!
//! In comes each request that was accepted, once. A protobuf request reaches the backend byte by
//! byte as it came, JSON too where the backend speaks HTTP; only the compression of the hop is the
//! forward's own. [`Forwards::offer`] never waits, so a dead backend slows no receiver. What finds
//! no room is read from the log again when its turn comes; without a log it is dropped and counted.
//!
//! **Invariant:** items that were accepted are sent, failed, dropped, not chosen, held or queued,
//! and counted as one of these ([`books`]).

mod books;
mod passed;
mod queue;
mod select;
mod send;
mod settings;
mod tail;

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry::metrics::Meter;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use passed::{ForwardLog, ReadBack};
pub use select::JudgedTrace;
pub use settings::{FORWARD_KINDS, ForwardSettings, forward_schema, read_forwards};

use crate::client::{Client, Compression};
use crate::model::{Claim, Memory};
use crate::otlp::{ContentCoding, RawBody, Signal};
use books::{ForwardBooks, ForwardLoss};
use passed::{LogPlace, PassedFile, PassedOn};
use queue::{ForwardMemory, ForwardQueue, KeptBody};
use select::Chooser;
use send::ForwardSender;
use settings::{ForwardBackendSettings, ForwardedTraces};

/// Why a forward could not start.
#[derive(Debug, thiserror::Error)]
#[error("forward `{forward}`: {error}")]
pub struct ForwardStartError {
    /// Its name in the config.
    pub forward: String,
    /// What is wrong, such as a certificate that cannot be read.
    pub error: String,
}

/// What was accepted and is lost to a forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unforwarded {
    /// The forward's name in the config.
    pub forward: String,
    /// Spans, log records and data points.
    pub items: u64,
}

/// How long chosen traces are held and remembered: as long as the shards do.
#[derive(Clone, Copy, Debug)]
pub struct HoldTimes {
    /// The longest that a trace stays open.
    pub open_max: Duration,
    /// How long a judged trace is remembered.
    pub remember: Duration,
}

/// A request that was accepted.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// What it carries.
    pub signal: Signal,
    /// Protobuf, not compressed.
    pub request: &'a Bytes,
    /// The form it came in.
    pub raw: &'a RawBody,
    /// Its spans, log records or data points.
    pub items: u64,
}

impl Passing<'_> {
    /// Whether the request is part of a larger buffer of its connection.
    fn is_shared(&self) -> bool {
        self.raw.compression.is_none() && !self.raw.is_json
    }
}

/// The running forwards; by default none.
#[derive(Default)]
pub struct Forwards {
    lanes: Vec<ForwardLane>,
    file: Option<Arc<PassedFile>>,
    file_stop: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// One forward.
struct ForwardLane {
    backend: ForwardBackendSettings,
    is_http: bool,
    queue: Arc<ForwardQueue>,
    chooser: Option<Chooser>,
    passed: Arc<PassedOn>,
    tasks: Mutex<LaneTasks>,
}

/// The tasks of a forward, until it is shut down.
#[derive(Default)]
struct LaneTasks {
    holding: Option<JoinHandle<()>>,
    sending: Option<JoinHandle<()>>,
}

impl ForwardLane {
    fn start(
        settings: &ForwardSettings,
        memory: &Memory,
        times: HoldTimes,
        log: Option<&ForwardLog>,
    ) -> Result<Self, ForwardStartError> {
        let name = &settings.name;
        let failed = |error: String| ForwardStartError { forward: name.clone(), error };
        let client = settings.client().map_err(|error| failed(error.to_string()))?;
        let client = Client::new(&client).map_err(failed)?;
        let (backend, share) = (settings.backend.clone(), Arc::clone(&memory.forward));
        let bytes_max = match backend.sending_queue.queue_size {
            _ if !backend.sending_queue.enabled => (backend.sending_queue.num_consumers + 1) << 20,
            size => size.unwrap_or(usize::MAX),
        };
        let books = Arc::new(ForwardBooks::new(name));
        let memory =
            Arc::new(ForwardMemory { books, share, bytes_max, closing: CancellationToken::new() });
        let mut retries = backend.retry_on_failure.clone();
        if log.is_some() {
            retries = retries.for_ever_unless_told();
        }
        let is_http = client.takes_bodies();
        let log = log.map(|it| Arc::clone(&it.log));
        let compression = backend.compression;
        let sender =
            ForwardSender::new(Arc::clone(&memory), client, compression, retries, log.clone());
        let consumers = backend.sending_queue.num_consumers;
        let passed = Arc::default();
        let (queue, sending) = ForwardQueue::start(memory, consumers, sender, &passed);
        let mut tasks = LaneTasks { holding: None, sending: Some(sending) };
        let chooser = (backend.traces != ForwardedTraces::All).then(|| {
            let only_failed = backend.traces == ForwardedTraces::Fail;
            let (chooser, holding) = Chooser::start(Arc::clone(&queue), only_failed, times, log);
            tasks.holding = Some(holding);
            chooser
        });
        Ok(Self { backend, is_http, queue, chooser, passed, tasks: Mutex::new(tasks) })
    }

    fn offer(&self, passing: &Passing<'_>, claim: Option<&Claim>) {
        let Passing { signal, items, .. } = *passing;
        if !self.backend.has(signal) {
            return;
        }
        let claim = claim.filter(|_| self.queue.has_log());
        if claim.is_some_and(|claim| !self.passed.offered(claim.position())) {
            return;
        }
        let place = |claim: &Claim| self.passed.place(claim.position(), claim.clone());
        self.queue.books().accepted(signal, items);
        if self.queue.memory.closing.is_cancelled() {
            return self.refuse(signal, items, claim.map(place));
        }
        if let (Some(chooser), true) = (&self.chooser, signal != Signal::Metrics) {
            return chooser.offer(passing, claim.map(place));
        }
        let body = self.body(passing);
        let is_taken = match claim {
            Some(claim) => self.queue.push_logged(signal, items, &body, claim),
            None => match self.queue.keep(&body, false, 0) {
                Some(load) => {
                    self.queue.push(signal, items, load, None, None);
                    true
                }
                None => false,
            },
        };
        if !is_taken {
            self.queue.drop_items(signal, ForwardLoss::QueueFull, items);
        }
    }

    /// What comes too late stays in the log for the next process, or is lost.
    fn refuse(&self, signal: Signal, items: u64, place: Option<LogPlace>) {
        match place {
            Some(place) => {
                self.queue.books().held(signal, items);
                place.leave();
            }
            None => self.queue.drop_items(signal, ForwardLoss::ShuttingDown, items),
        }
    }

    /// The form in which a request is kept: as it came where it is sent so.
    fn body<'a>(&self, passing: &Passing<'a>) -> KeptBody<'a> {
        let Passing { raw, request, .. } = *passing;
        let is_packed = match raw.compression {
            Some(ContentCoding::Gzip) => self.backend.compression == Compression::Gzip,
            Some(ContentCoding::Zstd) => self.backend.compression == Compression::Zstd,
            None => false,
        };
        if self.is_http && (raw.is_json || is_packed) {
            let (coding, is_json) = (raw.compression, raw.is_json);
            return KeptBody { bytes: &raw.bytes, coding, is_json, is_shared: true };
        }
        let is_shared = passing.is_shared();
        KeptBody { bytes: request, coding: None, is_json: false, is_shared }
    }

    fn take_tasks(&self) -> LaneTasks {
        std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Forwards {
    /// Starts all forwards; must be called in a Tokio runtime. Backends need not be there yet.
    ///
    /// # Errors
    /// What is wrong with a backend's settings, or with a file that they name.
    pub fn start(
        settings: &[ForwardSettings],
        memory: &Memory,
        times: HoldTimes,
        meter: &Meter,
        log: Option<&ForwardLog>,
    ) -> Result<Self, ForwardStartError> {
        if settings.is_empty() {
            return Ok(Self::default());
        }
        let start = |one| ForwardLane::start(one, memory, times, log);
        let lanes = settings.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let books: Vec<_> = lanes.iter().map(|lane| lane.queue.capacity()).collect();
        books::show(meter, &books);
        let file_stop = CancellationToken::new();
        let mut tasks = Vec::new();
        let file = log.map(|log| {
            let named =
                |lane: &ForwardLane| (lane.queue.books().name.clone(), Arc::clone(&lane.passed));
            let named = lanes.iter().map(named).collect();
            let file = PassedFile::open(&log.folder, log.end, named);
            let file = Arc::new(file);
            tasks.push(tokio::spawn(Arc::clone(&file).run(file_stop.clone())));
            file
        });
        Ok(Self { lanes, file, file_stop, tasks: Mutex::new(tasks) })
    }

    /// Whether nothing is passed on.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Whether it has to be told what was judged.
    pub fn wants_judgements(&self) -> bool {
        self.lanes.iter().any(|lane| lane.chooser.is_some())
    }

    /// Whether requests of this signal are passed on, and so have to be in the log.
    pub fn wants(&self, signal: Signal) -> bool {
        self.lanes.iter().any(|lane| lane.backend.has(signal))
    }

    /// Takes a request that was accepted. With a claim, what finds no room stays in the log. One
    /// that a forward has passed on before a restart is not passed on again. Never waits.
    pub fn offer(&self, passing: &Passing<'_>, claim: Option<&Claim>) {
        for lane in &self.lanes {
            lane.offer(passing, claim);
        }
    }

    /// Takes what was judged of traces: each time that one is judged, and of those without an agent
    /// once they are given up. Never waits.
    pub fn judged(&self, judged: JudgedTrace) {
        for chooser in self.lanes.iter().filter_map(|lane| lane.chooser.as_ref()) {
            chooser.judged(judged);
        }
    }

    /// Says that the log has been replayed: what was not offered again is not in it any more.
    pub fn replayed(&self) {
        self.lanes.iter().for_each(|lane| lane.passed.replayed());
    }

    /// What each forward has lost since its start, for whatever reason.
    pub fn lost(&self) -> Vec<Unforwarded> {
        let lost = self.lanes.iter().map(|lane| {
            let books = lane.queue.books();
            Unforwarded { forward: books.name.clone(), items: books.lost_items() }
        });
        lost.collect()
    }

    /// Sends what is queued, until there is no more time. What is left stays in the log, where
    /// there is one, or is lost and counted. The log must be closed before this is dropped, so that
    /// it keeps what is left.
    pub async fn shutdown(&self, no_more_time: impl Future<Output = ()>) {
        let mut no_more_time = pin!(no_more_time);
        let mut is_over = false;
        let all: Vec<_> = self.lanes.iter().map(|lane| (lane, lane.take_tasks())).collect();
        self.lanes.iter().filter_map(|lane| lane.chooser.as_ref()).for_each(Chooser::end);
        let mut sending = Vec::new();
        for (lane, tasks) in all {
            if let Some(holding) = tasks.holding {
                // What it lets go of is bounded, and it waits for nobody.
                let _ = holding.await;
            }
            lane.queue.memory.closing.cancel();
            sending.extend(tasks.sending.map(|task| (lane, task)));
        }
        for (lane, mut task) in sending {
            if !is_over {
                tokio::select! {
                    biased;
                    _ = &mut task => continue,
                    () = no_more_time.as_mut() => is_over = true,
                }
            }
            lane.queue.given_up.cancel();
            // A task that panicked has dropped what it held, which counts it.
            let _ = task.await;
        }
        self.file_stop.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            let _ = task.await;
        }
        if let Some(file) = &self.file
            && let Err(error) = file.write(true)
        {
            tracing::warn!(%error, "cannot note what was passed on; a restart sends it again");
        }
    }
}
