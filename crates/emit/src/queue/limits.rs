//! Limits of a queue, and their settings.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use spanscore_base::settings::{HumanDuration, SettingsError};

/// Least overflow, MiB: then any request fits in one of its segments.
const OVERFLOW_MIB_MIN: u32 = 64;

/// Default overflow, MiB.
pub(crate) const OVERFLOW_MIB: u32 = 1024;

/// Checks the size of an overflow, MiB; 0 means none.
pub(crate) fn check_overflow(mib: u32) -> Result<(), &'static str> {
    if (1..OVERFLOW_MIB_MIN).contains(&mib) {
        Err("`overflow_mib` must be 0 or at least 64")
    } else {
        Ok(())
    }
}

/// Limits of one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimits {
    /// Limit on held bytes, in addition to the quota of all queues.
    pub(crate) bytes_max: usize,
    /// Limit on concurrent deliveries.
    pub(crate) consumers: usize,
    /// Longest wait for more evaluations before a batch is sent.
    pub(crate) flush_timeout: Duration,
    /// Evaluations that complete a batch.
    pub(crate) batch_count: usize,
    /// Bytes that complete a batch.
    pub(crate) batch_bytes: usize,
    /// True if receipts wait for its evaluations.
    pub(crate) must_deliver: bool,
}

impl QueueLimits {
    /// Returns the limits of a queue with a local destination.
    pub(crate) fn local(flush_timeout: Duration) -> Self {
        Self {
            bytes_max: usize::MAX,
            consumers: 1,
            flush_timeout,
            batch_count: 8192,
            batch_bytes: 1 << 20,
            must_deliver: false,
        }
    }

    /// Makes receipts wait for its evaluations, or not.
    pub(crate) fn must_deliver(self, must_deliver: bool) -> Self {
        Self { must_deliver, ..self }
    }

    /// Limits batches in flight to half of the capacity, so that the other half stays free for
    /// arrivals while they are moved to the overflow.
    pub(super) fn leave_room(&mut self, capacity: usize) {
        let on_the_way = capacity / 2 / self.consumers.max(1);
        self.batch_bytes = self.batch_bytes.min(on_the_way).max(1);
    }
}

impl From<&QueueSettings> for QueueLimits {
    fn from(queue: &QueueSettings) -> Self {
        let batch = &queue.batch;
        let without_queue = batch.max_bytes.saturating_mul(queue.num_consumers.saturating_add(1));
        Self {
            bytes_max: match queue.queue_size {
                _ if !queue.enabled => without_queue,
                size => size.unwrap_or(usize::MAX),
            },
            consumers: queue.num_consumers,
            flush_timeout: batch.flush_timeout.0,
            batch_count: batch.max_size,
            batch_bytes: batch.max_bytes,
            must_deliver: false,
        }
    }
}

/// Queue of evaluations for a backend. The pipeline never waits for it. An evaluation without room
/// goes to disk if `must_deliver` is set and the process has a log, else it is dropped and counted.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct QueueSettings {
    /// Queues evaluations. `false` holds only the batches that are being sent, and the batch that
    /// is being filled. Default `true`.
    #[default = true]
    pub(crate) enabled: bool,
    /// Limit on concurrent requests, 1 to 1000. Default 10.
    #[schemars(range(min = 1, max = 1000))]
    #[default = 10]
    pub(crate) num_consumers: usize,
    /// Limit on the bytes in the queue and in requests under way, as held in memory before
    /// encoding. Default: the room of `limits.exporters_mib`; one queue may hold at most four times
    /// the bytes that are free.
    pub(crate) queue_size: Option<usize>,
    /// Unit of `queue_size`: `bytes`.
    pub(crate) sizer: Sizer,
    /// Limit on the evaluations on disk that the queue has no room for, in MiB (1024 * 1024 bytes)
    /// below `data_dir`. Above it, and with 0, the queue uses free room of the log. Requires
    /// `must_deliver` and a log. 0, or 64 or more. Default 1024.
    #[default(OVERFLOW_MIB)]
    pub(crate) overflow_mib: u32,
    /// Batches of evaluations, each sent as one request.
    pub(crate) batch: BatchSettings,
}

impl QueueSettings {
    /// Returns an error with the key `sending_queue` if a value is out of range.
    pub(crate) fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        let wrong = if !(1..=1000).contains(&self.num_consumers) {
            "`num_consumers` must be 1 to 1000"
        } else if let Err(wrong) = check_overflow(self.overflow_mib) {
            wrong
        } else if self.queue_size == Some(0)
            || self.batch.max_size == 0
            || self.batch.max_bytes == 0
        {
            "`queue_size`, `batch.max_size` and `batch.max_bytes` must be above zero"
        } else {
            return Ok(());
        };
        Err(("sending_queue", SettingsError::new(wrong)))
    }
}

/// Unit of the size of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sizer {
    /// Bytes.
    #[default]
    Bytes,
}

/// Batches of evaluations, each sent as one request.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BatchSettings {
    /// Longest wait for further evaluations before a batch is sent. Default `200ms`.
    #[default(HumanDuration::from_millis(200))]
    pub(crate) flush_timeout: HumanDuration,
    /// Limit on the evaluations of one request. Default 8192.
    #[default = 8192]
    pub(crate) max_size: usize,
    /// Limit on the bytes of one request, estimated before compression. gRPC backends refuse
    /// messages over 4 MiB by default. Default 2097152 (2 MiB).
    #[default(2 << 20)]
    pub(crate) max_bytes: usize,
}
