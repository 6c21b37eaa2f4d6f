//! Settings of our own telemetry.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error};

use super::logs::filter;
use crate::client::{ClientSettings, Compression, Connection, Protocol, TlsSettings};
use crate::settings::{Address, HumanDuration, Secret, SettingsError, optional_listen_address};
use crate::tls::ListenerTlsSettings;

/// Our own metrics, spans, health and logs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetrySettings {
    /// Metrics, for Prometheus to scrape and over OTLP.
    pub metrics: MetricsSettings,
    /// Spans of what this process does itself: requests to judges.
    pub traces: OwnTracesSettings,
    /// Whether the process lives and is ready.
    pub health: HealthSettings,
    /// Log lines, on standard error.
    pub logs: LogsSettings,
}

/// Metrics, for Prometheus to scrape and over OTLP.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsSettings {
    /// Address and port of `GET /metrics`. Default `127.0.0.1:8888`; `null` serves none.
    #[serde(deserialize_with = "optional_listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    pub endpoint: Option<String>,
    /// TLS; without it the port speaks in the clear.
    pub tls: Option<ListenerTlsSettings>,
    /// Whether the port may speak in the clear beyond the loopback address. Default `false`.
    pub insecure: bool,
    /// The same metrics over OTLP, to whatever takes them; without it they are only scraped.
    pub otlp: Option<MetricsOtlpSettings>,
}

impl Default for MetricsSettings {
    fn default() -> Self {
        let endpoint = Some("127.0.0.1:8888".to_owned());
        Self { endpoint, tls: None, insecure: false, otlp: None }
    }
}

/// Spans of what this process does itself: one for each request to a judge, without content.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnTracesSettings {
    /// Where they are sent; without it there are none.
    pub otlp: Option<MetricsOtlpSettings>,
}

/// Our own metrics, or spans, over OTLP.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsOtlpSettings {
    /// Where to. gRPC: `http://host:4317` (plain), `https://host:4317` (TLS) or `host:4317` (TLS
    /// unless `tls.insecure`). HTTP: the base address, such as `http://host:4318`; `/v1/metrics`
    /// or `/v1/traces` is appended to its path.
    pub endpoint: Address,
    /// How requests are carried: `grpc` or `http/protobuf`. Default `grpc`.
    pub protocol: ReportProtocol,
    /// Time between two reports; 512 spans are sent at once. Default `1m`.
    pub interval: HumanDuration,
    /// Headers (gRPC: metadata) of every request, such as an authorization; never logged.
    pub headers: BTreeMap<String, Secret>,
    /// Compression of requests. Default `gzip`.
    pub compression: Compression,
    /// Longest wait for the answer to one request. Default `10s`.
    pub timeout: HumanDuration,
    /// TLS to the backend.
    pub tls: TlsSettings,
}

impl Default for MetricsOtlpSettings {
    fn default() -> Self {
        Self {
            endpoint: Address::default(),
            protocol: ReportProtocol::Grpc,
            interval: HumanDuration::from_secs(60),
            headers: BTreeMap::new(),
            compression: Compression::Gzip,
            timeout: HumanDuration::from_secs(10),
            tls: TlsSettings::default(),
        }
    }
}

impl MetricsOtlpSettings {
    /// What is wrong, with the key it stands under.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        if self.interval.0.is_zero() {
            let error = SettingsError::new("`interval` must be longer than zero");
            return Err(("interval", error));
        }
        self.connection().check()
    }

    /// What a client of the backend needs to know; the error is one of the headers.
    pub(super) fn client(&self) -> Result<ClientSettings, SettingsError> {
        self.connection().client()
    }

    fn connection(&self) -> Connection<'_> {
        let Self { endpoint, headers, tls, compression, timeout, .. } = self;
        let compression = *compression;
        let timeout = *timeout;
        let protocol = match self.protocol {
            ReportProtocol::Grpc => Protocol::Grpc,
            ReportProtocol::HttpProtobuf => Protocol::HttpProtobuf,
        };
        Connection { protocol, endpoint, headers, compression, timeout, tls }
    }
}

/// How reports of our own metrics are carried; the words are those of
/// `OTEL_EXPORTER_OTLP_PROTOCOL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ReportProtocol {
    /// OTLP/gRPC.
    #[default]
    #[serde(rename = "grpc")]
    Grpc,
    /// OTLP/HTTP with protobuf bodies.
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
}

/// Whether the process lives and is ready.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HealthSettings {
    /// Address and port of `GET /livez`, `/readyz` and `/`, which is the same as `/readyz`.
    /// Default `127.0.0.1:13133`; `null` serves none.
    #[serde(deserialize_with = "optional_listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    pub endpoint: Option<String>,
    /// TLS; without it the port speaks in the clear.
    pub tls: Option<ListenerTlsSettings>,
    /// Whether the port may speak in the clear beyond the loopback address. Default `false`.
    pub insecure: bool,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { endpoint: Some("127.0.0.1:13133".to_owned()), tls: None, insecure: false }
    }
}

/// Log lines, on standard error.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogsSettings {
    /// The least important level that is written, or a filter such as `warn,spanscore=debug`.
    /// Default `info`.
    #[serde(deserialize_with = "level")]
    pub level: String,
    /// How a line is written. Default `text`.
    pub format: LogFormat,
}

impl Default for LogsSettings {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Text }
    }
}

fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    filter(&text).map_err(D::Error::custom)?;
    Ok(text)
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
