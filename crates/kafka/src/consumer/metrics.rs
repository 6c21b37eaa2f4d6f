//! Metrics of the receiver, without partition or member labels, so that those of a fleet add up.

use spanscore_net::metrics;
use strum::{IntoStaticStr, VariantArray};

/// Reason for skipping a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum Skip {
    /// It is not an OTLP request.
    Malformed,
    /// It is empty.
    Empty,
    /// Its header has no valid signal, or it holds two in JSON.
    UnknownSignal,
    /// Its header has no valid group, so the owner of its traces is unknown.
    MalformedGroup,
}

/// Mismatch of a record's key and its only trace id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
pub(super) enum KeyMismatch {
    /// It has no key.
    #[strum(serialize = "no_key")]
    None,
    /// It has another key, or more than one trace.
    #[strum(serialize = "other_key")]
    Other,
}

/// Reason that the brokers refused positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum CommitFailure {
    /// The group expelled this process; the next owner of its partitions reads them again.
    NoMember,
    /// The group is rebalancing.
    Rebalance,
    /// The broker with the group's positions is unavailable.
    NoCoordinator,
    /// The user is not authorised for the topic or the group.
    NotAllowed,
    /// Metadata exceeds the brokers' `offset.metadata.max.bytes`; the next has half the size.
    MetadataTooLarge,
    /// Another cause.
    Other,
}

metrics! {
    /// Instruments of the receiver.
    pub(super) struct KafkaMetrics {
        records: Counter("spanscore.receiver.kafka.records", "{record}",
            "Records that were read and taken.");
        passed_over: CounterBy("spanscore.receiver.kafka.passed_over", "{record}",
            "Records that were not taken, by reason.",
            "reason", Skip::VARIANTS.iter().map(|it| it.into_str()));
        key_mismatches: CounterBy("spanscore.receiver.kafka.key_mismatches", "{record}",
            "Records whose key is not their only trace id: parts of a trace may be read by \
             different processes.",
            "reason", KeyMismatch::VARIANTS.iter().map(|it| it.into_str()));
        waits: Counter("spanscore.receiver.kafka.waits", "{wait}",
            "Waits for room behind the receiver.");
        rebalances: CounterBy("spanscore.receiver.kafka.rebalances", "{rebalance}",
            "Changes of the assignment, by what happened to this process's partitions.",
            "event", ["assigned", "revoked", "lost"]);
        commit_failures: CounterBy("spanscore.receiver.kafka.commit_failures", "{commit}",
            "Commits of positions that the brokers did not take, by reason; they are tried again.",
            "reason", CommitFailure::VARIANTS.iter().map(|it| it.into_str()));
        cut_positions: Counter("spanscore.receiver.kafka.cut_positions", "{commit}",
            "Commits whose metadata could not tell of all records that are done: after a crash \
             some may be read again without the rest of their trace.");
        foreign_metadata: Counter("spanscore.receiver.kafka.foreign_metadata", "{position}",
            "Positions of the group whose metadata is no text: another program committed them.");
        errors: CounterBy("spanscore.receiver.kafka.errors", "{error}",
            "Errors of the client.", "reason", ["brokers_down", "sign_in", "fatal", "other"]);
        partitions: Gauge("spanscore.receiver.kafka.partitions", "{partition}",
            "Partitions that this process owns.");
        paused: Gauge("spanscore.receiver.kafka.paused_partitions", "{partition}",
            "Partitions that are paused until there is room.");
        lag: Gauge("spanscore.receiver.kafka.lag", "{record}",
            "Records of these partitions that have not been read yet.");
        held_back: Gauge("spanscore.receiver.kafka.held_back", "{record}",
            "Records that were read and would be read again after a crash: from the committed \
             positions on.");
        queued: Gauge("spanscore.receiver.kafka.queued", "By",
            "Bytes of records that were read and wait for room.");
    }
}
