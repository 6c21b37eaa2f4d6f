//! Unpacking of bodies to requests: small ones in place, others off the network's threads.
//!
//! A received kilobyte may decompress to a megabyte, and take as long. So the output decides
//! whether a body is small: decompression in place stops at a limit, and a larger body is
//! decompressed again from its start. Off the network's threads as many bodies as there are cores
//! are unpacked at once; others wait in order until their deadline.

use std::io::Read;
use std::sync::Arc;
use std::thread::available_parallelism;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::{declared_bytes, decompress, malformed, reader, window_log_max, zstd_window};
use crate::admission::Ticket;
use crate::ingest::{BodyLimit, fault};
use crate::status::{RefusalReason, RefusedRequest};
use spanscore_base::otlp::{ContentCoding, RawBody, Signal, json};

/// Largest body, as protobuf or JSON, that is unpacked in place. This blocks a network thread for
/// less than a millisecond.
const IN_PLACE_BYTES_MAX: usize = 128 << 10;

/// Largest compressed body that is tried in place: larger ones exceed the limit.
const TRIED_BYTES_MAX: usize = 64 << 10;

/// A request in protobuf, with the ticket that holds it.
pub(crate) type Unpacked = Result<(Bytes, Ticket), RefusedRequest>;

/// Unpacker of bodies.
pub(crate) struct Unpacker {
    /// Permits to unpack off the network's threads.
    beside: Arc<Semaphore>,
}

impl Default for Unpacker {
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, usize::from))
    }
}

impl Unpacker {
    fn new(at_once: usize) -> Self {
        Self { beside: Arc::new(Semaphore::new(at_once)) }
    }

    /// Returns the request of a body in protobuf, with its ticket. Calls `waits` if it must wait
    /// for others.
    pub(crate) async fn unpack(
        &self,
        signal: Signal,
        raw: &RawBody,
        limit: BodyLimit,
        (mut ticket, deadline): (Ticket, Instant),
        waits: impl FnOnce(),
    ) -> Unpacked {
        if raw.compression.is_none() && !raw.is_json {
            return Ok((raw.bytes.clone(), ticket));
        }
        if let Some(body) = small_body(raw, limit, &mut ticket)? {
            let request = protobuf(signal, raw, body, &mut ticket)?;
            return Ok((request, ticket));
        }
        let raw = raw.clone();
        let unpack = move |mut ticket: Ticket| {
            let BodyLimit { bytes_max, setting } = limit;
            let body = match raw.compression {
                None => raw.bytes.clone(),
                Some(compression) => {
                    decompress(compression, &raw.bytes, bytes_max, setting, &mut ticket)?.into()
                }
            };
            protobuf(signal, &raw, body, &mut ticket).map(|request| (request, ticket))
        };
        self.beside((ticket, deadline), waits, unpack).await
    }

    /// Does other work on a request of this size, in place if small. Calls `waits` if it must wait
    /// for others.
    pub(crate) async fn work(
        &self,
        bytes: usize,
        (ticket, deadline): (Ticket, Instant),
        waits: impl FnOnce(),
        work: impl FnOnce(Ticket) -> Unpacked + Send + 'static,
    ) -> Unpacked {
        if bytes <= IN_PLACE_BYTES_MAX {
            return work(ticket);
        }
        self.beside((ticket, deadline), waits, work).await
    }

    /// Does work off the network's threads, in its turn.
    async fn beside(
        &self,
        (ticket, deadline): (Ticket, Instant),
        waits: impl FnOnce(),
        work: impl FnOnce(Ticket) -> Unpacked + Send + 'static,
    ) -> Unpacked {
        let beside = Arc::clone(&self.beside);
        let turn = match Arc::clone(&beside).try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                waits();
                let turn = timeout_at(deadline, beside.acquire_owned()).await;
                turn.map_err(|_| crowded())?.map_err(|_| crowded())?
            }
        };
        let working = tokio::task::spawn_blocking(move || {
            // Held until the work is done, even if its caller has left.
            let _turn = turn;
            work(ticket)
        });
        working.await.map_err(|_| fault())?
    }
}

fn crowded() -> RefusedRequest {
    let what = "too many large bodies are being unpacked";
    RefusedRequest::overloaded(RefusalReason::TurnsFull, what)
}

/// Returns a decompressed body if it is small, else `None`.
fn small_body(
    raw: &RawBody,
    limit: BodyLimit,
    ticket: &mut Ticket,
) -> Result<Option<Bytes>, RefusedRequest> {
    let Some(compression) = raw.compression else {
        return Ok(Some(raw.bytes.clone()).filter(|body| body.len() <= IN_PLACE_BYTES_MAX));
    };
    let most = IN_PLACE_BYTES_MAX.min(limit.bytes_max);
    // The declared size may be false. If too large, it only skips this fast path; if too small, the
    // output limit applies.
    let says_more = declared_bytes(compression, &raw.bytes).is_some_and(|bytes| bytes > most);
    // Its frames are walked one by one, which is bounded only for small bodies.
    if raw.bytes.len() > TRIED_BYTES_MAX || says_more {
        return Ok(None);
    }
    let window = match compression {
        ContentCoding::Gzip | ContentCoding::Deflate => 0,
        ContentCoding::Zstd => zstd_window::largest(&raw.bytes),
    };
    if window > 1 << window_log_max(most) {
        return Ok(None);
    }
    ticket.hold(window)?;
    let mut out = Vec::with_capacity(raw.bytes.len().saturating_mul(4).min(most) + 1);
    let reader = reader(compression, &raw.bytes, most).map_err(malformed)?;
    reader.take(most as u64 + 1).read_to_end(&mut out).map_err(malformed)?;
    ticket.release(window);
    if out.len() > most {
        return Ok(None);
    }
    ticket.hold(out.len())?;
    Ok(Some(out.into()))
}

fn protobuf(
    signal: Signal,
    raw: &RawBody,
    body: Bytes,
    ticket: &mut Ticket,
) -> Result<Bytes, RefusedRequest> {
    if !raw.is_json {
        return Ok(body);
    }
    let mut refused = None;
    let request = json::transcode_within(signal, &body, &mut |more| {
        refused = ticket.hold(more).err();
        refused.is_none()
    });
    request.map_err(|error| {
        let malformed = || RefusedRequest::new(RefusalReason::Malformed, error.to_string());
        refused.unwrap_or_else(malformed)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;
    use crate::admission::Admission;
    use crate::settings::OtlpReceiverSettings;
    use spanscore_base::model::Memory;

    const LIMIT: BodyLimit = BodyLimit { bytes_max: 16 << 20, setting: "a limit" };

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn body(bytes: Vec<u8>, compression: Option<ContentCoding>, is_json: bool) -> RawBody {
        RawBody { bytes: bytes.into(), compression, is_json }
    }

    fn ticket() -> Ticket {
        let bytes = Memory::default().requests;
        let admission = Admission::new(&OtlpReceiverSettings::default(), bytes);
        admission.enter(&Arc::default()).ok().unwrap()
    }

    /// JSON of `{}` and blanks of this size.
    fn json(bytes: usize) -> Vec<u8> {
        let mut text = b"{}".to_vec();
        text.resize(bytes, b' ');
        text
    }

    /// Bodies of a few kilobytes that decompress to megabytes.
    fn bombs() -> [RawBody; 3] {
        let text = json(8 << 20);
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        // Its last member declares a tiny size.
        let lie = [gzip(&text), gzip(b"")].concat();
        let bombs = [(ContentCoding::Gzip, gzip(&text)), (ContentCoding::Gzip, lie)];
        let [gzip, lie] = bombs.map(|(coding, bytes)| body(bytes, Some(coding), true));
        [gzip, lie, body(zstd, Some(ContentCoding::Zstd), true)]
    }

    #[test]
    fn what_comes_out_decides_where_a_body_is_unpacked() {
        let small = |raw: &RawBody| small_body(raw, LIMIT, &mut ticket()).ok().unwrap();
        let few = json(1000);
        let zstd = zstd::encode_all(&few[..], 1).unwrap();
        for raw in [
            body(few.clone(), None, true),
            body(gzip(&few), Some(ContentCoding::Gzip), true),
            body(zstd, Some(ContentCoding::Zstd), false),
            body(json(IN_PLACE_BYTES_MAX), None, true),
            body(gzip(&json(IN_PLACE_BYTES_MAX)), Some(ContentCoding::Gzip), true),
        ] {
            assert!(small(&raw).is_some_and(|body| body.starts_with(b"{}  ")));
        }
        assert_eq!(small(&body(json(IN_PLACE_BYTES_MAX + 1), None, true)), None);
        for raw in bombs() {
            assert!(raw.bytes.len() < 64 << 10);
            assert_eq!(small(&raw), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bombs_wait_for_each_other_beside_the_network_and_small_bodies_for_none() {
        let unpacker = Unpacker::new(1);
        let unpack = async |raw: &RawBody| {
            let at = (ticket(), Instant::now() + Duration::from_secs(1));
            unpacker.unpack(Signal::Metrics, raw, LIMIT, at, || {}).await.map(|(body, _)| body)
        };
        for raw in bombs() {
            assert_eq!(unpack(&raw).await.ok(), Some(Bytes::new()));
            let busy = Arc::clone(&unpacker.beside).acquire_owned().await.unwrap();
            let refused = unpack(&raw).await.err().unwrap();
            assert_eq!(refused.reason, RefusalReason::TurnsFull);
            let small = body(gzip(b"{}"), Some(ContentCoding::Gzip), true);
            assert_eq!(unpack(&small).await.ok(), Some(Bytes::new()));
            drop(busy);
        }
    }
}
