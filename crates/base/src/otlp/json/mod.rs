//! Transcoder of OTLP/JSON to protobuf, so that everything after it knows one form.
//!
//! In: one request in JSON. Out: its encoded protobuf bytes. Strict where the specification is
//! (JSON Protobuf Encoding): one value and nothing after it, UTF-8, numbers for enumerations,
//! lowerCamelCase names. Lenient where it says so: unknown fields are skipped, `null` is a default,
//! ids are hexadecimal in any case, integers may be strings. An id of a wrong length is passed on,
//! so that it costs its span and not the batch. Limits: [`DEPTH_MAX`].

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

/// Does the same for texts of strangers: numbers take up to 4.5 times as many bytes as their
/// digits, so `hold` is asked for the output as it grows, and a refusal ends it.
pub fn transcode_within(
    signal: Signal,
    text: &[u8],
    hold: &mut dyn FnMut(usize) -> bool,
) -> Result<Bytes, OtlpJsonError> {
    transcode::transcode(schema::request(signal), text, hold)
}

/// Returns the signals that a request in JSON holds, by the keys of its top object; each once.
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

/// Skips one value; only its brackets and strings are looked at.
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
