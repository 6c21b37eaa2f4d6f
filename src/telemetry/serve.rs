//! The endpoints for scrapes and probes.
//!
//! Few peers come here, and none of them may hold the process up: connections are limited in number
//! and in the time that they may be silent.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus::{Encoder, Registry, TEXT_FORMAT, TextEncoder};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Readiness;

/// Connections that are open at the same time; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 64;
/// From the opening of a connection, or the end of an answer, to the end of a request's headers.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// A failing `accept` (out of file descriptors, mostly) is tried again after this time.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// `GET /metrics`.
pub(super) fn metrics_router(registry: Registry) -> Router {
    let scrape = move || async move {
        ([(CONTENT_TYPE, TEXT_FORMAT)], exposition(&registry)).into_response()
    };
    Router::new().route("/metrics", get(scrape))
}

/// `GET /livez`, `/readyz` and `/`.
pub(super) fn health_router(readiness: Readiness) -> Router {
    let ready = move || async move {
        if readiness.is_ready() {
            (StatusCode::OK, "ready\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
        }
    };
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready.clone()))
        .route("/", get(ready))
}

/// Serves until told to stop; open connections end with it.
pub(super) async fn run(listener: TcpListener, router: Router, stop: CancellationToken) {
    tokio::select! {
        () = accept(listener, router, &stop) => {}
        () = stop.cancelled() => {}
    }
}

async fn accept(listener: TcpListener, router: Router, stop: &CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(SILENCE_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let stop = stop.clone();
        tokio::spawn(async move {
            // How a connection ends is of no interest here.
            tokio::select! {
                _ = connection => {}
                () = stop.cancelled() => {}
            }
            drop(permit);
        });
    }
}

/// All metrics in the Prometheus text form; those that cannot be encoded are left out.
pub(super) fn exposition(registry: &Registry) -> String {
    let mut text = Vec::new();
    // Whatever fails leaves the families before it readable.
    let _ = TextEncoder::new().encode(&registry.gather(), &mut text);
    String::from_utf8(text).unwrap_or_default()
}
