//! Request bodies with limits on size, time, and bytes held in all.
//!
//! They use the quota of receivers' bodies, of which each peer and each connection has a share.

use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use http::StatusCode;
use tokio_stream::StreamExt;

use spanscore_base::model::Sender;

use crate::problem::ApiProblem;
use crate::shares::SharedHold;
use crate::state::Api;

/// Longest time for a complete body.
pub(crate) const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// Body of a bounded size. Its sender is an extension of the request.
#[derive(Debug)]
pub(crate) struct ApiBody<const BYTES_MAX: usize> {
    bytes: Vec<u8>,
    _held: SharedHold,
}

impl<const BYTES_MAX: usize> AsRef<[u8]> for ApiBody<BYTES_MAX> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<const BYTES_MAX: usize> FromRequest<Arc<Api>> for ApiBody<BYTES_MAX> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiProblem> {
        let sender = request.extensions().get::<Sender>().copied().unwrap_or_default();
        let held = api.bodies.hold(sender);
        let reading = Self::read(request, held);
        tokio::time::timeout(BODY_TIME_MAX, reading).await.unwrap_or_else(|_| {
            let text = format!("a body comes whole within {} s", BODY_TIME_MAX.as_secs());
            Err(ApiProblem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", text))
        })
    }
}

impl<const BYTES_MAX: usize> ApiBody<BYTES_MAX> {
    async fn read(request: Request, mut held: SharedHold) -> Result<Self, ApiProblem> {
        let too_large = || {
            let (most, unit) = match BYTES_MAX >> 20 {
                0 => (BYTES_MAX >> 10, "KiB"),
                most => (most, "MiB"),
            };
            let text = format!("a body has at most {most} {unit} here: send less at once");
            ApiProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text)
        };
        let body = request.into_body();
        if body.size_hint().lower() > BYTES_MAX as u64 {
            return Err(too_large());
        }
        let mut bytes = Vec::<u8>::new();
        let mut frames = body.into_data_stream();
        while let Some(frame) = frames.next().await {
            let frame = frame.map_err(|error| {
                let text = format!("the body ended early: {error}");
                ApiProblem::new(StatusCode::BAD_REQUEST, "bad_value", text)
            })?;
            let needed = bytes.len() + frame.len();
            if needed > BYTES_MAX {
                return Err(too_large());
            }
            let more = room_for(needed, bytes.capacity(), BYTES_MAX) - bytes.capacity();
            if !held.grow(more) {
                let text = "the bodies of others take all the room there is, or yours take your \
                            part of it: send it again in a second";
                return Err(ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, "bytes_full", text));
            }
            if more > 0 {
                bytes.reserve_exact(bytes.capacity() + more - bytes.len());
            }
            bytes.extend_from_slice(&frame);
        }
        Ok(Self { bytes, _held: held })
    }
}

/// Returns the new capacity for a body that needs this many bytes: the present one if sufficient,
/// else at least twice that, to reduce copies, and at most the limit.
fn room_for(needed: usize, capacity: usize, bytes_max: usize) -> usize {
    if needed <= capacity { capacity } else { needed.max(capacity * 2).min(bytes_max) }
}

#[cfg(test)]
mod tests {
    use super::room_for;

    #[test]
    fn a_body_has_the_room_that_it_is_charged_for() {
        let check = |needed, capacity, expected| {
            assert_eq!(room_for(needed, capacity, 100), expected, "{needed} {capacity}");
        };
        check(0, 0, 0);
        check(10, 0, 10);
        check(11, 10, 20);
        check(20, 20, 20);
        check(61, 60, 100);
        check(100, 100, 100);
    }
}
