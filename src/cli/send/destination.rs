//! Destination of `send`: encodes and sends requests, with retries.
//!
//! A refusal that OTLP calls retryable is tried up to [`TRIES_MAX`] times, after the delay that the
//! collector requests, or a doubling back-off. Exporters retry for minutes; a person at a terminal
//! wants an answer soon, especially if no collector is listening.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;

use super::SendArgs;
use crate::cli::send::typed::TypedRequest;
use spanscore_base::otlp::Signal;
use spanscore_net::backoff::Backoff;
use spanscore_net::client::{Client, ExportOutcome, Protocol, SendError};

/// Attempts per request.
const TRIES_MAX: u32 = 5;
/// Longest pause before a retry.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Pauses between attempts without a request of the backend.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(200), PAUSE_MAX);

/// Words of a gRPC port in reply to HTTP.
const TAKES_GRPC: &str = "takes OTLP/gRPC";

/// Counts of sent data.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sent {
    /// Requests.
    pub(super) requests: u64,
    /// Spans, log records and metric data points: the units in which a collector counts rejections.
    pub(super) items: u64,
    /// Items that the collector rejected.
    pub(super) rejected: u64,
    /// The collector's message about them.
    pub(super) message: String,
}

impl Sent {
    /// Adds the counts of another request.
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.items += other.items;
        // Saturating, since the collector chooses this number.
        self.rejected = self.rejected.saturating_add(other.rejected);
    }

    /// Formats like `2 requests with 11 items, 1 rejected`.
    pub(super) fn sentence(&self) -> String {
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let rejected = match self.rejected {
            0 => String::new(),
            rejected => format!(", {rejected} rejected"),
        };
        format!(
            "{} request{} with {} item{}{rejected}",
            self.requests,
            plural(self.requests),
            self.items,
            plural(self.items)
        )
    }
}

/// Client of a collector.
pub(super) struct Destination {
    client: Client,
    json: bool,
}

impl Destination {
    /// Connects, or prepares to.
    pub(super) async fn new(args: &SendArgs) -> anyhow::Result<Self> {
        let settings = args.client().map_err(|error| anyhow!("{error}"))?;
        let client = Client::connect(&settings)
            .await
            .map_err(|error| anyhow!(error))
            .with_context(|| format!("cannot connect to {}", args.endpoint))?;
        Ok(Self { client, json: settings.protocol == Protocol::HttpJson })
    }

    /// Sends one request, with retries.
    pub(super) async fn send(&self, signal: Signal, body: Bytes) -> anyhow::Result<Sent> {
        let message = TypedRequest::new(signal, &body).context("the request is not OTLP")?;
        let encoded = if self.json { message.json()? } else { body.to_vec() };
        let request = self.client.prepare(encoded);
        let mut tries = 0;
        loop {
            let (after, error) = match self.client.send(signal, request.clone()).await {
                Ok(ExportOutcome { rejected, message: said }) => {
                    let items = message.item_count(&body);
                    return Ok(Sent { requests: 1, items, rejected, message: said });
                }
                Err(SendError::Refused(error)) if error.contains(TAKES_GRPC) => {
                    bail!("{error}; for gRPC add `--protocol grpc`")
                }
                Err(SendError::Unreachable(error) | SendError::Refused(error)) => bail!(error),
                Err(SendError::Unreadable(error)) => {
                    let taken = "the request was taken, but the answer cannot be read";
                    return Err(anyhow!(error).context(taken));
                }
                Err(SendError::Retryable { after, error }) => (after, anyhow!(error)),
            };
            tries += 1;
            if tries >= TRIES_MAX {
                return Err(error.context(format!("gave up after {TRIES_MAX} tries")));
            }
            let pause = after.unwrap_or_else(|| PAUSES.wait(tries - 1, 0.5));
            tokio::time::sleep(pause.min(PAUSE_MAX)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_collector_chose_do_not_wrap_around() {
        let mut total = Sent::default();
        for _ in 0..3 {
            total.add(&Sent { requests: 1, rejected: i64::MAX as u64, ..Sent::default() });
        }
        assert_eq!((total.requests, total.rejected), (3, u64::MAX));
    }
}
