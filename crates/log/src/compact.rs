//! Compaction: frees dead records anywhere in the closed segments.
//!
//! ```text
//! closed segments, oldest first ──► claimed records, copied to `<base>.log.new`
//!                                   synced, renamed over the first, the others removed
//! ```
//!
//! A pass visits the segments in order, with the claims at its start. A segment without claims is
//! removed, and several with few claims are merged. Records keep their positions, so claims and
//! readers are unaffected. The order matters: a note about records follows them, and is removed
//! after them.
//!
//! **Invariant:** the folder always holds each claimed record. A copy is synced before it is
//! renamed, and recovery removes the segments that a compacted one replaces.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Instant;

use super::disk::{Disk, DiskFile};
use super::frame::{COMPACTED_HEAD_BYTES, CompactedHead};
use super::reader::{raw_at, raw_run};
use super::segments::{RecordRun, SegmentFile, Segments};
use super::settings::LogLimits;
use super::writer::write_all;
use spanscore_base::model::ClaimedRecords;

/// Limit on the copy rate: a few per cent of a disk's write rate.
pub(super) const COPY_BYTES_PER_SECOND: u64 = 16 << 20;
/// Largest amount of small records that is read and copied at once.
const READ_BYTES: u64 = 256 << 10;
/// Inverse of the share of the maximum age by which the records of one compacted segment may
/// differ, so that they expire together.
const AGE_PARTS: u64 = 4;
/// Name of the file that reserves room for copies on a full disk.
const RESERVE_NAME: &str = "reserve";
const COPY_SUFFIX: &str = ".new";
/// Bytes of the reserve that are written at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

fn copy_name(base: u64) -> String {
    SegmentFile::name(base) + COPY_SUFFIX
}

/// Returns true for the name of an unfinished copy.
pub(super) fn is_copy(name: &str) -> bool {
    name.strip_suffix(COPY_SUFFIX).is_some_and(|name| SegmentFile::base_of(name).is_some())
}

/// Counts of one step of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Freed {
    /// Bytes of copied records.
    pub(super) copied: u64,
    /// Removed segments.
    pub(super) segments: u64,
    /// Freed bytes.
    pub(super) bytes: u64,
    /// True once the pass has ended.
    pub(super) is_over: bool,
}

/// Context of a pass: the log.
pub(super) struct CompactedLog<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) segments: &'a Segments,
    pub(super) limits: &'a LogLimits,
    /// Largest copy, bytes.
    pub(super) copy_max: u64,
}

/// One pass through the closed segments.
pub(super) struct Compaction {
    claimed: ClaimedRecords,
    /// Position of the first unvisited segment.
    at: u64,
    /// End of the segments that were closed at the start.
    end: u64,
    copy: Option<Copy>,
    /// File of the current copy, until it is renamed.
    unfinished: Option<String>,
}

/// Segment that receives claimed records.
struct Copy {
    file: Box<dyn DiskFile>,
    head: CompactedHead,
    len: u64,
    runs: Vec<RecordRun>,
    /// Segments that it replaces, their bytes, and the index of the current one.
    segments: Vec<SegmentFile>,
    bytes: u64,
    index: usize,
    /// Position of the next record to copy.
    at: u64,
}

impl Compaction {
    /// Returns a pass through all closed segments. Later segments are excluded, since the claims do
    /// not cover them.
    pub(super) fn new(claimed: ClaimedRecords, closed: &[SegmentFile]) -> Self {
        let end = closed.last().map_or(0, |last| last.end);
        Self { claimed, at: 0, end, copy: None, unfinished: None }
    }

    /// Returns a pass up to the last segment of which more than half is dead. Young records soon
    /// die as well, so copying them would be wasted. `None` without such a segment.
    pub(super) fn worthwhile(claimed: ClaimedRecords, closed: &[SegmentFile]) -> Option<Self> {
        let is_dead = |it: &SegmentFile| bytes_in(&claimed, it) < it.bytes() / 2;
        let count = closed.iter().rposition(is_dead)? + 1;
        Some(Self::new(claimed, &closed[..count]))
    }

    /// Returns true if it copies from the segment at a position.
    pub(super) fn copies(&self, base: u64) -> bool {
        self.copy.as_ref().is_some_and(|copy| (copy.head.base..copy.head.end).contains(&base))
    }

    /// Aborts a pass and removes its copy.
    ///
    /// # Errors
    /// Those of the disk. The copy then stays until the next one of the same segment, or
    /// the next start.
    pub(super) fn abandon(self, disk: &dyn Disk) -> io::Result<()> {
        self.unfinished.map_or(Ok(()), |name| disk.remove(&name))
    }

    /// Continues until about this many bytes were copied.
    ///
    /// # Errors
    /// Those of the disk: the pass must be [abandoned](Self::abandon).
    pub(super) fn step(&mut self, around: &CompactedLog<'_>, most: u64) -> io::Result<Freed> {
        let mut freed = Freed::default();
        while freed.copied < most {
            if let Some(copy) = &mut self.copy {
                freed.copied += copy.copy_some(&self.claimed, most - freed.copied)?;
                if copy.index == copy.segments.len() {
                    self.finish(around, &mut freed)?;
                }
                continue;
            }
            let Some(next) = self.next(around, self.at) else {
                freed.is_over = true;
                break;
            };
            self.at = next.end;
            if records_in(&self.claimed, &next).is_empty() {
                around.disk.remove(&SegmentFile::name(next.base))?;
                around.segments.replace((next.base, next.end), None);
                around.disk.sync_folder()?;
                freed.segments += 1;
                freed.bytes += next.bytes();
            } else if !self.is_kept(&next, around) {
                self.copy = Some(self.begin(next, around)?);
            }
        }
        if let Some(copy) = self.copy.as_ref().filter(|_| freed.copied > 0) {
            // A single sync of a whole segment would delay all appends.
            copy.file.sync()?;
        }
        Ok(freed)
    }

    /// Returns the next closed segment from a position on that may hold a dead record.
    fn next(&self, around: &CompactedLog<'_>, at: u64) -> Option<SegmentFile> {
        let next = around.segments.closed_from(at)?;
        let is_all_claimed = self.claimed.onwards.is_some_and(|onwards| onwards < next.end);
        (next.end <= self.end && !is_all_claimed).then_some(next)
    }

    /// Returns true for a segment without dead records that is large enough to stay unmerged.
    fn is_kept(&self, segment: &SegmentFile, around: &CompactedLog<'_>) -> bool {
        let bytes = bytes_in(&self.claimed, segment);
        let is_large = bytes >= around.limits.segment / 2;
        is_large && bytes + COMPACTED_HEAD_BYTES as u64 >= segment.bytes()
    }

    /// Begins a copy of a segment and its successors, as long as their records fit and are close in
    /// time.
    fn begin(&mut self, first: SegmentFile, around: &CompactedLog<'_>) -> io::Result<Copy> {
        let mut bytes = bytes_in(&self.claimed, &first);
        let created_ns = first.created_ns;
        let base = first.base;
        let mut segments = vec![first];
        while let Some(next) = self.next(around, self.at) {
            let apart_ns = next.created_ns.saturating_sub(created_ns);
            bytes += bytes_in(&self.claimed, &next);
            let is_apart = apart_ns > around.limits.age_max_ns / AGE_PARTS
                || around.segments.has_unreadable(self.at, next.base);
            if is_apart || bytes > around.copy_max || self.is_kept(&next, around) {
                break;
            }
            self.at = next.end;
            segments.push(next);
        }
        let head = CompactedHead { base, end: self.at, created_ns };
        let name = copy_name(base);
        around.disk.remove(&name)?;
        let file = around.disk.create(&name)?;
        self.unfinished = Some(name);
        append(&*file, &head.encode())?;
        Ok(Copy {
            file,
            head,
            len: COMPACTED_HEAD_BYTES as u64,
            runs: Vec::new(),
            bytes: segments.iter().map(SegmentFile::bytes).sum(),
            segments,
            index: 0,
            at: base,
        })
    }

    /// Replaces the copied segments by the copy.
    fn finish(&mut self, around: &CompactedLog<'_>, freed: &mut Freed) -> io::Result<()> {
        let Some(copy) = self.copy.take() else { return Ok(()) };
        let CompactedHead { base, end, created_ns } = copy.head;
        copy.file.sync()?;
        around.disk.rename(&copy_name(base), &SegmentFile::name(base))?;
        self.unfinished = None;
        around.disk.sync_folder()?;
        let runs = Some(copy.runs.into());
        let file = Arc::from(copy.file);
        let since = copy.segments.first().map_or_else(Instant::now, |first| first.since);
        around
            .segments
            .replace((base, end), Some(SegmentFile { base, end, created_ns, since, file, runs }));
        for old in copy.segments.iter().filter(|old| old.base != base) {
            // Recovery finds one that cannot be removed.
            let _ = around.disk.remove(&SegmentFile::name(old.base));
        }
        around.disk.sync_folder()?;
        freed.segments += copy.segments.len() as u64 - 1;
        freed.bytes += copy.bytes.saturating_sub(copy.len);
        Ok(())
    }
}

impl Copy {
    /// Copies records of the current segment; returns their bytes.
    fn copy_some(&mut self, claimed: &ClaimedRecords, most: u64) -> io::Result<u64> {
        let Some(segment) = self.segments.get(self.index).cloned() else { return Ok(0) };
        let mut copied = 0;
        let records = records_in(claimed, &segment);
        let mut left = &records[records.partition_point(|(position, _)| *position < self.at)..];
        while !left.is_empty() {
            if copied >= most {
                return Ok(copied);
            }
            let (run, rest) = left.split_at(run_len(left));
            left = rest;
            self.at = run.last().map_or(self.at, |(position, _)| position + 1);
            if let Some(bytes) = raw_run(&segment, run)? {
                copied += self.append(run[0].0, &bytes)?;
                continue;
            }
            for (position, _) in run {
                // Recovery cannot read a damaged record either.
                if let Some(bytes) = raw_at(&segment, *position)? {
                    copied += self.append(*position, &bytes)?;
                }
            }
        }
        self.index += 1;
        Ok(copied)
    }

    /// Appends whole records from a position on; returns their bytes.
    fn append(&mut self, position: u64, records: &[u8]) -> io::Result<u64> {
        append(&*self.file, records)?;
        let bytes = records.len() as u64;
        match self.runs.last_mut() {
            Some(run) if run.end() == position => run.bytes += bytes,
            _ => self.runs.push(RecordRun { position, bytes, offset: self.len }),
        }
        self.len += bytes;
        Ok(bytes)
    }
}

/// Counts the leading adjacent records that are read at once.
fn run_len(records: &[(u64, u32)]) -> usize {
    let begin = records.first().map_or(0, |(position, _)| *position);
    let mut end = begin;
    let ends = records.iter().take_while(|(position, bytes)| {
        let is_next = *position == end;
        end = position + u64::from(*bytes);
        is_next && end - begin <= READ_BYTES
    });
    ends.count().max(1)
}

/// Returns the claimed records of a segment.
fn records_in<'a>(claimed: &'a ClaimedRecords, segment: &SegmentFile) -> &'a [(u64, u32)] {
    let first = claimed.records.partition_point(|(position, _)| *position < segment.base);
    let after = claimed.records.partition_point(|(position, _)| *position < segment.end);
    claimed.records.get(first..after).unwrap_or(&[])
}

fn bytes_in(claimed: &ClaimedRecords, segment: &SegmentFile) -> u64 {
    records_in(claimed, segment).iter().map(|(_, bytes)| u64::from(*bytes)).sum()
}

fn append(file: &dyn DiskFile, bytes: &[u8]) -> io::Result<()> {
    write_all(|parts| file.append(parts), &mut [IoSlice::new(bytes)])
}

/// Reserved disk space, so that a full disk can be compacted.
#[derive(Default)]
pub(super) struct Reserve {
    is_reserved: bool,
}

impl Reserve {
    /// Reserves the space, unless it is reserved or the size is 0.
    pub(super) fn reserve(&mut self, disk: &dyn Disk, bytes: u64) {
        if self.is_reserved || bytes == 0 {
            return;
        }
        self.is_reserved = Self::write(disk, bytes).is_ok();
        if !self.is_reserved {
            // Retried later: the disk may be full.
            let _ = disk.remove(RESERVE_NAME);
        }
    }

    fn write(disk: &dyn Disk, bytes: u64) -> io::Result<()> {
        disk.remove(RESERVE_NAME)?;
        let file = disk.create(RESERVE_NAME)?;
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        while left > 0 {
            let part = ZEROS.len().min(left);
            append(&*file, &ZEROS[..part])?;
            left -= part;
        }
        // Some file systems allocate only at the sync.
        file.sync()
    }

    /// Returns true while the space is reserved.
    pub(super) fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Releases the space to the disk.
    pub(super) fn release(&mut self, disk: &dyn Disk) {
        if std::mem::take(&mut self.is_reserved) {
            // If the removal fails no space is freed, and the copy fails.
            let _ = disk.remove(RESERVE_NAME);
        }
    }
}
