//! HTTP endpoints for scrapes, probes and queries.
//!
//! Few peers connect, and none may block the process: the number of connections, their silence,
//! their headers and the time of unread answers are limited. Each endpoint has its own thread. On
//! the network's runtime a probe would wait for all earlier requests: behind 12,800 small ones on
//! 100 connections it took 0.6 to 2.3 seconds. Conversely requests would wait for queries.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use opentelemetry::metrics::Meter;
use prometheus::{Encoder, Registry, TEXT_FORMAT, TextEncoder};
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::Readiness;
use super::unread::ReadInTime;
use spanscore_base::model::Sender;
use spanscore_net::metrics::CounterBy;
use spanscore_net::spare::SpareDescriptor;
use spanscore_net::tls::{HandshakeFailure, ServerTls};

/// Limit on open connections of scrapes and probes. One more closes the oldest of the peer with
/// most: a new probe is worth more than a silent peer.
pub const CONNECTIONS_MAX: usize = 64;
/// Inverse of their share of all descriptors.
const DESCRIPTOR_PARTS: u64 = 16;
/// Longest time from a new connection, or the end of an answer, to the end of a request's headers.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Read-ahead, and the largest size of a request's headers.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Wait after a failed `accept` (mostly out of file descriptors).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Silence after which the process is not ready, so that requests go elsewhere.
const READY_SILENCE_MAX: Duration = Duration::from_secs(5);
/// Silence after which the process counts as stuck and may be restarted.
const LIVE_SILENCE_MAX: Duration = Duration::from_secs(30);

/// Returns the route of `GET /metrics`. Pages are written off the network's threads and one at a
/// time, since each may be large.
pub(super) fn metrics_router(registry: Registry) -> Router {
    let turn = Arc::new(Semaphore::new(1));
    let scrape = move || async move {
        let turn = turn.acquire_owned().await;
        let page = tokio::task::spawn_blocking(move || {
            let page = exposition(&registry);
            drop(turn);
            page
        });
        match page.await {
            Ok(page) => ([(CONTENT_TYPE, TEXT_FORMAT)], page).into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    };
    Router::new().route("/metrics", get(scrape))
}

/// Returns the routes of `GET /livez`, `/readyz` and `/`.
pub(super) fn health_router(readiness: Readiness) -> Router {
    let liveness = readiness.clone();
    let live = move || async move { answer("alive", &liveness, LIVE_SILENCE_MAX) };
    let ready = move || async move {
        if readiness.is_ready() {
            answer("ready", &readiness, READY_SILENCE_MAX)
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_owned())
        }
    };
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready.clone()))
        .route("/", get(ready))
}

fn answer(well: &str, readiness: &Readiness, silence_max: Duration) -> (StatusCode, String) {
    if let Some(failure) = readiness.failure() {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("not {well}: {failure}\n"));
    }
    let silence = readiness.silence();
    if silence <= silence_max {
        return (StatusCode::OK, format!("{well}\n"));
    }
    let said = format!("not {well}: a part has not moved for {} s\n", silence.as_secs());
    (StatusCode::SERVICE_UNAVAILABLE, said)
}

/// Transport of an endpoint: plain text or TLS.
#[derive(Clone)]
pub(super) struct Door {
    tls: Option<Arc<ServerTls>>,
    failed: CounterBy,
}

impl Door {
    pub(super) fn new(tls: Option<Arc<ServerTls>>, meter: &Meter) -> Self {
        let name = "spanscore.telemetry.failed_handshakes";
        let about = "Connections that did not come through the greeting of TLS";
        let reasons = HandshakeFailure::ALL.iter().map(|why| why.name());
        let failed = CounterBy::new(meter, [name, "{connection}", about], "reason", reasons);
        Self { failed: if tls.is_some() { failed.of(&[]) } else { failed }, tls }
    }

    /// Performs the handshake and answers a peer's requests. Connection errors are ignored.
    async fn serve(self, stream: TcpStream, sender: Sender, router: Router) {
        let Some(tls) = &self.tls else { return serve_http(stream, sender, router).await };
        let greeted = tokio::time::timeout(SILENCE_MAX, tls.accept(stream)).await;
        match greeted.unwrap_or(Err(HandshakeFailure::Timeout)) {
            Ok(stream) => serve_http(stream, sender, router).await,
            Err(why) => self.failed.add(why.name(), 1),
        }
    }
}

/// Answers requests, each with its sender as an extension.
async fn serve_http(stream: impl AsyncRead + AsyncWrite + Unpin, sender: Sender, router: Router) {
    let routes = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(sender);
        routes.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(ReadInTime::new(stream)), service);
    let _ = connection.await;
}

/// Returns the limit on open connections of one endpoint in a process with this many descriptors.
pub fn connections_max(most: usize, descriptors: u64) -> usize {
    let part = usize::try_from(descriptors / DESCRIPTOR_PARTS).unwrap_or(usize::MAX);
    part.clamp(1, most)
}

/// Open connections with their peers, oldest first.
#[derive(Default)]
struct OpenConnections(VecDeque<(u32, AbortHandle)>);

impl OpenConnections {
    /// Closes the oldest connection of the peer with most, so that no peer closes those of another.
    fn close_one(&mut self) {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for (peer, _) in &self.0 {
            *counts.entry(*peer).or_default() += 1;
        }
        let most = counts.values().max().copied();
        let oldest = self.0.iter().position(|(peer, _)| counts.get(peer).copied() == most);
        if let Some((_, connection)) = oldest.and_then(|at| self.0.remove(at)) {
            connection.abort();
        }
    }
}

/// Serves on a named thread, apart from the network's, until `stop` is cancelled.
///
/// # Errors
/// The system refused a thread or a poll.
pub(super) fn run_apart(
    (name, connections_max): (&str, usize),
    listener: TcpListener,
    router: Router,
    door: Door,
    stop: CancellationToken,
) -> io::Result<()> {
    let listener = listener.into_std()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let endpoint = name.to_owned();
    let serving = async move {
        match TcpListener::from_std(listener) {
            Ok(listener) => run(listener, router, door, connections_max, stop).await,
            Err(error) => tracing::error!(endpoint, %error, "an endpoint cannot be served"),
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(serving))?;
    Ok(())
}

/// Serves until `stop` is cancelled; open connections end with it.
async fn run(
    listener: TcpListener,
    router: Router,
    door: Door,
    connections_max: usize,
    stop: CancellationToken,
) {
    tokio::select! {
        () = accept(listener, router, door, connections_max, &stop) => {}
        () = stop.cancelled() => {}
    }
}

async fn accept(
    listener: TcpListener,
    router: Router,
    door: Door,
    most: usize,
    stop: &CancellationToken,
) {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = connections_max(most, descriptors);
    let mut open = OpenConnections::default();
    let mut spare = SpareDescriptor::new();
    // Open connections have distinct numbers, none of them 0.
    let mut connection = 0;
    loop {
        let accepted = listener.accept().await;
        open.0.retain(|(_, connection)| !connection.is_finished());
        let Ok((stream, address)) = accepted else {
            // An open connection makes room for the new one, or the spare descriptor does.
            if !spare.release() {
                open.close_one();
            }
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        spare.restore();
        if open.0.len() >= most {
            open.close_one();
        }
        connection = connection % u16::MAX + 1;
        let sender = Sender { connection, ..Sender::of_address(Some(address.ip())) };
        let serving = door.clone().serve(stream, sender, router.clone());
        let stop = stop.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = serving => {}
                () = stop.cancelled() => {}
            }
        });
        open.0.push_back((sender.peer, task.abort_handle()));
    }
}

/// Returns all metrics in the Prometheus text format, except those that cannot be encoded.
pub(super) fn exposition(registry: &Registry) -> String {
    let mut text = Vec::new();
    // An error leaves the earlier families readable.
    let _ = TextEncoder::new().encode(&registry.gather(), &mut text);
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::{Telemetry, TelemetrySettings};

    async fn served() -> Telemetry {
        let mut settings = TelemetrySettings::default();
        settings.health.endpoint = Some("127.0.0.1:0".to_owned());
        settings.metrics.endpoint = Some("127.0.0.1:0".to_owned());
        let mut telemetry = Telemetry::start(&settings).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pages = Router::new().route("/page", get(async || "page"));
        telemetry.serve_dashboard((listener, address), pages, None, 4).unwrap();
        telemetry
    }

    /// Queries each endpoint with headers of this size. The test's runtime has one thread, and this
    /// function blocks it.
    fn check(telemetry: &Telemetry, header_bytes: usize, expected: &str) {
        for (path, address) in [
            ("/livez", telemetry.addresses().health),
            ("/metrics", telemetry.addresses().metrics),
            ("/page", telemetry.addresses().dashboard),
        ] {
            let mut stream = std::net::TcpStream::connect(address.unwrap()).unwrap();
            stream.set_read_timeout(Some(SILENCE_MAX)).unwrap();
            let filling = format!("x: {}\r\n", "y".repeat(4091)).repeat(header_bytes / 4096);
            let request =
                format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{filling}\r\n");
            // Endless headers are not read to the end.
            let _ = stream.write_all(request.as_bytes());
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(String::from_utf8_lossy(&answer), expected, "{path}, {header_bytes}");
        }
    }

    #[tokio::test]
    async fn endpoints_answer_while_the_network_is_busy_and_read_no_endless_headers() {
        let telemetry = served().await;
        check(&telemetry, 0, "HTTP/1.1 200");
        check(&telemetry, HEADER_BYTES_MAX / 2, "HTTP/1.1 200");
        check(&telemetry, 4 * HEADER_BYTES_MAX, "HTTP/1.1 431");
    }

    #[tokio::test]
    async fn room_is_made_by_the_oldest_of_the_peer_with_most() {
        for (peers, left) in [
            (&[1, 1, 1][..], &[1, 1][..]),
            (&[2, 1, 1, 3, 1], &[2, 1, 3, 1]),
            (&[2, 1, 2, 1], &[1, 2, 1]),
            (&[], &[]),
        ] {
            let connection = |peer: &u32| {
                let task = tokio::spawn(std::future::pending::<()>());
                (*peer, task.abort_handle())
            };
            let mut open = OpenConnections(peers.iter().map(connection).collect());
            open.close_one();
            let found: Vec<_> = open.0.iter().map(|(peer, _)| *peer).collect();
            assert_eq!(found, left, "{peers:?}");
        }
    }
}
