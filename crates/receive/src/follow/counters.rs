//! Metrics of the file receiver; accepted items count as in other receivers.

use strum::{IntoStaticStr, VariantArray};

use spanscore_net::metrics;

/// Reason for skipping a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum SkippedRecord {
    /// It is larger than `max_record_mib`, before or after decompression.
    TooLarge,
    /// It is not an OTLP request.
    Malformed,
    /// Its file was deleted before it was complete.
    Cut,
}

metrics! {
    /// Instruments of the file receiver.
    pub(super) struct FollowMetrics {
        records: Counter("spanscore.receiver.file.records", "{record}",
            "Requests that were read from files and taken.");
        passed_over: CounterBy("spanscore.receiver.file.passed_over", "{record}",
            "Requests in files that were not taken, by reason.",
            "reason", SkippedRecord::VARIANTS.iter().map(|it| it.into_str()));
        restarts: Counter("spanscore.receiver.file.restarts", "{restart}",
            "Files that were cut or written anew, and are read from their beginning.");
        waits: Counter("spanscore.receiver.file.waits", "{wait}",
            "Waits for room behind the file receiver.");
        files: Gauge("spanscore.receiver.file.files", "{file}", "Files that are followed.");
        behind: Gauge("spanscore.receiver.file.behind", "By",
            "Bytes of these files that have not been taken yet.");
    }
}
