//! The endpoints for scrapes and probes.

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus::{Encoder, Registry, TEXT_FORMAT, TextEncoder};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::limit::GlobalConcurrencyLimitLayer;

use super::Readiness;

/// Scrapes or probes that are answered at the same time; further ones wait.
const CONCURRENT_REQUESTS_MAX: usize = 16;

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
        match readiness.is_ready() {
            true => (StatusCode::OK, "ready\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        }
    };
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready.clone()))
        .route("/", get(ready))
}

/// Serves until told to stop.
pub(super) async fn run(listener: TcpListener, router: Router, stop: CancellationToken) {
    let router = router.layer(GlobalConcurrencyLimitLayer::new(CONCURRENT_REQUESTS_MAX));
    // A port that fails while it is served takes no data with it.
    tokio::select! {
        _ = axum::serve(listener, router).into_future() => {}
        () = stop.cancelled() => {}
    }
}

/// All metrics in the Prometheus text form; those that cannot be encoded are left out.
pub(super) fn exposition(registry: &Registry) -> String {
    let mut text = Vec::new();
    // Whatever fails leaves the families before it readable.
    let _ = TextEncoder::new().encode(&registry.gather(), &mut text);
    String::from_utf8(text).unwrap_or_default()
}
