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

/// Metrics, spans, health and logs of the process itself.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetrySettings {
    /// Metrics of the process, for Prometheus and over OTLP.
    pub metrics: MetricsSettings,
    /// Spans of the process: one for each request to a judge.
    pub traces: OwnTracesSettings,
    /// Health endpoint: liveness and readiness.
    pub health: HealthSettings,
    /// Log lines on standard error.
    pub logs: LogsSettings,
}

/// Metrics of the process, for Prometheus and over OTLP.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsSettings {
    /// Address and port of `GET /metrics`. `null` turns it off. Default `127.0.0.1:8888`.
    #[serde(deserialize_with = "optional_listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    #[default(Some("127.0.0.1:8888".to_owned()))]
    pub endpoint: Option<String>,
    /// TLS of the port. Without this section the port uses plain text.
    pub tls: Option<ListenerTlsSettings>,
    /// Allows plain text on an address other than loopback. Default `false`.
    pub insecure: bool,
    /// Sends the metrics over OTLP as well. Without this section they are only scraped.
    pub otlp: Option<MetricsOtlpSettings>,
}

/// Spans of the process: one for each request to a judge.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnTracesSettings {
    /// Backend of the spans. Without this section there are no spans.
    pub otlp: Option<MetricsOtlpSettings>,
    /// Adds prompt and reply to the spans, as sent. They contain the judged data that `send` and
    /// `redact` of the evaluator allow. Default `false`.
    #[serde(alias = "include_content")]
    pub content: bool,
}

/// Export of the process's own metrics or spans over OTLP.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsOtlpSettings {
    /// Address of the backend. With gRPC: `http://host:4317` (plain text), `https://host:4317`
    /// (TLS), or `host:4317` (TLS unless `tls.insecure`). With HTTP: the base address, such as
    /// `http://host:4318`, to which `/v1/metrics` or `/v1/traces` is appended.
    pub endpoint: Address,
    /// Protocol of requests: `grpc` (default) or `http/protobuf`.
    pub protocol: ReportProtocol,
    /// Interval between exports. 512 waiting spans are sent at once. Default `1m`.
    #[default(HumanDuration::from_secs(60))]
    pub interval: HumanDuration,
    /// Headers of each request (gRPC: metadata), such as an authorization. Logs never show the
    /// values.
    pub headers: BTreeMap<String, Secret>,
    /// Compression of requests: `gzip` (default), `zstd` or `none`.
    #[default(Compression::Gzip)]
    pub compression: Compression,
    /// Time limit of one request. Default `10s`.
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

/// Protocol of OTLP exports, named as in `OTEL_EXPORTER_OTLP_PROTOCOL`.
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

/// Health endpoint: liveness and readiness.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct HealthSettings {
    /// Address and port of `GET /livez`, `/readyz` and `/`, which equals `/readyz`. `null` turns it
    /// off. Default `127.0.0.1:13133`.
    #[serde(deserialize_with = "optional_listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    #[default(Some("127.0.0.1:13133".to_owned()))]
    pub endpoint: Option<String>,
    /// TLS of the port. Without this section the port uses plain text.
    pub tls: Option<ListenerTlsSettings>,
    /// Allows plain text on an address other than loopback. Default `false`.
    pub insecure: bool,
}

/// Log lines on standard error.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct LogsSettings {
    /// Lowest level of log lines: `error`, `warn`, `info`, `debug` or `trace`, or a filter such as
    /// `warn,spanscore=debug`. Default `info`.
    #[serde(deserialize_with = "level")]
    #[default = "info"]
    pub level: String,
    /// Format of log lines: `text` (default) or `json`.
    pub format: LogFormat,
}

fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    filter(&text).map_err(D::Error::custom)?;
    Ok(text)
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}
