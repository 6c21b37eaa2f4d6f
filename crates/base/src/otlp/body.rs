//! Request body as received.

use bytes::Bytes;

/// Content coding of a body (RFC 9110, section 8.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentCoding {
    /// `gzip`.
    Gzip,
    /// `zstd`.
    Zstd,
    /// `deflate`: the zlib format. It has no magic number of its own.
    Deflate,
}

impl ContentCoding {
    /// Recognizes compressed data by its magic number.
    pub fn from_magic(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Received body: possibly compressed, in JSON or protobuf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawBody {
    /// The received bytes.
    pub bytes: Bytes,
    /// Content coding; `None` if not compressed.
    pub compression: Option<ContentCoding>,
    /// True for JSON, false for protobuf.
    pub is_json: bool,
}
