//! Decoding of stored bodies.

use std::io::Read;

use bytes::Bytes;

use super::reader;
use spanscore_base::otlp::{ContentCoding, RawBody, Signal, json};

/// Returns the request of a received body in protobuf, at most `bytes_max` bytes.
///
/// # Errors
/// The fault of the body.
pub fn unpack(signal: Signal, raw: &RawBody, bytes_max: usize) -> Result<Bytes, String> {
    let body = match raw.compression {
        None => raw.bytes.clone(),
        Some(compression) => decompressed(compression, &raw.bytes, bytes_max)?.into(),
    };
    if raw.is_json {
        return json::transcode(signal, &body).map_err(|error| error.to_string());
    }
    Ok(body)
}

fn decompressed(
    compression: ContentCoding,
    body: &[u8],
    bytes_max: usize,
) -> Result<Vec<u8>, String> {
    let malformed = |error: std::io::Error| format!("cannot be decompressed: {error}");
    let mut out = Vec::new();
    let reader = reader(compression, body, bytes_max).map_err(malformed)?;
    reader.take(bytes_max as u64 + 1).read_to_end(&mut out).map_err(malformed)?;
    if out.len() > bytes_max {
        return Err(format!("larger than {bytes_max} bytes"));
    }
    Ok(out)
}
