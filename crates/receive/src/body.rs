//! Reader of request bodies with limits on size, bytes in flight and time; copies at most once.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout_at};

use super::ConnectionAccount;
use super::admission::Ticket;
use super::auth::KnownClient;
use super::meter::BodyTaking;
use super::metrics::Closed;
use super::status::{RefusalReason, RefusedRequest};

/// Largest room reserved by a body's declared length; more only as it arrives.
const TRUST_BYTES: usize = 2 << 20;

/// Grace period without a minimum rate.
const PACE_GRACE: Duration = Duration::from_secs(5);

/// Longest time for draining a body that is too large, so that the sender can read the answer.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Minimum rate of a body.
struct Pace {
    since: Instant,
    /// Bytes a second, after the grace period; 0 for any.
    min_rate: u32,
}

impl Pace {
    /// Waits for more of a body within its minimum rate, given the bytes received so far.
    async fn in_time<T>(
        &self,
        came: usize,
        more: impl Future<Output = T>,
    ) -> Result<T, RefusedRequest> {
        let Some(millis) = (came as u64 * 1000).checked_div(u64::from(self.min_rate)) else {
            return Ok(more.await);
        };
        let deadline = self.since + PACE_GRACE + Duration::from_millis(millis);
        timeout_at(deadline, more).await.map_err(|_| {
            let message = format!(
                "the body came with less than {} bytes a second, see receivers.otlp.min_body_rate",
                self.min_rate
            );
            RefusedRequest::new(RefusalReason::TooSlow, message)
        })
    }
}

/// Connection and client charged for a body.
#[derive(Clone, Copy)]
pub(super) struct BodyOwner<'a> {
    pub(super) sender: &'a Arc<ConnectionAccount>,
    /// Client charged for each received byte, even of a refused body.
    pub(super) client: Option<&'a KnownClient>,
}

impl BodyOwner<'_> {
    fn pay(self, bytes: usize) {
        if let Some(client) = self.client {
            client.charge(bytes);
        }
    }
}

/// Reads body frames into one buffer. A body of one frame is not copied.
pub(super) struct BodyReader<'a> {
    body: &'a mut Incoming,
    ticket: &'a mut Ticket,
    owner: BodyOwner<'a>,
    _taking: BodyTaking,
    pace: Pace,
    came: usize,
    read: Bytes,
    more: BytesMut,
}

impl<'a> BodyReader<'a> {
    pub(super) fn new(
        (body, owner): (&'a mut Incoming, BodyOwner<'a>),
        ticket: &'a mut Ticket,
        min_rate: u32,
    ) -> Self {
        let pace = Pace { since: Instant::now(), min_rate };
        let _taking = BodyTaking::start(owner.sender);
        let read = Bytes::new();
        Self { body, ticket, owner, _taking, pace, came: 0, read, more: BytesMut::new() }
    }

    /// Reads until `len` bytes are available or the body ends.
    pub(super) async fn fill(&mut self, len: usize) -> Result<&[u8], RefusedRequest> {
        while self.bytes().len() < len {
            if !self.next_frame(0).await? {
                break;
            }
        }
        Ok(self.bytes())
    }

    /// Reads to the end; `Ok(None)` if it exceeds `bytes_max`.
    pub(super) async fn finish(
        mut self,
        expected: usize,
        bytes_max: usize,
    ) -> Result<Option<Bytes>, RefusedRequest> {
        while self.bytes().len() <= bytes_max {
            if !self.next_frame(expected).await? {
                let whole = if self.more.is_empty() { self.read } else { self.more.freeze() };
                return Ok(Some(whole));
            }
        }
        Ok(None)
    }

    fn ended_early(&self, error: &hyper::Error) -> RefusedRequest {
        if self.ticket.sender().closed() == Some(Closed::Memory) {
            return RefusedRequest::overloaded(
                RefusalReason::BytesFull,
                "too many bytes in flight",
            );
        }
        let message = format!("the body ended early: {error}");
        RefusedRequest::new(RefusalReason::Disconnected, message)
    }

    fn bytes(&self) -> &[u8] {
        if self.more.is_empty() { &self.read } else { &self.more }
    }

    /// Reads one frame; false at the end. `expected` is the total size, if known.
    async fn next_frame(&mut self, expected: usize) -> Result<bool, RefusedRequest> {
        if self.body.is_end_stream() {
            return Ok(false);
        }
        let Some(frame) = self.pace.in_time(self.came, self.body.frame()).await? else {
            return Ok(false);
        };
        let frame = frame.map_err(|error| self.ended_early(&error))?;
        let Ok(data) = frame.into_data() else { return Ok(true) };
        self.owner.pay(data.len());
        self.ticket.hold(data.len())?;
        self.came += data.len();
        if self.bytes().is_empty() {
            self.read = data;
            return Ok(true);
        }
        if self.more.is_empty() {
            let len = (self.read.len() + data.len()).max(expected.min(TRUST_BYTES));
            self.more.reserve(len);
            self.more.extend_from_slice(&self.read);
            self.read = Bytes::new();
        }
        self.more.extend_from_slice(&data);
        Ok(true)
    }
}

/// Drains up to `bytes_max` of a refused body. A sender that is still writing when its connection
/// closes may never see the answer.
pub(super) async fn drain(body: &mut Incoming, bytes_max: usize, owner: BodyOwner<'_>) {
    let _taking = BodyTaking::start(owner.sender);
    let reading = async {
        let mut left = bytes_max;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            owner.pay(bytes);
            left = left.saturating_sub(bytes);
            owner.sender.progress();
            if left == 0 {
                return;
            }
        }
    };
    // Anything later is lost with the connection, unavoidably.
    let _ = tokio::time::timeout(DRAIN_TIME, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn body_that_comes_with_less_than_its_pace_is_given_up() {
        let pace = Pace { since: Instant::now(), min_rate: 1000 };
        let started = Instant::now();
        let never = std::future::pending::<()>;
        let refused = pace.in_time(3000, never()).await.err();
        assert_eq!(refused.map(|refused| refused.reason), Some(RefusalReason::TooSlow));
        assert_eq!(started.elapsed(), PACE_GRACE + Duration::from_secs(3));
        assert!(pace.in_time(0, async {}).await.is_ok(), "what is there is taken");
        let any = Pace { min_rate: 0, ..pace };
        assert!(tokio::time::timeout(PACE_GRACE * 9, any.in_time(0, never())).await.is_err());
    }
}
