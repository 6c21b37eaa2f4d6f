//! Transcoder of OTLP/JSON to protobuf, the only form that later code reads.
//!
//! In: one request in JSON. Out: its encoded protobuf bytes. As the specification (JSON Protobuf
//! Encoding) demands, it accepts one value and nothing after it, UTF-8, numbers for enumerations,
//! lowerCamelCase names. As it allows, unknown fields are skipped, `null` is a default, ids are
//! hexadecimal in any case, and integers may be strings. An id of a wrong length is passed on, so
//! that only its span is rejected. Limits: [`DEPTH_MAX`].

mod reader;
mod scalar;
mod schema;
#[cfg(test)]
mod tests;
mod transcode;

use bytes::Bytes;

use super::Signal;
use reader::OtlpJsonReader;

/// Deepest nesting of objects and lists. An attribute value takes three levels for each level of
/// nesting in it.
pub const DEPTH_MAX: usize = 32_768;

/// Error of a text that is not an OTLP/JSON request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid OTLP/JSON at byte {at}: {message}")]
pub struct OtlpJsonError {
    /// Place, in bytes from the start.
    pub at: usize,
    /// Error message.
    pub message: String,
}

/// Rewrites a request from OTLP/JSON to its encoded protobuf form.
pub fn transcode(signal: Signal, text: &[u8]) -> Result<Bytes, OtlpJsonError> {
    transcode_within(signal, text, &mut |_| true)
}

/// Transcodes untrusted text. Numbers take up to 4.5 times as many bytes as their digits, so `hold`
/// is asked for room as the output grows, and its refusal ends the work.
pub fn transcode_within(
    signal: Signal,
    text: &[u8],
    hold: &mut dyn FnMut(usize) -> bool,
) -> Result<Bytes, OtlpJsonError> {
    transcode::transcode(schema::request(signal), text, hold)
}

/// Returns the distinct signals of a JSON request, by the keys of its top object.
pub fn signals(text: &[u8]) -> Result<Vec<Signal>, OtlpJsonError> {
    let mut reader = OtlpJsonReader::new(text)?;
    let mut found = Vec::new();
    reader.expect(b'{')?;
    while reader.peek() == Some(b'"') {
        let key = reader.string()?;
        let signals = [Signal::Traces, Signal::Logs, Signal::Metrics];
        let signal = signals.into_iter().find(|signal| schema::request_key(*signal) == key);
        found.extend(signal.filter(|signal| !found.contains(signal)));
        reader.expect(b':')?;
        skip_value(&mut reader)?;
        if reader.peek() == Some(b',') {
            reader.bump();
        }
    }
    Ok(found)
}

/// Skips one value, checking only its brackets and strings.
fn skip_value(reader: &mut OtlpJsonReader<'_>) -> Result<(), OtlpJsonError> {
    let mut depth = 0usize;
    loop {
        match reader.peek() {
            Some(b'{' | b'[') => {
                reader.bump();
                depth += 1;
            }
            Some(b'}' | b']') if depth > 0 => {
                reader.bump();
                depth -= 1;
            }
            Some(b',' | b':') if depth > 0 => reader.bump(),
            _ => reader.skip_scalar()?,
        }
        if depth == 0 {
            return Ok(());
        }
    }
}
