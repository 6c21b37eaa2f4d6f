//! Compaction of a log by its writer: its moments, its rate and its failures.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::super::compact::{COPY_BYTES_PER_SECOND, CompactedLog, Compaction};
use super::super::segments::SegmentFile;
use super::{IDLE_BYTES, LogWriter, PROBE_INTERVAL, TICK};

/// Inverse of the part of a log's size from which on it is compacted.
const COMPACT_PARTS: u64 = 2;
/// Inverse of the part of a log's size that must be dead for a pass.
const DEAD_PARTS: u64 = 16;

impl LogWriter {
    /// Compacts a log that is half full, or on a disk that is.
    pub(super) fn compact(&mut self) {
        if self.queue.keeps_all.load(Ordering::Acquire) {
            self.pass = None;
            return;
        }
        let is_failing = self.queue.is_failing.load(Ordering::Relaxed);
        if !is_failing && self.reserved.is_none_or(|last| last.elapsed() >= PROBE_INTERVAL) {
            self.reserved = Some(Instant::now());
            self.reserve.hold(&*self.disk, self.limits.reserve);
        }
        if self.compaction_failed.is_some_and(|last| last.elapsed() < PROBE_INTERVAL) {
            return;
        }
        if self.pass.is_none() && self.is_worth_a_pass(is_failing) {
            let claimed = self.source.claimed_records();
            let closed = self.segments.closed();
            let is_urgent = is_failing || self.used() > self.limits.size_max / 8 * 7;
            self.pass = if is_urgent {
                Some(Compaction::new(claimed, &closed))
            } else {
                Compaction::worthwhile(claimed, &closed)
            };
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
                self.queue.count(|counts| counts.compaction_errors += 1);
                let is_full = error.kind() == io::ErrorKind::StorageFull;
                if is_full && self.reserve.is_held() {
                    // The next attempt has the room.
                    self.reserve.give_up(&*self.disk);
                    return;
                }
                self.compaction_failed = Some(Instant::now());
                tracing::warn!(%error, "failed to compact the log; it is tried again");
            }
        }
    }

    /// Returns the bytes of the log, with those that are lent.
    fn used(&self) -> u64 {
        self.segments.bytes().saturating_add(self.queue.lent())
    }

    /// Returns true if enough bytes are dead in closed segments, and their room is wanted.
    fn is_worth_a_pass(&self, is_failing: bool) -> bool {
        let size = self.segments.bytes();
        if self.used() < self.limits.size_max / COMPACT_PARTS && !is_failing {
            return false;
        }
        let onwards = self.source.lowest_onwards();
        let active = self.active.as_ref().map_or(0, SegmentFile::bytes);
        let closed = match onwards {
            Some(onwards) => self.segments.bytes_before(onwards),
            None => size.saturating_sub(active),
        };
        let dead = closed.saturating_sub(self.source.claimed_bytes());
        dead > self.limits.size_max / DEAD_PARTS || (is_failing && dead > IDLE_BYTES)
    }
}
