//! Client settings, derived from those of exporters and commands.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use super::endpoint::{self, Endpoint};
use spanscore_base::otlp::ContentCoding;
pub use spanscore_base::settings::tls::TlsSettings;
use spanscore_base::settings::{Address, SettingsError};

/// Target and route of requests.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Encoding and transport of requests.
    pub protocol: Protocol,
    /// Address of the backend. gRPC: `http://host:4317` (plain), `https://host:4317` (TLS) or
    /// `host:4317` (TLS unless `tls.insecure`). HTTP: the base address, to which the path of a
    /// signal is appended.
    pub endpoint: Address,
    /// Headers (gRPC: metadata) of every request; see [`headers`].
    pub headers: HeaderMap,
    /// Compression of requests.
    pub compression: Compression,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// TLS to the backend.
    pub tls: TlsSettings,
}

impl ClientSettings {
    /// Returns the addresses of the endpoint.
    ///
    /// # Errors
    /// The endpoint is invalid.
    pub(super) fn resolve(&self) -> Result<Endpoint, SettingsError> {
        endpoint::resolve(self.protocol, &self.endpoint, self.tls.insecure)
    }
}

/// Checks that an endpoint is valid for the protocol; `insecure` as in [`TlsSettings`].
///
/// # Errors
/// The reason that it is invalid.
pub fn check_endpoint(
    protocol: Protocol,
    endpoint: &Address,
    insecure: bool,
) -> Result<(), SettingsError> {
    endpoint::resolve(protocol, endpoint, insecure).map(|_| ())
}

/// Returns the headers, marked as secret.
///
/// # Errors
/// Names the invalid header.
pub fn headers<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<HeaderMap, SettingsError> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let text = || format!("header `{name}` holds characters that no header may hold");
        let wrong = || SettingsError::new(text());
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}

/// Encoding and transport of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP/gRPC.
    Grpc,
    /// OTLP/HTTP with protobuf bodies.
    HttpProtobuf,
    /// OTLP/HTTP with JSON bodies.
    HttpJson,
}

/// Compression of request bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// gzip, which every OTLP backend supports.
    Gzip,
    /// zstd, which uses less processor time, for backends that support it.
    Zstd,
    /// No compression.
    None,
}

impl Compression {
    /// Returns the content coding of compressed bodies.
    pub fn coding(self) -> Option<ContentCoding> {
        match self {
            Self::Gzip => Some(ContentCoding::Gzip),
            Self::Zstd => Some(ContentCoding::Zstd),
            Self::None => None,
        }
    }
}
