//! An OTLP backend that decodes nothing: it keeps the bytes of each request as they came, after
//! nothing but decompression.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::net::TcpSocket;
use tokio::sync::Notify;

use super::patience::PATIENCE;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawRequest {
    pub(crate) path: String,
    pub(crate) content_type: String,
    /// The compression of the body or of the message.
    pub(crate) encoding: String,
    pub(crate) body: Vec<u8>,
}

#[derive(Default)]
struct RawState {
    requests: Vec<RawRequest>,
    delay: Option<Duration>,
    refuses: bool,
}

/// Speaks gRPC and HTTP on one port; stops with the runtime.
#[derive(Clone)]
pub(crate) struct RawBackend {
    state: Arc<Mutex<RawState>>,
    changed: Arc<Notify>,
    pub(crate) address: SocketAddr,
    /// The port of one that is away.
    port: Arc<Mutex<Option<TcpSocket>>>,
}

/// A port of the loopback that nobody listens at and nobody else gets: connections are refused.
pub(crate) fn unheard() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

impl RawBackend {
    pub(crate) async fn start() -> Self {
        let backend = Self::away();
        backend.come();
        backend
    }

    /// One that is not there yet; its port is its own already.
    pub(crate) fn away() -> Self {
        let (port, address) = unheard();
        let port = Arc::new(Mutex::new(Some(port)));
        Self { state: Arc::default(), changed: Arc::default(), address, port }
    }

    /// Listens from now on.
    pub(crate) fn come(&self) {
        let port = self.port.lock().unwrap().take().expect("it comes once");
        let listener = port.listen(1024).unwrap();
        let router = axum::Router::new().fallback(take).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
    }

    /// Answers each request only after a while.
    pub(crate) fn delay(&self, delay: Duration) {
        self.state.lock().unwrap().delay = Some(delay);
    }

    /// Refuses each request for good.
    pub(crate) fn refuse(&self) {
        self.state.lock().unwrap().refuses = true;
    }

    pub(crate) fn requests(&self) -> Vec<RawRequest> {
        self.state.lock().unwrap().requests.clone()
    }

    /// The bodies, sorted.
    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        let mut bodies: Vec<_> = self.requests().into_iter().map(|it| it.body).collect();
        bodies.sort();
        bodies
    }

    /// Waits until so many requests have come.
    pub(crate) async fn until(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            let come = self.requests().len();
            if come >= count {
                return;
            }
            let waited = tokio::time::timeout(PATIENCE, changed).await;
            waited.unwrap_or_else(|_| panic!("{come} of {count} came"));
        }
    }
}

async fn take(State(backend): State<RawBackend>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let header = |name: &str| {
        let value = head.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default().to_owned()
    };
    let content_type = header("content-type");
    let is_grpc = content_type.starts_with("application/grpc");
    let mut body = body.collect().await.unwrap().to_bytes();
    let mut encoding = header(if is_grpc { "grpc-encoding" } else { "content-encoding" });
    if is_grpc {
        let is_packed = body[0] == 1;
        body = body.slice(5..);
        encoding = if is_packed { encoding } else { String::new() };
    }
    let body = unpack(&encoding, body);
    let path = head.uri.path().to_owned();
    let (delay, refuses) = {
        let state = backend.state.lock().unwrap();
        (state.delay, state.refuses)
    };
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
    backend.state.lock().unwrap().requests.push(RawRequest { path, content_type, encoding, body });
    backend.changed.notify_waiters();
    answer(is_grpc, refuses)
}

fn answer(is_grpc: bool, refuses: bool) -> Response<Body> {
    if !is_grpc {
        let status = if refuses { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        let answer = Response::builder().status(status);
        return answer
            .header("content-type", "application/x-protobuf")
            .body(Body::empty())
            .unwrap();
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", if refuses { "3" } else { "0" }.parse().unwrap());
    let body = Full::new(Bytes::from_static(&[0; 5])).with_trailers(async { Some(Ok(trailers)) });
    Response::builder().header("content-type", "application/grpc").body(Body::new(body)).unwrap()
}

fn unpack(encoding: &str, body: Bytes) -> Vec<u8> {
    let mut plain = Vec::new();
    match encoding {
        "gzip" => {
            flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        }
        "zstd" => plain = zstd::decode_all(&body[..]).unwrap(),
        _ => plain = body.to_vec(),
    }
    plain
}
