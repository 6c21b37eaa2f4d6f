//! Settings of a log: its limits, and its durability.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use spanscore_base::settings::HumanDuration;

/// Durability of an acknowledged record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Acknowledged at once: requests of the last moments are lost with the process.
    None,
    /// Acknowledged once the system has it: it survives the end of the process, not a loss of
    /// power.
    #[default]
    Os,
    /// Acknowledged once the disk has it: it survives a loss of power.
    Disk,
}

/// Policy for a record that a full log has no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It is refused, retryably.
    #[default]
    Refuse,
    /// It is accepted, and the oldest segment is dropped and counted.
    DropOldest,
}

/// Limits of a log.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// Most mebibytes of all its files together. Notes on the fate of requests may take an eighth
    /// of it beside.
    #[schemars(range(min = 1))]
    #[default = 4096]
    pub size_max_mib: u32,
    /// Size beyond which a new file is begun; at most an eighth of `size_max_mib`.
    #[schemars(range(min = 1))]
    #[default = 64]
    pub segment_mib: u32,
    /// Age beyond which a file is dropped and counted, although requests in it are still needed. It
    /// counts from the moment that the process wrote or found the file, by no clock that can be
    /// set.
    #[default(HumanDuration::from_secs(24 * 3600))]
    pub age_max: HumanDuration,
    /// Policy for a request that there is no room for.
    pub when_full: WhenFull,
    /// Most mebibytes that wait to be written.
    #[schemars(range(min = 1))]
    #[default = 32]
    pub waiting_mib: u32,
    /// Interval of syncs to the disk, with durability `none` and `os`.
    #[default(HumanDuration::from_secs(1))]
    pub sync_interval: HumanDuration,
}

/// Limits of a log in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Most bytes of all segments.
    pub size_max: u64,
    /// Bytes beyond which a segment is closed.
    pub segment: u64,
    /// Age beyond which a segment is dropped.
    pub age_max_ns: u64,
    /// Policy for a record that there is no room for.
    pub when_full: WhenFull,
    /// Most bytes that wait to be written.
    pub waiting_max: u64,
    /// Bytes of the disk that are set aside for compaction, for when it is full; with 0 none.
    pub reserve: u64,
    /// Interval of syncs, unless each group is synced.
    pub sync_interval: std::time::Duration,
    /// Durability of an acknowledged record.
    pub durability: Durability,
}

impl LogLimits {
    /// Returns the limits for notes, which have a part beyond those of records: while records are
    /// refused, notes on those that are there go on.
    pub(super) fn of_notes(&self) -> Self {
        let beyond = |most: u64| most.saturating_add(most / NOTE_PARTS);
        Self { size_max: beyond(self.size_max), waiting_max: beyond(self.waiting_max), ..*self }
    }

    /// Returns the size of the largest record, with its head.
    pub fn record_max(&self) -> u64 {
        self.size_max / SEGMENTS_MIN
    }
}

/// Inverse of the part of a log that is set aside for compaction.
const RESERVE_PARTS: u64 = 32;
/// Most bytes that are set aside for compaction.
const RESERVE_BYTES_MAX: u64 = 4 << 20;

/// Least number of segments in a full log: room is made by dropping whole segments.
const SEGMENTS_MIN: u64 = 8;

/// Inverse of the part of a log that notes may take beside all of it.
const NOTE_PARTS: u64 = 8;

impl LogSettings {
    /// Returns the limits with a durability.
    pub fn limits(&self, durability: Durability) -> LogLimits {
        let mib = |mib: u32| u64::from(mib.max(1)) << 20;
        let size_max = mib(self.size_max_mib);
        LogLimits {
            size_max,
            segment: mib(self.segment_mib).min(size_max / SEGMENTS_MIN),
            age_max_ns: u64::try_from(self.age_max.0.as_nanos()).unwrap_or(u64::MAX),
            when_full: self.when_full,
            waiting_max: mib(self.waiting_mib),
            reserve: RESERVE_BYTES_MAX.min(size_max / RESERVE_PARTS),
            sync_interval: self.sync_interval.0,
            durability,
        }
    }
}
