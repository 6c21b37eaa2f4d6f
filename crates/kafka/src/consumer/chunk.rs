//! Chunks: adjacent records of one partition, handed over together.
//!
//! Concatenated encoded requests are one request, by the meaning of protobuf's repeated fields.
//! Each record must be complete for that: a truncated one would swallow the next.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::RecordClaims;
use super::metrics::{KeyMismatch, Skip};
use super::ownership::Partition;
use spanscore_base::model::{Claim, ClientGroup, Source, TraceId};
use spanscore_base::otlp::request::trace_id;
use spanscore_base::otlp::wire::{Malformed, contents};
use spanscore_base::otlp::{Signal, number};

/// Size at which a chunk is handed over: that of large requests.
pub(super) const CHUNK_BYTES: usize = 512 << 10;
/// Number of records at which a chunk is handed over.
pub(super) const CHUNK_RECORDS: usize = 256;
/// Number of records from which on room is also reserved for later ones.
const ROOMY_RECORDS: usize = 8;
/// Limit on that room, as a multiple of the present length.
const ROOM_FACTOR: usize = 4;
/// Bytes of a hexadecimal trace id.
const HEX_BYTES: usize = 32;

/// Key of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordKey {
    /// There is none.
    None,
    /// A trace id: 32 hexadecimal digits, as the Collector writes it, or 16 bytes.
    Trace(TraceId),
    /// Something else.
    Other,
}

impl RecordKey {
    pub(super) fn of(key: Option<&[u8]>) -> Self {
        match key {
            None | Some([]) => Self::None,
            Some(key) => {
                let hex = std::str::from_utf8(key).ok().filter(|text| text.len() == HEX_BYTES);
                let bytes = key.try_into().ok().map(TraceId);
                hex.and_then(TraceId::from_hex).or(bytes).map_or(Self::Other, Self::Trace)
            }
        }
    }
}

/// Place of a record in its chunk.
#[derive(Clone, Debug)]
pub(super) struct RecordMark {
    pub(super) offset: i64,
    pub(super) claim: Claim,
    /// Index of its end in the bytes.
    pub(super) end: usize,
    pub(super) key: RecordKey,
}

/// Common origin of a chunk's records, which form one request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ChunkOrigin {
    pub(super) partition: Partition,
    pub(super) signal: Signal,
    pub(super) group: ClientGroup,
}

/// Records of one origin, in the order of reading.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) origin: ChunkOrigin,
    /// Ownership during their reading.
    pub(super) source: Arc<Source>,
    pub(super) bytes: BytesMut,
    pub(super) records: Vec<RecordMark>,
}

impl Chunk {
    pub(super) fn new(origin: ChunkOrigin, source: &Arc<Source>) -> Self {
        let source = Arc::clone(source);
        Self { origin, source, bytes: BytesMut::new(), records: Vec::new() }
    }

    pub(super) fn push(&mut self, offset: i64, key: RecordKey, payload: &[u8]) {
        self.make_room(payload.len());
        self.bytes.extend_from_slice(payload);
        let claim = self.source.claim(u64::try_from(offset).unwrap_or(0), 0);
        self.records.push(RecordMark { offset, claim, end: self.bytes.len(), key });
    }

    /// Reserves room for a record. After many records more are expected, and generous capacity
    /// avoids copies. Before, and in each new partition, capacity grows as needed.
    fn make_room(&mut self, bytes: usize) {
        let length = self.bytes.len();
        let is_short = self.bytes.capacity() - length < bytes;
        if is_short && self.records.len() >= ROOMY_RECORDS {
            let rest = CHUNK_BYTES.saturating_sub(length);
            let others = rest.min(bytes * CHUNK_RECORDS).min(length * ROOM_FACTOR);
            self.bytes.reserve(bytes + others);
        }
    }

    /// Returns its bytes, including free capacity.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= CHUNK_BYTES || self.records.len() >= CHUNK_RECORDS
    }
}

/// Adjacent protobuf records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JoinedRecords {
    pub(super) request: Bytes,
    /// Range of the records.
    pub(super) records: Range<usize>,
    /// True if each record's key is its only trace.
    pub(super) is_keyed: bool,
}

impl JoinedRecords {
    /// Returns the claims on its records, among those of its chunk.
    pub(super) fn claims(&self, records: &[RecordMark]) -> Option<RecordClaims> {
        let own = records.get(self.records.clone()).unwrap_or_default();
        if !self.is_keyed {
            return own.first().map(|record| RecordClaims::One(record.claim.clone()));
        }
        let by_trace = own.iter().filter_map(|record| match record.key {
            RecordKey::Trace(trace_id) => Some((trace_id, record.claim.clone())),
            RecordKey::None | RecordKey::Other => None,
        });
        Some(RecordClaims::ByTrace(Arc::new(by_trace.collect())))
    }
}

/// Records of a chunk by their handling.
#[derive(Debug, Default)]
pub(super) struct SortedRecords {
    /// Records to hand over.
    pub(super) runs: Vec<JoinedRecords>,
    /// Skipped records.
    pub(super) skipped: Vec<(usize, Skip)>,
    /// Records whose key differs from their trace.
    pub(super) mismatches: Vec<(usize, KeyMismatch)>,
}

/// Sorts the records of a chunk, reading each down to its trace ids.
pub(super) fn sort(signal: Signal, bytes: &Bytes, records: &[RecordMark]) -> SortedRecords {
    let mut sorted = SortedRecords::default();
    let mut start = 0;
    for (index, record) in records.iter().enumerate() {
        let request = bytes.slice(start..record.end);
        match key_fit(signal, &request, record.key) {
            Ok(fit) => {
                sorted.mismatches.extend(fit.map(|mismatch| (index, mismatch)));
                // A record of several traces, or without a key, stays alone.
                let is_keyed = fit.is_none() && matches!(record.key, RecordKey::Trace(_));
                let before = sorted.runs.last_mut().filter(|run| is_keyed && run.is_keyed);
                match before.filter(|run| run.records.end == index) {
                    Some(run) => {
                        run.request = bytes.slice(start - run.request.len()..record.end);
                        run.records.end += 1;
                    }
                    None => {
                        let records = index..index + 1;
                        sorted.runs.push(JoinedRecords { request, records, is_keyed });
                    }
                }
            }
            Err(Malformed) => sorted.skipped.push((index, Skip::Malformed)),
        }
        start = record.end;
    }
    sorted
}

/// Compares a key with the trace ids of a request. Items without a trace match any key.
fn key_fit(
    signal: Signal,
    request: &[u8],
    key: RecordKey,
) -> Result<Option<KeyMismatch>, Malformed> {
    let mut mismatch = None;
    for resource in contents(request, number::REQUEST_RESOURCES) {
        // Damage inside affects only this record, and is found when it is read.
        let scopes = contents(resource?, number::SCOPES).map_while(Result::ok);
        let items = scopes.flat_map(|scope| contents(scope, number::ITEMS).map_while(Result::ok));
        let mut ids = items.filter_map(|item| trace_id(signal, item));
        mismatch = mismatch.or_else(|| ids.find_map(|id| mismatch_of(key, id)));
    }
    Ok(mismatch)
}

fn mismatch_of(key: RecordKey, trace_id: &[u8]) -> Option<KeyMismatch> {
    match key {
        RecordKey::Trace(key) if key.0 == trace_id => None,
        RecordKey::None => Some(KeyMismatch::None),
        _ => Some(KeyMismatch::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a request whose items have these trace ids in the field `number`.
    fn request(ids: &[[u8; 16]], number: u8) -> Vec<u8> {
        let message = |number: u8, parts: Vec<Vec<u8>>| {
            parts
                .iter()
                .flat_map(|part| [&[number << 3 | 2, part.len() as u8][..], part].concat())
                .collect::<Vec<u8>>()
        };
        let items = ids.iter().map(|id| message(number, vec![id.to_vec()])).collect();
        message(1, vec![message(2, vec![message(2, items)])])
    }

    fn chunk(records: &[(Vec<u8>, RecordKey)]) -> Chunk {
        let partition = Partition { topic: "spans".into(), number: 0 };
        let origin =
            ChunkOrigin { partition, signal: Signal::Traces, group: ClientGroup::default() };
        let mut chunk = Chunk::new(origin, &Arc::default());
        for (offset, (payload, key)) in (5..).zip(records) {
            chunk.push(offset, *key, payload);
        }
        chunk
    }

    #[test]
    fn keys_are_trace_ids_in_either_form() {
        let id = TraceId([0xab; 16]);
        for (key, expected) in [
            (None, RecordKey::None),
            (Some(&b""[..]), RecordKey::None),
            (Some(&b"abababababababababababababababab"[..]), RecordKey::Trace(id)),
            (Some(&[0xab; 16][..]), RecordKey::Trace(id)),
            (Some(&b"tenant"[..]), RecordKey::Other),
            (Some(&[b'x'; 32][..]), RecordKey::Other),
        ] {
            assert_eq!(RecordKey::of(key), expected, "{key:?}");
        }
    }

    #[test]
    fn key_must_be_the_only_trace_of_a_record() {
        let [one, two] = [[1; 16], [2; 16]];
        let key = RecordKey::Trace(TraceId(one));
        for (signal, number) in [(Signal::Traces, 1), (Signal::Logs, 9)] {
            for (ids, key, expected) in [
                (&[one, one][..], key, None),
                (&[], RecordKey::None, None),
                (&[one], RecordKey::None, Some(KeyMismatch::None)),
                (&[one, two], key, Some(KeyMismatch::Other)),
                (&[two], key, Some(KeyMismatch::Other)),
                (&[two], RecordKey::Other, Some(KeyMismatch::Other)),
            ] {
                assert_eq!(key_fit(signal, &request(ids, number), key), Ok(expected), "{ids:?}");
            }
        }
    }

    #[test]
    fn room_is_a_few_lengths_at_most_and_is_made_a_few_times() {
        let check = |bytes: usize, most: usize| {
            let mut chunk = chunk(&[]);
            let mut rooms = Vec::new();
            while !chunk.is_full() {
                chunk.push(0, RecordKey::None, &vec![0; bytes]);
                let lengths = if chunk.records.len() <= ROOMY_RECORDS { 2 } else { 6 };
                let length = chunk.bytes.len();
                assert!((length..=lengths * length).contains(&chunk.held()), "{:?}", chunk.held());
                rooms.push(chunk.held());
            }
            rooms.dedup();
            assert!(rooms.len() <= most, "{bytes}: {rooms:?}");
        };
        check(20_000, 5);
        check(2_000, 7);
        check(100, 8);
        check(CHUNK_BYTES, 1);
    }

    #[test]
    fn records_join_to_one_request_around_those_that_are_cut() {
        let whole = request(&[[1; 16]], 1);
        let key = RecordKey::Trace(TraceId([1; 16]));
        let cut = whole[..whole.len() - 1].to_vec();
        let records = [&whole, &whole, &cut, &whole].map(|record| (record.clone(), key));
        let chunk = chunk(&records);
        let sorted = sort(Signal::Traces, &chunk.bytes.freeze(), &chunk.records);
        let runs: Vec<_> =
            sorted.runs.iter().map(|run| (run.records.clone(), run.request.to_vec())).collect();
        assert_eq!(runs, [(0..2, whole.repeat(2)), (3..4, whole)]);
        assert_eq!((sorted.skipped, sorted.mismatches), (vec![(2, Skip::Malformed)], Vec::new()));
    }

    #[test]
    fn records_are_claimed_one_by_one_and_taken_alone_where_their_key_is_no_trace() {
        let key = |trace| RecordKey::Trace(TraceId([trace; 16]));
        let [one, two] = [1, 2].map(|trace| request(&[[trace; 16]], 1));
        let records = [
            (one.clone(), key(1)),
            (two.clone(), key(2)),
            (one.clone(), key(1)),
            (one, RecordKey::None),
        ];
        let mut chunk = chunk(&records);
        assert_eq!((chunk.source.claim_count(), chunk.is_full()), (4, false));
        let bytes = std::mem::take(&mut chunk.bytes).freeze();
        let runs = sort(Signal::Traces, &bytes, &chunk.records).runs;
        let claims: Vec<_> = runs.iter().filter_map(|run| run.claims(&chunk.records)).collect();
        let source = Arc::clone(&chunk.source);
        drop(chunk);
        let [RecordClaims::ByTrace(keyed), RecordClaims::One(alone)] = &claims[..] else {
            panic!("{claims:?}")
        };
        let of = |trace| keyed.get(TraceId([trace; 16])).unwrap().positions().collect::<Vec<_>>();
        assert_eq!((of(1), of(2), alone.position()), (vec![5, 7], vec![6], 8));
        drop(claims);
        assert_eq!(source.lowest(), None);
    }
}
