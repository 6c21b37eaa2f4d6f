//! Metrics of the file receiver; items that it accepts count like those of other receivers.

use spanscore_net::metrics;

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

metrics! {
    /// Instruments of the file receiver.
    pub(super) struct FollowMetrics {
        records: Counter("spanscore.receiver.file.records", "{record}",
            "Requests that were read from files and taken.");
        passed_over: CounterBy("spanscore.receiver.file.passed_over", "{record}",
            "Requests in files that were not taken, by reason.",
            "reason", PassedOver::ALL.map(PassedOver::as_str));
        restarts: Counter("spanscore.receiver.file.restarts", "{restart}",
            "Files that were cut or written anew, and are read from their beginning.");
        waits: Counter("spanscore.receiver.file.waits", "{wait}",
            "Waits for room behind the file receiver.");
        files: Gauge("spanscore.receiver.file.files", "{file}", "Files that are followed.");
        behind: Gauge("spanscore.receiver.file.behind", "By",
            "Bytes of these files that have not been taken yet.");
    }
}
