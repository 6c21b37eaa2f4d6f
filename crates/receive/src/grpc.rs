//! OTLP/gRPC: the unary `Export` of the three services, directly over HTTP/2.
//!
//! A call carries one message: a flag, a length and the bytes, which are passed on unchanged.
//! Without a gRPC framework the body of a call is copied at most once and shares its limits with
//! OTLP/HTTP, and each error has the code that OTLP requires. Errors are Trailers-Only, the only
//! form in which every client finds the retry hint.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::answer::Answer;
use super::body::{BodyOwner, BodyReader};
use super::compression::coding_of_header;
use super::deadline::{timeout_of, within};
use super::header_limit::check_size;
use super::ingest::{BodyLimit, Ingest, Packed};
use super::listen::{Admitted, Serve};
use super::metrics::Transport;
use super::status::{RefusalReason, RefusedRequest, response_protobuf};
use super::{Accepted, ConnectionAccount, Intake};
use spanscore_base::otlp::{RawBody, Signal};

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const CONTENT_TYPE_GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Bytes of the flag and the length before each message.
const PREFIX_BYTES: usize = 5;

/// Service for the calls of a port.
pub(super) struct GrpcService<I> {
    pub(super) ingest: Arc<Ingest<I>>,
    pub(super) limit: BodyLimit,
}

/// Returns true if a request is a gRPC call.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return false };
    let kind = kind.as_bytes();
    let Some((start, rest)) = kind.split_at_checked("application/grpc".len()) else { return false };
    start.eq_ignore_ascii_case(b"application/grpc")
        && (rest.is_empty() || matches!(rest[0], b';' | b' ') || rest.starts_with(b"+proto"))
}

/// Answers a call at the wrong port.
pub(super) fn refuse_call(message: &str) -> Response<Answer> {
    failed(&RefusedRequest::new(RefusalReason::NotFound, message))
}

impl<I: Intake> Serve for GrpcService<I> {
    /// Refuses requests that are not calls, or with oversized headers.
    fn admit(&self, request: Request<Incoming>) -> Admitted {
        if !is_grpc(request.headers()) || request.version() != Version::HTTP_2 {
            let why = RefusalReason::ContentType;
            self.ingest.metrics.refused_request(Transport::Grpc, Transport::Http, why);
            return ControlFlow::Break(not_a_call());
        }
        match check_size(&request) {
            Ok(()) => ControlFlow::Continue(request),
            Err(failure) => ControlFlow::Break(self.refused(&failure)),
        }
    }

    async fn serve(
        &self,
        request: Request<Incoming>,
        sender: &Arc<ConnectionAccount>,
    ) -> Response<Answer> {
        let began = Instant::now();
        let (timeout, answered) = match timeout_of(request.headers()) {
            Ok(timeout) => (timeout, within(timeout, self.export(request, sender)).await),
            Err(failure) => (None, Err(failure)),
        };
        match answered {
            Ok(accepted) => {
                let metrics = &self.ingest.metrics;
                metrics.of(Transport::Grpc).requests.add(Transport::Grpc.success(), 1);
                succeeded(&accepted)
            }
            Err(failure) => {
                let since = (began, timeout);
                self.ingest.hold_back(Transport::Grpc, &failure, sender, since).await;
                self.refused(&failure)
            }
        }
    }
}

impl<I: Intake> GrpcService<I> {
    fn signal_of(&self, path: &str) -> Result<Signal, RefusedRequest> {
        let known = Signal::ALL.into_iter().find(|signal| signal.grpc_path() == path);
        known.ok_or_else(|| {
            self.ingest.refused_paths.add(path);
            RefusedRequest::new(RefusalReason::NotFound, format!("unknown method {path:?}"))
        })
    }

    fn refused(&self, failure: &RefusedRequest) -> Response<Answer> {
        self.ingest.metrics.refused_request(Transport::Grpc, Transport::Grpc, failure.reason);
        failed(failure)
    }

    async fn export(
        &self,
        request: Request<Incoming>,
        sender: &Arc<ConnectionAccount>,
    ) -> Result<Accepted, RefusedRequest> {
        let (head, mut body) = request.into_parts();
        let client = self.ingest.auth.admit(&head.headers, sender)?;
        if head.method != Method::POST {
            return Err(RefusedRequest::new(RefusalReason::Method, "a gRPC call is a POST"));
        }
        let signal = self.signal_of(head.uri.path())?;
        let _under_way = self.ingest.closing.enter()?;
        let encoding = head.headers.get(GRPC_ENCODING);
        let encoding = coding_of_header(encoding.map_or(b"", HeaderValue::as_bytes))?;
        let mut ticket = self.ingest.admission.enter(sender)?;
        let owner = BodyOwner { sender, client: client.as_deref() };
        let min_rate = self.ingest.min_body_rate;
        let reader = BodyReader::new((&mut body, owner), &mut ticket, min_rate);
        let (compressed, body) = self.ingest.in_time(self.read_message(reader)).await?;
        let compression = match (compressed, encoding) {
            (false, _) => None,
            (true, Some(encoding)) => Some(encoding),
            (true, None) => {
                let message = "the message is compressed, but grpc-encoding does not say how";
                return Err(RefusedRequest::new(RefusalReason::EncodingMissing, message));
            }
        };
        let raw = RawBody { bytes: body, compression, is_json: false };
        let packed = Packed { signal, raw, client };
        self.ingest.take(Transport::Grpc, packed, self.limit, ticket).await
    }

    /// Reads the one message of a call, with its compression flag.
    async fn read_message(
        &self,
        mut reader: BodyReader<'_>,
    ) -> Result<(bool, Bytes), RefusedRequest> {
        let broken = |message: &str| RefusedRequest::new(RefusalReason::Framing, message);
        let start = reader.fill(PREFIX_BYTES).await?;
        let Some(&[flag, a, b, c, d]) = start.first_chunk() else {
            return Err(broken("the call ends before its message"));
        };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if flag > 1 {
            return Err(broken("the message's compression flag is neither 0 nor 1"));
        }
        if len > self.limit.bytes_max {
            return Err(self.limit.exceeded());
        }
        let bytes = PREFIX_BYTES + len;
        match reader.finish(bytes, bytes).await? {
            Some(whole) if whole.len() == bytes => Ok((flag == 1, whole.slice(PREFIX_BYTES..))),
            Some(part) => {
                let read = part.len() - PREFIX_BYTES;
                Err(broken(&format!("the call ends at byte {read} of the {len} of its message")))
            }
            None => Err(broken("the call has more than one message")),
        }
    }
}

fn succeeded(accepted: &Accepted) -> Response<Answer> {
    let message = response_protobuf(accepted);
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    framed.extend_from_slice(&[0]);
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap_or_default().to_be_bytes());
    framed.extend_from_slice(&message);
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
    let mut response = Response::new(Answer::with_trailers(framed.freeze(), trailers));
    response.headers_mut().insert(CONTENT_TYPE, CONTENT_TYPE_GRPC);
    response
}

fn failed(failure: &RefusedRequest) -> Response<Answer> {
    let mut response = failure.to_grpc().into_http();
    if failure.reason == RefusalReason::Method {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

/// Answers other HTTP requests with the status from the gRPC specification.
fn not_a_call() -> Response<Answer> {
    let text = "this port takes OTLP/gRPC (HTTP/2, content-type application/grpc); \
                OTLP/HTTP is at receivers.otlp.protocols.http.endpoint\n";
    let mut response = Response::new(Answer::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_content_type() {
        for (kind, is) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("Application/GRPC; charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/grpc+json", false),
            ("application/json", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
            assert_eq!(is_grpc(&headers), is, "{kind}");
        }
    }
}
