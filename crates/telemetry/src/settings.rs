//! Settings of our own telemetry.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error};
use smart_default::SmartDefault;

use super::logs::filter;
use spanscore_base::settings::tls::ListenerTlsSettings;
use spanscore_base::settings::{
    Address, HumanDuration, Secret, SettingsError, optional_listen_address,
};
use spanscore_net::client::{Compression, Connection, Protocol, TlsSettings};

/// Our own metrics, spans, health and logs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetrySettings {
    /// Metrics, for Prometheus to scrape and over OTLP.
    pub metrics: MetricsSettings,
    /// Spans of this process: requests to judges.
    pub traces: OwnTracesSettings,
    /// Health of the process: liveness and readiness.
    pub health: HealthSettings,
    /// Log lines, on standard error.
    pub logs: LogsSettings,
}

/// Metrics, for Prometheus to scrape and over OTLP.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsSettings {
    /// Address and port of `GET /metrics`. Default `127.0.0.1:8888`; `null` disables it.
    #[serde(deserialize_with = "optional_listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    #[default(Some("127.0.0.1:8888".to_owned()))]
    pub endpoint: Option<String>,
    /// TLS; without it the port uses plain text.
    pub tls: Option<ListenerTlsSettings>,
    /// True to allow plain text beyond the loopback address. Default `false`.
    pub insecure: bool,
    /// The same metrics over OTLP; without it they are only scraped.
    pub otlp: Option<MetricsOtlpSettings>,
}

/// Spans of this process: one for each request to a judge.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnTracesSettings {
    /// Backend of the spans; without it there are none.
    pub otlp: Option<MetricsOtlpSettings>,
    /// True to include prompt and reply as sent: records of the judged data, within the evaluator's
    /// `send` and `redact`. Default `false`.
    #[serde(alias = "include_content")]
    pub content: bool,
}

/// Our own metrics, or spans, over OTLP.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsOtlpSettings {
    /// Address of the backend. gRPC: `http://host:4317` (plain), `https://host:4317` (TLS) or
    /// `host:4317` (TLS unless `tls.insecure`). HTTP: the base address, such as `http://host:4318`;
    /// `/v1/metrics` or `/v1/traces` is appended to its path.
    pub endpoint: Address,
    /// Transport of requests: `grpc` or `http/protobuf`. Default `grpc`.
    pub protocol: ReportProtocol,
    /// Time between two reports; 512 spans are sent at once. Default `1m`.
    #[default(HumanDuration::from_secs(60))]
    pub interval: HumanDuration,
    /// Headers (gRPC: metadata) of every request, such as an authorization; never logged.
    pub headers: BTreeMap<String, Secret>,
    /// Compression of requests. Default `gzip`.
    #[default(Compression::Gzip)]
    pub compression: Compression,
    /// Longest wait for an answer. Default `10s`.
    #[default(HumanDuration::from_secs(10))]
    pub timeout: HumanDuration,
    /// TLS to the backend.
    pub tls: TlsSettings,
}

impl MetricsOtlpSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first error, with its key.
    pub fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        if self.interval.0.is_zero() {
            let error = SettingsError::new("`interval` must be longer than zero");
            return Err(("interval", error));
        }
        self.connection().check()
    }

    pub(super) fn connection(&self) -> Connection<'_> {
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

/// Transport of our own metrics, named as in `OTEL_EXPORTER_OTLP_PROTOCOL`.
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

/// Health of the process: liveness and readiness.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct HealthSettings {
    /// Address and port of `GET /livez`, `/readyz` and `/`, which equals `/readyz`. Default
    /// `127.0.0.1:13133`; `null` disables it.
    #[serde(deserialize_with = "optional_listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    #[default(Some("127.0.0.1:13133".to_owned()))]
    pub endpoint: Option<String>,
    /// TLS; without it the port uses plain text.
    pub tls: Option<ListenerTlsSettings>,
    /// True to allow plain text beyond the loopback address. Default `false`.
    pub insecure: bool,
}

/// Log lines, on standard error.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct LogsSettings {
    /// Minimum level, or a filter such as `warn,spanscore=debug`. Default `info`.
    #[serde(deserialize_with = "level")]
    #[default = "info"]
    pub level: String,
    /// Format of a line. Default `text`.
    pub format: LogFormat,
}

fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    filter(&text).map_err(D::Error::custom)?;
    Ok(text)
}

/// Format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
