//! Record formats of the pipeline's log: requests as received, and notes of their progress.
//!
//! ```text
//! tags                              payload
//! 1, form, sender 2                 request: the group 8 if the form says so, then the body;
//!                                   form as in `FormBits`
//! 1, signal, is JSON, compression   the same without its sender, as earlier versions wrote it
//! 2, 0, 0, 0                        judged: trace id 16, digest 16, revised 16, has revised 1,
//!                                           revision 4; repeated (of earlier versions)
//! 2, 1, 0, 0                        judged: the same 53, number of records 4, their positions,
//!                                           8 each; repeated
//! 3, 0, 0, 0                        delivered: trace id 16, digest 16; repeated
//! 4, 0, 0, 0                        answer: digest of the question 16, text
//! ```
//!
//! Lengths are in bytes, numbers big-endian. A truncated entry at the end of a note is ignored.

use bytes::Bytes;
use smallvec::SmallVec;

use spanscore_assemble::PriorVerdict;
use spanscore_base::model::{ClientGroup, Sender, TraceId, fingerprint};
use spanscore_base::otlp::{ContentCoding, RawBody, Signal};
use spanscore_log::PROBE_TAG;

/// Request as received.
pub(super) const REQUEST_TAG: u8 = 1;
/// Note of judged traces.
pub(super) const JUDGED_TAG: u8 = 2;
/// Note of traces whose evaluations were delivered to all required exporters.
pub(super) const DELIVERED_TAG: u8 = 3;
/// Answer of a judge.
pub(super) const ANSWER_TAG: u8 = 4;

const JUDGED_BYTES: usize = 16 + 16 + 16 + 1 + 4;
const DELIVERED_BYTES: usize = 16 + 16;

/// Form of a note of judged traces with their records.
pub(super) const WITH_RECORDS: u8 = 1;

/// Note of one judged trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JudgedNote {
    pub(crate) trace_id: TraceId,
    pub(crate) revision: u32,
    pub(crate) digest: [u8; 16],
    pub(crate) revised: Option<[u8; 16]>,
    /// Positions of the judged records.
    pub(crate) records: SmallVec<[u64; 1]>,
}

impl JudgedNote {
    /// Converts the note to the knowledge of a later process, without the delivery.
    pub(super) fn prior(&self) -> PriorVerdict {
        let Self { revision, digest, revised, .. } = *self;
        PriorVerdict { revision, digest, revised, is_delivered: false }
    }
}

/// Bits of a request's second tag.
struct FormBits;

impl FormBits {
    /// Signal, by its number.
    const SIGNAL: u8 = 0b0000_0011;
    /// The body is JSON.
    const JSON: u8 = 0b0000_0100;
    /// Shift of the two bits of the compression's number.
    const COMPRESSION_SHIFT: u32 = 3;
    /// The sender's group precedes the body.
    const GROUPED: u8 = 0b0010_0000;
    /// The sender is in the other tags, by `sender_tags`.
    const WITH_SENDER: u8 = 0b1000_0000;
}

/// Returns the tags of a sender. For a group, whose name identifies the peer, they hold its
/// connection. Otherwise they hold eight bits of the peer's hash and one of 255 connection numbers,
/// 0 without one. After a restore, senders with equal tags share a quota.
fn sender_tags(Sender { group, peer, connection }: Sender) -> [u8; 2] {
    if connection == 0 || !group.is_everybody() {
        return connection.to_be_bytes();
    }
    let [.., peer] = peer.to_be_bytes();
    let [_, connection] = (connection % 255 + 1).to_be_bytes();
    [peer, connection]
}

/// Returns the tags of a request's record.
pub(super) fn request_tags(signal: Signal, raw: &RawBody, sender: Sender) -> [u8; 4] {
    let signal = match signal {
        Signal::Traces => 0,
        Signal::Logs => 1,
        Signal::Metrics => 2,
    };
    let compression = match raw.compression {
        None => 0,
        Some(ContentCoding::Gzip) => 1,
        Some(ContentCoding::Zstd) => 2,
        Some(ContentCoding::Deflate) => 3,
    };
    let json = if raw.is_json { FormBits::JSON } else { 0 };
    let grouped = if sender.group.is_everybody() { 0 } else { FormBits::GROUPED };
    let form = FormBits::WITH_SENDER
        | grouped
        | signal
        | json
        | compression << FormBits::COMPRESSION_SHIFT;
    let [peer, connection] = sender_tags(sender);
    [REQUEST_TAG, form, peer, connection]
}

/// Returns true for a note of a kind known to this version.
pub(super) fn is_note(tags: [u8; 4]) -> bool {
    matches!(tags[0], PROBE_TAG | JUDGED_TAG | DELIVERED_TAG | ANSWER_TAG)
}

/// Returns the payload of a request's record.
pub(super) fn request_payload(raw: &RawBody, sender: Sender) -> Bytes {
    if sender.group.is_everybody() {
        return raw.bytes.clone();
    }
    [&sender.group.to_bytes()[..], &raw.bytes].concat().into()
}

/// Decodes a request; `None` for tags unknown to this version.
pub(crate) fn request(tags: [u8; 4], payload: Bytes) -> Option<(Signal, RawBody, Sender)> {
    let [REQUEST_TAG, form, third, fourth] = tags else { return None };
    let (signal, json, compression, connection) = if form & FormBits::WITH_SENDER == 0 {
        (form, third, fourth, 0)
    } else {
        let bits = form & !(FormBits::WITH_SENDER | FormBits::GROUPED);
        let json = u8::from(bits & FormBits::JSON > 0);
        let compression = bits >> FormBits::COMPRESSION_SHIFT;
        (bits & FormBits::SIGNAL, json, compression, u16::from_be_bytes([third, fourth]))
    };
    let signal = *Signal::ALL.get(usize::from(signal))?;
    let is_json = match json {
        0 => false,
        1 => true,
        _ => return None,
    };
    let compression = match compression {
        0 => None,
        1 => Some(ContentCoding::Gzip),
        2 => Some(ContentCoding::Zstd),
        3 => Some(ContentCoding::Deflate),
        _ => return None,
    };
    let is_grouped = form & FormBits::WITH_SENDER > 0 && form & FormBits::GROUPED > 0;
    let (group, bytes) = if is_grouped {
        let group = ClientGroup::from_bytes(*payload.first_chunk()?);
        (group, payload.slice(size_of_val(&group)..))
    } else {
        (ClientGroup::default(), payload)
    };
    // A group is one peer, as when it sent this. Earlier versions wrote only the connection; 256
    // consecutive ones are then one peer.
    let [peer, _] = connection.to_be_bytes();
    let peer = if is_grouped { fingerprint(&group.to_bytes()) } else { u32::from(peer) };
    let sender = Sender { group, peer, connection };
    Some((signal, RawBody { bytes, compression, is_json }, sender))
}

/// Encodes a note of judged traces.
pub(super) fn encode_judged<'a>(notes: impl Iterator<Item = &'a JudgedNote>) -> Bytes {
    let mut bytes = Vec::new();
    for note in notes {
        bytes.extend_from_slice(&note.trace_id.0);
        bytes.extend_from_slice(&note.digest);
        bytes.extend_from_slice(&note.revised.unwrap_or_default());
        bytes.push(u8::from(note.revised.is_some()));
        bytes.extend_from_slice(&note.revision.to_be_bytes());
        let count = u32::try_from(note.records.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&count.to_be_bytes());
        note.records.iter().for_each(|record| bytes.extend_from_slice(&record.to_be_bytes()));
    }
    bytes.into()
}

/// Decodes a note of judged traces; a truncated entry ends it.
pub(super) fn decode_judged(form: u8, payload: &[u8]) -> impl Iterator<Item = JudgedNote> {
    let mut at = NoteBytes(payload);
    std::iter::from_fn(move || {
        if at.0.len() < JUDGED_BYTES {
            return None;
        }
        let trace_id = TraceId(at.take());
        let digest = at.take();
        let revised = at.take();
        let [has_revised] = at.take();
        let revision = u32::from_be_bytes(at.take());
        let mut records = SmallVec::new();
        if form == WITH_RECORDS {
            let count = u32::from_be_bytes(at.take()) as usize;
            if at.0.len() / size_of::<u64>() < count {
                return None;
            }
            records.extend((0..count).map(|_| u64::from_be_bytes(at.take())));
        }
        let revised = Some(revised).filter(|_| has_revised == 1);
        Some(JudgedNote { trace_id, revision, digest, revised, records })
    })
}

/// Encodes a note of delivered evaluations.
pub(super) fn encode_delivered<'a>(notes: impl Iterator<Item = &'a JudgedNote>) -> Bytes {
    let entries = notes.flat_map(|note| [note.trace_id.0, note.digest]);
    entries.flatten().collect()
}

pub(super) fn decode_delivered(payload: &[u8]) -> impl Iterator<Item = (TraceId, [u8; 16])> {
    let (notes, _) = payload.as_chunks::<DELIVERED_BYTES>();
    notes.iter().map(|note| {
        let mut at = NoteBytes(note);
        (TraceId(at.take()), at.take())
    })
}

/// Encodes an answer after the digest of its question.
pub(super) fn encode_answer(key: [u8; 16], text: &str) -> Bytes {
    [&key[..], text.as_bytes()].concat().into()
}

pub(super) fn decode_answer(payload: &[u8]) -> Option<([u8; 16], String)> {
    let (key, text) = payload.split_first_chunk()?;
    Some((*key, std::str::from_utf8(text).ok()?.to_owned()))
}

/// Reader of fixed-size fields; yields zeros past the end.
struct NoteBytes<'a>(&'a [u8]);

impl NoteBytes<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((first, rest)) = self.0.split_first_chunk() else { return [0; N] };
        self.0 = rest;
        *first
    }
}

#[cfg(test)]
mod tests {
    use hashbrown::HashSet;
    use smallvec::smallvec;

    use super::*;

    #[test]
    fn notes_read_back_and_what_is_cut_is_left_out() {
        let note = |byte: u8, revised| JudgedNote {
            trace_id: TraceId([byte; 16]),
            revision: 7,
            digest: [byte + 1; 16],
            revised,
            records: smallvec![7, 9],
        };
        let notes = [note(1, None), note(2, Some([9; 16]))];
        let bytes = encode_judged(notes.iter());
        assert_eq!(decode_judged(WITH_RECORDS, &bytes).collect::<Vec<_>>(), notes);
        assert_eq!(decode_judged(WITH_RECORDS, &bytes[..bytes.len() - 1]).count(), 1);
        let of_earlier = JudgedNote { records: SmallVec::new(), ..notes[0].clone() };
        assert_eq!(decode_judged(0, &bytes[..JUDGED_BYTES]).next(), Some(of_earlier));
        let delivered: Vec<_> = decode_delivered(&encode_delivered(notes.iter())).collect();
        assert_eq!(delivered, [(TraceId([1; 16]), [2; 16]), (TraceId([2; 16]), [3; 16])]);
    }

    #[test]
    fn answers_of_judges_read_back() {
        let answer = encode_answer([7; 16], "{\"items\": []}");
        assert_eq!(decode_answer(&answer), Some(([7; 16], "{\"items\": []}".to_owned())));
        assert_eq!(decode_answer(&answer[..9]), None);
    }

    const CODINGS: [Option<ContentCoding>; 4] =
        [None, Some(ContentCoding::Gzip), Some(ContentCoding::Zstd), Some(ContentCoding::Deflate)];

    fn read_back(
        signal: Signal,
        raw: &RawBody,
        sender: Sender,
    ) -> Option<(Signal, RawBody, Sender)> {
        request(request_tags(signal, raw, sender), request_payload(raw, sender))
    }

    #[test]
    fn senders_that_differ_differ_after_a_restart_in_peer_and_connection() {
        let raw = RawBody { bytes: Bytes::new(), compression: None, is_json: false };
        let restored = |sender| read_back(Signal::Traces, &raw, sender).map(|it| it.2);
        let peer = |host: u8| Sender::of_address(Some([10, 0, 0, host].into())).peer;
        let of = |connection| {
            let peers =
                (0..20).map(|host| Sender { peer: peer(host), connection, ..Sender::default() });
            peers.filter_map(restored).collect::<Vec<_>>()
        };
        let numbers = |senders: &[Sender]| senders.iter().map(|it| it.peer).collect::<HashSet<_>>();
        assert!(numbers(&of(1)).len() >= 18, "eight bits are enough for most of a few");
        let all: HashSet<Sender> = (1..=255).filter_map(|it| of(it).first().copied()).collect();
        let peers: Vec<Sender> = all.iter().copied().collect();
        assert_eq!((all.len(), numbers(&peers).len()), (255, 1), "connections of one peer");
        let client = Sender { connection: 0xfedc, ..Sender::of_group(ClientGroup::named("a")) };
        assert_eq!(restored(client), Some(client), "it is known by name");
        assert_eq!(restored(Sender::default()), Some(Sender::default()), "of no connection");
    }

    #[test]
    fn requests_read_back_in_the_form_that_they_came_in() {
        for signal in Signal::ALL {
            for is_json in [false, true] {
                for compression in CODINGS {
                    let raw = RawBody { bytes: b"body"[..].into(), compression, is_json };
                    let named = ClientGroup::named("a");
                    for group in [ClientGroup::default(), named] {
                        let sender = Sender { group, ..Sender::default() };
                        let found = read_back(signal, &raw, sender);
                        let found = found.map(|(signal, raw, sender)| (signal, raw, sender.group));
                        assert_eq!(found, Some((signal, raw.clone(), group)));
                    }
                }
            }
        }
        let raw =
            RawBody { bytes: Bytes::new(), compression: Some(ContentCoding::Zstd), is_json: true };
        let earlier = Some((Signal::Logs, raw, Sender::default()));
        assert_eq!(request([1, 1, 1, 2], Bytes::new()), earlier, "as earlier versions wrote it");
        for tags in [[2, 0, 0, 0], [1, 3, 0, 0], [1, 0, 2, 0], [1, 0, 0, 4], [1, 0x83, 0, 0]] {
            assert_eq!(request(tags, Bytes::new()), None, "{tags:?}");
        }
    }
}
