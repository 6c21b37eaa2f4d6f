//! Reader of records that skips damaged ones.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::Record;
use super::disk::DiskFile;
use super::frame::{COMPACTED_HEAD_BYTES, Frame, RECORD_HEAD_BYTES, next_mark};
use super::segments::{RecordRun, SegmentFile, Segments};

/// Bytes read at once in a search for heads.
const CHUNK_BYTES: usize = 64 << 10;

/// Skipped bytes without a whole record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// Position of the first byte.
    pub position: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Reads the record at a position.
pub(super) fn read(segments: &Segments, position: u64) -> io::Result<Record> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no such record in the log");
    let segment = segments.of(position).ok_or_else(missing)?;
    let frame = frame_at(&segment, position)?.ok_or_else(missing)?;
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the record is damaged");
    let payload = payload_of(&segment, &frame)?.ok_or_else(damaged)?;
    Ok(Record { position, head: frame.head, payload })
}

/// Reads the bytes of the record at a position, with its head; `None` if it is incomplete.
pub(super) fn raw_at(segment: &SegmentFile, position: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(frame) = frame_at(segment, position)? else { return Ok(None) };
    let mut bytes = vec![0; usize::try_from(frame.end() - position).unwrap_or(usize::MAX)];
    let is_read = fill(segment, position, &mut bytes)?;
    let is_whole = is_read && frame.is_of(&bytes[RECORD_HEAD_BYTES..]);
    Ok(is_whole.then_some(bytes))
}

/// Reads the bytes of adjacent records, by position and length; `None` if one of them is
/// incomplete.
pub(super) fn raw_run(segment: &SegmentFile, run: &[(u64, u32)]) -> io::Result<Option<Vec<u8>>> {
    let Some((begin, _)) = run.first() else { return Ok(None) };
    let len = run.iter().map(|(_, bytes)| *bytes as usize).sum();
    let mut bytes = vec![0; len];
    if !fill(segment, *begin, &mut bytes)? {
        return Ok(None);
    }
    let mut rest = &bytes[..];
    for (position, len) in run {
        let Some((record, behind)) = rest.split_at_checked(*len as usize) else { return Ok(None) };
        let Some((head, payload)) = record.split_first_chunk() else { return Ok(None) };
        if !Frame::decode(head, *position).is_some_and(|frame| frame.is_of(payload)) {
            return Ok(None);
        }
        rest = behind;
    }
    Ok(Some(bytes))
}

/// Finds the runs of a compacted file of this size, and the number of bytes from the first damaged
/// head on. Beyond that, a head may be part of a payload.
pub(super) fn runs_of(file: &dyn DiskFile, size: u64) -> io::Result<(Vec<RecordRun>, u64)> {
    let mut runs = Vec::<RecordRun>::new();
    let mut at = COMPACTED_HEAD_BYTES as u64;
    let mut head = [0; RECORD_HEAD_BYTES];
    while at < size {
        let is_read = read_exact(file, at, &mut head)?;
        let frame = Frame::decode_any(&head)
            .filter(|frame| is_read && frame.end() - frame.position <= size - at);
        let Some(frame) = frame else {
            break;
        };
        let bytes = frame.end() - frame.position;
        match runs.last_mut() {
            Some(run) if run.end() == frame.position && run.offset + run.bytes == at => {
                run.bytes += bytes;
            }
            _ => runs.push(RecordRun { position: frame.position, bytes, offset: at }),
        }
        at += bytes;
    }
    Ok((runs, size.saturating_sub(at)))
}

/// Fills a buffer from an offset on; false if the file is too short.
pub(super) fn read_exact(file: &dyn DiskFile, offset: u64, buffer: &mut [u8]) -> io::Result<bool> {
    let mut offset = offset;
    let mut rest = buffer;
    while !rest.is_empty() {
        match file.read_at(rest, offset) {
            Ok(0) => return Ok(false),
            Ok(read) => {
                offset += read as u64;
                rest = &mut rest[read..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Reads the head of the record at a position; `None` if it is incomplete.
fn frame_at(segment: &SegmentFile, position: u64) -> io::Result<Option<Frame>> {
    let mut head = [0; RECORD_HEAD_BYTES];
    if !fill(segment, position, &mut head)? {
        return Ok(None);
    }
    let frame = Frame::decode(&head, position);
    Ok(frame.filter(|frame| frame.end() <= segment.end))
}

/// Reads the payload of a record; `None` if its checksum differs.
fn payload_of(segment: &SegmentFile, frame: &Frame) -> io::Result<Option<Bytes>> {
    let mut payload = vec![0; frame.len as usize];
    let start = frame.position + RECORD_HEAD_BYTES as u64;
    let is_read = fill(segment, start, &mut payload)?;
    Ok((is_read && frame.is_of(&payload)).then(|| payload.into()))
}

/// Fills a buffer from a position on; false if the segment is too short.
fn fill(segment: &SegmentFile, position: u64, buffer: &mut [u8]) -> io::Result<bool> {
    if buffer.is_empty() {
        return Ok(true);
    }
    let len = buffer.len() as u64;
    let run = segment.run_at_or_after(position).filter(|run| run.position <= position);
    let Some(run) = run else { return Ok(false) };
    if position.checked_add(len).is_none_or(|end| end > run.end().min(segment.end)) {
        return Ok(false);
    }
    read_exact(&*segment.file, run.offset + (position - run.position), buffer)
}

/// Returns the position of the next whole head at or after a position, or the segment's end.
/// Unreadable chunks are skipped.
fn next_frame(segment: &SegmentFile, position: u64) -> u64 {
    if segment.runs.is_some() {
        return segment.run_at_or_after(position).map_or(segment.end, |run| run.end());
    }
    // Never an error: unreadable chunks are skipped.
    find_frame(segment, position, |_| Ok(false)).unwrap_or(segment.end)
}

/// Finds the next whole head; `unread` decides about an unreadable chunk.
fn find_frame(
    segment: &SegmentFile,
    position: u64,
    unread: impl Fn(io::Error) -> io::Result<bool>,
) -> io::Result<u64> {
    let mut from = position;
    let mut chunk = vec![0; CHUNK_BYTES];
    while from < segment.end {
        let len = chunk.len().min(usize::try_from(segment.end - from).unwrap_or(usize::MAX));
        let chunk = &mut chunk[..len];
        let is_read = fill(segment, from, chunk).or_else(&unread)?;
        let mut at = 0;
        while let Some(found) = next_mark(&chunk[at..]).filter(|_| is_read) {
            let candidate = from + (at + found) as u64;
            if matches!(frame_at(segment, candidate), Ok(Some(_))) {
                return Ok(candidate);
            }
            at += found + 1;
        }
        // A head may cross the end of a chunk.
        let step = if len == CHUNK_BYTES { len - RECORD_HEAD_BYTES } else { len };
        from += step as u64;
    }
    Ok(segment.end)
}

/// Returns the position after the last whole record of a segment: the rest is torn.
///
/// # Errors
/// If part of the segment is unreadable, and so of unknown content.
pub(super) fn valid_end(segment: &SegmentFile) -> io::Result<u64> {
    let mut at = segment.base;
    let mut end = segment.base;
    while at < segment.end {
        match frame_at(segment, at)? {
            Some(frame) => {
                if payload_of(segment, &frame)?.is_some() {
                    end = frame.end();
                }
                at = frame.end();
            }
            None => at = find_frame(segment, at + 1, Err)?,
        }
    }
    Ok(end)
}

/// Iterator over records in order, from one position to another.
pub struct RecordReader {
    segments: Arc<Segments>,
    at: u64,
    end: u64,
}

impl RecordReader {
    pub(super) fn new(segments: Arc<Segments>, end: u64) -> Self {
        Self { segments, at: 0, end }
    }

    pub(super) fn starting_at(mut self, position: u64) -> Self {
        self.at = position;
        self
    }

    /// Returns the position at which the search for the next record begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the heads of all records. Payloads are read only for first tags in `with_payload`.
    pub fn heads(self, with_payload: &[u8]) -> HeadReader {
        HeadReader { reader: self, with_payload: with_payload.into() }
    }

    /// Returns the records of one kind; payloads of others are not read.
    pub fn only(self, tag: u8) -> impl Iterator<Item = Record> {
        let records = HeadReader { reader: self, with_payload: SmallVec::from_elem(tag, 1) };
        records.filter(move |record| record.head.tags[0] == tag)
    }

    fn next_frame(&mut self) -> Option<Result<(SegmentFile, Frame), Skipped>> {
        let (segment, position) = loop {
            let segment = self.segments.at_or_after(self.at)?;
            self.at = self.at.max(segment.base);
            if self.at >= self.end {
                return None;
            }
            match segment.run_at_or_after(self.at) {
                Some(run) => {
                    let position = run.position.max(self.at);
                    break (segment, position);
                }
                None => self.at = segment.end,
            }
        };
        self.at = position;
        if position >= self.end {
            return None;
        }
        Some(match frame_at(&segment, position) {
            Ok(Some(frame)) => {
                self.at = frame.end();
                Ok((segment, frame))
            }
            Ok(None) | Err(_) => {
                self.at = next_frame(&segment, position + 1);
                Err(Skipped { position, bytes: self.at - position })
            }
        })
    }
}

impl Iterator for RecordReader {
    type Item = Result<Record, Skipped>;

    fn next(&mut self) -> Option<Self::Item> {
        let (segment, frame) = match self.next_frame()? {
            Ok(found) => found,
            Err(skipped) => return Some(Err(skipped)),
        };
        let Frame { position, head, .. } = frame;
        Some(match payload_of(&segment, &frame) {
            Ok(Some(payload)) => Ok(Record { position, head, payload }),
            Ok(None) | Err(_) => Err(Skipped { position, bytes: frame.end() - position }),
        })
    }
}

/// Iterator over heads of records, some with their payloads.
pub struct HeadReader {
    reader: RecordReader,
    with_payload: SmallVec<[u8; 4]>,
}

impl Iterator for HeadReader {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        loop {
            let Ok((segment, frame)) = self.reader.next_frame()? else { continue };
            let Frame { position, head, .. } = frame;
            if !self.with_payload.contains(&head.tags[0]) {
                return Some(Record { position, head, payload: Bytes::new() });
            }
            if let Ok(Some(payload)) = payload_of(&segment, &frame) {
                return Some(Record { position, head, payload });
            }
        }
    }
}
