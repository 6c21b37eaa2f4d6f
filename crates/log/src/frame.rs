//! On-disk format of a log: heads of segments and of records.
//!
//! ```text
//! segment: head (32 bytes), then records one after another
//!   0 "SPANLOG" + version   8 position of the first record   16 created, unix ns   24 checksum
//! compacted segment: head (40 bytes), then its remaining records
//!   0 "SPANLOG" + version   8 first position   16 created   24 position after it   32 checksum
//! record: head (36 bytes), then the payload
//!   0 mark   4 length   8 position   16 arrival, unix ns   24 tags   28 checksum of the payload
//!   32 checksum of the head
//! ```
//!
//! Numbers are little-endian, checksums CRC-32. A head holds its own position, so bytes that
//! resemble a record, such as a log within a payload, are never read as one.

/// Bytes of the head of a segment.
pub(super) const SEGMENT_HEAD_BYTES: usize = 32;
/// Bytes of the head of a compacted segment.
pub(super) const COMPACTED_HEAD_BYTES: usize = 40;
/// Bytes of the head of a record.
pub const RECORD_HEAD_BYTES: usize = 36;

/// Mark of a segment; its last byte is the version of the format: 1, or 2 once it is compacted.
const SEGMENT_MARK: [u8; 8] = *b"SPANLOG\x01";
const COMPACTED_MARK: [u8; 8] = *b"SPANLOG\x02";
const RECORD_MARK: [u8; 4] = *b"\xf5SR\x01";

/// Data of a record beside its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecordHead {
    /// Time of arrival, unix nanoseconds.
    pub arrival_ns: u64,
    /// Type of the payload, defined by its writer: see the code that appends it.
    pub tags: [u8; 4],
}

/// Head of a segment: the position of its first record, and its creation time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentHead {
    pub(super) base: u64,
    pub(super) created_ns: u64,
}

impl SegmentHead {
    pub(super) fn encode(self) -> [u8; SEGMENT_HEAD_BYTES] {
        let mut bytes = [0; SEGMENT_HEAD_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MARK);
        bytes[8..16].copy_from_slice(&self.base.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.created_ns.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..24]);
        bytes[24..28].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a head; `None` if it is damaged or of another version.
    pub(super) fn decode(bytes: &[u8; SEGMENT_HEAD_BYTES]) -> Option<Self> {
        let is_whole = crc32fast::hash(&bytes[..24]) == u32_at(bytes, 24);
        (bytes[..8] == SEGMENT_MARK && is_whole)
            .then(|| Self { base: u64_at(bytes, 8), created_ns: u64_at(bytes, 16) })
    }
}

/// Head of a compacted segment: the range of positions that it replaces, and its creation time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CompactedHead {
    pub(super) base: u64,
    pub(super) end: u64,
    pub(super) created_ns: u64,
}

impl CompactedHead {
    pub(super) fn encode(self) -> [u8; COMPACTED_HEAD_BYTES] {
        let mut bytes = [0; COMPACTED_HEAD_BYTES];
        bytes[..8].copy_from_slice(&COMPACTED_MARK);
        bytes[8..16].copy_from_slice(&self.base.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.created_ns.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.end.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..32]);
        bytes[32..36].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a head; `None` if it is damaged or of another version.
    pub(super) fn decode(bytes: &[u8; COMPACTED_HEAD_BYTES]) -> Option<Self> {
        let is_whole = crc32fast::hash(&bytes[..32]) == u32_at(bytes, 32);
        (bytes[..8] == COMPACTED_MARK && is_whole).then(|| Self {
            base: u64_at(bytes, 8),
            end: u64_at(bytes, 24),
            created_ns: u64_at(bytes, 16),
        })
    }
}

/// Head of a record in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    pub(super) position: u64,
    pub(super) len: u32,
    pub(super) head: RecordHead,
    payload_checksum: u32,
}

impl Frame {
    pub(super) fn new(position: u64, head: RecordHead, payload: &[u8]) -> Self {
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        Self { position, len, head, payload_checksum: crc32fast::hash(payload) }
    }

    pub(super) fn encode(self) -> [u8; RECORD_HEAD_BYTES] {
        let mut bytes = [0; RECORD_HEAD_BYTES];
        bytes[..4].copy_from_slice(&RECORD_MARK);
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.head.arrival_ns.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.head.tags);
        bytes[28..32].copy_from_slice(&self.payload_checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..32]);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the head of the record at a position; `None` if there is no complete one.
    pub(super) fn decode(bytes: &[u8; RECORD_HEAD_BYTES], position: u64) -> Option<Self> {
        if bytes[..4] != RECORD_MARK || u64_at(bytes, 8) != position {
            return None;
        }
        if crc32fast::hash(&bytes[..32]) != u32_at(bytes, 32) {
            return None;
        }
        let head =
            RecordHead { arrival_ns: u64_at(bytes, 16), tags: u32_at(bytes, 24).to_le_bytes() };
        let len = u32_at(bytes, 4);
        let payload_checksum = u32_at(bytes, 28);
        Some(Self { position, len, head, payload_checksum })
    }

    /// Reads the head of a record without checking its position.
    pub(super) fn decode_any(bytes: &[u8; RECORD_HEAD_BYTES]) -> Option<Self> {
        Self::decode(bytes, u64_at(bytes, 8))
    }

    /// Returns true if the payload matches the length and checksum of the head.
    pub(super) fn is_of(&self, payload: &[u8]) -> bool {
        payload.len() as u64 == u64::from(self.len)
            && crc32fast::hash(payload) == self.payload_checksum
    }

    /// Returns the position after the record.
    pub(super) fn end(&self) -> u64 {
        self.position.saturating_add(frame_bytes(self.len as usize))
    }
}

/// Returns the size of a record with a payload of this length.
pub(super) fn frame_bytes(payload: usize) -> u64 {
    (RECORD_HEAD_BYTES + payload) as u64
}

/// Returns the offset of the first record mark.
pub(super) fn next_mark(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, &RECORD_MARK)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_read_back_and_no_flipped_bit_is_taken() {
        let head = RecordHead { arrival_ns: 7, tags: [1, 2, 3, 4] };
        let frame = Frame::new(99, head, b"payload");
        let bytes = frame.encode();
        assert_eq!(Frame::decode(&bytes, 99), Some(frame));
        assert!(frame.is_of(b"payload") && !frame.is_of(b"paylaod") && !frame.is_of(b"payload "));
        assert_eq!(Frame::decode(&bytes, 98), None, "it stands elsewhere");
        assert_eq!(frame.end(), 99 + 36 + 7);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Frame::decode(&flipped, 99), None, "bit {bit}");
        }
        let segment = SegmentHead { base: 5, created_ns: 6 };
        assert_eq!(SegmentHead::decode(&segment.encode()), Some(segment));
        let compacted = CompactedHead { base: 5, end: 9, created_ns: 6 };
        assert_eq!(CompactedHead::decode(&compacted.encode()), Some(compacted));
        for bit in 0..36 * 8 {
            let mut flipped = compacted.encode();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(CompactedHead::decode(&flipped), None, "bit {bit}");
        }
        for bit in 0..28 * 8 {
            let mut flipped = segment.encode();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHead::decode(&flipped), None, "bit {bit}");
        }
    }
}
