//! Our own logs, metrics and health.
//!
//! In: settings, and what the stages count on the [`Meter`] that they are given. Out: `/metrics`
//! in the Prometheus text form, `/livez` and `/readyz`, log lines on standard error. A metric
//! `spanscore.stage.noun` has one spelling there: dots become `_`, the unit and `_total` follow.
//! A port that is taken ends the start: two collectors with one set of dashboards help nobody,
//! and the error names the setting to change.

mod logs;
mod readiness;
mod serve;
mod settings;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::Registry;
#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::model::{Memory, Share};

pub use logs::{LogsError, start_logs};
pub use readiness::{Heartbeats, Readiness};
pub use settings::{HealthSettings, LogFormat, LogsSettings, MetricsSettings, TelemetrySettings};

/// Why telemetry cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// An address cannot be listened on.
    #[error("cannot listen on {endpoint}: {error}; {remedy}change {setting}, or set it to null")]
    Bind {
        /// The address as it stands in the settings.
        endpoint: String,
        /// The setting that holds it.
        setting: &'static str,
        /// What else may help, with the words after it; may be empty.
        remedy: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
    /// The metrics cannot be set up.
    #[error("cannot set up metrics: {0}")]
    Metrics(String),
}

/// Running telemetry; its endpoints close when it is dropped.
pub struct Telemetry {
    provider: SdkMeterProvider,
    registry: Registry,
    readiness: Readiness,
    metrics_address: Option<SocketAddr>,
    health_address: Option<SocketAddr>,
    stop: CancellationToken,
}

impl Telemetry {
    /// Binds the endpoints and serves them on the current runtime. Logs are started apart, by
    /// [`start_logs`], since they are wanted before all else.
    pub async fn start(settings: &TelemetrySettings) -> Result<Self, TelemetryError> {
        let metrics = bind(settings.metrics.endpoint.as_deref(), "telemetry.metrics.endpoint");
        let metrics = metrics.await?;
        let health = bind(settings.health.endpoint.as_deref(), "telemetry.health.endpoint").await?;
        let mut telemetry = Self::without_endpoints()?;
        if let Some((listener, address)) = metrics {
            telemetry.metrics_address = Some(address);
            let router = serve::metrics_router(telemetry.registry.clone());
            tokio::spawn(serve::run(listener, router, telemetry.stop.clone()));
        }
        if let Some((listener, address)) = health {
            telemetry.health_address = Some(address);
            let router = serve::health_router(telemetry.readiness.clone());
            tokio::spawn(serve::run(listener, router, telemetry.stop.clone()));
        }
        Ok(telemetry)
    }

    /// Only counts, for commands that end by themselves and for tests.
    pub fn without_endpoints() -> Result<Self, TelemetryError> {
        let registry = Registry::new();
        // What an operator's dashboards show of any process; nothing where there is no procfs.
        #[cfg(target_os = "linux")]
        let _ = registry.register(Box::new(ProcessCollector::for_self()));
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .map_err(|error| TelemetryError::Metrics(error.to_string()))?;
        let resource = Resource::builder_empty()
            .with_service_name("spanscore")
            .with_attribute(opentelemetry::KeyValue::new(
                "service.version",
                env!("CARGO_PKG_VERSION"),
            ))
            .build();
        let provider =
            SdkMeterProvider::builder().with_reader(exporter).with_resource(resource).build();
        show_build(&provider.meter("spanscore"));
        Ok(Self {
            provider,
            registry,
            readiness: Readiness::default(),
            metrics_address: None,
            health_address: None,
            stop: CancellationToken::new(),
        })
    }

    /// What the stages make their instruments with.
    pub fn meter(&self) -> Meter {
        self.provider.meter("spanscore")
    }

    /// Shows what each share of the memory holds, and its limit, whenever metrics are read.
    pub fn show_memory(&self, memory: &Memory) {
        let meter = self.meter();
        let gauge = |name: &'static str, about: &'static str| {
            meter.u64_observable_gauge(name).with_unit("By").with_description(about)
        };
        let part = |share: &Share| [opentelemetry::KeyValue::new("part", share.name())];
        let shares = memory.shares().map(Arc::clone);
        let limits = shares.clone();
        gauge("spanscore.memory", "Bytes that what senders sent occupies, by where it is held.")
            .with_callback(move |gauge| {
                shares.iter().for_each(|it| gauge.observe(it.held() as u64, &part(it)));
            })
            .build();
        gauge("spanscore.memory.limit", "The share of `limits.memory_mib` of each part.")
            .with_callback(move |gauge| {
                limits.iter().for_each(|it| gauge.observe(it.limit() as u64, &part(it)));
            })
            .build();
    }

    /// Where exporters register series of their own.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The flag behind `/readyz`.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// All metrics in the Prometheus text form.
    pub fn exposition(&self) -> String {
        serve::exposition(&self.registry)
    }

    /// Where `/metrics` is served, if it is.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Where `/livez` and `/readyz` are served, if they are.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health_address
    }
}

/// Shows what is running, as labels of a gauge that is 1.
fn show_build(meter: &Meter) {
    let fact = |key: &'static str, value: &'static str| opentelemetry::KeyValue::new(key, value);
    let facts = [
        fact("version", env!("CARGO_PKG_VERSION")),
        fact("commit", env!("SPANSCORE_BUILD_COMMIT")),
        fact("target", env!("SPANSCORE_BUILD_TARGET")),
        fact("rustc", env!("SPANSCORE_BUILD_RUSTC")),
    ];
    meter
        .u64_observable_gauge("spanscore.build.info")
        .with_description("What is running: always 1, the labels say it.")
        .with_callback(move |gauge| gauge.observe(1, &facts))
        .build();
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.stop.cancel();
    }
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
