//! Metrics of the exporters: counters by outcome and reason, gauges, a histogram of delivery times.

mod gauges;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use smart_default::SmartDefault;
use strum::IntoStaticStr;
use tokio::time::{Duration, Instant};

use self::gauges::LiveGauges;
use super::queue::Delivery;
use spanscore_detect::redactor::WithheldTexts;
use spanscore_log::AppendError;
use spanscore_net::metrics;
use spanscore_net::metrics::{Meter, label};

/// Least interval between two log lines of one exporter about the same kind of error.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Upper bounds of the histogram of delivery times, seconds.
const DELIVERY_BOUNDS: [f64; 11] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0];

/// Closed set of reasons, for counters, why an evaluation or an item of a forward was not
/// delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Loss {
    /// The queue was full.
    QueueFull,
    /// It was displaced from a full queue, since its sender held most of it.
    Displaced,
    /// Queue and overflow were full, or the overflow could not be written.
    OverflowFull,
    /// No memory to hold it until its trace is judged, and no log.
    HoldFull,
    /// Its trace was not judged in time.
    Undecided,
    /// The exporter was shutting down.
    ShuttingDown,
    /// The backend refused the request permanently.
    Refused,
    /// The backend refused it permanently, and it is in the dead-letter file: not delivered, but
    /// not lost.
    DeadLettered,
    /// It exceeds the backend's size limit.
    TooLarge,
    /// The backend accepted only the rest of the request (OTLP partial success).
    RejectedPartly,
    /// The time for retries ran out.
    RetriesExhausted,
    /// It could not be written.
    Io,
    /// The log could not be read.
    Unreadable,
    /// An internal error ended its delivery.
    Fault,
    /// It was still waiting at the end of the shutdown timeout.
    ShutdownDeadline,
    /// It was still waiting some time after the removal of its exporter from the config.
    Removed,
}

impl Loss {
    /// Number of reasons.
    pub(crate) const COUNT: usize = Self::Removed as usize + 1;
    /// Reasons of forwards before anything was sent.
    pub(crate) const BEFORE_THE_FORWARD: [Self; 4] =
        [Self::QueueFull, Self::HoldFull, Self::Undecided, Self::ShuttingDown];
    /// Other reasons of forwards.
    pub(crate) const BEHIND_THE_FORWARD: [Self; 8] = [
        Self::Displaced,
        Self::Refused,
        Self::RejectedPartly,
        Self::RetriesExhausted,
        Self::Unreadable,
        Self::Fault,
        Self::ShutdownDeadline,
        Self::Removed,
    ];
    const BEFORE_THE_QUEUE: [Self; 4] =
        [Self::QueueFull, Self::Displaced, Self::OverflowFull, Self::ShuttingDown];
    const BEHIND_THE_QUEUE: [Self; 9] = [
        Self::Refused,
        Self::DeadLettered,
        Self::TooLarge,
        Self::RejectedPartly,
        Self::RetriesExhausted,
        Self::Io,
        Self::Fault,
        Self::ShutdownDeadline,
        Self::Removed,
    ];

    /// Returns its label value in counters.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

metrics! {
    /// Instruments of one exporter.
    pub(crate) struct ExporterMetrics {
        offered: Counter("spanscore.exporter.offered_evaluations", "{evaluation}",
            "Evaluations that an exporter was given.");
        left: Counter("spanscore.exporter.left_evaluations", "{evaluation}",
            "Evaluations that stay in the log for the next process.");
        recovered: Counter("spanscore.exporter.recovered_evaluations", "{evaluation}",
            "Evaluations that an earlier process kept on disk for an exporter.");
        sent: Counter("spanscore.exporter.sent_evaluations", "{evaluation}",
            "Evaluations that an exporter delivered.");
        send_failed: CounterBy("spanscore.exporter.send_failed_evaluations", "{evaluation}",
            "Evaluations that an exporter gave up, by reason.",
            "reason", Loss::BEHIND_THE_QUEUE.map(Loss::as_str));
        enqueue_failed: CounterBy("spanscore.exporter.enqueue_failed_evaluations", "{evaluation}",
            "Evaluations that found no room in an exporter's queue, by reason.",
            "reason", Loss::BEFORE_THE_QUEUE.map(Loss::as_str));
        delivery_time: Histogram("spanscore.exporter.delivery_time", "s",
            "Time that a batch took to be delivered or given up.", &DELIVERY_BOUNDS);
    }
}

metrics! {
    /// Counters of content that an exporter withheld.
    pub(crate) struct WithheldMetrics {
        texts: CounterBy("spanscore.exporter.withheld_texts", "{text}",
            "Texts that were withheld as they could not be redacted.", "reason",
            WithheldTexts::REASONS);
    }
}

metrics! {
    /// Counters of parts of permanently refused requests.
    pub(crate) struct PartMetrics {
        parts: CounterBy("spanscore.exporter.request_parts", "{request}",
            "Parts of requests that were refused for good, sent by themselves, by outcome.",
            "outcome", ["taken", "refused", "given_up"]);
    }
}

metrics! {
    /// Counters of requests in the dead-letter file.
    pub(crate) struct DeadLetterMetrics {
        requests: CounterBy("spanscore.exporter.dead_letters", "{request}",
            "Requests that a backend refused for good: written to the file of dead letters, \
             failed to be written, or dropped with its oldest part.",
            "outcome", ["written", "failed", "dropped"]);
    }
}

/// Instruments shared by all exporters.
pub(crate) struct Instruments {
    pub(crate) meter: Meter,
    pub(crate) gauges: LiveGauges,
    exporters: ExporterMetrics,
    /// Evaluations that each exporter lost, for any reason.
    lost: Mutex<Vec<(String, Arc<AtomicU64>)>>,
}

impl Instruments {
    pub(crate) fn new(meter: &Meter) -> Self {
        Self {
            meter: meter.clone(),
            gauges: LiveGauges::new(meter),
            exporters: ExporterMetrics::new(meter),
            lost: Mutex::default(),
        }
    }

    /// Returns the counters of one exporter, initialised to zero unless they exist already.
    pub(crate) fn of(&self, exporter: &str) -> Counters {
        Counters {
            exporter: exporter.into(),
            metrics: self.exporters.of(&[label("exporter", exporter)]),
            total_lost: self.total_lost(exporter),
            overflow_trouble: Arc::new(LogLimiter::default()),
        }
    }

    /// Returns the number of evaluations lost by exporters of this name, across changes of
    /// settings.
    fn total_lost(&self, exporter: &str) -> Arc<AtomicU64> {
        let mut lost = self.lost.lock();
        if let Some((_, total)) = lost.iter().find(|(name, _)| name == exporter) {
            return Arc::clone(total);
        }
        let total = Arc::default();
        lost.push((exporter.to_owned(), Arc::clone(&total)));
        total
    }

    /// Returns each exporter with its lost evaluations since the start.
    pub(crate) fn lost(&self) -> Vec<(String, u64)> {
        let lost = self.lost.lock();
        let read = |(name, total): &(String, Arc<AtomicU64>)| {
            (name.clone(), total.load(Ordering::Relaxed))
        };
        lost.iter().map(read).collect()
    }
}

/// Counters of one exporter.
#[derive(Clone)]
pub(crate) struct Counters {
    exporter: Arc<str>,
    pub(crate) metrics: ExporterMetrics,
    total_lost: Arc<AtomicU64>,
    overflow_trouble: Arc<LogLimiter>,
}

impl Counters {
    /// Logs a failed append to the overflow of a full queue.
    pub(crate) fn log_overflow_error(&self, error: &AppendError) {
        if self.overflow_trouble.may_log() {
            let exporter = &*self.exporter;
            tracing::warn!(%exporter, %error,
                "the exporter's overflow takes no more, see `sending_queue.overflow_mib`");
        }
    }

    /// Counts the outcome of a batch.
    pub(crate) fn settle(&self, delivery: &Delivery) {
        self.metrics.sent.add(delivery.sent);
        for (reason, lost) in &delivery.lost {
            self.lost(*reason, *lost);
        }
    }

    pub(crate) fn lost(&self, reason: Loss, evaluations: u64) {
        if reason != Loss::DeadLettered {
            self.total_lost.fetch_add(evaluations, Ordering::Relaxed);
        }
        if Loss::BEFORE_THE_QUEUE.contains(&reason) {
            self.metrics.enqueue_failed.add(reason.as_str(), evaluations);
        } else {
            self.metrics.send_failed.add(reason.as_str(), evaluations);
        }
    }
}

/// Log limiter: lets one log line through per [`LOG_INTERVAL`].
#[derive(Debug, SmartDefault)]
pub(crate) struct LogLimiter {
    #[default(Instant::now())]
    born: Instant,
    /// Milliseconds after `born` before which nothing is let through.
    quiet_until_ms: AtomicU64,
}

impl LogLimiter {
    /// Returns true if a line may be logged now.
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
