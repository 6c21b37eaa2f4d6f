//! Writer thread of a log with group commit: one write for all waiting records, and one sync if
//! required.

mod compacting;
mod unwritten;

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Clock;
use super::compact::{Compaction, Reserve};
use super::disk::Disk;
use super::frame::{Frame, RECORD_HEAD_BYTES, SegmentHead};
use super::queue::{AppendError, Group, WaitingRecord, WriteQueue};
use super::segments::{SegmentFile, Segments};
use super::settings::{Durability, LogLimits, WhenFull};
use spanscore_base::model::Source;
use unwritten::UnwrittenNotes;

/// Longest sleep of the writer, and interval of checks for removable segments.
const TICK: Duration = Duration::from_millis(100);
/// Interval of probes of a failed log.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Largest probe.
const PROBE_BYTES_MAX: u64 = 4 << 20;
/// Bytes written by a probe.
static PROBE: [u8; 64 << 10] = [0; 64 << 10];
/// Size above which a segment without claims is replaced, so that a start reads little.
const IDLE_BYTES: u64 = 1 << 20;
/// Inverse of the share of the maximum age after which a segment is replaced.
const AGE_PARTS: u32 = 4;
/// First tag of a probe record, which earlier versions wrote to a failed log.
pub const PROBE_TAG: u8 = 0;

/// Writer of a log: the state of its thread.
pub(super) struct LogWriter {
    disk: Arc<dyn Disk>,
    limits: LogLimits,
    queue: Arc<WriteQueue>,
    segments: Arc<Segments>,
    source: Arc<Source>,
    clock: Clock,
    /// Segment being written; `None` after an error.
    active: Option<SegmentFile>,
    /// True if bytes were written since the last sync.
    is_dirty: bool,
    synced: Instant,
    probed: Instant,
    /// Size of the largest unwritten record; 0 once one as large was written.
    refused_bytes: u64,
    /// True if the last sync failed.
    is_unsynced: bool,
    unwritten: UnwrittenNotes,
    /// Current compaction.
    pass: Option<Compaction>,
    /// Time of the last check that found no segment to compact, and the dead bytes then.
    last_vain_check: Option<(Instant, u64)>,
    /// Time of the last failed compaction.
    compaction_failed: Option<Instant>,
    reserve: Reserve,
    reserved: Option<Instant>,
}

impl LogWriter {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        queue: Arc<WriteQueue>,
        segments: Arc<Segments>,
        source: Arc<Source>,
        clock: Clock,
    ) -> Self {
        let limits = queue.limits;
        let now = Instant::now();
        Self {
            disk,
            limits,
            queue,
            segments,
            source,
            clock,
            active: None,
            is_dirty: false,
            synced: now,
            probed: now,
            refused_bytes: 0,
            is_unsynced: false,
            unwritten: UnwrittenNotes::default(),
            pass: None,
            last_vain_check: None,
            compaction_failed: None,
            reserve: Reserve::default(),
            reserved: None,
        }
    }

    /// Begins a segment at a position.
    pub(super) fn begin(&mut self, base: u64) -> io::Result<()> {
        if let Some(empty) = self.segments.pop_empty() {
            // The next start finds a file that cannot be removed, and it is empty.
            let _ = self.disk.remove(&SegmentFile::name(empty.base));
        }
        let name = SegmentFile::name(base);
        let created_ns = (self.clock)();
        let head = SegmentHead { base, created_ns };
        let file = match self.disk.create(&name) {
            // Left by a failed attempt, and empty: its positions were never assigned.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.remove(&name)?;
                self.disk.create(&name)?
            }
            created => created?,
        };
        let bytes = head.encode();
        let written = write_all(|parts| file.append(parts), &mut [IoSlice::new(&bytes)])
            .and_then(|()| self.sync_new(&*file));
        if let Err(error) = written {
            // The next start finds a file that cannot be removed, and it is empty.
            let _ = self.disk.remove(&name);
            return Err(error);
        }
        let file = Arc::from(file);
        let since = Instant::now();
        let segment = SegmentFile { base, end: base, created_ns, since, file, runs: None };
        self.segments.push(segment.clone());
        self.active = Some(segment);
        Ok(())
    }

    fn sync_new(&self, file: &dyn super::DiskFile) -> io::Result<()> {
        if self.limits.durability == Durability::Disk {
            file.sync()?;
            self.disk.sync_folder()?;
        }
        Ok(())
    }

    /// Writes until the log is closed and all records are written. A panic closes the log, too.
    pub(super) fn run(self) {
        // Dropped after the writer and its disk, so that a waiting caller can open the disk.
        let _end = Ends(Arc::clone(&self.queue));
        self.write_all_groups();
    }

    fn write_all_groups(mut self) {
        let mut looked = Instant::now();
        loop {
            let Group { records, flushes, is_last } = self.queue.take(TICK);
            self.write(records);
            let is_due = self.is_dirty && self.synced.elapsed() >= self.limits.sync_interval;
            if !flushes.is_empty() || is_last || is_due {
                self.sync();
            }
            // A refused record tells nothing about earlier ones, unless these were answered before
            // they were written.
            let is_refusing = self.queue.is_failing.load(Ordering::Relaxed);
            let may_lack = is_refusing && self.limits.durability == Durability::None;
            let is_well = !self.is_unsynced && !may_lack;
            for flush in flushes {
                // A caller that no longer waits needs no answer.
                let _ = flush.send(is_well);
            }
            if is_last {
                self.abandon_pass();
                return;
            }
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                self.maintain();
            }
        }
    }

    /// Writes and answers a group, in parts of one segment each.
    fn write(&mut self, mut records: Vec<WaitingRecord>) {
        let mut refused = Vec::new();
        while !records.is_empty() {
            let count = self.fitting(&records);
            let rest = records.split_off(count);
            match self.write_some(&records) {
                Ok(()) => self.answer(records, Ok(())),
                Err(_) => refused.append(&mut records),
            }
            records = rest;
        }
        if !refused.is_empty() {
            // The file continues at the cut, and waiting records have later positions: they are
            // refused, too. Answers follow, so that no retry is among them.
            let end = self.active.as_ref().map(|active| active.end);
            self.queue.refuse_waiting(end, &mut refused);
            self.answer(refused, Err(AppendError::Failed));
        }
        self.queue.set_used(self.segments.bytes(), &self.segments.positions());
    }

    /// Counts the leading records that go to one segment: the active one, else a new one.
    fn fitting(&self, records: &[WaitingRecord]) -> usize {
        let Some(first) = records.first() else { return 0 };
        let active = self.active.as_ref().filter(|active| self.takes(active, first));
        let base = active.map_or(first.position, |active| active.base);
        let ends = records.iter().take_while(|it| it.end() - base <= self.limits.segment);
        ends.count().max(1)
    }

    /// Returns true if a record is the next in a segment, and the segment has room.
    fn takes(&self, active: &SegmentFile, record: &WaitingRecord) -> bool {
        let is_next = active.end == record.position;
        // A record larger than a segment gets one of its own.
        let is_empty = active.end == active.base;
        is_next && (is_empty || record.end() - active.base <= self.limits.segment)
    }

    fn write_some(&mut self, records: &[WaitingRecord]) -> Result<(), AppendError> {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return Ok(()) };
        self.make_room(last.end() - first.position);
        if !self.active.as_ref().is_some_and(|active| self.takes(active, first)) {
            self.close_active();
            let begun = self.begin(first.position);
            begun.map_err(|error| self.refuse(&error, "begin a segment", records))?;
        }
        let Some(active) = &mut self.active else { return Err(AppendError::Failed) };
        let heads: Vec<_> = records.iter().map(WaitingRecord::head_bytes).collect();
        let mut parts: Vec<IoSlice<'_>> = heads
            .iter()
            .zip(records)
            .flat_map(|(head, record)| [IoSlice::new(head), IoSlice::new(&record.payload)])
            .filter(|part| !part.is_empty())
            .collect();
        let file = Arc::clone(&active.file);
        if let Err(error) = write_all(|parts| file.append(parts), &mut parts) {
            let is_too_large = error.kind() == io::ErrorKind::FileTooLarge;
            // A torn end that cannot be cut is skipped at the next start.
            if file.cut(active.offset(active.end)).is_err() || is_too_large {
                self.active = None;
            }
            return Err(self.refuse(&error, "write", records));
        }
        active.end = last.end();
        self.segments.extend(active.end);
        self.is_dirty = true;
        self.queue.count(|counts| {
            counts.written += records.len() as u64;
            counts.groups += 1;
        });
        if self.limits.durability == Durability::Disk {
            self.sync();
        }
        self.note_success(largest(records));
        // After a failed sync the state of the written records is unknown.
        if self.is_dirty && self.active.is_none() { Err(AppendError::Failed) } else { Ok(()) }
    }

    fn answer(&mut self, records: Vec<WaitingRecord>, written: Result<(), AppendError>) {
        for record in records {
            match record.written {
                // The sender may no longer wait.
                Some(waiting) => drop(waiting.send(written)),
                None if record.note.is_some() && written.is_err() => self.hold_unwritten(record),
                None => {}
            }
        }
    }

    /// Ends the failing state once a record as large as the largest refused one was written: small
    /// ones alone prove no recovery.
    fn note_success(&mut self, bytes: u64) {
        if bytes < self.refused_bytes || self.is_unsynced {
            return;
        }
        self.refused_bytes = 0;
        self.queue.is_failing.store(false, Ordering::Relaxed);
        for (head, note, claim) in std::mem::take(&mut self.unwritten).notes {
            let claim = claim.unwrap_or_default();
            if self.queue.push_note(head, note, claim, &self.source).is_err() {
                self.queue.count(|counts| counts.unwritten_notes += 1);
            }
        }
    }

    /// Syncs the active segment. A failed sync is final for its file: the system may have dropped
    /// the unsynced pages, and a later sync would succeed without them.
    fn sync(&mut self) {
        self.synced = Instant::now();
        let Some(active) = &self.active else { return };
        if !self.is_dirty {
            return;
        }
        match active.file.sync() {
            Ok(()) => {
                (self.is_dirty, self.is_unsynced) = (false, false);
                self.queue.count(|counts| counts.syncs += 1);
                self.note_success(0);
            }
            Err(error) => {
                (self.active, self.is_unsynced) = (None, true);
                self.queue.count(|counts| counts.sync_errors += 1);
                self.fail(&error, "sync");
            }
        }
    }

    /// Syncs and closes the active segment.
    fn close_active(&mut self) {
        self.sync();
        (self.active, self.is_dirty) = (None, false);
    }

    /// Notes records that could not be written; returns the cause of their refusal.
    fn refuse(
        &mut self,
        error: &io::Error,
        what: &'static str,
        records: &[WaitingRecord],
    ) -> AppendError {
        self.refused_bytes = self.refused_bytes.max(largest(records).min(PROBE_BYTES_MAX));
        self.failed(error, what)
    }

    pub(super) fn failed(&self, error: &io::Error, what: &'static str) -> AppendError {
        self.queue.count(|counts| counts.write_errors += 1);
        self.fail(error, what);
        AppendError::Failed
    }

    fn fail(&self, error: &io::Error, what: &'static str) {
        if !self.queue.is_failing.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, what, "the log cannot be written; requests are refused");
        }
    }

    /// Frees space, and checks if a failed log can be written again.
    fn maintain(&mut self) {
        self.remove_unclaimed();
        self.compact();
        self.queue.set_used(self.segments.bytes(), &self.segments.positions());
        self.probe();
    }

    /// Removes segments without claims or beyond the maximum age. Replaces an active one that is
    /// unclaimed and large, or old.
    fn remove_unclaimed(&mut self) {
        if self.queue.keeps_all.load(Ordering::Acquire) {
            return;
        }
        let age_max = Duration::from_nanos(self.limits.age_max_ns);
        let lowest = self.source.lowest();
        while let Some(oldest) = self.segments.oldest_closed(self.active.is_some()) {
            let is_needed = lowest.is_some_and(|lowest| lowest < oldest.end);
            let closed = self.segments.second_since();
            let is_old = closed.is_some_and(|closed| closed.elapsed() > age_max);
            if is_needed && !is_old || !self.remove(&oldest, is_needed) {
                break;
            }
        }
        if let Some(active) = &self.active {
            let len = active.end - active.base;
            let end = active.end;
            let is_idle = lowest.is_none() && len > IDLE_BYTES;
            if is_idle || len > 0 && active.since.elapsed() > age_max / AGE_PARTS {
                self.close_active();
                if let Err(error) = self.begin(end) {
                    self.failed(&error, "begin a segment");
                }
            }
        }
    }

    /// Probes a failed log with as many bytes as were refused.
    fn probe(&mut self) {
        let is_failing = self.queue.is_failing.load(Ordering::Relaxed);
        if !is_failing || self.probed.elapsed() < PROBE_INTERVAL {
            return;
        }
        self.probed = Instant::now();
        // A waiting record serves as the probe.
        let Some(next) = self.queue.next_of_idle() else { return };
        match self.write_and_cut(next) {
            Ok(()) => {
                self.is_unsynced = false;
                self.note_success(self.refused_bytes);
            }
            Err(error) => {
                self.failed(&error, "write");
            }
        }
    }

    /// Writes zeros at the next position and cuts them off again.
    fn write_and_cut(&mut self, next: u64) -> io::Result<()> {
        if self.active.as_ref().is_none_or(|active| active.end != next) {
            self.close_active();
            self.begin(next)?;
        }
        let Some(active) = &self.active else { return Ok(()) };
        let file = Arc::clone(&active.file);
        let end = active.offset(active.end);
        let mut left = usize::try_from(self.refused_bytes).unwrap_or(usize::MAX).max(1);
        let mut parts = Vec::new();
        while left > 0 {
            let part = PROBE.len().min(left);
            parts.push(IoSlice::new(&PROBE[..part]));
            left -= part;
        }
        let written = write_all(|parts| file.append(parts), &mut parts);
        let synced = if written.is_ok() && self.is_unsynced { file.sync() } else { Ok(()) };
        let cut = file.cut(end);
        if cut.is_err() || synced.is_err() {
            self.active = None;
        }
        written.and(synced).and(cut)
    }

    /// Removes a segment; false if that failed.
    fn remove(&mut self, segment: &SegmentFile, is_needed: bool) -> bool {
        if let Err(error) = self.disk.remove(&SegmentFile::name(segment.base)) {
            self.queue.count(|counts| counts.remove_errors += 1);
            tracing::warn!(%error, "failed to remove a segment of the log");
            return false;
        }
        self.segments.remove_oldest();
        if self.pass.as_ref().is_some_and(|pass| pass.copies(segment.base)) {
            // The copy would restore the removed records with those of later segments.
            self.abandon_pass();
        }
        if is_needed {
            let bytes = segment.bytes();
            self.queue.count(|counts| {
                counts.dropped_segments += 1;
                counts.dropped_bytes += bytes;
            });
            tracing::warn!(bytes, "dropped a segment of the log that was still needed");
        }
        true
    }

    /// Drops the oldest segments until there is space, if the policy allows.
    fn make_room(&mut self, bytes: u64) {
        if self.limits.when_full != WhenFull::DropOldest {
            return;
        }
        let bytes_max = self.limits.size_max.saturating_add(self.queue.borrowed());
        while self.segments.bytes() + self.queue.lent() + bytes > bytes_max {
            let is_written = self.active.is_some();
            let Some(oldest) = self.segments.oldest_closed(is_written) else { return };
            let is_needed = self.source.lowest().is_some_and(|lowest| lowest < oldest.end);
            if !self.remove(&oldest, is_needed) {
                return;
            }
        }
    }
}

fn largest(records: &[WaitingRecord]) -> u64 {
    records.iter().map(|record| record.end() - record.position).max().unwrap_or(0)
}

/// Guard that marks the writer as ended on drop.
struct Ends(Arc<WriteQueue>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl WaitingRecord {
    pub(super) fn end(&self) -> u64 {
        self.position + (RECORD_HEAD_BYTES + self.payload.len()) as u64
    }

    fn head_bytes(&self) -> [u8; RECORD_HEAD_BYTES] {
        Frame::new(self.position, self.head, &self.payload).encode()
    }
}

/// Writes all parts, in as many calls as needed.
pub(super) fn write_all(
    mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    mut parts: &mut [IoSlice<'_>],
) -> io::Result<()> {
    while !parts.is_empty() {
        match write(parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut parts, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
