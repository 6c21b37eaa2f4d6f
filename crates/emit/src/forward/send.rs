//! Delivery of requests to one backend, with retries until accepted or given up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, watch};

use super::memory::ForwardMemory;
use super::parcel::{ForwardParcel, HeldBody, Load};
use super::progress::ReadBack;
use super::select::{WantedTraces, only};
use crate::counters::Loss;
use spanscore_base::otlp::{ContentCoding, RawBody, Signal, json};
use spanscore_net::client::retry::{RetrySettings, retry_until};
use spanscore_net::client::{Client, Compression, ExportOutcome, SendError};

/// Largest body compressed on a network thread, bytes. Larger ones go to blocking threads, as do
/// compressed ones that must be recompressed, since their decompressed size is unknown.
const PACK_IN_PLACE_BYTES_MAX: usize = 64 << 10;
/// Largest decompressed body, bytes; the received one was within its limits already.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Waits between reads of a record that cannot be read, before it is given up.
const READ_WAITS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// Body in the form in which it is sent.
struct ReadyBody {
    bytes: Bytes,
    is_json: bool,
}

/// Client of one backend with compression and retries.
pub(super) struct ForwardRoute {
    pub(super) client: Client,
    pub(super) compression: Compression,
    pub(super) retries: RetrySettings,
}

impl ForwardRoute {
    /// Returns a body in this client's form as input for another client.
    fn raw(&self, ready: ReadyBody) -> RawBody {
        // Over gRPC the connection compresses.
        let compression = self.compression.coding().filter(|_| self.client.takes_bodies());
        RawBody { bytes: ready.bytes, compression, is_json: ready.is_json }
    }
}

/// Sender of one forward's requests, each by the current client.
pub(super) struct ForwardSender {
    memory: Arc<ForwardMemory>,
    route: watch::Sender<Arc<ForwardRoute>>,
    log: Option<Arc<dyn ReadBack>>,
    /// Limits reads from the log beyond the forward's memory to one at a time.
    beyond: Mutex<()>,
}

impl ForwardSender {
    pub(super) fn new(
        memory: Arc<ForwardMemory>,
        route: ForwardRoute,
        log: Option<Arc<dyn ReadBack>>,
    ) -> Self {
        let (route, _) = watch::channel(Arc::new(route));
        Self { memory, route, log, beyond: Mutex::default() }
    }

    /// Replaces the client, also for requests that have failed. Requests in flight have some
    /// seconds to arrive, and are sent again unless their arrival is confirmed.
    pub(super) fn change(&self, route: ForwardRoute) {
        self.route.send_replace(Arc::new(route));
    }

    /// Returns true if there is a log to read requests from.
    pub(super) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Sends a request and counts its outcome.
    pub(super) async fn deliver(&self, mut parcel: ForwardParcel) {
        let mut room = None;
        let mut beyond = None;
        if let Load::InLog { bytes, .. } = parcel.load {
            room = self.memory.room(bytes);
            if room.is_none() {
                beyond = Some(self.beyond.lock().await);
                room = Some(self.memory.room_beyond(bytes));
            }
        }
        let mut routes = self.route.subscribe();
        let mut route = Arc::clone(&routes.borrow_and_update());
        let mut ready = match self.ready(&parcel, &route).await {
            Ok(Some(ready)) => ready,
            // None of its traces is left in it, and nothing else reports that.
            Ok(None) => return parcel.sent(0),
            Err(reason) => return parcel.lost(reason),
        };
        parcel.unload();
        let sent = loop {
            let (sent, unsent) = self.send(parcel.signal, ready, (&route, &mut routes)).await;
            if let Some(sent) = sent {
                break sent;
            }
            let raw = route.raw(unsent);
            route = Arc::clone(&routes.borrow_and_update());
            let packing =
                Packing { route: Arc::clone(&route), signal: parcel.signal, wanted: None };
            ready = match blocking(move || packing.pack(raw)).await {
                Ok(Some(ready)) => ready,
                Ok(None) => return parcel.lost(Loss::Fault),
                Err(reason) => return parcel.lost(reason),
            };
        };
        if let Err(error) = &sent
            && self.memory.counters.losses.may_log()
        {
            tracing::warn!(forward = %self.memory.counters.name, error = error.text(),
                "failed to pass on what was received, gave up");
        }
        match sent {
            Ok(rejected) => parcel.sent(rejected),
            Err(error) if error.is_refusal() => parcel.lost(Loss::Refused),
            Err(_) => parcel.lost(Loss::RetriesExhausted),
        }
        drop((room, beyond));
    }

    /// Sends by one client until it is replaced: then arrival is unknown. Returns the body.
    async fn send(
        &self,
        signal: Signal,
        ready: ReadyBody,
        (route, routes): (&ForwardRoute, &mut watch::Receiver<Arc<ForwardRoute>>),
    ) -> (Option<Result<u64, SendError>>, ReadyBody) {
        let attempt = || self.attempt(signal, &ready, &route.client);
        let failed = |error: &str, wait| {
            self.memory.failed();
            if self.memory.counters.trouble.may_log() {
                tracing::warn!(forward = %self.memory.counters.name, error, ?wait,
                    "failed to pass on what was received, trying again");
            }
        };
        let changed = async {
            if routes.changed().await.is_err() {
                std::future::pending().await
            }
        };
        let sent = retry_until(&route.retries, attempt, failed, changed).await;
        (sent, ready)
    }

    /// Sends once; returns the number of rejected items.
    async fn attempt(
        &self,
        signal: Signal,
        ready: &ReadyBody,
        client: &Client,
    ) -> Result<u64, SendError> {
        let body = ready.bytes.clone();
        let sent = if ready.is_json {
            client.send_json(signal, body).await
        } else {
            client.send(signal, body).await
        };
        let sent = SendError::unless_unreadable(sent);
        if sent.as_ref().err().is_none_or(SendError::is_refusal) {
            self.memory.answered();
        }
        let ExportOutcome { rejected, message } = sent?;
        if (rejected > 0 || !message.is_empty()) && self.memory.counters.partly.may_log() {
            tracing::warn!(forward = %self.memory.counters.name, rejected, message,
                "the backend took a request only in part, or with a warning");
        }
        Ok(rejected)
    }

    /// Returns the body to send; `None` if it has no wanted items.
    async fn ready(
        &self,
        parcel: &ForwardParcel,
        route: &Arc<ForwardRoute>,
    ) -> Result<Option<ReadyBody>, Loss> {
        let signal = parcel.signal;
        let wanted = parcel.wanted.clone();
        let packing = Packing { route: Arc::clone(route), signal, wanted };
        match &parcel.load {
            Load::Held(HeldBody { bytes, coding, is_json, .. }) => {
                let raw = RawBody { bytes: bytes.clone(), compression: *coding, is_json: *is_json };
                if packing.is_quick(&raw) {
                    return packing.pack(raw);
                }
                blocking(move || packing.pack(raw)).await
            }
            Load::InLog { .. } => {
                let (Some(log), Some(place)) = (&self.log, &parcel.place) else {
                    return Err(Loss::Fault);
                };
                let log = Arc::clone(log);
                let position = place.position();
                let raw = self.read_back(log, position).await?;
                blocking(move || packing.pack(raw)).await
            }
        }
    }

    /// Reads a body from the log; a recent append may not be written yet.
    async fn read_back(&self, log: Arc<dyn ReadBack>, position: u64) -> Result<RawBody, Loss> {
        let mut waits = READ_WAITS.iter();
        loop {
            let log = Arc::clone(&log);
            let read = blocking(move || Ok(log.read_back(position))).await?;
            match (read, waits.next()) {
                (Ok((_, raw)), _) => return Ok(raw),
                (Err(_), Some(wait)) => tokio::time::sleep(*wait).await,
                (Err(error), None) => {
                    tracing::warn!(forward = %self.memory.counters.name, position, error,
                        "a request cannot be read from the log again");
                    return Err(Loss::Unreadable);
                }
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Loss> + Send + 'static,
) -> Result<T, Loss> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Loss::Fault))
}

/// Conversion of a received body to the form in which it is sent.
struct Packing {
    route: Arc<ForwardRoute>,
    signal: Signal,
    wanted: Option<WantedTraces>,
}

impl Packing {
    /// Returns true if converting a body is short enough for a network thread.
    fn is_quick(&self, raw: &RawBody) -> bool {
        let is_small = raw.compression.is_none() && raw.bytes.len() <= PACK_IN_PLACE_BYTES_MAX;
        is_small || self.is_unchanged(raw)
    }

    /// Returns true if a body is sent as JSON.
    fn keeps_json(&self, raw: &RawBody) -> bool {
        raw.is_json && self.route.client.takes_bodies() && self.wanted.is_none()
    }

    /// Returns true if a body is sent unchanged.
    fn is_unchanged(&self, raw: &RawBody) -> bool {
        let is_whole = self.wanted.is_none() && raw.is_json == self.keeps_json(raw);
        let is_packed_so = raw.compression == self.route.compression.coding();
        is_whole && is_packed_so && self.route.client.takes_bodies()
    }

    fn pack(&self, raw: RawBody) -> Result<Option<ReadyBody>, Loss> {
        let keeps_json = self.keeps_json(&raw);
        if self.is_unchanged(&raw) {
            return Ok(Some(ReadyBody { bytes: raw.bytes, is_json: keeps_json }));
        }
        let mut body = if keeps_json { unpack(&raw)? } else { protobuf(self.signal, &raw)? };
        if let Some(wanted) = &self.wanted {
            let Some(part) = only(self.signal, &body, wanted) else { return Ok(None) };
            body = part.into();
        }
        Ok(Some(ReadyBody { bytes: self.route.client.prepare(body), is_json: keeps_json }))
    }
}

/// Returns the body's request as protobuf.
pub(super) fn protobuf(signal: Signal, raw: &RawBody) -> Result<Bytes, Loss> {
    let body = unpack(raw)?;
    if !raw.is_json {
        return Ok(body);
    }
    json::transcode(signal, &body).map_err(|_| Loss::Fault)
}

fn unpack(raw: &RawBody) -> Result<Bytes, Loss> {
    use std::io::Read;
    let mut body = Vec::new();
    let read = match raw.compression {
        None => return Ok(raw.bytes.clone()),
        Some(ContentCoding::Gzip) => flate2::read::MultiGzDecoder::new(&raw.bytes[..])
            .take(UNPACKED_BYTES_MAX)
            .read_to_end(&mut body),
        Some(ContentCoding::Zstd) => zstd::stream::read::Decoder::new(&raw.bytes[..])
            .and_then(|decoder| decoder.take(UNPACKED_BYTES_MAX).read_to_end(&mut body)),
        Some(ContentCoding::Deflate) => flate2::read::ZlibDecoder::new(&raw.bytes[..])
            .take(UNPACKED_BYTES_MAX)
            .read_to_end(&mut body),
    };
    read.map(|_| body.into()).map_err(|_| Loss::Fault)
}
