//! Settings of a log: limits and durability.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use spanscore_base::settings::HumanDuration;

/// Durability of an acknowledged request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Acknowledged at once. The end of the process loses the last requests.
    None,
    /// Acknowledged after the write. Survives the end of the process, but not a loss of power.
    #[default]
    Os,
    /// Acknowledged after the sync to disk. Survives a loss of power.
    Disk,
}

/// Handling of a request when the log is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// Refuses the request. The sender is told to retry.
    #[default]
    Refuse,
    /// Accepts the request. The oldest segment is dropped and counted.
    DropOldest,
}

/// Limits on the write-ahead log.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// Limit on the size of all files, in mebibytes. Notes on the outcome of requests may use an
    /// eighth in addition. Default 4096.
    #[schemars(range(min = 1))]
    #[default = 4096]
    pub size_max_mib: u32,
    /// Size of a segment file, in mebibytes, at most an eighth of `size_max_mib`. Default 64.
    #[schemars(range(min = 1))]
    #[default = 64]
    pub segment_mib: u32,
    /// Age at which a segment file is dropped and counted, even if its requests are still needed.
    /// The age counts from the time at which the process wrote or found the file. Default `24h`.
    #[default(HumanDuration::from_secs(24 * 3600))]
    pub age_max: HumanDuration,
    /// Handling of a request when the log is full: `refuse` (default) or `drop_oldest`.
    pub when_full: WhenFull,
    /// Limit on the data that waits for the disk, in mebibytes. Default 32.
    #[schemars(range(min = 1))]
    #[default = 32]
    pub waiting_mib: u32,
    /// Interval between syncs to disk, with durability `none` and `os`. Default `1s`.
    #[default(HumanDuration::from_secs(1))]
    pub sync_interval: HumanDuration,
}

/// Limits of a log in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogLimits {
    /// Limit on the bytes of all segments.
    pub size_max: u64,
    /// Size after which a segment is closed.
    pub segment: u64,
    /// Age after which a segment is dropped.
    pub age_max_ns: u64,
    /// Policy for a record when the log is full.
    pub when_full: WhenFull,
    /// Limit on the bytes waiting to be written.
    pub waiting_max: u64,
    /// Disk space reserved for compaction on a full disk; 0 for none.
    pub reserve: u64,
    /// Interval of syncs, unless each group is synced.
    pub sync_interval: std::time::Duration,
    /// Durability of an acknowledged record.
    pub durability: Durability,
}

impl LogLimits {
    /// Returns the limits for notes, which exceed those of records: while records are refused,
    /// notes on existing ones continue.
    pub(super) fn of_notes(&self) -> Self {
        let beyond = |most: u64| most.saturating_add(most / NOTE_PARTS);
        Self { size_max: beyond(self.size_max), waiting_max: beyond(self.waiting_max), ..*self }
    }

    /// Returns the size of the largest record, with its head.
    pub fn record_max(&self) -> u64 {
        self.size_max / SEGMENTS_MIN
    }
}

/// Inverse of the share of a log that is reserved for compaction.
const RESERVE_PARTS: u64 = 32;
/// Largest reserve for compaction.
const RESERVE_BYTES_MAX: u64 = 4 << 20;

/// Fewest segments of a full log: space is freed by dropping whole segments.
const SEGMENTS_MIN: u64 = 8;

/// Inverse of the additional share of a log for notes.
const NOTE_PARTS: u64 = 8;

impl LogSettings {
    /// Returns the limits for a durability.
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
