//! Recovery: finds the segments of a log after any crash or damage.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::compact::is_copy;
use super::disk::{Disk, DiskFile};
use super::frame::{COMPACTED_HEAD_BYTES, CompactedHead, SEGMENT_HEAD_BYTES, SegmentHead};
use super::reader::{read_exact, runs_of, valid_end};
use super::segments::{RecordRun, SegmentFile, Segments};

/// Error of a log that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogOpenError {
    /// Its folder cannot be listed.
    #[error("cannot read its folder: {0}")]
    Read(io::Error),
    /// No file can be created in it.
    #[error("cannot write to its folder: {0}")]
    Write(io::Error),
}

/// Result of the recovery at a start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Segment files.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Cut bytes of a torn end.
    pub cut_bytes: u64,
    /// Files that are not segments, by their new names.
    pub set_aside: Vec<String>,
    /// Files that currently cannot be read or renamed. They stay, and the next start tries again.
    pub unreadable: Vec<String>,
    /// Position after everything ever written.
    pub(super) end: u64,
}

impl Recovered {
    /// Logs all damage.
    pub fn log_damage(&self) {
        let Self { cut_bytes, set_aside, unreadable, .. } = self;
        if *cut_bytes > 0 {
            tracing::warn!(cut_bytes, "the log had a torn end, which was cut");
        }
        for file in set_aside {
            tracing::error!(file, "a file of the log is no log; it was set aside");
        }
        for file in unreadable {
            tracing::error!(
                file,
                "a file of the log cannot be read; it stays, and the next start looks again"
            );
        }
    }
}

/// Assumed positions of a file of unknown length; no file is longer.
const UNKNOWN_BYTES: u64 = 1 << 44;

/// Kind of a file with a segment's name.
enum Found {
    /// Segment, with the known bytes of damaged records at its end.
    Segment(SegmentFile, u64),
    /// File without a complete head, with its size.
    Begun(u64),
    /// File that is not a segment, with its size.
    Other(u64),
    /// Unreadable.
    Unreadable(io::Error),
}

/// Finds the segments in the folder; cuts the torn end of the last one.
pub(super) fn recover(disk: &Arc<dyn Disk>) -> Result<(Segments, Recovered), LogOpenError> {
    let names = disk.list().map_err(LogOpenError::Read)?;
    let mut bases: Vec<u64> = names.iter().filter_map(|name| SegmentFile::base_of(name)).collect();
    bases.sort_unstable();
    let mut segments = Vec::<SegmentFile>::new();
    let mut recovered = Recovered::default();
    for copy in names.iter().filter(|name| is_copy(name)) {
        // An unfinished copy; if it stays, the next copy replaces it.
        let _ = disk.remove(copy);
    }
    // Positions replaced by a compacted segment.
    let mut compacted_end = 0;
    let mut unreadable = Vec::new();
    for base in bases {
        if base < compacted_end {
            // Left by a process that ended after a compaction; if it stays, the next start removes
            // it.
            let _ = disk.remove(&SegmentFile::name(base));
            continue;
        }
        let found = look_at(&**disk, base);
        if let Found::Segment(..) | Found::Unreadable(_) = found
            && let Some(before) = segments.last_mut().filter(|before| before.runs.is_none())
        {
            // Bytes beyond were refused, and could not be cut.
            before.end = before.end.min(base);
        }
        match found {
            Found::Segment(segment, damaged) => {
                recovered.cut_bytes += damaged;
                if segment.runs.is_some() {
                    compacted_end = segment.end;
                }
                recovered.end = recovered.end.max(segment.end);
                segments.push(segment);
            }
            found => {
                let before = recovered.unreadable.len();
                leave_out(&**disk, base, found, &mut recovered);
                unreadable.extend((recovered.unreadable.len() > before).then_some(base));
            }
        }
    }
    // A compacted segment is synced before it is renamed.
    if let Some(last) = segments.last_mut().filter(|last| last.runs.is_none()) {
        cut_torn_end(last, &mut recovered);
    }
    // Files without a record are useless.
    segments.retain(|segment| {
        let is_empty = segment.end == segment.base;
        if is_empty {
            // The next start finds it again, empty.
            let _ = disk.remove(&SegmentFile::name(segment.base));
        }
        !is_empty
    });
    recovered.segments = segments.len();
    recovered.bytes = segments.iter().map(SegmentFile::bytes).sum();
    Ok((Segments::new(segments, unreadable), recovered))
}

/// Classifies a file by its head and its size.
fn look_at(disk: &dyn Disk, base: u64) -> Found {
    let since = Instant::now();
    let read = || {
        let file = disk.open(&SegmentFile::name(base))?;
        let size = file.size()?;
        let mut head = [0; SEGMENT_HEAD_BYTES];
        let Some(len) = size.checked_sub(SEGMENT_HEAD_BYTES as u64) else {
            return Ok(Found::Begun(size));
        };
        read_whole(&*file, &mut head)?;
        if let Some(found) = compacted(&*file, base, size)? {
            let (head, runs, damaged) = found;
            let CompactedHead { end, created_ns, .. } = head;
            let file = Arc::from(file);
            let segment =
                SegmentFile { base, end, created_ns, since, file, runs: Some(runs.into()) };
            return Ok(Found::Segment(segment, damaged));
        }
        let head = SegmentHead::decode(&head).filter(|head| head.base == base);
        Ok(match head.zip(base.checked_add(len)) {
            Some((SegmentHead { created_ns, .. }, end)) => {
                let file = Arc::from(file);
                Found::Segment(SegmentFile { base, end, created_ns, since, file, runs: None }, 0)
            }
            None => Found::Other(size),
        })
    };
    read().unwrap_or_else(Found::Unreadable)
}

/// Reads the head and the runs of a compacted segment; `None` for other files.
fn compacted(
    file: &dyn DiskFile,
    base: u64,
    size: u64,
) -> io::Result<Option<(CompactedHead, Vec<RecordRun>, u64)>> {
    let mut head = [0; COMPACTED_HEAD_BYTES];
    if size < COMPACTED_HEAD_BYTES as u64 {
        return Ok(None);
    }
    read_whole(file, &mut head)?;
    let head = CompactedHead::decode(&head).filter(|head| head.base == base && head.end >= base);
    let Some(head) = head else { return Ok(None) };
    let (runs, damaged) = runs_of(file, size)?;
    Ok(Some((head, runs, damaged)))
}

/// Fills a buffer from the beginning of a file.
fn read_whole(file: &dyn DiskFile, buffer: &mut [u8]) -> io::Result<()> {
    let is_read = read_exact(file, 0, buffer)?;
    is_read.then_some(()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Removes an empty file, renames one that is not a segment, and leaves an unreadable one. The
/// positions of remaining files are never reused.
fn leave_out(disk: &dyn Disk, base: u64, found: Found, recovered: &mut Recovered) {
    let name = SegmentFile::name(base);
    let (size, is_kept) = match found {
        Found::Begun(size) => (size, disk.remove(&name).is_err()),
        Found::Other(size) => (size, true),
        Found::Segment(..) | Found::Unreadable(_) => (UNKNOWN_BYTES, true),
    };
    recovered.end = recovered.end.max(base.saturating_add(if is_kept { size } else { 0 }));
    match found {
        _ if !is_kept => recovered.cut_bytes += size,
        Found::Other(_) => {
            let aside = format!("{name}.bad");
            match disk.rename(&name, &aside) {
                Ok(()) => recovered.set_aside.push(aside),
                Err(error) => recovered.unreadable.push(format!("{name}: {error}")),
            }
        }
        Found::Unreadable(error) => recovered.unreadable.push(format!("{name}: {error}")),
        // The next start finds it again, still empty.
        Found::Begun(_) | Found::Segment(..) => {}
    }
}

fn cut_torn_end(last: &mut SegmentFile, recovered: &mut Recovered) {
    // An end that cannot be read now may be whole: it is skipped, not cut.
    let Ok(end) = valid_end(last) else { return };
    let torn = last.end - end;
    if torn > 0 {
        recovered.cut_bytes += torn;
        // The next start skips an end that cannot be cut.
        let _ = last.file.cut(last.offset(end));
        last.end = end;
    }
}
