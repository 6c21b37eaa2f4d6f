//! What gRPC and HTTP share: from body bytes to the intake, with counts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::admission::{Admission, Ticket};
use super::auth::{Authenticator, ClientOutcome, KnownClient};
use super::closing::Closing;
use super::compression::decompress;
use super::metrics::{ReceiverMetrics, Transport};
use super::status::{RefusalReason, RefusedRequest};
use super::{Accepted, Intake, Received, Sender};
use crate::otlp::tag::tag_resources;
use crate::otlp::wire::{Field, Fields, Malformed};
use crate::otlp::{RawBody, Signal, json};
use crate::panics::{Panicked, caught_future};

/// Bodies up to this size are unpacked in place; larger ones beside the network tasks, which they
/// would hold up for milliseconds.
const UNPACK_IN_PLACE_BYTES_MAX: usize = 256 << 10;

/// The resource attribute with the name of the client that sent it.
const CLIENT_ATTRIBUTE: &str = "spanscore.client";

/// What every connection of a receiver needs.
pub(super) struct Ingest<I> {
    pub(super) intake: I,
    pub(super) admission: Admission,
    pub(super) auth: Arc<Authenticator>,
    pub(super) metrics: Arc<ReceiverMetrics>,
    pub(super) closing: Closing,
    pub(super) read_timeout: Duration,
    pub(super) min_body_rate: u32,
}

/// One request's body as it came in.
pub(super) struct Packed {
    pub(super) signal: Signal,
    pub(super) raw: RawBody,
    /// Who sent it, where that is known.
    pub(super) client: Option<Arc<KnownClient>>,
}

/// The limit on a body, and the setting that the sender's operator may change.
#[derive(Clone, Copy)]
pub(super) struct BodyLimit {
    pub(super) bytes_max: usize,
    pub(super) setting: &'static str,
}

impl BodyLimit {
    pub(super) fn exceeded(self) -> RefusedRequest {
        RefusedRequest::too_large(self.bytes_max, self.setting)
    }
}

impl<I: Intake> Ingest<I> {
    /// Bounds the time that reading a body may take.
    pub(super) async fn in_time<T>(
        &self,
        reading: impl Future<Output = Result<T, RefusedRequest>>,
    ) -> Result<T, RefusedRequest> {
        let late = || RefusedRequest::new(RefusalReason::Timeout, "the body came too slowly");
        let reading = self.closing.unless_hurried(reading);
        tokio::time::timeout(self.read_timeout, reading).await.unwrap_or_else(|_| Err(late()))
    }

    /// Holds back a refusal for want of room that came without waiting ([`super::admission`]);
    /// the sender itself waits `patience` for it, where it has said so.
    pub(super) async fn hold_back(
        &self,
        transport: Transport,
        refused: &RefusedRequest,
        sender: &Arc<Sender>,
        (began, patience): (Instant, Option<Duration>),
    ) {
        let Some((until, _held)) = self.admission.hold_back(refused, sender, began) else { return };
        self.metrics.held_back(transport);
        let until = patience.map_or(until, |patience| until.min(began + patience / 2));
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = self.closing.refuse.cancelled() => {}
        }
    }

    /// Unpacks a body and hands it over. The ticket is held until the intake has answered. A panic
    /// on the way is this request's alone: others of its connection go on.
    pub(super) async fn take(
        &self,
        transport: Transport,
        packed: Packed,
        limit: BodyLimit,
        ticket: Ticket,
    ) -> Result<Accepted, RefusedRequest> {
        let client = packed.client.clone();
        let signal = packed.signal;
        let taking = self.unpack_and_hand_over(transport, packed, limit, ticket);
        let taken = caught_future(taking).await.unwrap_or_else(|Panicked| Err(fault()));
        if let Some(client) = client {
            match &taken {
                Ok(Accepted { accepted, .. }) => {
                    client.count(ClientOutcome::Taken);
                    client.count_items(signal, *accepted);
                }
                Err(_) => client.count(ClientOutcome::Refused),
            }
        }
        taken
    }

    async fn unpack_and_hand_over(
        &self,
        transport: Transport,
        packed: Packed,
        limit: BodyLimit,
        mut ticket: Ticket,
    ) -> Result<Accepted, RefusedRequest> {
        let Packed { signal, mut raw, client } = packed;
        self.metrics.received(transport, raw.bytes.len());
        if let Some(client) = &client {
            client.charge(raw.bytes.len());
        }
        let deadline = self.admission.deadline();
        ticket = self.admission.turn(ticket, deadline, || self.metrics.waited(transport)).await?;
        let mut request = if raw.compression.is_none() && !raw.is_json {
            raw.bytes.clone()
        } else if raw.bytes.len() <= UNPACK_IN_PLACE_BYTES_MAX {
            unpack(signal, &raw, limit, &mut ticket)?
        } else {
            let raw = raw.clone();
            let unpacking = tokio::task::spawn_blocking(move || {
                unpack(signal, &raw, limit, &mut ticket).map(|request| (request, ticket))
            });
            let (request, held) = unpacking.await.map_err(|_| fault())??;
            ticket = held;
            request
        };
        if let Some(client) = client.filter(|client| client.is_tagged()) {
            ticket.hold(request.len())?;
            request = tag_resources(&request, CLIENT_ATTRIBUTE, client.name()).into();
            // What is kept and passed on says the same.
            raw = RawBody { bytes: request.clone(), compression: None, is_json: false };
        }
        let received = Received { signal, request: request.clone(), raw };
        let outcome = self.intake.accept_by(received, ticket.sender(), deadline).await;
        drop(ticket);
        self.count(transport, signal, &request, outcome)
    }

    fn count(
        &self,
        transport: Transport,
        signal: Signal,
        body: &[u8],
        outcome: Result<Accepted, super::Refused>,
    ) -> Result<Accepted, RefusedRequest> {
        match outcome {
            Ok(accepted) => {
                self.metrics.accepted(transport, signal, accepted.accepted);
                if accepted.rejected > 0 {
                    let rejected = accepted.rejected;
                    self.metrics.refused(transport, signal, RefusalReason::Rejected, rejected);
                }
                Ok(accepted)
            }
            Err(refused) => {
                let failure = RefusedRequest::from(refused);
                let items = item_count(signal, body);
                self.metrics.refused(transport, signal, failure.reason, items);
                Err(failure)
            }
        }
    }
}

fn fault() -> RefusedRequest {
    RefusedRequest::new(
        RefusalReason::Fault,
        "a fault in the collector, see its log; do not send this again",
    )
}

fn unpack(
    signal: Signal,
    raw: &RawBody,
    limit: BodyLimit,
    ticket: &mut Ticket,
) -> Result<Bytes, RefusedRequest> {
    let body = match raw.compression {
        None => raw.bytes.clone(),
        Some(compression) => {
            let BodyLimit { bytes_max, setting } = limit;
            decompress(compression, &raw.bytes, bytes_max, setting, ticket)?.into()
        }
    };
    if !raw.is_json {
        return Ok(body);
    }
    let request = json::transcode(signal, &body)
        .map_err(|error| RefusedRequest::new(RefusalReason::Malformed, error.to_string()))?;
    ticket.hold(request.len())?;
    Ok(request)
}

/// Counts the spans, log records or data points of an encoded request; what is malformed counts
/// up to the damage.
pub(super) fn item_count(signal: Signal, request: &[u8]) -> u64 {
    // Resource, scope, and for metrics the metric, its data and the data points.
    let path: &[&[u32]] = match signal {
        Signal::Traces | Signal::Logs => &[&[1], &[2], &[2]],
        Signal::Metrics => &[&[1], &[2], &[2], &[5, 7, 9, 10, 11], &[1]],
    };
    count_fields(request, path)
}

fn count_fields(message: &[u8], path: &[&[u32]]) -> u64 {
    let [here, below @ ..] = path else { return 1 };
    let mut fields = Fields::new(message);
    let mut count = 0;
    loop {
        match fields.next() {
            Ok(Some((number, Field::Bytes(part)))) if here.contains(&number) => {
                count += count_fields(part, below);
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(Malformed) => return count,
        }
    }
}
