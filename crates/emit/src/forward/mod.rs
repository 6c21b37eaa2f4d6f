//! Forwards: pass received requests on to other OTLP backends.
//!
//! ```text
//! offer -> [tail sampling: held until judged] -> queue (bytes, or log positions) -> consumers
//! ```
//!
//! Each accepted request comes in once. A protobuf request reaches the backend unchanged, as does
//! JSON over HTTP; only the compression may differ. [`Forwards::offer`] never waits, so a dead
//! backend slows no receiver. A request beyond the memory limit is read from the log when its turn
//! comes; without a log it is dropped and counted.
//!
//! **Invariant:** each accepted item is sent, failed, dropped, not chosen, held or queued, and
//! counted as exactly one of these ([`counters`]).

mod change;
mod counters;
mod memory;
mod parcel;
mod places;
mod progress;
mod queue;
mod running;
mod select;
mod send;
mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry::metrics::Meter;
use parking_lot::{Mutex, RwLock};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use change::ForwardsChange;
pub use progress::{ForwardLog, ReadBack};
pub use select::JudgedTrace;
pub use settings::{FORWARD_KINDS, ForwardSettings, forward_schema, read_forwards};

use super::Undelivered;
use super::time_left::TimeLeft;
use change::RetiredForward;
use counters::{ForwardCounters, ForwardMetrics};
use progress::ProgressFile;
use running::RunningForward;
use spanscore_base::model::{Claim, Memory, MemoryQuota, Sender};
use spanscore_base::otlp::{RawBody, Signal};

/// Error of a forward that cannot start.
#[derive(Debug, thiserror::Error)]
#[error("forward `{forward}`: {error}")]
pub struct ForwardStartError {
    /// Name of the forward in the config.
    pub forward: String,
    /// Cause, such as a certificate that cannot be read.
    pub error: String,
}

/// Times for holding and remembering traces: the same as in the shards.
#[derive(Clone, Copy, Debug)]
pub struct HoldTimes {
    /// Longest time that a trace stays open.
    pub open_max: Duration,
    /// Time for which a judged trace is remembered.
    pub remember: Duration,
}

/// Accepted request, as offered to the forwards.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// Signal of its items.
    pub signal: Signal,
    /// Uncompressed protobuf.
    pub request: &'a Bytes,
    /// Body as received.
    pub raw: &'a RawBody,
    /// Number of spans, log records or data points.
    pub items: u64,
    /// Sender of the request.
    pub sender: Sender,
}

impl Passing<'_> {
    /// Returns true if the request is part of a larger buffer of its connection.
    fn is_shared(&self) -> bool {
        self.raw.compression.is_none() && !self.raw.is_json
    }
}

/// Running forwards; the default has none, and none can be added.
#[derive(Default)]
pub struct Forwards {
    /// Forwards of one config; an offer holds the read lock, so it never sees two configs.
    running: RwLock<Vec<RunningForward>>,
    common: Option<ForwardCommon>,
    /// Removed forwards that have not ended.
    retired: Mutex<Vec<RetiredForward>>,
    /// True once the log has been replayed.
    is_replayed: AtomicBool,
    file_stop: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// Parts common to all forwards.
struct ForwardCommon {
    share: Arc<MemoryQuota>,
    counters: ForwardMetrics,
    log: Option<ForwardLog>,
    file: Option<Arc<ProgressFile>>,
}

impl Forwards {
    /// Starts all forwards; must be called in a Tokio runtime. Backends may be unreachable.
    ///
    /// # Errors
    /// A fault in a backend's settings, or in a file that they name.
    pub fn start(
        settings: &[ForwardSettings],
        memory: &Memory,
        times: HoldTimes,
        meter: &Meter,
        log: Option<&ForwardLog>,
    ) -> Result<Self, ForwardStartError> {
        let file = log.map(|log| Arc::new(ProgressFile::open(&log.folder, log.end)));
        let share = Arc::clone(&memory.forward);
        let counters = ForwardMetrics::new(meter, &memory.forward);
        let common = ForwardCommon { share, counters, log: log.cloned(), file: file.clone() };
        let forwards = Self { common: Some(common), ..Self::default() };
        let first = forwards.prepare(settings, times)?;
        forwards.take(first);
        if let Some(file) = file {
            let writing = tokio::spawn(file.run(forwards.file_stop.clone()));
            forwards.tasks.lock().push(writing);
        }
        Ok(forwards)
    }

    /// Returns true if any forward needs the verdicts on traces.
    pub fn wants_judgements(&self) -> bool {
        self.running.read().iter().any(|forward| forward.samplers().next().is_some())
    }

    /// Returns true if requests of this signal are forwarded, and so must be logged.
    pub fn wants(&self, signal: Signal) -> bool {
        self.running.read().iter().any(|forward| forward.has(signal))
    }

    /// Offers an accepted request. Never waits. With a claim, a request without memory stays in the
    /// log. After a restart, requests that a forward has passed on are skipped.
    pub fn offer(&self, passing: &Passing<'_>, claim: Option<&Claim>) {
        for forward in &*self.running.read() {
            forward.offer(passing, claim);
        }
    }

    /// Reports the verdict on a trace: at each judgement, and for traces without an agent when they
    /// are given up. Never waits.
    pub fn judged(&self, judged: JudgedTrace) {
        for sampler in self.running.read().iter().flat_map(RunningForward::samplers) {
            sampler.judged(judged);
        }
    }

    /// Ends the replay of the log: requests that were not offered again are no longer in it.
    pub fn replayed(&self) {
        self.is_replayed.store(true, Ordering::Release);
        self.running.read().iter().for_each(RunningForward::replayed);
    }

    /// Returns the items that each forward has lost since its start, for any reason.
    pub fn lost(&self) -> Vec<Undelivered> {
        self.items_of(ForwardCounters::lost_items)
    }

    fn items_of(&self, count: fn(&ForwardCounters) -> u64) -> Vec<Undelivered> {
        let all = self.common.iter().flat_map(|common| common.counters.all.read().clone());
        all.map(|of| Undelivered { name: of.name.clone(), count: count(&of) }).collect()
    }

    fn has_log(&self) -> bool {
        self.common.as_ref().is_some_and(|common| common.log.is_some())
    }

    /// Returns the items that each forward leaves in the log for the next process, after shutdown;
    /// forwards without any are omitted.
    pub fn left(&self) -> Vec<Undelivered> {
        let mut left = self.items_of(ForwardCounters::left_items);
        left.retain(|left| left.count > 0 && self.has_log());
        left
    }

    /// Sends the queues until `no_more_time`. The rest stays in the log, or without one is lost and
    /// counted. The log must be closed before this is dropped, so that it keeps the rest.
    pub async fn shutdown(&self, no_more_time: impl Future<Output = ()>) {
        let mut time = TimeLeft::until(no_more_time);
        let mut endings: Vec<_> =
            self.running.read().iter().map(RunningForward::begin_end).collect();
        for ending in &mut endings {
            ending.end_holding().await;
        }
        let retired: Vec<_> = self.retired.lock().drain(..).collect();
        for retired in retired {
            retired.end_within(&mut time).await;
        }
        for ending in endings {
            ending.end_within(&mut time).await;
        }
        self.file_stop.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            let _ = task.await;
        }
        let file = self.common.as_ref().and_then(|common| common.file.as_ref());
        if let Some(Err(error)) = file.map(|file| file.write(true)) {
            tracing::warn!(%error, "cannot note what was passed on; a restart sends it again");
        }
    }
}
