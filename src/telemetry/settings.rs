//! Settings of our own telemetry.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error};

use super::logs::filter;
use crate::settings::optional_listen_address;
use crate::tls::ListenerTlsSettings;

/// Our own metrics, health and logs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetrySettings {
    /// Metrics for Prometheus to scrape.
    pub metrics: MetricsSettings,
    /// Whether the process lives and is ready.
    pub health: HealthSettings,
    /// Log lines, on standard error.
    pub logs: LogsSettings,
}

/// Metrics for Prometheus to scrape.
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
}

impl Default for MetricsSettings {
    fn default() -> Self {
        Self { endpoint: Some("127.0.0.1:8888".to_owned()), tls: None, insecure: false }
    }
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
