//! Decompression of bodies with a limit on the output.
//!
//! A decompression bomb is refused by its declared size, or at the limit. Memory grows with the
//! real output, in steps granted by the ticket.

mod unpack;
mod unpacker;
mod zstd_window;

pub use unpack::unpack;
pub(crate) use unpacker::Unpacker;

use std::io::{self, Read};

use crate::admission::Ticket;
use crate::status::{RefusalReason, RefusedRequest};
use spanscore_base::otlp::ContentCoding;

/// Bytes of output requested from the ticket at once.
pub(crate) const STEP_BYTES: usize = 1 << 20;

/// Highest compression ratio of deflate.
const DEFLATE_RATIO_MAX: usize = 1032;

/// Reads a `Content-Encoding` or `grpc-encoding`; `None` inside means not compressed.
pub(crate) fn coding_of_header(name: &[u8]) -> Result<Option<ContentCoding>, RefusedRequest> {
    let known: [(&[u8], Option<ContentCoding>); 6] = [
        (b"", None),
        (b"identity", None),
        (b"gzip", Some(ContentCoding::Gzip)),
        (b"x-gzip", Some(ContentCoding::Gzip)),
        (b"zstd", Some(ContentCoding::Zstd)),
        (b"deflate", Some(ContentCoding::Deflate)),
    ];
    let name = name.trim_ascii();
    known
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(name))
        .map(|(_, compression)| *compression)
        .ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let message = format!("unknown encoding {name:?}, known are gzip, zstd and deflate");
            RefusedRequest::new(RefusalReason::Encoding, message)
        })
}

/// Returns the declared size of the content, if there is one.
fn declared_bytes(coding: ContentCoding, body: &[u8]) -> Option<usize> {
    match coding {
        // ISIZE of RFC 1952, modulo 2^32, of the last member. Truncated data ends in arbitrary
        // bytes, mostly a larger size than the data could hold.
        ContentCoding::Gzip => {
            let size = body.last_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
            let possible = body.len().saturating_mul(DEFLATE_RATIO_MAX);
            usize::try_from(size).ok().filter(|size| *size <= possible)
        }
        ContentCoding::Zstd => {
            let size = zstd::zstd_safe::get_frame_content_size(body).ok().flatten()?;
            Some(usize::try_from(size).unwrap_or(usize::MAX))
        }
        // Its trailer is only a checksum.
        ContentCoding::Deflate => None,
    }
}

pub(crate) fn reader<'a>(
    coding: ContentCoding,
    body: &'a [u8],
    bytes_max: usize,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match coding {
        ContentCoding::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(body)),
        ContentCoding::Deflate => Box::new(flate2::bufread::ZlibDecoder::new(body)),
        ContentCoding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(body)?;
            decoder.window_log_max(window_log_max(bytes_max))?;
            Box::new(decoder)
        }
    })
}

/// Returns the useful maximum window of zstd as a power of two: at least the 8 MiB that every
/// decoder should support (RFC 8878), at most the library's 128 MiB.
fn window_log_max(bytes_max: usize) -> u32 {
    bytes_max.clamp(1 << 23, 1 << 27).next_power_of_two().ilog2()
}

/// Returns the bytes held by a decoder beside its output.
pub(crate) fn window_bytes(compression: ContentCoding, body: &[u8], bytes_max: usize) -> usize {
    match compression {
        ContentCoding::Gzip | ContentCoding::Deflate => 0,
        ContentCoding::Zstd => zstd_window::largest(body).min(1 << window_log_max(bytes_max)),
    }
}

fn malformed(error: io::Error) -> RefusedRequest {
    RefusedRequest::new(RefusalReason::Malformed, format!("cannot be decompressed: {error}"))
}

/// Decompresses a body to at most `bytes_max` bytes. `setting` names the limit in errors.
pub(crate) fn decompress(
    compression: ContentCoding,
    body: &[u8],
    bytes_max: usize,
    setting: &str,
    ticket: &mut Ticket,
) -> Result<Vec<u8>, RefusedRequest> {
    let declared = declared_bytes(compression, body);
    if declared.is_some_and(|bytes| bytes > bytes_max) {
        return Err(RefusedRequest::too_large(bytes_max, setting));
    }
    let window = window_bytes(compression, body, bytes_max);
    ticket.hold(window)?;
    let mut reader = reader(compression, body, bytes_max).map_err(malformed)?;
    let expected = declared.unwrap_or(body.len().saturating_mul(4)).min(bytes_max);
    let mut out = Vec::with_capacity(expected.min(STEP_BYTES) + 1);
    loop {
        let step = STEP_BYTES.min((bytes_max - out.len()).saturating_add(1));
        let read = reader.by_ref().take(step as u64).read_to_end(&mut out).map_err(malformed)?;
        ticket.hold(read)?;
        if out.len() > bytes_max {
            return Err(RefusedRequest::too_large(bytes_max, setting));
        }
        if read < step {
            ticket.release(window);
            return Ok(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::admission::Admission;
    use crate::settings::OtlpReceiverSettings;
    use spanscore_base::model::Memory;

    #[tokio::test]
    async fn without_a_limit_a_body_is_decompressed_whole() {
        let bytes = Memory::default().requests;
        let admission = Admission::new(&OtlpReceiverSettings::default(), bytes);
        let mut ticket = admission.enter(&Arc::default()).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gzip, b"spans").unwrap();
        let zstd = zstd::encode_all(&b"spans"[..], 0).unwrap();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut zlib, b"spans").unwrap();
        let bodies = [
            (ContentCoding::Gzip, gzip.finish().unwrap()),
            (ContentCoding::Zstd, zstd),
            (ContentCoding::Deflate, zlib.finish().unwrap()),
        ];
        for (compression, body) in bodies {
            let text = decompress(compression, &body, usize::MAX, "no limit", &mut ticket);
            assert_eq!(text.ok().as_deref(), Some(&b"spans"[..]), "{compression:?}");
        }
        assert_eq!([0, 10 << 20, usize::MAX].map(window_log_max), [23, 24, 27]);
    }
}
