//! A followed file: its new records since the last check, and its position.
//!
//! A file is identified by its inode and a fingerprint, the hash of its first bytes. So it is the
//! same after a rename (rotation), and another after replacement or truncation.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::framing::{FileDivision, NextRecord, next_record};
use spanscore_base::model::MemoryQuota;

/// Bytes that the fingerprint covers.
const FINGERPRINT_BYTES: usize = 1024;
/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;
/// Records handed over together.
pub(super) const BATCH_LEN: usize = 16;

/// Identity of a file: inode and fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
    /// Length and hash of its first bytes.
    start_len: usize,
    start_hash: u64,
}

impl FileIdentity {
    /// Reads the identity of an unopened file: only its inode.
    pub(super) fn place(path: &Path) -> io::Result<Self> {
        let (device, inode) = place_of(&std::fs::metadata(path)?);
        Ok(Self { device, inode, ..Self::default() })
    }

    /// Returns true if both have the same inode, and so may be the same file.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Stored read position of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct FilePosition {
    pub(super) identity: FileIdentity,
    /// Path at the last check, for people.
    #[serde(serialize_with = "shown")]
    pub(super) path: PathBuf,
    /// Offset in bytes.
    pub(super) offset: u64,
    /// Lines, or records, before the offset.
    pub(super) line: u64,
}

/// Serialises a path as text, lossily: one invalid name must not block the storage of all
/// positions.
fn shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileRecord {
    /// Its line or number, from 1.
    pub(super) line: u64,
    pub(super) bytes: Bytes,
    /// True for a line of text.
    pub(super) is_line: bool,
}

/// Records read at once.
#[derive(Debug, Default)]
pub(super) struct FileBatch {
    pub(super) records: Vec<FileRecord>,
    /// Lines or numbers of oversized records.
    pub(super) too_large: Vec<u64>,
    /// Offset after it.
    end: u64,
    end_line: u64,
    /// True if anything was read, even without records.
    pub(super) is_progress: bool,
}

/// Followed file.
pub(super) struct FollowedFile {
    pub(super) path: PathBuf,
    file: File,
    identity: FileIdentity,
    form: Option<FileDivision>,
    /// Offset of the buffer; everything before it was divided into records.
    read: u64,
    line: u64,
    buffer: Vec<u8>,
    /// Length and modification time at the last check.
    seen: Option<(u64, Option<SystemTime>)>,
    /// True if the line at `read` is too long, and its end has not been read.
    is_skipping: bool,
    /// Acknowledged position, from which reading resumes after a restart.
    pub(super) position: FilePosition,
    /// Checks since its path was last seen.
    pub(super) absent: u32,
    /// True if it has no further turn until the next check.
    pub(super) rests: bool,
    /// Length above which it is read again, after the start of a record was dropped.
    waits_beyond: Option<u64>,
    /// Memory of its buffer, while followed.
    room: Option<BufferRoom>,
}

/// Memory of a share for a buffer, released on drop.
struct BufferRoom {
    share: Arc<MemoryQuota>,
    bytes: usize,
}

impl Drop for BufferRoom {
    fn drop(&mut self) {
        self.share.give_back(self.bytes);
    }
}

impl FollowedFile {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let identity = identify(&mut file, FINGERPRINT_BYTES)?;
        let position = FilePosition { identity, path: path.to_owned(), offset: 0, line: 0 };
        Ok(Self {
            path: path.to_owned(),
            file,
            identity,
            form: None,
            read: 0,
            line: 0,
            buffer: Vec::new(),
            seen: None,
            is_skipping: false,
            position,
            absent: 0,
            rests: false,
            waits_beyond: None,
            room: None,
        })
    }

    /// Returns its identity.
    pub(super) fn identity(&self) -> &FileIdentity {
        &self.identity
    }

    /// Returns true if a stored identity matches: the same inode and first bytes.
    pub(super) fn is_of(&mut self, stored: &FileIdentity) -> bool {
        let now = identify(&mut self.file, stored.start_len);
        now.is_ok_and(|now| FileIdentity { device: stored.device, ..now } == *stored)
    }

    /// Continues from a place.
    pub(super) fn resume(&mut self, offset: u64, line: u64) {
        (self.read, self.line) = (offset, line);
        (self.position.offset, self.position.line) = (offset, line);
    }

    /// Returns its current length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Returns its buffered bytes.
    pub(super) fn held(&self) -> usize {
        self.buffer.capacity()
    }

    /// Charges its buffer to a share.
    pub(super) fn count_buffer(&mut self, share: &Arc<MemoryQuota>) {
        let room =
            self.room.get_or_insert_with(|| BufferRoom { share: Arc::clone(share), bytes: 0 });
        let now = self.buffer.capacity();
        share.change(std::mem::replace(&mut room.bytes, now), now);
    }

    /// Drops the buffered start of a record longer than one read while less than half of the share
    /// is free; it is read again once the file has grown.
    pub(super) fn leave_room(&mut self, share: &Arc<MemoryQuota>) {
        if self.held() > READ_BYTES && share.left() < share.limit() / 2 {
            self.buffer = Vec::new();
            self.waits_beyond = Some(self.len());
        }
        self.count_buffer(share);
    }

    /// Restarts if it was truncated or rewritten since the last check; returns true if so.
    pub(super) fn restart_if_cut(&mut self) -> io::Result<bool> {
        let metadata = self.file.metadata()?;
        let seen = Some((metadata.len(), metadata.modified().ok()));
        let before = std::mem::replace(&mut self.seen, seen);
        if before == seen {
            return Ok(false);
        }
        let now = identify(&mut self.file, self.identity.start_len)?;
        let is_shorter = before.is_some_and(|(len, _)| metadata.len() < len);
        let is_cut = is_shorter || now != self.identity;
        if is_cut {
            self.buffer = Vec::new();
            (self.form, self.is_skipping) = (None, false);
            self.waits_beyond = None;
            self.resume(0, 0);
        }
        // The fingerprint of a short file covers more as the file grows.
        if is_cut || self.identity.start_len < FINGERPRINT_BYTES {
            self.identity = identify(&mut self.file, FINGERPRINT_BYTES)?;
            self.position.identity = self.identity;
        }
        Ok(is_cut)
    }

    /// Reads the next records; empty if there are none yet.
    pub(super) fn next_batch(&mut self, bytes_max: usize) -> io::Result<FileBatch> {
        let mut batch = FileBatch::default();
        self.divide(bytes_max, &mut batch);
        if !batch.is_progress && self.fill()? > 0 {
            batch.is_progress = true;
            self.divide(bytes_max, &mut batch);
        }
        (batch.end, batch.end_line) = (self.read, self.line);
        Ok(batch)
    }

    /// Marks a batch as acknowledged.
    pub(super) fn acknowledge(&mut self, batch: &FileBatch) {
        (self.position.offset, self.position.line) = (batch.end, batch.end_line);
    }

    /// Returns true if it ends within a record.
    pub(super) fn is_cut(&self) -> bool {
        !self.buffer.is_empty() || self.is_skipping
    }

    fn fill(&mut self) -> io::Result<usize> {
        let from = self.read + self.buffer.len() as u64;
        let len = self.len();
        if len <= from || self.waits_beyond.is_some_and(|known| len <= known) {
            return Ok(0);
        }
        self.waits_beyond = None;
        self.file.seek(SeekFrom::Start(from))?;
        let before = self.buffer.len();
        self.file.by_ref().take(READ_BYTES as u64).read_to_end(&mut self.buffer)?;
        if self.form.is_none() {
            self.form = first_byte(&mut self.file)?.map(FileDivision::of);
        }
        Ok(self.buffer.len() - before)
    }

    /// Divides the buffer into records.
    fn divide(&mut self, bytes_max: usize, batch: &mut FileBatch) {
        let Some(form) = self.form else { return };
        let mut at = 0;
        if self.is_skipping {
            match memchr::memchr(b'\n', &self.buffer) {
                Some(end) => {
                    at = end + 1;
                    self.line += 1;
                    batch.too_large.push(self.line);
                    self.is_skipping = false;
                }
                None => return self.pass(self.buffer.len() as u64),
            }
        }
        while batch.records.len() < BATCH_LEN {
            let rest = &self.buffer[at..];
            match next_record(form, rest, bytes_max) {
                NextRecord::Whole { start, end, taken } => {
                    self.line += 1;
                    let bytes = Bytes::copy_from_slice(&rest[start..end]);
                    let line = self.line;
                    let is_line = form == FileDivision::Lines;
                    batch.records.push(FileRecord { line, bytes, is_line });
                    at += taken;
                }
                NextRecord::Empty { taken } => {
                    self.line += 1;
                    at += taken;
                }
                NextRecord::TooLarge { taken } => {
                    self.line += 1;
                    batch.too_large.push(self.line);
                    batch.is_progress = true;
                    return self.pass(at as u64 + taken);
                }
                NextRecord::TooLong => {
                    self.is_skipping = true;
                    batch.is_progress = true;
                    return self.pass(self.buffer.len() as u64);
                }
                NextRecord::Cut => break,
            }
        }
        batch.is_progress |= at > 0;
        self.pass(at as u64);
    }

    /// Advances by this many bytes, possibly beyond the buffer.
    fn pass(&mut self, bytes: u64) {
        self.read += bytes;
        let here = usize::try_from(bytes).map_or(self.buffer.len(), |it| it.min(self.buffer.len()));
        self.buffer.drain(..here);
        if self.buffer.is_empty() {
            self.buffer = Vec::new();
        }
    }
}

/// Reads the identity of a file; the fingerprint covers up to `most` first bytes.
fn identify(file: &mut File, most: usize) -> io::Result<FileIdentity> {
    let metadata = file.metadata()?;
    let mut start = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    // Never beyond its length: some system files of length zero would block.
    let most = metadata.len().min(most.min(FINGERPRINT_BYTES) as u64);
    file.by_ref().take(most).read_to_end(&mut start)?;
    let digest: [u8; 32] = Sha256::digest(&start).into();
    let start_hash = digest[..8].iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte));
    let (device, inode) = place_of(&metadata);
    Ok(FileIdentity { device, inode, start_len: start.len(), start_hash })
}

fn first_byte(file: &mut File) -> io::Result<Option<u8>> {
    let mut first = [0];
    file.seek(SeekFrom::Start(0))?;
    Ok((file.read(&mut first)? > 0).then_some(first[0]))
}

#[cfg(unix)]
fn place_of(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// Without inodes only the fingerprint identifies a file.
#[cfg(not(unix))]
fn place_of(_: &Metadata) -> (u64, u64) {
    (0, 0)
}
