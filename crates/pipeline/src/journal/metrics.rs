//! Metrics of the write-ahead log.

use strum::{IntoStaticStr, VariantArray};

use spanscore_log::{Log, LogUsage, Recovered};
use spanscore_net::metrics::{Meter, Scraped};
use spanscore_net::{metrics, readings};

/// Reason that bytes of an earlier process are not read, a metric label.
#[derive(Clone, Copy, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum UnreadReason {
    /// They were being written when the process ended.
    Torn,
    /// They are damaged, or unreadable.
    Damaged,
    /// Their kind is unknown to this version.
    Unknown,
}

metrics! {
    /// Instruments of the log.
    pub(super) struct JournalMetrics {
        left_out: CounterBy("spanscore.log.left_out", "By",
            "Bytes of an earlier process that could not be read again, by reason.",
            "reason", UnreadReason::VARIANTS.iter().map(|it| it.into_str()));
        restored: Counter("spanscore.log.restored_requests", "{request}",
            "Requests of an earlier process that were read again.");
        notes_lost: Counter("spanscore.log.lost_notes", "{trace}",
            "Traces of which the log does not know what was said; it may be said again.");
        restoring: Gauge("spanscore.log.restoring", "",
            "1 while requests of an earlier process are read again.");
        set_aside: Gauge("spanscore.log.set_aside", "{file}",
            "Files of the log that could not be read: set aside, or left.");
    }
}

readings! {
    /// Size of the log, with written, freed and dropped amounts.
    const USAGE: LogUsage {
        gauge("spanscore.log.size", "By", "Bytes of the log.", |log| log.bytes);
        gauge("spanscore.log.capacity", "By", "Most bytes of the log.", |log| log.bytes_max);
        gauge("spanscore.log.lent", "By", "Room of the log that exporters use.", |log| log.lent);
        gauge("spanscore.log.segments", "{file}", "Files of the log.", |log| log.segments as u64);
        gauge("spanscore.log.waiting", "By", "Bytes that wait to be written.", |log| log.waiting);
        gauge("spanscore.log.failing", "", "1 while the log cannot be written.",
            |log| u64::from(log.is_failing));
        sum("spanscore.log.written_records", "{record}", "Records that were written.",
            |log| log.counts.written);
        sum("spanscore.log.writes", "{write}", "Writes, each of all that waited.",
            |log| log.counts.groups);
        sum("spanscore.log.syncs", "{sync}", "Syncs to the disk.", |log| log.counts.syncs);
        sum("spanscore.log.errors", "{error}", "Writes and syncs that failed.",
            |log| log.counts.write_errors + log.counts.sync_errors + log.counts.remove_errors
                + log.counts.compaction_errors);
        sum("spanscore.log.copied", "By", "Bytes of records that compaction copied.",
            |log| log.counts.copied_bytes);
        sum("spanscore.log.freed", "By", "Bytes that compaction freed.",
            |log| log.counts.freed_bytes);
        sum("spanscore.log.freed_segments", "{file}",
            "Files that compaction freed, wherever they stood.", |log| log.counts.freed_segments);
        sum("spanscore.log.unwritten_notes", "{record}",
            "Records of what was said that could not be written while the log failed.",
            |log| log.counts.unwritten_notes);
        sum("spanscore.log.untied_notes", "{record}",
            "Records of what was said that may go before the requests that it was said of, for \
                want of memory; it may be said again after a restart.", |log| log.untied_notes);
        sum("spanscore.log.dropped", "By",
            "Bytes dropped although they were needed: too old, or for room.",
            |log| log.counts.dropped_bytes);
    }
}

impl JournalMetrics {
    /// Creates the instruments of a log, with its size and unreadable parts.
    pub(super) fn show(meter: &Meter, log: &Log, recovered: &Recovered) -> Self {
        let metrics = Self::new(meter).of(&[]);
        metrics.left_out.add(UnreadReason::Torn.into_str(), recovered.cut_bytes);
        let aside = recovered.set_aside.len() + recovered.unreadable.len();
        metrics.set_aside.record(aside as u64);
        // Weak: instruments live as long as the process, and must not keep the log open.
        let log = log.downgrade();
        Scraped::show_all(USAGE, meter, move |see| {
            if let Some(log) = log.upgrade() {
                see(&log.usage(), &[]);
            }
        });
        metrics
    }
}
