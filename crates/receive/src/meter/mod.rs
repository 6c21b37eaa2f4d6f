//! HTTP/2 frame guard: limits on floods, pings and memory of a connection, outside of the HTTP
//! layer.
//!
//! The HTTP layer buffers bytes until their frame or headers are complete, and does not count them.
//! Here they count as request bytes. A connection beyond its share is closed, as is one that floods
//! with frames or pings. Reset streams and connections told to end are counted.

mod budget;
mod connection_account;
mod frames;
mod pings;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::budget::FrameBudget;
pub(super) use self::connection_account::BodyTaking;
pub use self::connection_account::ConnectionAccount;
use self::frames::{FrameHead, Frames, kind};
use self::pings::PingPolicy;
use super::metrics::{By, Closed, ReceiverMetrics, Transport};
use super::settings::EnforcementPolicy;
use spanscore_base::model::MemoryQuota;

/// Fixed memory of an open connection: buffers, header tables, its task.
pub(super) const CONNECTION_BYTES: usize = 12 << 10;
/// Additional memory of TLS: keys, and incomplete records.
pub(super) const TLS_BYTES: usize = 12 << 10;
/// Uncounted bytes that may wait on a connection, and the step in which more are counted.
const STEP_BYTES: usize = 16 << 10;
/// Free bytes below which reads are small.
const TIGHT_BYTES: usize = 1 << 20;
/// Bytes that one connection may read before others of its thread get a turn.
const TURN_BYTES: usize = 64 << 10;
/// Additional bytes charged to a turn for each frame: 64 KiB hold 6,500 one-byte frames, and each
/// costs the HTTP layer work.
const FRAME_BYTES: usize = 512;

/// Preface of an HTTP/2 connection (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// HTTP version of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HttpVersion {
    /// This many bytes of the preface have arrived.
    Unknown(usize),
    Http1,
    Http2,
}

/// Guarded connection.
pub(super) struct Metered<S> {
    stream: S,
    watch: FrameGuard,
}

/// State of the limits of one connection.
pub(super) struct FrameGuard {
    sender: Arc<ConnectionAccount>,
    requests: Arc<MemoryQuota>,
    metrics: Arc<ReceiverMetrics>,
    transport: Transport,
    protocol: HttpVersion,
    received: Frames,
    sent: Frames,
    budget: FrameBudget,
    pings: Option<PingPolicy>,
    /// Over HTTP/1.1, bytes since a request or part of its body was read.
    waiting: usize,
    /// Counted ones among the waiting bytes.
    counted: usize,
    /// Work of this turn in bytes: the data and [`FRAME_BYTES`] for each frame.
    turn: usize,
}

impl<S> Metered<S> {
    pub(super) fn new(
        stream: S,
        sender: Arc<ConnectionAccount>,
        requests: Arc<MemoryQuota>,
        metrics: Arc<ReceiverMetrics>,
        transport: Transport,
    ) -> Self {
        let watch = FrameGuard {
            sender,
            requests,
            metrics,
            transport,
            protocol: HttpVersion::Unknown(0),
            received: Frames::default(),
            sent: Frames::default(),
            budget: FrameBudget::new(),
            pings: None,
            waiting: 0,
            counted: 0,
            turn: 0,
        };
        Self { stream, watch }
    }

    /// Limits the rate of the peer's pings.
    pub(super) fn enforcing(mut self, policy: Option<EnforcementPolicy>) -> Self {
        self.watch.pings = policy.map(PingPolicy::new);
        self
    }
}

impl FrameGuard {
    /// Inspects received bytes; fails with the reason if the connection must close.
    fn received(&mut self, mut bytes: &[u8]) -> Result<(), Closed> {
        self.turn += bytes.len();
        if let HttpVersion::Unknown(known) = self.protocol {
            let (begin, rest) = bytes.split_at(bytes.len().min(PREFACE.len() - known));
            if PREFACE[known..].starts_with(begin) {
                let known = known + begin.len();
                let is_whole = known == PREFACE.len();
                self.protocol =
                    if is_whole { HttpVersion::Http2 } else { HttpVersion::Unknown(known) };
                bytes = rest;
            } else {
                self.protocol = HttpVersion::Http1;
            }
        }
        match self.protocol {
            HttpVersion::Http2 => {
                self.frames_received(bytes)?;
                self.count(self.received.waiting())
            }
            HttpVersion::Http1 | HttpVersion::Unknown(_) => {
                let is_taken = self.sender.progressed.swap(false, Ordering::Relaxed);
                self.waiting = if is_taken { 0 } else { self.waiting } + bytes.len();
                let counted = self.count(self.waiting);
                // A body is counted where it is read, and refused there with an answer.
                if self.sender.is_taken_from() { Ok(()) } else { counted }
            }
        }
    }

    fn frames_received(&mut self, bytes: &[u8]) -> Result<(), Closed> {
        let metrics = &self.metrics;
        let transport = self.transport;
        let budget = &mut self.budget;
        let pings = &mut self.pings;
        let turn = &mut self.turn;
        let mut is_within = true;
        self.received.read(bytes, |head| {
            *turn += FRAME_BYTES;
            count(metrics, transport, By::Sender, head);
            if let Some(pings) = pings {
                is_within &= pings.received(head);
            }
            match head.kind {
                kind::HEADERS => budget.request(),
                // Others bring no data; the HTTP layer has limits for these.
                kind::DATA if head.bytes > 0 => {}
                kind::CONTINUATION | kind::RST_STREAM => {}
                _ => is_within &= budget.control(),
            }
        });
        if is_within { Ok(()) } else { Err(Closed::Flood) }
    }

    fn sent(&mut self, bytes: &[u8]) {
        if self.protocol == HttpVersion::Http2 {
            let metrics = &self.metrics;
            let transport = self.transport;
            let pings = &mut self.pings;
            self.sent.read(bytes, |head| {
                count(metrics, transport, By::Receiver, head);
                if let Some(pings) = pings {
                    pings.sent(head);
                }
            });
        }
    }

    /// Returns the largest number of bytes to read now. If room is short, only the head of an
    /// HTTP/1.1 request and the uncounted allowance are read, so that it is answered and not cut
    /// off.
    fn read_max(&self) -> usize {
        let is_tight = self.requests.left() < TIGHT_BYTES;
        if is_tight && self.protocol != HttpVersion::Http2 && !self.sender.is_taken_from() {
            STEP_BYTES
        } else {
            usize::MAX
        }
    }

    /// Counts this many bytes as waiting.
    fn count(&mut self, waiting: usize) -> Result<(), Closed> {
        let wanted = waiting.saturating_sub(STEP_BYTES).next_multiple_of(STEP_BYTES);
        if wanted > self.counted {
            if !self.requests.try_take_for(&self.sender.bytes, wanted - self.counted) {
                return Err(Closed::Memory);
            }
        } else if wanted < self.counted {
            self.requests.give_back_for(&self.sender.bytes, self.counted - wanted);
        }
        self.counted = wanted;
        Ok(())
    }
}

/// Counts the frames that end a stream or a connection.
fn count(metrics: &ReceiverMetrics, transport: Transport, by: By, head: FrameHead) {
    match head.kind {
        kind::RST_STREAM => metrics.of(transport).resets.add(by.into_str(), 1),
        kind::GOAWAY => metrics.of(transport).goaways.add(by.into_str(), 1),
        _ => {}
    }
}

impl Drop for FrameGuard {
    fn drop(&mut self) {
        self.requests.give_back_for(&self.sender.bytes, self.counted);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        // The runtime counts reads, not bytes: a fast sender would read some MiB at once, and a
        // hundred of them would delay an ordinary request a hundredfold.
        if own.watch.turn >= TURN_BYTES {
            own.watch.turn = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read_max = own.watch.read_max();
        let read = if read_max < buffer.remaining() {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(read_max));
            let read = Pin::new(&mut own.stream).poll_read(context, &mut part);
            let bytes = part.filled().len();
            buffer.advance(bytes);
            read
        } else {
            Pin::new(&mut own.stream).poll_read(context, buffer)
        };
        if read.is_pending() {
            own.watch.turn = 0;
        }
        ready!(read)?;
        let received = buffer.filled().get(before..).unwrap_or_default();
        Poll::Ready(own.watch.received(received).map_err(|why| {
            own.watch.sender.close(why);
            io::Error::other("the connection is more than its part of a limit")
        }))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let written = ready!(Pin::new(&mut own.stream).poll_write(context, bytes))?;
        own.watch.sent(bytes.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let written = ready!(Pin::new(&mut own.stream).poll_write_vectored(context, parts))?;
        let mut left = written;
        for part in parts {
            let taken = left.min(part.len());
            own.watch.sent(part.get(..taken).unwrap_or_default());
            left -= taken;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
