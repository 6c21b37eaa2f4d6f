//! Metrics of the write-ahead log.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Meter};

use spanscore_log::{Log, LogUsage, Recovered};

/// Instruments of the log.
pub(super) struct JournalMetrics {
    left_out: Counter<u64>,
    restored: Counter<u64>,
    notes_lost: Counter<u64>,
    restoring: Gauge<u64>,
}

impl JournalMetrics {
    pub(super) fn new(meter: &Meter, log: &Log, recovered: &Recovered) -> Self {
        let counter = |name: &'static str, unit: &'static str, about: &'static str| {
            meter.u64_counter(name).with_unit(unit).with_description(about).build()
        };
        let metrics = Self {
            left_out: counter(
                "spanscore.log.left_out",
                "By",
                "Bytes of an earlier process that could not be read again, by reason.",
            ),
            restored: counter(
                "spanscore.log.restored_requests",
                "{request}",
                "Requests of an earlier process that were read again.",
            ),
            notes_lost: counter(
                "spanscore.log.lost_notes",
                "{trace}",
                "Traces of which the log does not know what was said; it may be said again.",
            ),
            restoring: meter
                .u64_gauge("spanscore.log.restoring")
                .with_description("1 while requests of an earlier process are read again.")
                .build(),
        };
        metrics.left_out.add(recovered.cut_bytes, &[KeyValue::new("reason", "torn")]);
        metrics.damaged(0);
        metrics.unknown(0);
        metrics.restored.add(0, &[]);
        metrics.notes_lost.add(0, &[]);
        metrics.restoring.record(0, &[]);
        let aside = (recovered.set_aside.len() + recovered.unreadable.len()) as u64;
        meter
            .u64_observable_gauge("spanscore.log.set_aside")
            .with_unit("{file}")
            .with_description("Files of the log that could not be read: set aside, or left.")
            .with_callback(move |gauge| gauge.observe(aside, &[]))
            .build();
        show_usage(meter, log);
        metrics
    }

    pub(super) fn damaged(&self, bytes: u64) {
        self.left_out.add(bytes, &[KeyValue::new("reason", "damaged")]);
    }

    /// Adds bytes of records of a kind unknown to this version.
    pub(super) fn unknown(&self, bytes: u64) {
        self.left_out.add(bytes, &[KeyValue::new("reason", "unknown")]);
    }

    pub(super) fn restored(&self, requests: u64) {
        self.restored.add(requests, &[]);
    }

    pub(super) fn notes_lost(&self, traces: usize) {
        self.notes_lost.add(traces as u64, &[]);
    }

    pub(super) fn restoring(&self, is_restoring: bool) {
        self.restoring.record(u64::from(is_restoring), &[]);
    }
}

/// Registers instruments for the log's size, writes and errors.
fn show_usage(meter: &Meter, log: &Log) {
    let gauge = |name: &'static str, unit: &'static str, about, of: fn(&LogUsage) -> u64| {
        // Weak: instruments live as long as the process, and must not keep the log open.
        let log = log.downgrade();
        meter
            .u64_observable_gauge(name)
            .with_unit(unit)
            .with_description(about)
            .with_callback(move |gauge| {
                if let Some(log) = log.upgrade() {
                    gauge.observe(of(&log.usage()), &[]);
                }
            })
            .build();
    };
    gauge("spanscore.log.size", "By", "Bytes of the log.", |usage| usage.bytes);
    gauge("spanscore.log.capacity", "By", "Most bytes of the log.", |usage| usage.bytes_max);
    gauge("spanscore.log.lent", "By", "Room of the log that exporters use.", |usage| usage.lent);
    gauge("spanscore.log.segments", "{file}", "Files of the log.", |usage| usage.segments as u64);
    gauge("spanscore.log.waiting", "By", "Bytes that wait to be written.", |usage| usage.waiting);
    gauge("spanscore.log.failing", "", "1 while the log cannot be written.", |usage| {
        u64::from(usage.is_failing)
    });
    show_counts(meter, log);
}

/// Registers instruments for what a log has written, freed and dropped.
fn show_counts(meter: &Meter, log: &Log) {
    let counter = |name: &'static str, unit: &'static str, about, of: fn(&LogUsage) -> u64| {
        let log = log.downgrade();
        meter
            .u64_observable_counter(name)
            .with_unit(unit)
            .with_description(about)
            .with_callback(move |counter| {
                if let Some(log) = log.upgrade() {
                    counter.observe(of(&log.usage()), &[]);
                }
            })
            .build();
    };
    counter("spanscore.log.written_records", "{record}", "Records that were written.", |usage| {
        usage.counts.written
    });
    counter("spanscore.log.writes", "{write}", "Writes, each of all that waited.", |usage| {
        usage.counts.groups
    });
    counter("spanscore.log.syncs", "{sync}", "Syncs to the disk.", |usage| usage.counts.syncs);
    counter("spanscore.log.errors", "{error}", "Writes and syncs that failed.", |usage| {
        usage.counts.write_errors
            + usage.counts.sync_errors
            + usage.counts.remove_errors
            + usage.counts.compaction_errors
    });
    counter("spanscore.log.copied", "By", "Bytes of records that compaction copied.", |usage| {
        usage.counts.copied_bytes
    });
    counter("spanscore.log.freed", "By", "Bytes that compaction freed.", |usage| {
        usage.counts.freed_bytes
    });
    counter(
        "spanscore.log.freed_segments",
        "{file}",
        "Files that compaction freed, wherever they stood.",
        |usage| usage.counts.freed_segments,
    );
    counter(
        "spanscore.log.unwritten_notes",
        "{record}",
        "Records of what was said that could not be written while the log failed.",
        |usage| usage.counts.unwritten_notes,
    );
    counter(
        "spanscore.log.untied_notes",
        "{record}",
        "Records of what was said that may go before the requests that it was said of, for want \
            of memory; it may be said again after a restart.",
        |usage| usage.untied_notes,
    );
    counter(
        "spanscore.log.dropped",
        "By",
        "Bytes dropped although they were needed: too old, or for room.",
        |usage| usage.counts.dropped_bytes,
    );
}
