//! Segments of a log: its files, by position.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::disk::DiskFile;
use super::frame::{COMPACTED_HEAD_BYTES, SEGMENT_HEAD_BYTES};

/// Run of adjacent records in a file, by position and offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordRun {
    pub(super) position: u64,
    pub(super) bytes: u64,
    /// Offset in the file.
    pub(super) offset: u64,
}

impl RecordRun {
    pub(super) fn end(&self) -> u64 {
        self.position.saturating_add(self.bytes)
    }
}

/// Segment: one file of records.
#[derive(Clone)]
pub(super) struct SegmentFile {
    /// Position of its first record.
    pub(super) base: u64,
    /// Position after its last whole record.
    pub(super) end: u64,
    /// Creation time, unix nanoseconds.
    pub(super) created_ns: u64,
    /// Time at which this process created or found it. Its age counts from there, since the system
    /// clock may have been wrong at its creation, or may be wrong now.
    pub(super) since: Instant,
    pub(super) file: Arc<dyn DiskFile>,
    /// Runs of a compacted segment, in order; `None` for a single run.
    pub(super) runs: Option<Arc<[RecordRun]>>,
}

impl SegmentFile {
    pub(super) fn name(base: u64) -> String {
        format!("{base:016x}.log")
    }

    /// Returns the position in a file's name.
    pub(super) fn base_of(name: &str) -> Option<u64> {
        let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 16)?;
        u64::from_str_radix(digits, 16).ok()
    }

    /// Returns the file offset of a position; not for compacted segments.
    pub(super) fn offset(&self, position: u64) -> u64 {
        position.saturating_sub(self.base).saturating_add(SEGMENT_HEAD_BYTES as u64)
    }

    /// Returns the first run that ends after a position.
    pub(super) fn run_at_or_after(&self, position: u64) -> Option<RecordRun> {
        let Some(runs) = &self.runs else {
            let Self { base, end, .. } = *self;
            let whole = RecordRun { position: base, bytes: end - base, offset: self.offset(base) };
            return Some(whole).filter(|run| run.end() > position);
        };
        runs.get(runs.partition_point(|run| run.end() <= position)).copied()
    }

    /// Returns the bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        match &self.runs {
            None => self.offset(self.end),
            Some(runs) => runs
                .last()
                .map_or(COMPACTED_HEAD_BYTES as u64, |last| last.offset.saturating_add(last.bytes)),
        }
    }
}

/// All segments, oldest first. The last one is being written.
#[derive(Default)]
pub(super) struct Segments {
    files: Mutex<Vec<SegmentFile>>,
    /// First positions of files that were unreadable at the start, left for the next.
    unreadable: Vec<u64>,
}

impl Segments {
    pub(super) fn new(segments: Vec<SegmentFile>, unreadable: Vec<u64>) -> Self {
        Self { files: Mutex::new(segments), unreadable }
    }

    /// Returns true if a file between two positions is unreadable.
    pub(super) fn has_unreadable(&self, from: u64, to: u64) -> bool {
        self.unreadable.iter().any(|base| (from..=to).contains(base))
    }

    pub(super) fn push(&self, segment: SegmentFile) {
        self.files.lock().push(segment);
    }

    /// Removes the last segment if it holds no record.
    pub(super) fn pop_empty(&self) -> Option<SegmentFile> {
        let mut segments = self.files.lock();
        if segments.last().is_some_and(|last| last.end == last.base) {
            segments.pop()
        } else {
            None
        }
    }

    /// Sets the end of the last segment.
    pub(super) fn extend(&self, end: u64) {
        if let Some(last) = self.files.lock().last_mut() {
            last.end = end;
        }
    }

    /// Returns the segment that holds a position.
    pub(super) fn of(&self, position: u64) -> Option<SegmentFile> {
        let segments = self.files.lock();
        let after = segments.partition_point(|segment| segment.base <= position);
        let segment = segments.get(after.checked_sub(1)?)?;
        (position < segment.end).then(|| segment.clone())
    }

    /// Returns the first segment that holds a record at or after a position.
    pub(super) fn at_or_after(&self, position: u64) -> Option<SegmentFile> {
        let segments = self.files.lock();
        segments
            .iter()
            .find(|segment| segment.end > position && segment.end > segment.base)
            .cloned()
    }

    /// Returns the oldest segment, unless it is the last one and being written.
    pub(super) fn oldest_closed(&self, is_last_written: bool) -> Option<SegmentFile> {
        let segments = self.files.lock();
        segments.first().filter(|_| segments.len() > usize::from(is_last_written)).cloned()
    }

    /// Returns the time at which the second oldest segment was created or found: from it on the
    /// oldest counts as closed.
    pub(super) fn second_since(&self) -> Option<Instant> {
        self.files.lock().get(1).map(|segment| segment.since)
    }

    /// Returns the first segment at or after a position, except the last one, which marks the end
    /// of the log.
    pub(super) fn closed_from(&self, base: u64) -> Option<SegmentFile> {
        let segments = self.files.lock();
        let (_, closed) = segments.split_last()?;
        closed.iter().find(|segment| segment.base >= base).cloned()
    }

    /// Returns all segments except the last one.
    pub(super) fn closed(&self) -> Vec<SegmentFile> {
        let segments = self.files.lock();
        segments.split_last().map(|(_, closed)| closed.to_vec()).unwrap_or_default()
    }

    /// Replaces the segments that begin within a range of positions.
    pub(super) fn replace(&self, (from, to): (u64, u64), with: Option<SegmentFile>) {
        let mut segments = self.files.lock();
        let first = segments.partition_point(|segment| segment.base < from);
        let after = segments.partition_point(|segment| segment.base < to);
        segments.splice(first..after.max(first), with);
    }

    pub(super) fn remove_oldest(&self) {
        let mut segments = self.files.lock();
        if !segments.is_empty() {
            segments.remove(0);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.files.lock().iter().map(SegmentFile::bytes).sum()
    }

    /// Returns the range of positions of each segment.
    pub(super) fn positions(&self) -> Vec<Range<u64>> {
        self.files.lock().iter().map(|segment| segment.base..segment.end).collect()
    }

    /// Returns the bytes of the segments that end at or before a position.
    pub(super) fn bytes_before(&self, position: u64) -> u64 {
        let segments = self.files.lock();
        segments.iter().filter(|it| it.end <= position).map(SegmentFile::bytes).sum()
    }

    pub(super) fn count(&self) -> usize {
        self.files.lock().len()
    }

    pub(super) fn end(&self) -> u64 {
        self.files.lock().last().map_or(0, |segment| segment.end)
    }
}
