//! An OTLP backend, written against the protocol and not against our exporter: it decodes with the
//! generated types, keeps what it gets, and fails, delays or hangs as told.

use std::collections::VecDeque;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{
    LogsService, LogsServiceServer,
};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Notify;
use tonic::codec::CompressionEncoding;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use super::patience::PATIENCE;
use super::raw_backend::unheard;

/// Answer of the backend to one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Behavior {
    /// Takes it.
    Take,
    /// gRPC `UNAVAILABLE`, HTTP 503: to be tried again.
    Unavailable,
    /// gRPC `INVALID_ARGUMENT`, HTTP 400: never again.
    Refuse,
    /// Takes all but so many.
    Reject(i64),
    /// Takes it after a while.
    Delay(Duration),
    /// Never answers.
    Hang,
}

#[derive(Default)]
struct Kept {
    logs: Vec<ExportLogsServiceRequest>,
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
    headers: Vec<HeaderMap>,
    requests: usize,
    next: VecDeque<Behavior>,
    always: Option<Behavior>,
    /// Refuses requests that hold an evaluation with such a first byte of its id.
    poison: Option<fn(u8) -> bool>,
}

/// A running backend; it stops with the runtime.
#[derive(Clone)]
pub(crate) struct FakeBackend {
    kept: Arc<Mutex<Kept>>,
    changed: Arc<Notify>,
    /// Address that it listens at.
    pub(crate) address: SocketAddr,
    /// The port of one that is gone.
    _held: Option<Arc<TcpSocket>>,
}

enum Failure {
    Unavailable,
    Refused,
}

impl FakeBackend {
    /// Listens for OTLP/gRPC on a free port of the loopback.
    pub(crate) async fn grpc() -> Self {
        let (backend, listener) = Self::bind().await;
        let routes = backend.grpc_routes().into_axum_router();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        backend
    }

    /// Listens for OTLP/HTTP on a free port of the loopback.
    pub(crate) async fn http() -> Self {
        let (backend, listener) = Self::bind().await;
        let routes = backend.http_routes();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        backend
    }

    /// Listens for both over TLS (HTTP/2), and asks for a certificate of the test authority.
    pub(crate) async fn tls() -> Self {
        let (backend, listener) = Self::bind().await;
        let routes = backend.grpc_routes().into_axum_router().merge(backend.http_routes());
        let identity = Identity::from_pem(fixture("server.pem"), fixture("server.key"));
        let tls = ServerTlsConfig::new()
            .identity(identity)
            .client_ca_root(Certificate::from_pem(fixture("ca.pem")));
        let mut server = Server::builder().tls_config(tls).expect("certificates");
        let server = server.add_routes(routes.into());
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        backend
    }

    fn grpc_routes(&self) -> tonic::service::Routes {
        let compressed = [CompressionEncoding::Gzip, CompressionEncoding::Zstd];
        let (mut logs, mut traces, mut metrics) = (
            LogsServiceServer::new(self.clone()),
            TraceServiceServer::new(self.clone()),
            MetricsServiceServer::new(self.clone()),
        );
        for encoding in compressed {
            logs = logs.accept_compressed(encoding);
            traces = traces.accept_compressed(encoding);
            metrics = metrics.accept_compressed(encoding);
        }
        tonic::service::Routes::new(logs).add_service(traces).add_service(metrics)
    }

    fn http_routes(&self) -> axum::Router {
        axum::Router::new()
            .route("/base/v1/logs", post(http_logs))
            .route("/base/v1/traces", post(http_traces))
            .route("/base/v1/metrics", post(http_metrics))
            .with_state(self.clone())
    }

    /// A backend that is gone: as long as this is kept, nobody else gets its port.
    pub(crate) fn dead() -> Self {
        let (port, address) = unheard();
        let _held = Some(Arc::new(port));
        Self { kept: Arc::default(), changed: Arc::default(), address, _held }
    }

    async fn bind() -> (Self, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        (Self { kept: Arc::default(), changed: Arc::default(), address, _held: None }, listener)
    }

    fn with<T>(&self, read: impl FnOnce(&mut Kept) -> T) -> T {
        read(&mut self.kept.lock().expect("not poisoned"))
    }

    /// Answers the next requests so, one each, in order.
    pub(crate) fn next(&self, behaviors: &[Behavior]) {
        self.with(|kept| kept.next.extend(behaviors));
    }

    /// Answers all requests so.
    pub(crate) fn always(&self, behavior: Behavior) {
        self.with(|kept| kept.always = Some(behavior));
    }

    /// Refuses, for good, every request that holds an evaluation whose id begins with such a byte.
    pub(crate) fn refuse_records(&self, poison: fn(u8) -> bool) {
        self.with(|kept| kept.poison = Some(poison));
    }

    /// Waits until `ready` holds.
    pub(crate) async fn until(&self, ready: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            if ready(self) {
                return;
            }
            tokio::time::timeout(PATIENCE, changed).await.expect("the backend gets more");
        }
    }

    /// All log records that were taken.
    pub(crate) fn log_records(&self) -> Vec<LogRecord> {
        self.with(|kept| {
            let resources = kept.logs.iter().flat_map(|request| &request.resource_logs);
            let scopes = resources.flat_map(|resource| &resource.scope_logs);
            scopes.flat_map(|scope| scope.log_records.clone()).collect()
        })
    }

    /// Number of log records that were taken, without copies: each arrival is asked for it.
    pub(crate) fn log_count(&self) -> usize {
        self.with(|kept| {
            let resources = kept.logs.iter().flat_map(|request| &request.resource_logs);
            let scopes = resources.flat_map(|resource| &resource.scope_logs);
            scopes.map(|scope| scope.log_records.len()).sum()
        })
    }

    /// All spans that were taken.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.with(|kept| {
            let resources = kept.traces.iter().flat_map(|request| &request.resource_spans);
            let scopes = resources.flat_map(|resource| &resource.scope_spans);
            scopes.flat_map(|scope| scope.spans.clone()).collect()
        })
    }

    /// The metrics of the last report.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        self.with(|kept| {
            let resources = kept.metrics.last().into_iter().flat_map(|r| &r.resource_metrics);
            let scopes = resources.flat_map(|resource| &resource.scope_metrics);
            scopes.flat_map(|scope| scope.metrics.clone()).collect()
        })
    }

    /// Resource attributes of the log requests that were taken.
    pub(crate) fn log_resources(&self) -> Vec<Vec<KeyValue>> {
        self.with(|kept| {
            let resources = kept.logs.iter().flat_map(|request| &request.resource_logs);
            let resources = resources.filter_map(|logs| logs.resource.as_ref());
            resources.map(|resource| resource.attributes.clone()).collect()
        })
    }

    /// The log requests that were taken.
    pub(crate) fn log_requests(&self) -> Vec<ExportLogsServiceRequest> {
        self.with(|kept| kept.logs.clone())
    }

    /// The trace requests that were taken.
    pub(crate) fn trace_requests(&self) -> Vec<ExportTraceServiceRequest> {
        self.with(|kept| kept.traces.clone())
    }

    /// The metric requests that were taken.
    pub(crate) fn metric_requests(&self) -> Vec<ExportMetricsServiceRequest> {
        self.with(|kept| kept.metrics.clone())
    }

    /// Counts the requests that came, answered or not.
    pub(crate) fn requests(&self) -> usize {
        self.with(|kept| kept.requests)
    }

    /// The headers of the requests.
    pub(crate) fn headers(&self) -> Vec<HeaderMap> {
        self.with(|kept| kept.headers.clone())
    }

    /// Behaves; how many items to reject.
    async fn behave(&self, headers: HeaderMap, ids: Vec<u8>) -> Result<i64, Failure> {
        let behavior = self.with(|kept| {
            kept.requests += 1;
            kept.headers.push(headers);
            if kept.poison.is_some_and(|is_poison| ids.into_iter().any(is_poison)) {
                return Behavior::Refuse;
            }
            kept.next.pop_front().or(kept.always).unwrap_or(Behavior::Take)
        });
        self.changed.notify_waiters();
        match behavior {
            Behavior::Take => Ok(0),
            Behavior::Unavailable => Err(Failure::Unavailable),
            Behavior::Refuse => Err(Failure::Refused),
            Behavior::Reject(count) => Ok(count),
            Behavior::Delay(delay) => {
                tokio::time::sleep(delay).await;
                Ok(0)
            }
            Behavior::Hang => std::future::pending().await,
        }
    }

    fn keep(&self, keep: impl FnOnce(&mut Kept)) {
        self.with(keep);
        self.changed.notify_waiters();
    }
}

/// A file of the test authority.
fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(tls_path(name)).expect("a fixture")
}

/// Returns the path of a file of the test authority.
pub(crate) fn tls_path(name: &str) -> String {
    format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The value of an attribute.
pub(crate) fn attribute<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a any_value::Value> {
    attributes.iter().find(|kv| kv.key == key)?.value.as_ref()?.value.as_ref()
}

impl From<Failure> for tonic::Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable => Self::unavailable("come back"),
            Failure::Refused => Self::invalid_argument("never"),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "0")], "come back")
                    .into_response()
            }
            Self::Refused => (StatusCode::BAD_REQUEST, "never").into_response(),
        }
    }
}

#[tonic::async_trait]
impl LogsService for FakeBackend {
    async fn export(
        &self,
        request: tonic::Request<ExportLogsServiceRequest>,
    ) -> Result<tonic::Response<ExportLogsServiceResponse>, tonic::Status> {
        let ids = log_ids(request.get_ref());
        self.behave(request.metadata().clone().into_headers(), ids).await?;
        self.keep(|kept| kept.logs.push(request.into_inner()));
        Ok(tonic::Response::new(ExportLogsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl TraceService for FakeBackend {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let ids = span_ids(request.get_ref());
        let rejected = self.behave(request.metadata().clone().into_headers(), ids).await?;
        self.keep(|kept| kept.traces.push(request.into_inner()));
        Ok(tonic::Response::new(trace_response(rejected)))
    }
}

#[tonic::async_trait]
impl MetricsService for FakeBackend {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, tonic::Status> {
        self.behave(request.metadata().clone().into_headers(), Vec::new()).await?;
        self.keep(|kept| kept.metrics.push(request.into_inner()));
        Ok(tonic::Response::new(ExportMetricsServiceResponse::default()))
    }
}

fn trace_response(rejected: i64) -> ExportTraceServiceResponse {
    let partial = ExportTracePartialSuccess {
        rejected_spans: rejected,
        error_message: "too many".to_owned(),
    };
    ExportTraceServiceResponse { partial_success: (rejected > 0).then_some(partial) }
}

/// The first byte of the id of each evaluation in a request of events.
fn log_ids(request: &ExportLogsServiceRequest) -> Vec<u8> {
    let scopes = request.resource_logs.iter().flat_map(|logs| &logs.scope_logs);
    let id = |record: &LogRecord| match attribute(&record.attributes, "spanscore.evaluation.id") {
        Some(any_value::Value::StringValue(id)) => u8::from_str_radix(&id[..2], 16).ok(),
        _ => None,
    };
    scopes.flat_map(|scope| &scope.log_records).filter_map(id).collect()
}

/// The same of a request of spans.
fn span_ids(request: &ExportTraceServiceRequest) -> Vec<u8> {
    let scopes = request.resource_spans.iter().flat_map(|spans| &spans.scope_spans);
    scopes.flat_map(|scope| &scope.spans).map(|span| span.span_id[0]).collect()
}

fn decode<T: Message + Default>(headers: &HeaderMap, body: &Bytes) -> T {
    let encoding = headers.get("content-encoding").map(|value| value.as_bytes());
    let mut plain = Vec::new();
    match encoding {
        Some(b"gzip") => {
            let mut decoder = flate2::read::GzDecoder::new(&body[..]);
            decoder.read_to_end(&mut plain).expect("gzip");
        }
        Some(b"zstd") => plain = zstd::decode_all(&body[..]).expect("zstd"),
        _ => plain = body.to_vec(),
    }
    assert_eq!(headers["content-type"], "application/x-protobuf");
    T::decode(&plain[..]).expect("a request")
}

fn protobuf(response: &impl Message) -> Response {
    ([("content-type", "application/x-protobuf")], response.encode_to_vec()).into_response()
}

async fn http_logs(
    State(backend): State<FakeBackend>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let request = decode(&headers, &body);
    backend.behave(headers, log_ids(&request)).await?;
    backend.keep(|kept| kept.logs.push(request));
    Ok(protobuf(&ExportLogsServiceResponse::default()))
}

async fn http_traces(
    State(backend): State<FakeBackend>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let request = decode(&headers, &body);
    let rejected = backend.behave(headers, span_ids(&request)).await?;
    backend.keep(|kept| kept.traces.push(request));
    Ok(protobuf(&trace_response(rejected)))
}

async fn http_metrics(
    State(backend): State<FakeBackend>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let request = decode(&headers, &body);
    backend.behave(headers, Vec::new()).await?;
    backend.keep(|kept| kept.metrics.push(request));
    Ok(protobuf(&ExportMetricsServiceResponse::default()))
}
