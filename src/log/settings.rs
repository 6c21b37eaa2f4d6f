//! How much a log keeps, and when a record counts as kept.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::settings::HumanDuration;

/// When a record counts as kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// At once: what was acknowledged in the last moments is lost with the process.
    None,
    /// Once the system has it: it survives the end of the process, not a loss of power.
    #[default]
    Os,
    /// Once the disk has it: it survives a loss of power.
    Disk,
}

/// What becomes of a record that a full log has no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It is refused, retryably.
    #[default]
    Refuse,
    /// It is taken, and the oldest segment is dropped and counted.
    DropOldest,
}

/// How much a log keeps.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// Most that all its files hold together, but for notes of what became of requests, which may
    /// take an eighth of it beside.
    #[schemars(range(min = 1))]
    pub size_max_mib: u32,
    /// A file is begun anew beyond this size; at most an eighth of `size_max_mib`.
    #[schemars(range(min = 1))]
    pub segment_mib: u32,
    /// What is older than this is dropped and counted, whoever still waits for it.
    pub age_max: HumanDuration,
    /// What becomes of a request that there is no room for.
    pub when_full: WhenFull,
    /// Most bytes that wait to be written.
    #[schemars(range(min = 1))]
    pub waiting_mib: u32,
    /// With durability `none` and `os`: how often what was written is synced to the disk.
    pub sync_interval: HumanDuration,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            size_max_mib: 4096,
            segment_mib: 64,
            age_max: HumanDuration::from_secs(24 * 3600),
            when_full: WhenFull::default(),
            waiting_mib: 32,
            sync_interval: HumanDuration::from_secs(1),
        }
    }
}

/// The limits of a log in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Most bytes of all segments.
    pub size_max: u64,
    /// Bytes beyond which a segment is closed.
    pub segment: u64,
    /// Age beyond which a segment is dropped.
    pub age_max_ns: u64,
    /// What becomes of a record that there is no room for.
    pub when_full: WhenFull,
    /// Most bytes that wait to be written.
    pub waiting_max: u64,
    /// How often what was written is synced, unless each record is.
    pub sync_interval: std::time::Duration,
    /// When a record counts as kept.
    pub durability: Durability,
}

impl LogLimits {
    /// The same for notes of what became of records, which have a part of their own beyond: where
    /// records are refused, what is known of those that are there goes on.
    pub(super) fn of_notes(&self) -> Self {
        let beyond = |most: u64| most.saturating_add(most / NOTE_PARTS);
        Self { size_max: beyond(self.size_max), waiting_max: beyond(self.waiting_max), ..*self }
    }

    /// The largest record, with its head.
    pub fn record_max(&self) -> u64 {
        self.size_max / SEGMENTS_MIN
    }
}

/// A log of this many parts at least: room is made by dropping whole segments.
const SEGMENTS_MIN: u64 = 8;

/// Notes may take one such part of a log beside all of it.
const NOTE_PARTS: u64 = 8;

impl LogSettings {
    /// The limits with a durability.
    pub fn limits(&self, durability: Durability) -> LogLimits {
        let mib = |mib: u32| u64::from(mib.max(1)) << 20;
        let size_max = mib(self.size_max_mib);
        LogLimits {
            size_max,
            segment: mib(self.segment_mib).min(size_max / SEGMENTS_MIN),
            age_max_ns: u64::try_from(self.age_max.0.as_nanos()).unwrap_or(u64::MAX),
            when_full: self.when_full,
            waiting_max: mib(self.waiting_mib),
            sync_interval: self.sync_interval.0,
            durability,
        }
    }
}
