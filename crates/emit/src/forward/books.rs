//! Metrics of the forwards, in requests and in items: spans, log records, data points.
//!
//! ```text
//! accepted items    = sent + failed by reason + dropped by reason + unchosen + held + queued
//! enqueued requests = sent + failed by reason + dropped at shutdown + queued
//! ```
//!
//! A request of chosen traces is made here, so requests are counted from the queue on, and items
//! from the start.

mod show;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use parking_lot::RwLock;
use smart_default::SmartDefault;

use crate::counters::{LogLimiter, Loss};
use spanscore_base::model::MemoryQuota;
use spanscore_base::otlp::Signal;
use spanscore_net::metrics::Meter;

/// Some requests and the items in them.
#[derive(Debug, Default)]
pub(super) struct ForwardTally {
    requests: AtomicU64,
    items: AtomicU64,
}

impl ForwardTally {
    fn add(&self, requests: u64, items: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.items.fetch_add(items, Ordering::Relaxed);
    }

    fn take(&self, requests: u64, items: u64) {
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

/// The accounts of one signal.
#[derive(Debug, Default)]
struct Accounts {
    accepted: ForwardTally,
    enqueued: ForwardTally,
    sent: ForwardTally,
    unchosen: ForwardTally,
    held: ForwardTally,
    queued: ForwardTally,
    /// Requests that wait in the queue with no more than their place in the log.
    in_log: ForwardTally,
    lost: [ForwardTally; Loss::COUNT],
}

/// The accounts of one forward.
#[derive(Debug, SmartDefault)]
pub(super) struct ForwardBooks {
    pub(super) name: String,
    signals: [Accounts; 3],
    /// Bytes held, waiting and on their way.
    pub(super) bytes: AtomicUsize,
    /// Most of these.
    #[default(AtomicUsize::new(usize::MAX))]
    pub(super) bytes_max: AtomicUsize,
    /// The config has the forward no more: its counters stay, its gauges go.
    is_gone: AtomicBool,
    pub(super) full: LogLimiter,
    pub(super) trouble: LogLimiter,
    pub(super) losses: LogLimiter,
    pub(super) partly: LogLimiter,
}

impl ForwardBooks {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    fn of(&self, signal: Signal) -> &Accounts {
        &self.signals[signal as usize]
    }

    /// Items that were offered.
    pub(super) fn accepted(&self, signal: Signal, items: u64) {
        self.of(signal).accepted.add(1, items);
    }

    /// A request entered the queue.
    pub(super) fn enqueued(&self, signal: Signal, items: u64) {
        self.of(signal).enqueued.add(1, items);
        self.of(signal).queued.add(1, items);
    }

    /// A request left the queue, whatever became of it.
    pub(super) fn dequeued(&self, signal: Signal, items: u64) {
        self.of(signal).queued.take(1, items);
    }

    /// A request waits with no more than its place in the log, or does so no longer.
    pub(super) fn in_log(&self, signal: Signal, is_in: bool) {
        if is_in {
            self.of(signal).in_log.add(1, 0);
        } else {
            self.of(signal).in_log.take(1, 0);
        }
    }

    /// Items wait until their traces are judged.
    pub(super) fn held(&self, signal: Signal, items: u64) {
        self.of(signal).held.add(0, items);
    }

    /// Items were accepted and held that nobody had counted.
    pub(super) fn more_held(&self, signal: Signal, items: u64) {
        self.of(signal).accepted.add(0, items);
        self.of(signal).held.add(0, items);
    }

    /// They do so no longer.
    pub(super) fn released(&self, signal: Signal, items: u64) {
        self.of(signal).held.take(0, items);
    }

    /// Items of traces that are not passed on.
    pub(super) fn unchosen(&self, signal: Signal, items: u64) {
        self.of(signal).unchosen.add(0, items);
    }

    /// A request arrived, with so many items that the backend took.
    pub(super) fn sent(&self, signal: Signal, items: u64) {
        self.of(signal).sent.add(1, items);
    }

    /// Requests and items were lost.
    pub(super) fn lost(&self, signal: Signal, reason: Loss, requests: u64, items: u64) {
        self.of(signal).lost[reason as usize].add(requests, items);
    }

    /// All items that are held or queued.
    pub(super) fn left_items(&self) -> u64 {
        let waiting = self.signals.iter().flat_map(|accounts| [&accounts.held, &accounts.queued]);
        waiting.map(ForwardTally::items).sum()
    }

    /// All items that were lost.
    pub(super) fn lost_items(&self) -> u64 {
        let lost = self.signals.iter().flat_map(|accounts| &accounts.lost);
        lost.map(ForwardTally::items).sum()
    }
}

/// Forwards that the config has no more and whose counters are still shown.
const GONE_MAX: usize = 64;

/// The accounts of all forwards that the process has, and has had.
pub(super) struct ForwardMetrics {
    meter: Meter,
    share: Arc<MemoryQuota>,
    pub(super) all: Arc<RwLock<Vec<Arc<ForwardBooks>>>>,
    is_shown: Once,
}

impl ForwardMetrics {
    /// None yet; `share` is that of all forwards.
    pub(super) fn new(meter: &Meter, share: &Arc<MemoryQuota>) -> Self {
        let meter = meter.clone();
        let share = Arc::clone(share);
        Self { meter, share, all: Arc::default(), is_shown: Once::new() }
    }

    /// Those of a forward that begins; one that was there before counts on.
    pub(super) fn begin(&self, name: &str) -> Arc<ForwardBooks> {
        self.is_shown.call_once(|| show::show(&self.meter, &self.share, &self.all));
        let mut all = self.all.write();
        if let Some(known) = all.iter().find(|books| books.name == name) {
            known.is_gone.store(false, Ordering::Relaxed);
            return Arc::clone(known);
        }
        let is_gone = |books: &Arc<ForwardBooks>| books.is_gone.load(Ordering::Relaxed);
        if all.iter().filter(|books| is_gone(books)).count() >= GONE_MAX
            && let Some(oldest) = all.iter().position(is_gone)
        {
            all.remove(oldest);
        }
        let books = Arc::new(ForwardBooks::new(name));
        all.push(Arc::clone(&books));
        books
    }
}

impl ForwardBooks {
    /// Shows its counters alone from now on.
    pub(super) fn end(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }
}
