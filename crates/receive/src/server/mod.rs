//! Network receivers as a whole: start, addresses, orderly shutdown.

mod one_port;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use opentelemetry::metrics::Meter;
use tokio_util::task::TaskTracker;

use super::Intake;
use super::admission::Admission;
use super::auth::Authenticator;
use super::compression::Unpacker;
use super::grpc::GrpcService;
use super::header_limit::HEADER_BYTES_READ;
use super::http::cors::Cors;
use super::http::{HttpService, paths};
use super::ingest::{BodyLimit, Ingest};
use super::listen::{
    ConnectionLimits, ConnectionPlaces, Handshakes, Port, PortContext, ReceiverStartError, Serve,
};
use super::metrics::{ReceiverMetrics, Transport};
use super::refused_paths::RefusedPaths;
use super::settings::{
    AuthSettings, GrpcSettings, HttpSettings, KeepaliveSettings, OtlpReceiverSettings,
    ReceiversSettings,
};
use super::shutdown_phases::ShutdownPhases;
use spanscore_base::model::Memory;
use spanscore_base::settings::tls::ListenerTlsSettings;
use spanscore_net::tls::{Reread, ServerTls};

/// Bytes in a mebibyte, in the width of HTTP/2 windows.
const MIB: u32 = 1 << 20;

/// Stream windows that a peer may send ahead on one connection.
const CONNECTION_WINDOWS: u32 = 4;

/// HTTP/1.1 read-ahead, and largest size of its headers.
const HTTP1_BUFFER_BYTES_MAX: usize = 64 << 10;

/// Largest window that HTTP/2 allows, bytes.
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Running receivers.
pub struct Receivers {
    grpc_address: Option<SocketAddr>,
    http_address: Option<SocketAddr>,
    shared: PortContext,
    auth: Arc<Authenticator>,
    files: Vec<Arc<dyn Reread>>,
}

impl Receivers {
    /// Binds all enabled protocols and serves them on the current runtime. Nothing runs if one of
    /// them cannot be bound.
    ///
    /// A request whose sender disconnects is dropped at any wait, including `accept`.
    pub async fn start<I: Intake>(
        settings: &ReceiversSettings,
        intake: I,
        memory: &Memory,
        meter: &Meter,
    ) -> Result<Self, ReceiverStartError> {
        let otlp = settings.otlp.clone().unwrap_or_default();
        let protocols = match settings.otlp {
            Some(_) => otlp.protocols.clone(),
            None => super::settings::ProtocolsSettings { grpc: None, http: None },
        };
        let (ingest, mut receivers) = Self::idle(&otlp, intake, memory, meter)?;
        let grpc = match &protocols.grpc {
            Some(settings) => Some(grpc_port(settings, Arc::clone(&ingest)).await?),
            None => None,
        };
        let http = match &protocols.http {
            Some(settings) => Some(http_port(settings, ingest).await?),
            None => None,
        };
        receivers.grpc_address = grpc.map(|(port, address)| receivers.run(port, address));
        receivers.http_address = http.map(|(port, address)| receivers.run(port, address));
        Ok(receivers)
    }

    /// Serves both protocols on one free port of the loopback address, selected by content type,
    /// for a sender that is given one address.
    ///
    /// # Errors
    /// If the system gives no port.
    pub async fn start_on_one_port<I: Intake>(
        intake: I,
        memory: &Memory,
        meter: &Meter,
    ) -> Result<Self, ReceiverStartError> {
        let otlp = OtlpReceiverSettings::default();
        let (ingest, mut receivers) = Self::idle(&otlp, intake, memory, meter)?;
        let (port, address) = one_port::port(ingest).await?;
        receivers.grpc_address = Some(address);
        receivers.http_address = Some(receivers.run(port, address));
        Ok(receivers)
    }

    /// Builds receivers without ports, and the common request path.
    fn idle<I: Intake>(
        otlp: &OtlpReceiverSettings,
        intake: I,
        memory: &Memory,
        meter: &Meter,
    ) -> Result<(Arc<Ingest<I>>, Self), ReceiverStartError> {
        let metrics = Arc::new(ReceiverMetrics::new(meter));
        let closing = ShutdownPhases::default();
        let auth = Authenticator::new(otlp.auth.clone(), meter);
        let auth = Arc::new(auth.map_err(ReceiverStartError::Tokens)?);
        let ingest = Arc::new(Ingest {
            intake,
            admission: Admission::new(otlp, Arc::clone(&memory.requests)),
            unpacker: Unpacker::default(),
            auth,
            metrics: Arc::clone(&metrics),
            closing: closing.clone(),
            refused_paths: RefusedPaths::default(),
            read_timeout: otlp.read_timeout.0,
            min_body_rate: otlp.min_body_rate,
        });
        let shared = PortContext {
            places: ConnectionPlaces::new(otlp.max_connections, Arc::clone(&memory.connections)),
            request_bytes: Arc::clone(&memory.requests),
            metrics,
            tasks: TaskTracker::new(),
            closing,
            handshakes: Handshakes::default(),
        };
        let auth = Arc::clone(&ingest.auth);
        let files = vec![Arc::clone(&auth) as Arc<dyn Reread>];
        Ok((ingest, Self { grpc_address: None, http_address: None, shared, auth, files }))
    }

    /// Returns the address of OTLP/gRPC, if enabled.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc_address
    }

    /// Returns the address of OTLP/HTTP, if enabled.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Returns the reloadable files: certificates and tokens.
    pub fn files(&self) -> &[Arc<dyn Reread>] {
        &self.files
    }

    /// Replaces the authentication settings; on an error the previous ones stay in use.
    ///
    /// # Errors
    /// The unusable token file and the reason.
    pub fn replace_auth(&self, settings: Option<AuthSettings>) -> Result<(), String> {
        self.auth.replace(settings)
    }

    /// Answers every new request as shutting down; running ones continue.
    pub fn refuse(&self) {
        self.shared.closing.refuse.cancel();
    }

    /// Refuses new requests, and waits for running ones. Once `no_more_time` completes, incomplete
    /// requests are answered as shutting down, too. True if all have ended by themselves.
    pub async fn settle(&self, no_more_time: impl Future<Output = ()>) -> bool {
        self.refuse();
        self.shared.closing.settle(no_more_time).await
    }

    /// Closes the ports; open connections end after answering their requests.
    pub fn stop_accepting(&self) {
        self.shared.closing.stop.cancel();
        self.shared.tasks.close();
    }

    /// Stops accepting, then waits for running requests; closes connections still open at the
    /// deadline. True if there were none.
    pub async fn drain(self, deadline: Duration) -> bool {
        self.stop_accepting();
        if tokio::time::timeout(deadline, self.shared.tasks.wait()).await.is_ok() {
            return true;
        }
        self.shared.closing.kill.cancel();
        self.shared.tasks.wait().await;
        false
    }

    fn run<S: Serve>(&mut self, port: Port<S>, address: SocketAddr) -> SocketAddr {
        self.files.extend(port.tls.clone().map(|tls| tls as Arc<dyn Reread>));
        self.shared.tasks.spawn(port.run(self.shared.clone()));
        address
    }
}

impl Drop for Receivers {
    fn drop(&mut self) {
        self.shared.closing.stop.cancel();
        self.shared.closing.kill.cancel();
    }
}

async fn grpc_port<I: Intake>(
    settings: &GrpcSettings,
    ingest: Arc<Ingest<I>>,
) -> Result<(Port<GrpcService<I>>, SocketAddr), ReceiverStartError> {
    let tls = server_tls(settings.tls.as_ref(), "receivers.otlp.protocols.grpc.tls")?;
    let limit = BodyLimit {
        bytes_max: settings.body_bytes_max(),
        setting: "receivers.otlp.protocols.grpc.max_recv_msg_size_mib",
    };
    let limits = ConnectionLimits {
        builder: builder(settings, settings.read_header_timeout.0),
        first_request: settings.read_header_timeout.0,
        idle: settings.keepalive.server_parameters.max_connection_idle.0,
        pings: settings.keepalive.enforcement_policy.clone(),
    };
    let place = (&*settings.endpoint, "receivers.otlp.protocols.grpc.endpoint");
    Port::bind(place, Transport::Grpc, GrpcService { ingest, limit }, limits, tls).await
}

async fn http_port<I: Intake>(
    settings: &HttpSettings,
    ingest: Arc<Ingest<I>>,
) -> Result<(Port<HttpService<I>>, SocketAddr), ReceiverStartError> {
    let tls = server_tls(settings.tls.as_ref(), "receivers.otlp.protocols.http.tls")?;
    let limit = BodyLimit {
        bytes_max: settings.max_request_body_size,
        setting: "receivers.otlp.protocols.http.max_request_body_size",
    };
    let cors = settings.cors.clone().map(Cors::new);
    let service = HttpService { ingest, limit, paths: paths(settings), cors };
    let place = (&*settings.endpoint, "receivers.otlp.protocols.http.endpoint");
    Port::bind(place, Transport::Http, service, http_limits(settings), tls).await
}

/// Returns the limits of connections with HTTP.
fn http_limits(settings: &HttpSettings) -> ConnectionLimits {
    ConnectionLimits {
        builder: builder(&GrpcSettings::default(), settings.read_header_timeout.0),
        first_request: settings.read_header_timeout.0,
        idle: settings.idle_timeout.0,
        pings: None,
    }
}

/// Returns TLS of a port, if configured.
fn server_tls(
    settings: Option<&ListenerTlsSettings>,
    setting: &'static str,
) -> Result<Option<Arc<ServerTls>>, ReceiverStartError> {
    let Some(settings) = settings else { return Ok(None) };
    // Both, so that a sender at the wrong port gets a clear error.
    let tls = ServerTls::new(settings.clone(), setting, &["h2", "http/1.1"]);
    let tls = tls.map_err(|error| ReceiverStartError::Tls { setting, error: Box::new(error) })?;
    Ok(Some(Arc::new(tls)))
}

/// Configures HTTP. Both ports speak HTTP/1.1 and HTTP/2, so that a sender at the wrong port gets a
/// clear error.
fn builder(settings: &GrpcSettings, read_header_timeout: Duration) -> Builder<TokioExecutor> {
    let KeepaliveSettings { server_parameters, .. } = &settings.keepalive;
    let stream_window = settings.initial_window_mib.saturating_mul(MIB).min(WINDOW_BYTES_MAX);
    let connection_window = stream_window.saturating_mul(CONNECTION_WINDOWS).min(WINDOW_BYTES_MAX);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(read_header_timeout);
    builder.http1().max_buf_size(HTTP1_BUFFER_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(stream_window)
        .initial_connection_window_size(connection_window)
        .max_frame_size(settings.max_frame_kib.clamp(16, 16_383) << 10)
        .max_concurrent_streams(settings.max_concurrent_streams)
        .max_header_list_size(HEADER_BYTES_READ)
        .keep_alive_interval(server_parameters.time.0)
        .keep_alive_timeout(server_parameters.timeout.0);
    builder
}
