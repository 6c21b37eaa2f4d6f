//! OTLP/HTTP: protobuf and JSON posted to a path for each signal, with answers in the same
//! encoding.
//!
//! In: `POST` to `/v1/traces`, `/v1/logs`, `/v1/metrics`, other configured paths, or a longer path
//! with such an end (some SDKs prefix a path of their product), over HTTP/1.1 or HTTP/2. Out:
//! requests for the intake. Errors carry a `google.rpc.Status` in the request's encoding.

pub(crate) mod cors;
pub(crate) mod url_paths;

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use tokio::time::Instant;

use self::cors::Cors;
use self::url_paths::UrlPaths;
use super::answer::Answer;
use super::body::{BodyOwner, BodyReader, drain};
use super::compression::coding_of_header;
use super::grpc::{is_grpc, refuse_call};
use super::header_limit::check_size;
use super::ingest::{BodyLimit, Ingest, Packed};
use super::listen::{Admitted, Serve};
use super::metrics::Transport;
use super::settings::HttpSettings;
use super::shutdown_phases::UnderWay;
use super::status::{RefusalReason, RefusedRequest, response_json, response_protobuf};
use super::{Accepted, ConnectionAccount, Intake};
use spanscore_base::otlp::{ContentCoding, RawBody, Signal};

/// Largest part of an unauthenticated sender's body that is drained.
const STRANGER_BYTES_MAX: usize = 256 << 10;

/// Encoding of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Encoding {
    Protobuf,
    Json,
}

/// Service for the requests of a port.
pub(crate) struct HttpService<I> {
    pub(crate) ingest: Arc<Ingest<I>>,
    pub(crate) limit: BodyLimit,
    pub(crate) paths: [(UrlPaths, Signal); 3],
    pub(crate) cors: Option<Cors>,
}

/// Returns the paths of the three signals.
pub(crate) fn paths(settings: &HttpSettings) -> [(UrlPaths, Signal); 3] {
    [
        (settings.traces_url_path.clone(), Signal::Traces),
        (settings.logs_url_path.clone(), Signal::Logs),
        (settings.metrics_url_path.clone(), Signal::Metrics),
    ]
}

impl<I: Intake> Serve for HttpService<I> {
    /// Refuses gRPC calls and oversized headers, and answers preflights.
    fn admit(&self, request: Request<Incoming>) -> Admitted {
        if is_grpc(request.headers()) {
            let why = RefusalReason::NotFound;
            self.ingest.metrics.refused_request(Transport::Http, Transport::Grpc, why);
            return ControlFlow::Break(refuse_call(
                "this port takes OTLP/HTTP; OTLP/gRPC is at receivers.otlp.protocols.grpc.endpoint",
            ));
        }
        if let Err(failure) = check_size(&request) {
            return ControlFlow::Break(self.refused(encoding_of(request.headers()), &failure));
        }
        if let Some(answer) = self.cors.as_ref().and_then(|cors| cors.preflight(&request)) {
            let metrics = &self.ingest.metrics;
            metrics.of(Transport::Http).requests.add("204", 1);
            return ControlFlow::Break(answer);
        }
        ControlFlow::Continue(request)
    }

    async fn serve(
        &self,
        request: Request<Incoming>,
        sender: &Arc<ConnectionAccount>,
    ) -> Response<Answer> {
        let encoding = encoding_of(request.headers());
        let version = request.version();
        let origin = self.cors.as_ref().and_then(|cors| cors.allowed(request.headers()));
        let began = Instant::now();
        let mut answer = match self.export(request, encoding, sender).await {
            Ok((signal, accepted)) => {
                let metrics = &self.ingest.metrics;
                metrics.of(Transport::Http).requests.add(Transport::Http.success(), 1);
                succeeded(signal, encoding, &accepted)
            }
            Err(failure) => {
                let since = (began, None);
                self.ingest.hold_back(Transport::Http, &failure, sender, since).await;
                let mut response = self.refused(encoding, &failure);
                // The sender should not wait on a connection that is about to close.
                if failure.reason == RefusalReason::ShuttingDown && version < Version::HTTP_2 {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                response
            }
        };
        if let (Some(cors), Some(origin)) = (&self.cors, origin) {
            cors.show(origin, answer.headers_mut());
        }
        answer
    }
}

impl<I: Intake> HttpService<I> {
    fn refused(&self, encoding: Option<Encoding>, failure: &RefusedRequest) -> Response<Answer> {
        self.ingest.metrics.refused_request(Transport::Http, Transport::Http, failure.reason);
        failed(encoding, failure)
    }

    async fn export(
        &self,
        request: Request<Incoming>,
        encoding: Option<Encoding>,
        sender: &Arc<ConnectionAccount>,
    ) -> Result<(Signal, Accepted), RefusedRequest> {
        let (head, mut body) = request.into_parts();
        let client = match self.ingest.auth.admit(&head.headers, sender) {
            Ok(client) => client,
            Err(refused) => {
                // A sender in the middle of its body would not see the answer.
                if head.version < Version::HTTP_2 && !head.headers.contains_key(EXPECT) {
                    let owner = BodyOwner { sender, client: None };
                    drain(&mut body, STRANGER_BYTES_MAX, owner).await;
                }
                return Err(refused);
            }
        };
        let owner = BodyOwner { sender, client: client.as_deref() };
        let signal = self.signal_of(head.uri.path())?;
        if head.method != Method::POST {
            return Err(RefusedRequest::new(RefusalReason::Method, "only POST is known here"));
        }
        let Some(encoding) = encoding else {
            let message = "the content type is neither application/x-protobuf nor application/json";
            return Err(RefusedRequest::new(RefusalReason::ContentType, message));
        };
        let compression = compression_of(&head.headers)?;
        let _under_way = self.enter(&head.headers, &mut body, owner).await?;
        let bytes = self.declared_bytes(&head.headers, &mut body, owner).await?;
        let mut ticket = match self.ingest.admission.enter(sender) {
            Ok(ticket) => ticket,
            Err(refused) => {
                // An HTTP/2 connection continues without the rest of a body.
                if head.version < Version::HTTP_2 {
                    self.drain_sent(&head.headers, &mut body, owner).await;
                }
                return Err(refused);
            }
        };
        let min_rate = self.ingest.min_body_rate;
        let reader = BodyReader::new((&mut body, owner), &mut ticket, min_rate);
        let reading = reader.finish(bytes, self.limit.bytes_max);
        let read = self.ingest.in_time(reading).await;
        let body = match read.and_then(|read| read.ok_or_else(|| self.limit.exceeded())) {
            Ok(body) => body,
            Err(refused) => {
                if matches!(refused.reason, RefusalReason::TooLarge | RefusalReason::BytesFull) {
                    drop(ticket);
                    drain(&mut body, self.limit.bytes_max, owner).await;
                }
                return Err(refused);
            }
        };
        let is_json = encoding == Encoding::Json;
        let raw = RawBody { bytes: body, compression, is_json };
        let packed = Packed { signal, raw, client };
        let accepted = self.ingest.take(Transport::Http, packed, self.limit, ticket).await?;
        Ok((signal, accepted))
    }

    fn signal_of(&self, path: &str) -> Result<Signal, RefusedRequest> {
        let path = path.strip_suffix('/').unwrap_or(path);
        self.paths
            .iter()
            .find(|(paths, _)| paths.iter().any(|end| path.ends_with(end)))
            .map(|(_, signal)| *signal)
            .ok_or_else(|| {
                self.ingest.refused_paths.add(path);
                let known: Vec<&str> = self.paths.iter().flat_map(|(it, _)| it.iter()).collect();
                let message = format!("no such path, known are {}", known.join(", "));
                RefusedRequest::new(RefusalReason::NotFound, message)
            })
    }

    /// Returns the declared length, 0 if absent; refuses an oversized one.
    async fn declared_bytes(
        &self,
        headers: &HeaderMap,
        body: &mut Incoming,
        owner: BodyOwner<'_>,
    ) -> Result<usize, RefusedRequest> {
        let declared = headers.get(CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
        let declared: usize = declared.unwrap_or_default();
        if declared <= self.limit.bytes_max {
            return Ok(declared);
        }
        self.drain_sent(headers, body, owner).await;
        Err(self.limit.exceeded())
    }

    /// Admits a request, unless the process shuts down.
    async fn enter(
        &self,
        headers: &HeaderMap,
        body: &mut Incoming,
        owner: BodyOwner<'_>,
    ) -> Result<UnderWay, RefusedRequest> {
        let entered = self.ingest.closing.enter();
        if entered.is_err() {
            self.drain_sent(headers, body, owner).await;
        }
        entered
    }

    /// Drains a refused, unread body, unless its sender waits for `100 Continue`.
    async fn drain_sent(&self, headers: &HeaderMap, body: &mut Incoming, owner: BodyOwner<'_>) {
        if !headers.contains_key(EXPECT) {
            drain(body, self.limit.bytes_max.saturating_mul(2), owner).await;
        }
    }
}

fn encoding_of(headers: &HeaderMap) -> Option<Encoding> {
    let kind = headers.get(CONTENT_TYPE)?.as_bytes();
    let kind = kind.split(|byte| *byte == b';').next()?.trim_ascii();
    let is = |name: &str| kind.eq_ignore_ascii_case(name.as_bytes());
    if is("application/x-protobuf") || is("application/protobuf") {
        Some(Encoding::Protobuf)
    } else if is("application/json") {
        Some(Encoding::Json)
    } else {
        None
    }
}

/// Returns the one compression of a body; several in a row are not supported.
fn compression_of(headers: &HeaderMap) -> Result<Option<ContentCoding>, RefusedRequest> {
    let mut found = None;
    for header in headers.get_all(CONTENT_ENCODING) {
        for name in header.as_bytes().split(|byte| *byte == b',') {
            match (coding_of_header(name)?, found) {
                (None, _) => {}
                (compression, None) => found = compression,
                (Some(_), Some(_)) => {
                    let message = "a body that is compressed twice is not supported";
                    return Err(RefusedRequest::new(RefusalReason::Encoding, message));
                }
            }
        }
    }
    Ok(found)
}

fn succeeded(signal: Signal, encoding: Option<Encoding>, accepted: &Accepted) -> Response<Answer> {
    let body = match encoding {
        Some(Encoding::Protobuf) => response_protobuf(accepted),
        Some(Encoding::Json) | None => response_json(signal, accepted),
    };
    respond(StatusCode::OK, encoding, body)
}

fn failed(encoding: Option<Encoding>, failure: &RefusedRequest) -> Response<Answer> {
    let body = match encoding {
        Some(Encoding::Protobuf) => failure.to_protobuf(),
        Some(Encoding::Json) | None => failure.to_json(),
    };
    let mut response = respond(failure.reason.http_status(), encoding, body);
    let headers = response.headers_mut();
    if let Some(delay) = failure.retry_after() {
        let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    }
    match failure.reason {
        RefusalReason::TokenMissing
        | RefusalReason::TokenUnknown
        | RefusalReason::TokenExpired
        | RefusalReason::CertificateUnknown => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        }
        RefusalReason::Method => headers.insert(ALLOW, HeaderValue::from_static("POST")),
        RefusalReason::Encoding => {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, zstd, deflate"))
        }
        _ => None,
    };
    response
}

fn respond(status: StatusCode, encoding: Option<Encoding>, body: Bytes) -> Response<Answer> {
    let kind = match encoding {
        Some(Encoding::Protobuf) => "application/x-protobuf",
        Some(Encoding::Json) | None => "application/json",
    };
    let mut response = Response::new(Answer::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
