//! Finding what a log holds, whatever happened to it.

use std::io;
use std::sync::Arc;

use super::disk::{Disk, DiskFile};
use super::frame::{SEGMENT_HEAD_BYTES, SegmentHead};
use super::reader::valid_end;
use super::segments::{SegmentFile, Segments};

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogOpenError {
    /// Its folder cannot be listed.
    #[error("cannot read its folder: {0}")]
    Read(io::Error),
    /// No file can be begun in it.
    #[error("cannot write to its folder: {0}")]
    Write(io::Error),
}

/// What was found at the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Files with records.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of a torn end that were cut.
    pub cut_bytes: u64,
    /// Files that are no segments, or cannot be read, by their new names.
    pub set_aside: Vec<String>,
    /// The position after all that was ever there.
    pub(super) end: u64,
}

/// Reads which segments there are; cuts the torn end of the last one.
pub(super) fn recover(disk: &Arc<dyn Disk>) -> Result<(Segments, Recovered), LogOpenError> {
    let names = disk.list().map_err(LogOpenError::Read)?;
    let mut bases: Vec<u64> = names.iter().filter_map(|name| SegmentFile::base_of(name)).collect();
    bases.sort_unstable();
    let (mut segments, mut recovered) = (Vec::<SegmentFile>::new(), Recovered::default());
    for base in bases {
        let before = segments.last().map_or(0, |segment| segment.end);
        match read_segment(&**disk, base, before) {
            Some(segment) => {
                recovered.end = recovered.end.max(segment.end);
                segments.push(segment);
            }
            None => set_aside(&**disk, base, &mut recovered),
        }
    }
    if let Some(last) = segments.last_mut() {
        cut_torn_end(last, &mut recovered);
    }
    // Files without a record are of no use to anybody.
    segments.retain(|segment| {
        let is_empty = segment.end == segment.base;
        if is_empty {
            // It is found again at the next start, empty.
            let _ = disk.remove(&SegmentFile::name(segment.base));
        }
        !is_empty
    });
    recovered.segments = segments.len();
    recovered.bytes = segments.iter().map(SegmentFile::bytes).sum();
    Ok((Segments::new(segments), recovered))
}

/// A segment as its head and its size say; `None` where it is none.
fn read_segment(disk: &dyn Disk, base: u64, before: u64) -> Option<SegmentFile> {
    let file = disk.open(&SegmentFile::name(base)).ok()?;
    let size = file.size().ok()?;
    let mut head = [0; SEGMENT_HEAD_BYTES];
    read_whole(&*file, &mut head)?;
    let head = SegmentHead::decode(&head).filter(|head| head.base == base && base >= before)?;
    let end = base.checked_add(size.checked_sub(SEGMENT_HEAD_BYTES as u64)?)?;
    Some(SegmentFile { base, end, created_ns: head.created_ns, file: Arc::from(file) })
}

/// Fills a buffer from the beginning of a file.
fn read_whole(file: &dyn DiskFile, buffer: &mut [u8]) -> Option<()> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], read as u64) {
            Ok(0) | Err(_) => return None,
            Ok(more) => read += more,
        }
    }
    Some(())
}

/// Gives a file that is no segment another name; its positions are not used again.
fn set_aside(disk: &dyn Disk, base: u64, recovered: &mut Recovered) {
    let name = SegmentFile::name(base);
    let size = disk.open(&name).and_then(|file| file.size()).unwrap_or(0);
    // One that was begun and never written is nothing to look at.
    if size < SEGMENT_HEAD_BYTES as u64 && disk.remove(&name).is_ok() {
        recovered.cut_bytes += size;
        recovered.end = recovered.end.max(base);
        return;
    }
    let aside = format!("{name}.bad");
    if disk.rename(&name, &aside).is_ok() {
        recovered.set_aside.push(aside);
    }
    recovered.end = recovered.end.max(base.saturating_add(size));
}

fn cut_torn_end(last: &mut SegmentFile, recovered: &mut Recovered) {
    let end = valid_end(last);
    let torn = last.end - end;
    if torn > 0 {
        recovered.cut_bytes += torn;
        // Where it cannot be cut it is passed over again at the next start.
        let _ = last.file.cut(last.offset(end));
        last.end = end;
    }
}
