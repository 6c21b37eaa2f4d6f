//! Metrics of the file receiver; items that it accepts count like those of other receivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};

use spanscore_base::otlp::Signal;

/// Reason for which a record was skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PassedOver {
    /// It is larger than `max_record_mib`, before or after decompression.
    TooLarge,
    /// It is no OTLP request.
    Malformed,
    /// Its file went before it was whole.
    Cut,
}

impl PassedOver {
    const ALL: [Self; 3] = [Self::TooLarge, Self::Malformed, Self::Cut];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::Cut => "cut",
        }
    }
}

/// Instruments of the file receiver.
pub(super) struct FollowCounters {
    accepted: [Counter<u64>; 3],
    records: Counter<u64>,
    passed_over: Counter<u64>,
    restarts: Counter<u64>,
    waits: Counter<u64>,
    files: Arc<AtomicU64>,
    behind: Arc<AtomicU64>,
}

impl FollowCounters {
    pub(super) fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str, unit: &'static str, about: &'static str| {
            meter.u64_counter(name).with_unit(unit).with_description(about).build()
        };
        let counters = Self {
            // As in the counters of the OTLP receiver, of which these are further series.
            accepted: [
                ("spanscore.receiver.accepted_spans", "{span}", "Spans that were taken"),
                (
                    "spanscore.receiver.accepted_log_records",
                    "{record}",
                    "Log records that were taken",
                ),
                (
                    "spanscore.receiver.accepted_metric_points",
                    "{point}",
                    "Metric data points that were taken",
                ),
            ]
            .map(|(name, unit, about)| counter(name, unit, about)),
            records: counter(
                "spanscore.receiver.file.records",
                "{record}",
                "Requests that were read from files and taken.",
            ),
            passed_over: counter(
                "spanscore.receiver.file.passed_over",
                "{record}",
                "Requests in files that were not taken, by reason.",
            ),
            restarts: counter(
                "spanscore.receiver.file.restarts",
                "{restart}",
                "Files that were cut or written anew, and are read from their beginning.",
            ),
            waits: counter(
                "spanscore.receiver.file.waits",
                "{wait}",
                "Waits for room behind the file receiver.",
            ),
            files: Arc::default(),
            behind: Arc::default(),
        };
        let files = Arc::clone(&counters.files);
        let behind = Arc::clone(&counters.behind);
        meter
            .u64_observable_gauge("spanscore.receiver.file.files")
            .with_unit("{file}")
            .with_description("Files that are followed.")
            .with_callback(move |gauge| gauge.observe(files.load(Ordering::Relaxed), &[]))
            .build();
        meter
            .u64_observable_gauge("spanscore.receiver.file.behind")
            .with_unit("By")
            .with_description("Bytes of these files that have not been taken yet.")
            .with_callback(move |gauge| gauge.observe(behind.load(Ordering::Relaxed), &[]))
            .build();
        for counter in [&counters.records, &counters.restarts, &counters.waits] {
            counter.add(0, &[]);
        }
        Signal::ALL.into_iter().for_each(|signal| counters.accepted(signal, 0));
        PassedOver::ALL.into_iter().for_each(|reason| counters.passed_over(reason, 0));
        counters
    }

    pub(super) fn accepted(&self, signal: Signal, items: u64) {
        let labels = [KeyValue::new("receiver", "file"), KeyValue::new("transport", "file")];
        self.accepted[signal as usize].add(items, &labels);
    }

    pub(super) fn taken(&self) {
        self.records.add(1, &[]);
    }

    pub(super) fn passed_over(&self, reason: PassedOver, records: u64) {
        self.passed_over.add(records, &[KeyValue::new("reason", reason.as_str())]);
    }

    pub(super) fn restarted(&self) {
        self.restarts.add(1, &[]);
    }

    pub(super) fn waited(&self) {
        self.waits.add(1, &[]);
    }

    pub(super) fn show(&self, files: usize, behind: u64) {
        self.files.store(files as u64, Ordering::Relaxed);
        self.behind.store(behind, Ordering::Relaxed);
    }
}
