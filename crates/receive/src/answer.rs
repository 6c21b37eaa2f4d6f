//! Response body: at most one piece of data, then trailers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};

/// A complete response body.
#[derive(Default)]
pub(super) struct Answer {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Answer {
    pub(super) fn new(data: Bytes) -> Self {
        Self { data: Some(data).filter(|data| !data.is_empty()), trailers: None }
    }

    pub(super) fn with_trailers(data: Bytes, trailers: HeaderMap) -> Self {
        Self { trailers: Some(trailers), ..Self::new(data) }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.data.take() {
            Some(data) => Some(Frame::data(data)),
            None => self.trailers.take().map(Frame::trailers),
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    /// Exact only for a `content-length`: gRPC answers have none.
    fn size_hint(&self) -> SizeHint {
        match (&self.data, &self.trailers) {
            (Some(data), None) => SizeHint::with_exact(data.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
