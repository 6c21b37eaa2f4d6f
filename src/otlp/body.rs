//! A request's body as it came over the wire.

use bytes::Bytes;

/// How a body is compressed (RFC 9110, section 8.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentCoding {
    /// `gzip`.
    Gzip,
    /// `zstd`.
    Zstd,
}

/// A body as it came: still compressed, and JSON where it was JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawBody {
    /// The bytes that came.
    pub bytes: Bytes,
    /// How they are compressed.
    pub compression: Option<ContentCoding>,
    /// JSON, else protobuf.
    pub is_json: bool,
}
