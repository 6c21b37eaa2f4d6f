//! Ingest path shared by gRPC and HTTP: from body bytes to the intake, with counts.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::admission::{Admission, Ticket};
use super::auth::{Authenticator, ClientOutcome, KnownClient};
use super::compression::Unpacker;
use super::metrics::{ReceiverMetrics, Transport};
use super::refused_paths::RefusedPaths;
use super::shutdown_phases::ShutdownPhases;
use super::status::{RefusalReason, RefusedRequest};
use super::{Accepted, ConnectionAccount, Intake, Received};
use spanscore_base::otlp::tag::tag_resources;
use spanscore_base::otlp::wire::{Field, Fields, Malformed};
use spanscore_base::otlp::{RawBody, Signal};
use spanscore_base::panics::{Panicked, caught_future};

/// Resource attribute with the client's name.
const CLIENT_ATTRIBUTE: &str = "spanscore.client";

/// Dependencies of every connection of a receiver.
pub(super) struct Ingest<I> {
    pub(super) intake: I,
    pub(super) admission: Admission,
    pub(super) unpacker: Unpacker,
    pub(super) auth: Arc<Authenticator>,
    pub(super) metrics: Arc<ReceiverMetrics>,
    pub(super) closing: ShutdownPhases,
    pub(super) refused_paths: RefusedPaths,
    pub(super) read_timeout: Duration,
    pub(super) min_body_rate: u32,
}

/// One received request body.
pub(super) struct Packed {
    pub(super) signal: Signal,
    pub(super) raw: RawBody,
    /// Its client, if known.
    pub(super) client: Option<Arc<KnownClient>>,
}

/// Limit on a body, and the setting that changes it.
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
    /// Bounds the time for reading a body.
    pub(super) async fn in_time<T>(
        &self,
        reading: impl Future<Output = Result<T, RefusedRequest>>,
    ) -> Result<T, RefusedRequest> {
        let late = || RefusedRequest::new(RefusalReason::Timeout, "the body came too slowly");
        let reading = self.closing.unless_hurried(reading);
        tokio::time::timeout(self.read_timeout, reading).await.unwrap_or_else(|_| Err(late()))
    }

    /// Delays an immediate refusal for lack of room ([`super::admission`]), within the sender's
    /// `patience` if it has set a timeout.
    pub(super) async fn hold_back(
        &self,
        transport: Transport,
        refused: &RefusedRequest,
        sender: &Arc<ConnectionAccount>,
        (began, patience): (Instant, Option<Duration>),
    ) {
        let Some((until, _held)) = self.admission.hold_back(refused, sender, began) else { return };
        self.metrics.of(transport).held_back.add(1);
        let until = patience.map_or(until, |patience| until.min(began + patience / 2));
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = self.closing.refuse.cancelled() => {}
        }
    }

    /// Unpacks a body and hands it over. The ticket is held until the intake has answered. A panic
    /// affects only this request, not others on its connection.
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
        let name = client.as_ref().map(|client| Arc::clone(&client.name));
        let account = ticket.sender();
        let sender = client.as_ref().map_or(account.id(), |client| account.id_of(client.group));
        let metrics = self.metrics.of(transport);
        metrics.received.add(raw.bytes.len() as u64);
        let waits = || metrics.waits.add(1);
        let deadline = self.admission.deadline();
        ticket = self.admission.turn(ticket, deadline, waits).await?;
        let (mut request, mut ticket) =
            self.unpacker.unpack(signal, &raw, limit, (ticket, deadline), waits).await?;
        if let Some(client) = client.filter(|client| client.is_tagged) {
            let bytes = request.len();
            let tag = move |mut ticket: Ticket| {
                ticket.hold(tagged_bytes(&request, &client.name))?;
                let tagged = tag_resources(&request, CLIENT_ATTRIBUTE, &client.name);
                Ok((tagged.into(), ticket))
            };
            (request, ticket) = self.unpacker.work(bytes, (ticket, deadline), waits, tag).await?;
            // The log and the forwards receive the tagged request, too.
            raw = RawBody { bytes: request.clone(), compression: None, is_json: false };
        }
        let received = Received { signal, request: request.clone(), raw, sender, client: name };
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

pub(super) fn fault() -> RefusedRequest {
    RefusedRequest::new(
        RefusalReason::Fault,
        "a fault in the collector, see its log; do not send this again",
    )
}

/// Bounds the size of a request after tagging: there may be a resource in every second byte.
fn tagged_bytes(request: &[u8], client: &str) -> usize {
    /// Tags around key and value, and growth of the lengths before them.
    const AROUND_BYTES: usize = 48;
    let each = CLIENT_ATTRIBUTE.len() + client.len() + AROUND_BYTES;
    let resources = count_fields(request, &[&[1]], &mut { usize::MAX });
    request.len() + usize::try_from(resources).unwrap_or(usize::MAX).saturating_mul(each)
}

/// Limit on the fields visited to count the items of a refused request. A body of empty fields then
/// blocks a network thread for at most one or two milliseconds.
const COUNTED_FIELDS_MAX: usize = 1 << 18;

/// Counts the spans, log records or data points of an encoded request: up to the damage of a
/// malformed one, and within the first [`COUNTED_FIELDS_MAX`] fields.
pub(super) fn item_count(signal: Signal, request: &[u8]) -> u64 {
    // Resource, scope, and for metrics the metric, its data and the data points.
    let path: &[&[u32]] = match signal {
        Signal::Traces | Signal::Logs => &[&[1], &[2], &[2]],
        Signal::Metrics => &[&[1], &[2], &[2], &[5, 7, 9, 10, 11], &[1]],
    };
    count_fields(request, path, &mut { COUNTED_FIELDS_MAX })
}

/// Counts the fields at the end of a path, until `left` fields were visited.
fn count_fields(message: &[u8], path: &[&[u32]], left: &mut usize) -> u64 {
    let [here, below @ ..] = path else { return 1 };
    let mut fields = Fields::new(message);
    let mut count = 0;
    while *left > 0 {
        *left -= 1;
        match fields.next() {
            Ok(Some((number, Field::Bytes(part)))) if here.contains(&number) => {
                count += count_fields(part, below, left);
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(Malformed) => break,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_up_to_the_damage_and_to_a_limit() {
        // One resource of one scope of three spans, of which the last is truncated.
        let spans = [0x12, 0, 0x12, 0, 0x12, 9];
        let request = [&[0x0a, 8, 0x12, 6], &spans[..]].concat();
        assert_eq!(item_count(Signal::Traces, &request), 2);
        assert_eq!(item_count(Signal::Traces, &request.repeat(3)), 6);
        let many = request.repeat(COUNTED_FIELDS_MAX);
        let counted = item_count(Signal::Traces, &many);
        assert!((80_000..COUNTED_FIELDS_MAX as u64).contains(&counted), "{counted}");
    }

    #[test]
    fn clients_named_in_many_resources_are_counted_before_they_are_written() {
        let name = "a".repeat(300);
        for request in [[0x0a_u8, 0].repeat(1000), [0x0a, 2, 0x0a, 0].repeat(1000), Vec::new()] {
            let tagged = tag_resources(&request, CLIENT_ATTRIBUTE, &name).len();
            let held = tagged_bytes(&request, &name);
            assert!(tagged <= held && held <= 2 * tagged, "{held} for {tagged}");
        }
    }
}
