//! Metrics of the exporters: counters by outcome and reason, gauges, a histogram of delivery times.

mod gauges;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use tokio::time::{Duration, Instant};

use self::gauges::{LiveGauges, NameAndUnit};
use super::content::WITHHELD;
use super::queue::{Delivery, Held, Overflow};
use spanscore_log::AppendError;

/// Shortest time between two log lines of one exporter about the same kind of trouble.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Upper bounds of the histogram of delivery times, seconds.
const DELIVERY_BOUNDS: [f64; 11] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0];

/// Reason that an evaluation was not delivered: a closed set, for counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The queue was full.
    QueueFull,
    /// The queue was full, and its overflow on disk was full too, or could not be written.
    OverflowFull,
    /// The exporter was shutting down.
    ShuttingDown,
    /// The backend refused the request for good.
    Refused,
    /// The backend refused it for good, and it is in the dead-letter file: not delivered, and not
    /// lost.
    DeadLettered,
    /// The backend took the rest of the request (OTLP partial success).
    RejectedPartly,
    /// The time for retries ran out.
    RetriesExhausted,
    /// It could not be written.
    Io,
    /// Its delivery met an internal error.
    Fault,
    /// It was still waiting when the time for shutting down ran out.
    ShutdownDeadline,
    /// It was still waiting some time after its exporter was removed from the config.
    Removed,
}

impl Loss {
    const BEFORE_THE_QUEUE: [Self; 3] = [Self::QueueFull, Self::OverflowFull, Self::ShuttingDown];
    const BEHIND_THE_QUEUE: [Self; 8] = [
        Self::Refused,
        Self::DeadLettered,
        Self::RejectedPartly,
        Self::RetriesExhausted,
        Self::Io,
        Self::Fault,
        Self::ShutdownDeadline,
        Self::Removed,
    ];

    /// Returns the word for it in counters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::OverflowFull => "overflow_full",
            Self::ShuttingDown => "shutting_down",
            Self::Refused => "refused",
            Self::DeadLettered => "dead_lettered",
            Self::RejectedPartly => "rejected_partly",
            Self::RetriesExhausted => "retries_exhausted",
            Self::Io => "io",
            Self::Fault => "fault",
            Self::ShutdownDeadline => "shutdown_deadline",
            Self::Removed => "removed",
        }
    }
}

/// Instruments that all exporters share.
pub(crate) struct Instruments {
    meter: Meter,
    offered: Counter<u64>,
    sent: Counter<u64>,
    left: Counter<u64>,
    recovered: Counter<u64>,
    send_failed: Counter<u64>,
    enqueue_failed: Counter<u64>,
    delivery_time: Histogram<f64>,
    gauges: LiveGauges,
    /// Evaluations that each exporter lost, for any reason.
    lost: Mutex<Vec<(String, Arc<AtomicU64>)>>,
}

impl Instruments {
    pub(crate) fn new(meter: &Meter) -> Self {
        let counter = |name, about| {
            meter.u64_counter(name).with_unit("{evaluation}").with_description(about).build()
        };
        Self {
            offered: counter(
                "spanscore.exporter.offered_evaluations",
                "Evaluations that an exporter was given.",
            ),
            left: counter(
                "spanscore.exporter.left_evaluations",
                "Evaluations that stay in the log for the next process.",
            ),
            recovered: counter(
                "spanscore.exporter.recovered_evaluations",
                "Evaluations that an earlier process kept on disk for an exporter.",
            ),
            sent: counter(
                "spanscore.exporter.sent_evaluations",
                "Evaluations that an exporter delivered.",
            ),
            send_failed: counter(
                "spanscore.exporter.send_failed_evaluations",
                "Evaluations that an exporter gave up, by reason.",
            ),
            enqueue_failed: counter(
                "spanscore.exporter.enqueue_failed_evaluations",
                "Evaluations that found no room in an exporter's queue, by reason.",
            ),
            delivery_time: meter
                .f64_histogram("spanscore.exporter.delivery_time")
                .with_unit("s")
                .with_description("Time that a batch took to be delivered or given up.")
                .with_boundaries(DELIVERY_BOUNDS.to_vec())
                .build(),
            gauges: LiveGauges::new(meter),
            meter: meter.clone(),
            lost: Mutex::default(),
        }
    }

    /// Returns the counters of one exporter, each starting at zero unless it counted before.
    pub(crate) fn of(&self, exporter: &str) -> Counters {
        let counters = Counters {
            exporter: KeyValue::new("exporter", exporter.to_owned()),
            offered: self.offered.clone(),
            sent: self.sent.clone(),
            left: self.left.clone(),
            recovered: self.recovered.clone(),
            send_failed: self.send_failed.clone(),
            enqueue_failed: self.enqueue_failed.clone(),
            delivery_time: self.delivery_time.clone(),
            total_lost: self.total_lost(exporter),
            overflow_trouble: Arc::new(LogLimiter::new()),
        };
        counters.offered(0);
        counters.sent(0);
        counters.left(0);
        counters.recovered(0);
        for reason in Loss::BEFORE_THE_QUEUE.into_iter().chain(Loss::BEHIND_THE_QUEUE) {
            counters.lost(reason, 0);
        }
        counters
    }

    /// Returns the number of evaluations lost by an exporter of this name, also before its settings
    /// changed.
    fn total_lost(&self, exporter: &str) -> Arc<AtomicU64> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, total)) = lost.iter().find(|(name, _)| name == exporter) {
            return Arc::clone(total);
        }
        let total = Arc::default();
        lost.push((exporter.to_owned(), Arc::clone(&total)));
        total
    }

    /// Returns each exporter with the evaluations that it has lost since its start.
    pub(crate) fn lost(&self) -> Vec<(String, u64)> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |(name, total): &(String, Arc<AtomicU64>)| {
            (name.clone(), total.load(Ordering::Relaxed))
        };
        lost.iter().map(read).collect()
    }

    /// Returns a counter of one exporter, labelled by outcome.
    pub(crate) fn tally(
        &self,
        (name, unit): (&'static str, &'static str),
        about: &'static str,
        exporter: &str,
    ) -> Tally {
        self.tally_by("outcome", (name, unit), about, exporter)
    }

    /// Returns a counter of one exporter, with a label of that name.
    fn tally_by(
        &self,
        by: &'static str,
        (name, unit): NameAndUnit,
        about: &'static str,
        exporter: &str,
    ) -> Tally {
        let counter = self.meter.u64_counter(name).with_unit(unit).with_description(about).build();
        Tally { by, counter, exporter: KeyValue::new("exporter", exporter.to_owned()) }
    }

    /// Returns the counter of texts that an exporter withheld, at zero for each reason.
    pub(crate) fn withheld(&self, exporter: &str) -> Tally {
        let tally = self.tally_by(
            "reason",
            ("spanscore.exporter.withheld_texts", "{text}"),
            "Texts that were withheld as they could not be redacted.",
            exporter,
        );
        WITHHELD.into_iter().for_each(|reason| tally.add(reason, 0));
        tally
    }

    /// Adds the counter of names of services and agents that were cut.
    pub(crate) fn watch_cut(&self, exporter: &str, cut: Arc<AtomicU64>) {
        self.gauges.sum(
            ("spanscore.exporter.cut_labels", "{label}"),
            "Names of services and agents that were cut to be labels.",
            exporter,
            move || cut.load(Ordering::Relaxed),
        );
    }

    /// Adds the gauges of a queue: its bytes, its evaluations, its capacity.
    pub(crate) fn watch(&self, exporter: &str, held: Arc<Held>, capacity: usize) {
        let evaluations = Arc::clone(&held);
        let claimed = Arc::clone(&held);
        self.gauge(
            ("spanscore.exporter.log_held", "By"),
            "Bytes of the log that its evaluations need, a request for each of its parts.",
            exporter,
            move || claimed.claimed(),
        );
        self.gauge(
            ("spanscore.exporter.queue_size", "By"),
            "Bytes held for an exporter, waiting and on their way.",
            exporter,
            move || held.bytes() as u64,
        );
        self.gauge(
            ("spanscore.exporter.queued_evaluations", "{evaluation}"),
            "Evaluations held for an exporter in memory, waiting and on their way.",
            exporter,
            move || evaluations.evaluations(),
        );
        self.gauge(
            ("spanscore.exporter.queue_capacity", "By"),
            "Most bytes held for an exporter.",
            exporter,
            move || capacity as u64,
        );
    }

    /// Adds the gauges of a queue's overflow on disk; they are 0 without one.
    pub(crate) fn watch_overflow(&self, exporter: &str, overflow: Option<&Arc<Overflow>>) {
        let show = |name, about, read: fn(&Overflow) -> u64| {
            // Weak, so that a gauge does not keep a log open.
            let overflow = overflow.map(Arc::downgrade);
            let read = move || overflow.as_ref().and_then(Weak::upgrade).map_or(0, |it| read(&it));
            self.gauge(name, about, exporter, read);
        };
        show(
            ("spanscore.exporter.overflow_size", "By"),
            "Bytes kept on disk for an exporter whose queue was full.",
            Overflow::bytes,
        );
        show(
            ("spanscore.exporter.overflow_capacity", "By"),
            "Most bytes kept on disk for an exporter whose queue was full.",
            Overflow::bytes_max,
        );
        show(
            ("spanscore.exporter.overflow_evaluations", "{evaluation}"),
            "Evaluations kept on disk for an exporter whose queue was full.",
            Overflow::evaluations,
        );
    }

    /// Adds a gauge of an exporter, in place of an earlier one of that name.
    pub(crate) fn gauge(
        &self,
        name: NameAndUnit,
        about: &'static str,
        exporter: &str,
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        self.gauges.gauge(name, about, exporter, read);
    }

    /// Removes the gauges of an exporter; its counters stay.
    pub(crate) fn forget(&self, exporter: &str) {
        self.gauges.forget(exporter);
    }
}

/// Counters of one exporter.
#[derive(Clone)]
pub(crate) struct Counters {
    exporter: KeyValue,
    offered: Counter<u64>,
    sent: Counter<u64>,
    left: Counter<u64>,
    recovered: Counter<u64>,
    send_failed: Counter<u64>,
    enqueue_failed: Counter<u64>,
    delivery_time: Histogram<f64>,
    total_lost: Arc<AtomicU64>,
    overflow_trouble: Arc<LogLimiter>,
}

impl Counters {
    /// Logs that the overflow of a full queue takes no more.
    pub(crate) fn tell_of_overflow(&self, error: &AppendError) {
        if self.overflow_trouble.may_log() {
            let exporter = self.exporter.value.as_str();
            tracing::warn!(%exporter, %error,
                "the exporter's overflow takes no more, see `sending_queue.overflow_mib`");
        }
    }

    pub(crate) fn offered(&self, evaluations: u64) {
        self.offered.add(evaluations, std::slice::from_ref(&self.exporter));
    }

    /// Counts evaluations that stay in the log for the next process.
    pub(crate) fn left(&self, evaluations: u64) {
        self.left.add(evaluations, std::slice::from_ref(&self.exporter));
    }

    /// Counts evaluations that an earlier process stored on disk.
    pub(crate) fn recovered(&self, evaluations: u64) {
        self.recovered.add(evaluations, std::slice::from_ref(&self.exporter));
    }

    /// Records the time that a batch took to be delivered or given up.
    pub(crate) fn took(&self, time: Duration) {
        self.delivery_time.record(time.as_secs_f64(), std::slice::from_ref(&self.exporter));
    }

    /// Counts the outcome of a batch.
    pub(crate) fn settle(&self, delivery: &Delivery) {
        self.sent(delivery.sent);
        for (reason, lost) in &delivery.lost {
            self.lost(*reason, *lost);
        }
    }

    pub(crate) fn sent(&self, evaluations: u64) {
        self.sent.add(evaluations, std::slice::from_ref(&self.exporter));
    }

    pub(crate) fn lost(&self, reason: Loss, evaluations: u64) {
        if reason != Loss::DeadLettered {
            self.total_lost.fetch_add(evaluations, Ordering::Relaxed);
        }
        let labels = [self.exporter.clone(), KeyValue::new("reason", reason.as_str())];
        if Loss::BEFORE_THE_QUEUE.contains(&reason) {
            self.enqueue_failed.add(evaluations, &labels);
        } else {
            self.send_failed.add(evaluations, &labels);
        }
    }
}

/// Counter of one exporter, by the value of one label.
#[derive(Clone)]
pub(crate) struct Tally {
    by: &'static str,
    counter: Counter<u64>,
    exporter: KeyValue,
}

impl Tally {
    pub(crate) fn add(&self, what: &'static str, count: u64) {
        self.counter.add(count, &[self.exporter.clone(), KeyValue::new(self.by, what)]);
    }
}

/// Log limiter: lets one log line through per [`LOG_INTERVAL`].
#[derive(Debug)]
pub(crate) struct LogLimiter {
    born: Instant,
    /// Milliseconds after `born` before which nothing is let through.
    quiet_until_ms: AtomicU64,
}

impl LogLimiter {
    pub(crate) fn new() -> Self {
        Self { born: Instant::now(), quiet_until_ms: AtomicU64::new(0) }
    }

    /// Returns true if a line may be written now.
    pub(crate) fn may_log(&self) -> bool {
        let now_ms = self.born.elapsed().as_millis() as u64;
        let until = self.quiet_until_ms.load(Ordering::Relaxed);
        let next = now_ms + LOG_INTERVAL.as_millis() as u64;
        now_ms >= until
            && self
                .quiet_until_ms
                .compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}
