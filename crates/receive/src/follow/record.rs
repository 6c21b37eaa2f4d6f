//! Decoding of file records to requests, as received over the network.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::counters::SkippedRecord;
use super::file::FileRecord;
use super::settings::FileSignal;
use crate::Received;
use crate::compression::{self, STEP_BYTES, window_bytes};
use spanscore_base::model::MemoryQuota;
use spanscore_base::otlp::json::{self, OtlpJsonError};
use spanscore_base::otlp::{ContentCoding, RawBody, Signal};
use spanscore_recordings::signal_of_name;

/// Memory of requests at which they are handed over before more are read.
const UNPACKED_BYTES: usize = 1 << 20;

/// Settings for reading records.
#[derive(Clone)]
pub(super) struct RecordSettings {
    pub(super) path: Arc<Path>,
    pub(super) signal: Option<FileSignal>,
    /// Largest record in bytes, before and after decompression.
    pub(super) bytes_max: usize,
}

/// Memory for decoded records, released on drop.
pub(super) struct ReadRoom {
    share: Arc<MemoryQuota>,
    held: usize,
    may_exceed: bool,
}

impl ReadRoom {
    /// Takes memory of a share; `may_exceed` allows a record beyond the limit.
    pub(super) fn new(share: &Arc<MemoryQuota>, may_exceed: bool) -> Self {
        Self { share: Arc::clone(share), held: 0, may_exceed }
    }

    fn take(&mut self, bytes: usize) -> bool {
        let is_there = self.share.try_take(bytes);
        if !is_there && self.may_exceed {
            self.share.take(bytes);
        }
        let is_taken = is_there || self.may_exceed;
        self.held += if is_taken { bytes } else { 0 };
        is_taken
    }

    fn give_back(&mut self, bytes: usize) {
        self.share.give_back(bytes);
        self.held -= bytes;
    }
}

impl Drop for ReadRoom {
    fn drop(&mut self) {
        self.share.give_back(self.held);
    }
}

/// Requests of some records.
pub(super) struct ReadRecords {
    /// By line of their records.
    pub(super) requests: Vec<(u64, Received)>,
    /// Skipped records with the reasons.
    pub(super) unusable: Vec<(u64, SkippedRecord, String)>,
    /// Index of the first unread record.
    pub(super) next: usize,
    /// Memory of the requests until they are handed over.
    pub(super) room: ReadRoom,
}

/// Reason that a record was not read.
#[derive(Debug)]
enum UnreadRecord {
    /// It is permanently unusable.
    Unusable(SkippedRecord, String),
    /// Memory is short.
    NoRoom,
}

impl From<OtlpJsonError> for UnreadRecord {
    fn from(error: OtlpJsonError) -> Self {
        Self::Unusable(SkippedRecord::Malformed, error.to_string())
    }
}

/// Reads records from one on, until their requests take [`UNPACKED_BYTES`] or find no room.
pub(super) fn read_records(
    records: &[FileRecord],
    from: usize,
    settings: &RecordSettings,
    room: ReadRoom,
) -> ReadRecords {
    let requests = Vec::new();
    let unusable = Vec::new();
    let mut read = ReadRecords { requests, unusable, next: from, room };
    for record in records.iter().skip(from) {
        let before = read.room.held;
        let requests = requests_of(record, settings, &mut read.room);
        if requests.is_err() {
            read.room.give_back(read.room.held - before);
        }
        match requests {
            Ok(more) => read.requests.extend(more.into_iter().map(|it| (record.line, it))),
            Err(UnreadRecord::Unusable(reason, why)) => {
                read.unusable.push((record.line, reason, why))
            }
            Err(UnreadRecord::NoRoom) => break,
        }
        read.next += 1;
        if read.room.held >= UNPACKED_BYTES {
            break;
        }
    }
    read
}

/// Decodes the requests of a record: one, or in JSON one for each of its signals.
fn requests_of(
    record: &FileRecord,
    settings: &RecordSettings,
    room: &mut ReadRoom,
) -> Result<Vec<Received>, UnreadRecord> {
    let body = match ContentCoding::from_magic(&record.bytes) {
        Some(coding) => unpack(coding, &record.bytes, settings.bytes_max, room)?,
        None => record.bytes.clone(),
    };
    if !record.is_line && body.first() != Some(&b'{') {
        return Ok(vec![Received::protobuf(signal_of(settings), body)]);
    }
    let signals = json::signals(&body)?;
    if signals.is_empty() {
        let why = "not an OTLP/JSON request".to_owned();
        return Err(UnreadRecord::Unusable(SkippedRecord::Malformed, why));
    }
    let mut requests = Vec::with_capacity(signals.len());
    for signal in &signals {
        let mut is_room = true;
        let request = json::transcode_within(*signal, &body, &mut |more| {
            is_room = room.take(more);
            is_room
        });
        if !is_room {
            return Err(UnreadRecord::NoRoom);
        }
        let request = request?;
        // A record of several signals cannot be forwarded unchanged.
        requests.push(match signals.len() {
            1 => {
                let raw = RawBody { bytes: body.clone(), compression: None, is_json: true };
                Received { raw, ..Received::protobuf(*signal, request) }
            }
            _ => Received::protobuf(*signal, request),
        });
    }
    Ok(requests)
}

fn unpack(
    coding: ContentCoding,
    bytes: &[u8],
    bytes_max: usize,
    room: &mut ReadRoom,
) -> Result<Bytes, UnreadRecord> {
    let malformed = |error: std::io::Error| {
        let why = format!("cannot be decompressed: {error}");
        UnreadRecord::Unusable(SkippedRecord::Malformed, why)
    };
    let window = window_bytes(coding, bytes, bytes_max);
    if !room.take(window) {
        return Err(UnreadRecord::NoRoom);
    }
    let mut reader = compression::reader(coding, bytes, bytes_max).map_err(malformed)?;
    let mut body = Vec::new();
    loop {
        let step = STEP_BYTES.min((bytes_max - body.len()).saturating_add(1));
        let read = reader.by_ref().take(step as u64).read_to_end(&mut body).map_err(malformed)?;
        if body.len() > bytes_max {
            let why = "larger than `max_record_mib`".to_owned();
            return Err(UnreadRecord::Unusable(SkippedRecord::TooLarge, why));
        }
        if !room.take(read) {
            return Err(UnreadRecord::NoRoom);
        }
        if read < step {
            room.give_back(window);
            return Ok(body.into());
        }
    }
}

fn signal_of(settings: &RecordSettings) -> Signal {
    match settings.signal {
        Some(FileSignal::Traces) => Signal::Traces,
        Some(FileSignal::Logs) => Signal::Logs,
        Some(FileSignal::Metrics) => Signal::Metrics,
        None => signal_of_name(&settings.path.file_name().unwrap_or_default().to_string_lossy()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn gzip(content: &[u8]) -> Bytes {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap().into()
    }

    fn settings() -> RecordSettings {
        RecordSettings { path: Path::new("a.bin").into(), signal: None, bytes_max: 8 * MIB }
    }

    /// Records of a few kilobytes that are four megabytes each.
    fn records() -> Vec<FileRecord> {
        let zeros = vec![0; 4 * MIB];
        let json = format!("{{\"resourceSpans\":[]{}}}", " ".repeat(4 * MIB));
        let zstd = zstd::encode_all(&zeros[..], 1).unwrap().into();
        let bodies = [gzip(&zeros), zstd, gzip(json.as_bytes())];
        let record = |(line, bytes)| FileRecord { line, bytes, is_line: false };
        (1..).zip(bodies).map(record).collect()
    }

    #[test]
    fn one_record_is_unpacked_at_a_time_and_what_comes_out_is_counted() {
        let records = records();
        let share = MemoryQuota::new("requests", 16 * MIB);
        for from in 0..records.len() {
            let room = ReadRoom::new(&share, false);
            let read = read_records(&records, from, &settings(), room);
            assert_eq!((read.requests.len(), read.next), (1, from + 1));
            // JSON reserves room for its protobuf in advance.
            assert!((4 * MIB..7 * MIB).contains(&share.held()), "{}", share.held());
            drop(read);
            assert_eq!(share.held(), 0);
        }
    }

    #[test]
    fn record_without_room_is_read_later_or_by_whoever_is_alone() {
        let records = records();
        let share = MemoryQuota::new("requests", 2 * MIB);
        let read = read_records(&records, 0, &settings(), ReadRoom::new(&share, false));
        assert!(read.requests.is_empty() && read.unusable.is_empty() && read.next == 0);
        drop(read);
        assert_eq!(share.held(), 0);
        let read = read_records(&records, 0, &settings(), ReadRoom::new(&share, true));
        assert_eq!((read.requests.len(), read.next), (1, 1));
    }

    #[test]
    fn what_comes_out_too_large_or_broken_is_passed_over() {
        let record = |bytes| FileRecord { line: 7, bytes, is_line: false };
        let cut = gzip(&[0; 1000]).slice(..12);
        let records = [record(gzip(&vec![0; 9 * MIB])), record(cut)];
        let room = ReadRoom::new(&MemoryQuota::new("requests", 64 * MIB), false);
        let read = read_records(&records, 0, &settings(), room);
        let reasons: Vec<_> =
            read.unusable.iter().map(|(line, reason, _)| (*line, *reason)).collect();
        assert_eq!(reasons, [(7, SkippedRecord::TooLarge), (7, SkippedRecord::Malformed)]);
        assert_eq!((read.requests.len(), read.next), (0, 2));
    }

    #[test]
    fn signals_that_are_named_again_and_again_are_read_once() {
        let text = format!("{{{}\"resourceLogs\":[]}}", "\"resourceSpans\":[],".repeat(100_000));
        let records = [FileRecord { line: 1, bytes: text.into(), is_line: true }];
        let room = ReadRoom::new(&MemoryQuota::new("requests", 8 * MIB), false);
        assert_eq!(read_records(&records, 0, &settings(), room).requests.len(), 2);
    }
}
