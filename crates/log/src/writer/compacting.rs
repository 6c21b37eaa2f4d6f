//! Schedule, rate and failures of compaction by the log's writer.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::compact::{COPY_BYTES_PER_SECOND, CompactedLog, Compaction};
use super::super::segments::SegmentFile;
use super::{IDLE_BYTES, LogWriter, PROBE_INTERVAL, TICK};

/// Inverse of the fill level at which a log is compacted.
const COMPACT_PARTS: u64 = 2;
/// Inverse of the dead share of a log that a pass requires.
const DEAD_PARTS: u64 = 16;
/// Interval of checks for a segment worth a copy, after one without success.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Inverse of the share of a log that must have died for an earlier check.
const MORE_DEAD_PARTS: u64 = 64;

impl LogWriter {
    /// Compacts a log that is half full, or that cannot be written, as on a full disk.
    pub(super) fn compact(&mut self) {
        if self.queue.keeps_all.load(Ordering::Acquire) {
            return self.abandon_pass();
        }
        let is_failing = self.queue.is_failing.load(Ordering::Relaxed);
        if !is_failing && self.reserved.is_none_or(|last| last.elapsed() >= PROBE_INTERVAL) {
            self.reserved = Some(Instant::now());
            self.reserve.reserve(&*self.disk, self.limits.reserve);
        }
        if self.compaction_failed.is_some_and(|last| last.elapsed() < PROBE_INTERVAL) {
            return;
        }
        if self.pass.is_none() {
            self.begin_pass(is_failing);
        }
        let Some(mut pass) = self.pass.take() else { return };
        let copy_max = if is_failing { self.limits.reserve } else { self.limits.segment };
        let around = CompactedLog {
            disk: &*self.disk,
            segments: &self.segments,
            limits: &self.limits,
            copy_max: copy_max.min(self.limits.segment),
        };
        let ticks_per_second = 1000 / u64::try_from(TICK.as_millis()).unwrap_or(1).max(1);
        match pass.step(&around, COPY_BYTES_PER_SECOND / ticks_per_second) {
            Ok(freed) => {
                self.queue.count(|counts| {
                    counts.copied_bytes += freed.copied;
                    counts.freed_segments += freed.segments;
                    counts.freed_bytes += freed.bytes;
                });
                self.pass = Some(pass).filter(|_| !freed.is_over);
            }
            Err(error) => {
                self.pass = Some(pass);
                self.abandon_pass();
                self.queue.count(|counts| counts.compaction_errors += 1);
                let is_full = error.kind() == io::ErrorKind::StorageFull;
                if is_full && self.reserve.is_reserved() {
                    // The next attempt has the space.
                    self.reserve.release(&*self.disk);
                    return;
                }
                self.compaction_failed = Some(Instant::now());
                tracing::warn!(%error, "failed to compact the log; it is tried again");
            }
        }
    }

    /// Returns the bytes of the log, including lent ones.
    fn used(&self) -> u64 {
        self.segments.bytes().saturating_add(self.queue.lent())
    }

    /// Begins a pass if enough bytes are dead in closed segments, and their space is needed.
    fn begin_pass(&mut self, is_failing: bool) {
        if self.used() < self.limits.size_max / COMPACT_PARTS && !is_failing {
            return;
        }
        let dead = self.dead();
        let is_worth_it =
            dead > self.limits.size_max / DEAD_PARTS || (is_failing && dead > IDLE_BYTES);
        if !is_worth_it {
            return;
        }
        let is_urgent = is_failing || self.used() > self.limits.size_max / 8 * 7;
        if is_urgent {
            let claimed = self.source.claimed_records();
            self.pass = Some(Compaction::new(claimed, &self.segments.closed()));
            return;
        }
        // Copying the claims takes the lock that every request needs.
        let is_in_vain = self.last_vain_check.is_some_and(|(last, dead_then)| {
            let more = dead.saturating_sub(dead_then);
            last.elapsed() < LOOK_INTERVAL && more < self.limits.size_max / MORE_DEAD_PARTS
        });
        if !is_in_vain {
            let claimed = self.source.claimed_records();
            self.pass = Compaction::worthwhile(claimed, &self.segments.closed());
            self.last_vain_check = self.pass.is_none().then(|| (Instant::now(), dead));
        }
    }

    /// Returns the unclaimed bytes of closed segments.
    fn dead(&self) -> u64 {
        let active = self.active.as_ref().map_or(0, SegmentFile::bytes);
        let closed = match self.source.lowest_onwards() {
            Some(onwards) => self.segments.bytes_before(onwards),
            None => self.segments.bytes().saturating_sub(active),
        };
        closed.saturating_sub(self.source.claimed_bytes())
    }

    /// Aborts a running pass.
    pub(super) fn abandon_pass(&mut self) {
        let Some(pass) = self.pass.take() else { return };
        if let Err(error) = pass.abandon(&*self.disk) {
            self.queue.count(|counts| counts.remove_errors += 1);
            tracing::warn!(%error, "failed to remove an unfinished copy of the log");
        }
    }
}
