//! What a record of a file holds: requests as they are received over the network.

use std::path::Path;

use bytes::Bytes;

use super::counters::PassedOver;
use super::file::FileRecord;
use super::settings::FileSignal;
use crate::otlp::{ContentCoding, RawBody, Signal, json};
use crate::receive::Received;
use crate::receive::file::signal_of_name;

/// Why a record is passed over, and what to say of it.
pub(super) type Unusable = (PassedOver, String);

/// The requests of a record: one, or in JSON one for each signal that it holds.
pub(super) fn requests_of(
    record: &FileRecord,
    path: &Path,
    signal: Option<FileSignal>,
    bytes_max: usize,
) -> Result<Vec<Received>, Unusable> {
    let body = match ContentCoding::from_magic(&record.bytes) {
        Some(coding) => unpack(coding, &record.bytes, bytes_max)?,
        None => record.bytes.clone(),
    };
    if !record.is_line && body.first() != Some(&b'{') {
        return Ok(vec![Received::protobuf(signal_of(path, signal), body)]);
    }
    let malformed = |error: String| (PassedOver::Malformed, error);
    let signals = json::signals(&body).map_err(|error| malformed(error.to_string()))?;
    if signals.is_empty() {
        return Err(malformed("not an OTLP/JSON request".to_owned()));
    }
    let mut requests = Vec::with_capacity(signals.len());
    for signal in &signals {
        let request = json::transcode(*signal, &body).map_err(|it| malformed(it.to_string()))?;
        // What holds several signals is no request that could be passed on as it is.
        requests.push(match signals.len() {
            1 => {
                let raw = RawBody { bytes: body.clone(), compression: None, is_json: true };
                Received { signal: *signal, request, raw }
            }
            _ => Received::protobuf(*signal, request),
        });
    }
    Ok(requests)
}

fn unpack(coding: ContentCoding, bytes: &[u8], bytes_max: usize) -> Result<Bytes, Unusable> {
    use std::io::Read;
    let mut body = Vec::new();
    let limit = bytes_max as u64 + 1;
    let read = match coding {
        ContentCoding::Gzip => {
            flate2::read::MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut body)
        }
        ContentCoding::Zstd => zstd::stream::read::Decoder::new(bytes)
            .and_then(|decoder| decoder.take(limit).read_to_end(&mut body)),
    };
    match read {
        Ok(_) if body.len() > bytes_max => {
            Err((PassedOver::TooLarge, "larger than `max_record_mib`".to_owned()))
        }
        Ok(_) => Ok(body.into()),
        Err(error) => Err((PassedOver::Malformed, error.to_string())),
    }
}

fn signal_of(path: &Path, signal: Option<FileSignal>) -> Signal {
    match signal {
        Some(FileSignal::Traces) => Signal::Traces,
        Some(FileSignal::Logs) => Signal::Logs,
        Some(FileSignal::Metrics) => Signal::Metrics,
        None => signal_of_name(&path.file_name().unwrap_or_default().to_string_lossy()),
    }
}
