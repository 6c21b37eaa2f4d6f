//! Metrics of the forwards, in requests and in items: spans, log records, data points.
//!
//! ```text
//! accepted items    = sent + failed by reason + dropped by reason + unchosen + held + queued
//! enqueued requests = sent + failed by reason + dropped at shutdown + queued
//! ```
//!
//! Sampling by verdict builds requests of its own, so requests are counted from the queue on, and
//! items from the start.

mod show;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use parking_lot::RwLock;
use smart_default::SmartDefault;

use crate::counters::{LogLimiter, Loss};
use spanscore_base::model::MemoryQuota;
use spanscore_base::otlp::Signal;
use spanscore_net::metrics::Meter;

/// Counter of requests and of their items.
#[derive(Debug, Default)]
pub(super) struct ForwardTally {
    requests: AtomicU64,
    items: AtomicU64,
}

impl ForwardTally {
    pub(super) fn add(&self, requests: u64, items: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.items.fetch_add(items, Ordering::Relaxed);
    }

    pub(super) fn take(&self, requests: u64, items: u64) {
        self.requests.fetch_sub(requests, Ordering::Relaxed);
        self.items.fetch_sub(items, Ordering::Relaxed);
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }
}

/// Counters of one signal.
#[derive(Debug, Default)]
pub(super) struct SignalCounters {
    /// Offered items; those held may be counted only then.
    pub(super) accepted: ForwardTally,
    enqueued: ForwardTally,
    /// Accepted requests, and the items that the backend took.
    pub(super) sent: ForwardTally,
    /// Items of traces that are not passed on.
    pub(super) unchosen: ForwardTally,
    /// Items held until their traces are judged.
    pub(super) held: ForwardTally,
    pub(super) queued: ForwardTally,
    /// Queued requests of which only the log position is in memory.
    in_log: ForwardTally,
    lost: [ForwardTally; Loss::COUNT],
}

/// Counters of one forward.
#[derive(Debug, SmartDefault)]
pub(super) struct ForwardCounters {
    pub(super) name: String,
    signals: [SignalCounters; 3],
    /// Bytes held, queued and in flight.
    pub(super) bytes: AtomicUsize,
    /// Limit on `bytes`.
    #[default(AtomicUsize::new(usize::MAX))]
    pub(super) bytes_max: AtomicUsize,
    /// True if the forward left the config: its counters stay, its gauges go.
    is_gone: AtomicBool,
    pub(super) full: LogLimiter,
    pub(super) trouble: LogLimiter,
    pub(super) losses: LogLimiter,
    pub(super) partly: LogLimiter,
}

impl ForwardCounters {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(super) fn of(&self, signal: Signal) -> &SignalCounters {
        &self.signals[signal as usize]
    }

    /// Counts a request that entered the queue.
    pub(super) fn enqueued(&self, signal: Signal, items: u64) {
        self.of(signal).enqueued.add(1, items);
        self.of(signal).queued.add(1, items);
    }

    /// Counts a queued request as stored only in the log, or no longer so.
    pub(super) fn in_log(&self, signal: Signal, is_in: bool) {
        if is_in {
            self.of(signal).in_log.add(1, 0);
        } else {
            self.of(signal).in_log.take(1, 0);
        }
    }

    /// Counts held items that were not counted as accepted before.
    pub(super) fn more_held(&self, signal: Signal, items: u64) {
        self.of(signal).accepted.add(0, items);
        self.of(signal).held.add(0, items);
    }

    /// Counts lost requests and items.
    pub(super) fn lost(&self, signal: Signal, reason: Loss, requests: u64, items: u64) {
        self.of(signal).lost[reason as usize].add(requests, items);
    }

    /// Returns the number of held or queued items.
    pub(super) fn left_items(&self) -> u64 {
        let waiting = self.signals.iter().flat_map(|counters| [&counters.held, &counters.queued]);
        waiting.map(ForwardTally::items).sum()
    }

    /// Returns the number of lost items.
    pub(super) fn lost_items(&self) -> u64 {
        let lost = self.signals.iter().flat_map(|counters| &counters.lost);
        lost.map(ForwardTally::items).sum()
    }
}

/// Limit on removed forwards whose counters are still shown.
const GONE_MAX: usize = 64;

/// Counters of all present and past forwards.
pub(super) struct ForwardMetrics {
    meter: Meter,
    share: Arc<MemoryQuota>,
    pub(super) all: Arc<RwLock<Vec<Arc<ForwardCounters>>>>,
    is_shown: Once,
}

impl ForwardMetrics {
    /// Returns empty counters; `share` is the memory quota of all forwards.
    pub(super) fn new(meter: &Meter, share: &Arc<MemoryQuota>) -> Self {
        let meter = meter.clone();
        let share = Arc::clone(share);
        Self { meter, share, all: Arc::default(), is_shown: Once::new() }
    }

    /// Returns the counters of a starting forward; those of an earlier one of its name continue.
    pub(super) fn begin(&self, name: &str) -> Arc<ForwardCounters> {
        self.is_shown.call_once(|| show::show(&self.meter, &self.share, &self.all));
        let mut all = self.all.write();
        if let Some(known) = all.iter().find(|counters| counters.name == name) {
            known.is_gone.store(false, Ordering::Relaxed);
            return Arc::clone(known);
        }
        let is_gone = |counters: &Arc<ForwardCounters>| counters.is_gone.load(Ordering::Relaxed);
        if all.iter().filter(|counters| is_gone(counters)).count() >= GONE_MAX
            && let Some(oldest) = all.iter().position(is_gone)
        {
            all.remove(oldest);
        }
        let counters = Arc::new(ForwardCounters::new(name));
        all.push(Arc::clone(&counters));
        counters
    }
}

impl ForwardCounters {
    /// Removes its gauges; its counters stay.
    pub(super) fn end(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }
}
