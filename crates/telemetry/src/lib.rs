//! Self-observability: our own logs, metrics, spans and health.
//!
//! In: settings, and counts of the stages on a [`Meter`]. Out: `/metrics` in the Prometheus text
//! format and over OTLP ([`push`]), `/livez` and `/readyz`, log lines on standard error. In
//! `/metrics`, the dots of a name `spanscore.stage.noun` become `_`, followed by the unit and
//! `_total`. An occupied port ends the start, with an error that names the setting: two
//! collectors behind one set of dashboards help nobody.

mod lines;
mod logs;
mod process;
mod push;
mod readiness;
mod serve;
mod settings;
mod spans;
mod unread;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::push::Pushing;
use self::spans::SpanPushing;
use spanscore_base::model::{Memory, MemoryQuota};
use spanscore_base::settings::tls::ListenerTlsSettings;
use spanscore_net::client::Client;
use spanscore_net::metrics::{KeyValue, Scraped};
use spanscore_net::tls::{Reread, ServerTls, TlsError};
use spanscore_net::{metrics, readings};

pub use lines::{flush_stderr, to_stderr};
pub use logs::{LogsError, start_logs};
pub use readiness::{Heartbeats, Readiness};
pub use serve::{CONNECTIONS_MAX, connections_max};
pub use settings::{
    HealthSettings, LogFormat, LogsSettings, MetricsOtlpSettings, MetricsSettings,
    OwnTracesSettings, ReportProtocol, TelemetrySettings,
};
pub use spans::OwnSpans;

/// Error of telemetry that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// An endpoint could not start its thread.
    #[error("cannot start a thread for probes or scrapes: {0}; raise the limit of threads")]
    Thread(std::io::Error),
    /// Cannot listen on an address.
    #[error("cannot listen on {endpoint}: {error}; {remedy}change {setting}, or set it to null")]
    Bind {
        /// The address in the settings.
        endpoint: String,
        /// The setting that holds it.
        setting: &'static str,
        /// Another remedy; may be empty.
        remedy: &'static str,
        /// Error of the system.
        error: std::io::Error,
    },
    /// The certificates of an endpoint are unusable.
    #[error("cannot set up TLS of {setting}: {error}")]
    Tls {
        /// The setting.
        setting: &'static str,
        /// The faulty file or setting, and its fault.
        error: Box<TlsError>,
    },
    /// The metrics cannot be set up.
    #[error("cannot set up metrics: {0}")]
    Metrics(String),
    /// The client for our own metrics or spans cannot be created.
    #[error("cannot send to {setting}: {error}")]
    Client {
        /// The setting.
        setting: &'static str,
        /// Error text.
        error: String,
    },
}

/// Bound addresses of a running process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// OTLP/gRPC.
    pub grpc: Option<SocketAddr>,
    /// OTLP/HTTP.
    pub http: Option<SocketAddr>,
    /// Prometheus metrics.
    pub metrics: Option<SocketAddr>,
    /// `/livez` and `/readyz`.
    pub health: Option<SocketAddr>,
    /// Query interface of the store.
    pub dashboard: Option<SocketAddr>,
}

/// Running telemetry; its endpoints close on drop.
pub struct Telemetry {
    provider: SdkMeterProvider,
    registry: Registry,
    readiness: Readiness,
    addresses: Addresses,
    files: Vec<Arc<dyn Reread>>,
    pushing: Option<Pushing>,
    spans: Option<SpanPushing>,
    stop: CancellationToken,
}

impl Telemetry {
    /// Binds the endpoints and serves them on separate threads; the health endpoint watches the
    /// current runtime. Logs start separately by [`start_logs`], since they are needed before
    /// everything else.
    pub async fn start(settings: &TelemetrySettings) -> Result<Self, TelemetryError> {
        let metrics_tls = server_tls(settings.metrics.tls.as_ref(), "telemetry.metrics.tls")?;
        let health_tls = server_tls(settings.health.tls.as_ref(), "telemetry.health.tls")?;
        let metrics = bind(settings.metrics.endpoint.as_deref(), "telemetry.metrics.endpoint");
        let metrics = metrics.await?;
        let health = bind(settings.health.endpoint.as_deref(), "telemetry.health.endpoint").await?;
        let mut telemetry = Self::reporting(settings.metrics.otlp.as_ref())?;
        if let Some(otlp) = &settings.traces.otlp {
            let client = client_of(otlp, "telemetry.traces.otlp")?;
            telemetry.spans =
                Some(SpanPushing::start(client, &settings.traces, otlp, &telemetry.meter()));
        }
        if let Some((listener, address)) = metrics {
            telemetry.addresses.metrics = Some(address);
            let router = serve::metrics_router(telemetry.registry.clone());
            telemetry.serve_apart("metrics", listener, router, metrics_tls)?;
        }
        if let Some((listener, address)) = health {
            telemetry.addresses.health = Some(address);
            let router = serve::health_router(telemetry.readiness.clone());
            telemetry.serve_apart("health", listener, router, health_tls)?;
            tokio::spawn(telemetry.readiness.watch_network(telemetry.stop.clone()));
        }
        Ok(telemetry)
    }

    /// Serves the store's query interface until the telemetry ends.
    ///
    /// # Errors
    /// The system refused a thread or a poll.
    pub fn serve_dashboard(
        &mut self,
        (listener, address): (TcpListener, SocketAddr),
        router: Router,
        tls: Option<Arc<ServerTls>>,
        connections_max: usize,
    ) -> io::Result<()> {
        self.addresses.dashboard = Some(address);
        let door = self.door(tls);
        serve::run_apart(("pages", connections_max), listener, router, door, self.stop.clone())
    }

    fn serve_apart(
        &mut self,
        name: &str,
        listener: TcpListener,
        router: Router,
        tls: Option<Arc<ServerTls>>,
    ) -> Result<(), TelemetryError> {
        let door = self.door(tls);
        let of = (name, CONNECTIONS_MAX);
        serve::run_apart(of, listener, router, door, self.stop.clone())
            .map_err(TelemetryError::Thread)
    }

    fn door(&mut self, tls: Option<Arc<ServerTls>>) -> serve::Door {
        let files = tls.iter().map(|tls| Arc::clone(tls) as Arc<dyn Reread>);
        self.files.extend(files);
        serve::Door::new(tls, &self.meter())
    }

    /// Sends a final report of all counts over OTLP.
    pub async fn finish(&mut self) {
        if let Some(spans) = self.spans.take() {
            spans.finish().await;
        }
        let Some(pushing) = self.pushing.take() else { return };
        let provider = self.provider.clone();
        // Blocks until the thread that reads the instruments has answered.
        let flushing = tokio::task::spawn_blocking(move || provider.force_flush());
        let _ = tokio::time::timeout(push::LAST_PUSH_TIME, flushing).await;
        pushing.finish().await;
    }

    /// Returns the recorder of our own spans, if enabled.
    pub fn spans(&self) -> Option<&OwnSpans> {
        self.spans.as_ref().map(SpanPushing::handle)
    }

    /// Returns the reloadable files: certificates.
    pub fn files(&self) -> &[Arc<dyn Reread>] {
        &self.files
    }

    /// Returns telemetry that only counts, for short commands and tests.
    pub fn without_endpoints() -> Result<Self, TelemetryError> {
        Self::reporting(None)
    }

    /// Returns telemetry that counts, and reports over OTLP if configured.
    fn reporting(otlp: Option<&MetricsOtlpSettings>) -> Result<Self, TelemetryError> {
        let registry = Registry::new();
        // The process metrics of common dashboards; absent without procfs.
        let _ = process::ProcessCollector::new().and_then(|it| registry.register(Box::new(it)));
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .map_err(|error| TelemetryError::Metrics(error.to_string()))?;
        let resource = Resource::builder_empty()
            .with_service_name("spanscore")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let mut builder = SdkMeterProvider::builder().with_reader(exporter).with_resource(resource);
        let mut reports = None;
        if let Some(otlp) = otlp {
            let client = client_of(otlp, "telemetry.metrics.otlp")?;
            let (reader, requests) = push::reader(otlp);
            builder = builder.with_reader(reader);
            reports = Some((client, requests, &otlp.endpoint));
        }
        let provider = builder.build();
        let meter = provider.meter("spanscore");
        Scraped::show_all(DROPPED_LINES, &meter, |see| see(&(), &[]));
        let pushing = reports
            .map(|(client, requests, endpoint)| Pushing::start(client, requests, &meter, endpoint));
        Ok(Self {
            pushing,
            spans: None,
            provider,
            registry,
            readiness: Readiness::default(),
            addresses: Addresses::default(),
            files: Vec::new(),
            stop: CancellationToken::new(),
        })
    }

    /// Returns the meter for the instruments of the stages.
    pub fn meter(&self) -> Meter {
        self.provider.meter("spanscore")
    }

    /// Shows use and limit of each memory quota at each scrape.
    pub fn show_memory(&self, memory: &Memory) {
        let shares = memory.shares().map(Arc::clone);
        Scraped::show_all(MEMORY, &self.meter(), move |see| {
            shares.iter().for_each(|share| see(share, &part(share)));
        });
        let rules = Arc::clone(&memory.rules);
        Scraped::show_all(FORGOTTEN, &self.meter(), move |see| see(&rules, &part(&rules)));
    }

    /// Returns the registry for exporters' series.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the state behind `/readyz`.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Returns all metrics in the Prometheus text format.
    pub fn exposition(&self) -> String {
        serve::exposition(&self.registry)
    }

    /// Returns the bound addresses of its endpoints.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }
}

readings! {
    const MEMORY: Arc<MemoryQuota> {
        gauge("spanscore.memory", "By",
            "Bytes that what senders sent occupies, by where it is held.",
            |share| share.held() as u64);
        gauge("spanscore.memory.limit", "By", "The share of `limits.memory_mib` of each part.",
            |share| share.limit() as u64);
    }
}

readings! {
    const FORGOTTEN: Arc<MemoryQuota> {
        sum("spanscore.memory.forgotten", "", "Cache entries that were evicted for want of room.",
            |rules| rules.forgotten() as u64);
    }
}

fn part(share: &MemoryQuota) -> [KeyValue; 1] {
    [KeyValue::new("part", share.name())]
}

/// Facts of a build, labels of `spanscore_build_info`.
#[derive(Clone, Copy, Debug)]
pub struct BuildFacts {
    /// Version of the program.
    pub version: &'static str,
    /// Commit of the source; `unknown` outside of a repository.
    pub commit: &'static str,
    /// Target triple.
    pub target: &'static str,
    /// Version of the compiler.
    pub rustc: &'static str,
}

impl BuildFacts {
    /// Shows the facts as labels of a gauge that is 1.
    pub fn show(self, meter: &Meter) {
        let facts = [
            ("version", self.version),
            ("commit", self.commit),
            ("target", self.target),
            ("rustc", self.rustc),
        ]
        .map(|(key, value)| KeyValue::new(key, value));
        BuildMetrics::new(meter).of(&facts).info.record(1);
    }
}

metrics! {
    struct BuildMetrics {
        info: Gauge("spanscore.build.info", "",
            "Build of this process, in the labels; always 1.");
    }
}

readings! {
    const DROPPED_LINES: () {
        sum("spanscore.telemetry.dropped_lines", "{line}",
            "Lines of the log that were dropped: nobody read standard error in time.",
            |()| lines::dropped());
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Returns the TLS of an endpoint, if configured.
fn server_tls(
    settings: Option<&ListenerTlsSettings>,
    setting: &'static str,
) -> Result<Option<Arc<ServerTls>>, TelemetryError> {
    let Some(settings) = settings else { return Ok(None) };
    let tls = ServerTls::new(settings.clone(), setting, &["http/1.1"]);
    let tls = tls.map_err(|error| TelemetryError::Tls { setting, error: Box::new(error) })?;
    Ok(Some(Arc::new(tls)))
}

fn client_of(otlp: &MetricsOtlpSettings, setting: &'static str) -> Result<Client, TelemetryError> {
    otlp.connection().open().map_err(|error| TelemetryError::Client { setting, error })
}

async fn bind(
    endpoint: Option<&str>,
    setting: &'static str,
) -> Result<Option<(TcpListener, SocketAddr)>, TelemetryError> {
    let Some(endpoint) = endpoint else { return Ok(None) };
    let failed = |error: std::io::Error| {
        let remedy = match error.kind() {
            ErrorKind::AddrInUse => "is another collector running? stop it, or ",
            _ => "",
        };
        TelemetryError::Bind { endpoint: endpoint.to_owned(), setting, remedy, error }
    };
    let listener = TcpListener::bind(endpoint).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Some((listener, address)))
}
