//! Segments of a log: its files, by the positions that they hold.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::DiskFile;
use super::frame::SEGMENT_HEAD_BYTES;

/// Segment: one file of records.
#[derive(Clone)]
pub(super) struct SegmentFile {
    /// Position of its first record.
    pub(super) base: u64,
    /// Position after its last whole record.
    pub(super) end: u64,
    /// Creation time, unix nanoseconds.
    pub(super) created_ns: u64,
    pub(super) file: Arc<dyn DiskFile>,
}

impl SegmentFile {
    pub(super) fn name(base: u64) -> String {
        format!("{base:016x}.log")
    }

    /// Returns the position that a file's name states.
    pub(super) fn base_of(name: &str) -> Option<u64> {
        let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 16)?;
        u64::from_str_radix(digits, 16).ok()
    }

    /// Returns the offset in the file of a position.
    pub(super) fn offset(&self, position: u64) -> u64 {
        position.saturating_sub(self.base).saturating_add(SEGMENT_HEAD_BYTES as u64)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.offset(self.end)
    }
}

/// All segments, oldest first. The last one is written to.
#[derive(Default)]
pub(super) struct Segments(Mutex<Vec<SegmentFile>>);

impl Segments {
    pub(super) fn new(segments: Vec<SegmentFile>) -> Self {
        Self(Mutex::new(segments))
    }

    pub(super) fn push(&self, segment: SegmentFile) {
        self.lock().push(segment);
    }

    /// Removes the last segment if it holds no record.
    pub(super) fn pop_empty(&self) -> Option<SegmentFile> {
        let mut segments = self.lock();
        if segments.last().is_some_and(|last| last.end == last.base) {
            segments.pop()
        } else {
            None
        }
    }

    /// Sets the end of the last segment.
    pub(super) fn extend(&self, end: u64) {
        if let Some(last) = self.lock().last_mut() {
            last.end = end;
        }
    }

    /// Returns the segment that holds a position.
    pub(super) fn of(&self, position: u64) -> Option<SegmentFile> {
        let segments = self.lock();
        let after = segments.partition_point(|segment| segment.base <= position);
        let segment = segments.get(after.checked_sub(1)?)?;
        (position < segment.end).then(|| segment.clone())
    }

    /// Returns the first segment that holds a record at or after a position.
    pub(super) fn at_or_after(&self, position: u64) -> Option<SegmentFile> {
        let segments = self.lock();
        segments
            .iter()
            .find(|segment| segment.end > position && segment.end > segment.base)
            .cloned()
    }

    /// Returns the oldest segment, unless it is the last one and written to.
    pub(super) fn oldest_closed(&self, is_last_written: bool) -> Option<SegmentFile> {
        let segments = self.lock();
        segments.first().filter(|_| segments.len() > usize::from(is_last_written)).cloned()
    }

    /// Returns the creation time of the second oldest segment, which is when the oldest was closed.
    pub(super) fn second_created_ns(&self) -> Option<u64> {
        self.lock().get(1).map(|segment| segment.created_ns)
    }

    pub(super) fn remove_oldest(&self) {
        let mut segments = self.lock();
        if !segments.is_empty() {
            segments.remove(0);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.lock().iter().map(SegmentFile::bytes).sum()
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn end(&self) -> u64 {
        self.lock().last().map_or(0, |segment| segment.end)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SegmentFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
