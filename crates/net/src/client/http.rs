//! OTLP/HTTP with protobuf or JSON bodies.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method};
use reqwest::redirect;

use super::answer::{self, ExportOutcome, SendError};
use super::grpc::chain;
use super::settings::{ClientSettings, Compression, Protocol, TlsSettings};
use super::withheld::Withheld;
use crate::tls::ClientTls;
use spanscore_base::otlp::Signal;
use spanscore_base::settings::Address;

/// User agent of all requests, gRPC and HTTP.
pub(super) const USER_AGENT: &str = concat!("spanscore/", env!("CARGO_PKG_VERSION"));

/// The content type of requests in JSON.
pub(super) const JSON: &str = "application/json";

/// Largest part of an answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// OTLP/HTTP client of one backend.
pub(super) struct HttpClient {
    http: reqwest::Client,
    /// Without a trailing slash.
    base: String,
    content_type: &'static str,
    compression: Compression,
    withheld: Withheld,
}

impl HttpClient {
    pub(super) fn new(base: &str, settings: &ClientSettings) -> Result<Self, String> {
        let headers = settings.headers.clone();
        let http = http_client(base, &settings.tls, headers, settings.timeout)?;
        let content_type = match settings.protocol {
            Protocol::HttpJson => JSON,
            Protocol::HttpProtobuf | Protocol::Grpc => "application/x-protobuf",
        };
        let withheld = Withheld::of(&settings.headers, &settings.endpoint);
        let base = base.to_owned();
        let compression = settings.compression;
        Ok(Self { http, base, content_type, compression, withheld })
    }

    /// Returns the body in the configured compression.
    pub(super) fn compress(&self, body: Bytes) -> Bytes {
        match self.compression {
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
                // Writing to memory cannot fail.
                let _ = encoder.write_all(&body);
                encoder.finish().unwrap_or_default().into()
            }
            Compression::Zstd => zstd::bulk::compress(&body, 1).unwrap_or_default().into(),
            Compression::None => body,
        }
    }

    /// Sends one encoded and compressed request.
    pub(super) async fn send(
        &self,
        signal: Signal,
        body: Bytes,
    ) -> Result<ExportOutcome, SendError> {
        self.send_as(signal, body, self.content_type).await
    }

    /// Sends the request with this content type.
    pub(super) async fn send_as(
        &self,
        signal: Signal,
        body: Bytes,
        content_type: &str,
    ) -> Result<ExportOutcome, SendError> {
        let path = signal.http_path();
        let (is_json, body) = self.request(Method::POST, path, body, content_type).await?;
        if is_json {
            ExportOutcome::from_json(signal, &body, &self.withheld)
        } else {
            ExportOutcome::from_protobuf(&body, &self.withheld)
        }
    }

    /// Sends a body to a path below the base address. Returns true if the answer is JSON, and its
    /// first bytes.
    pub(super) async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        content_type: &str,
    ) -> Result<(bool, Vec<u8>), SendError> {
        let url = format!("{}{path}", self.base);
        let request = self.http.request(method.clone(), url);
        let mut request = request.header(CONTENT_TYPE, content_type).body(body);
        request = match self.compression {
            Compression::Gzip => request.header(CONTENT_ENCODING, "gzip"),
            Compression::Zstd => request.header(CONTENT_ENCODING, "zstd"),
            Compression::None => request,
        };
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let after = header(RETRY_AFTER).and_then(answer::retry_after);
        let is_json = header(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
        let mut body = Vec::new();
        while body.len() < ANSWER_BYTES_MAX
            && let Some(chunk) = response.chunk().await.map_err(broken)?
        {
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok((is_json, body));
        }
        // An HTML page adds nothing to the status.
        let is_page = body.trim_ascii_start().starts_with(b"<");
        let body = if is_page { &[][..] } else { &body };
        let error = SendError::from_http(status.as_u16(), after, (body, is_json), &self.withheld);
        Err(self.placed(error, (&method, path), status.as_u16()))
    }

    /// Adds the address and a remedy to an error that may come from a wrong address.
    fn placed(&self, error: SendError, (method, path): (&Method, &str), status: u16) -> SendError {
        let Some(remedy) = answer::remedy(status) else { return error };
        let place = self.place(path);
        let placed = |text: String| {
            format!("{} ({method} {place}); {remedy}", text.trim_end_matches([':', ' ']))
        };
        match error {
            SendError::Refused(text) => SendError::Refused(placed(text)),
            SendError::Retryable { after, error } => {
                SendError::Retryable { after, error: placed(error) }
            }
            other => other,
        }
    }

    /// Returns the redacted address of a path.
    fn place(&self, path: &str) -> String {
        answer::short(&format!("{}{path}", Address::from(self.base.as_str())))
    }
}

/// Builds a client for one address, which follows no redirect.
///
/// # Errors
/// A fault of a setting, or of a file that it names.
pub fn http_client(
    address: &str,
    tls: &TlsSettings,
    headers: HeaderMap,
    timeout: Duration,
) -> Result<reqwest::Client, String> {
    let tls = ClientTls::config_for(address, tls, &["h2", "http/1.1"]);
    reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .default_headers(headers)
        .timeout(timeout)
        .redirect(redirect::Policy::none())
        .tls_backend_preconfigured(tls.map_err(|error| error.to_string())?)
        .build()
        .map_err(chain)
}

/// Reads a body; `None` if it is longer than `bytes_max`.
///
/// # Errors
/// The connection breaks.
pub async fn read_body(
    mut response: reqwest::Response,
    bytes_max: usize,
) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > bytes_max {
            return Ok(None);
        }
    }
    Ok(Some(body))
}

/// Converts a connection failure.
fn broken(error: reqwest::Error) -> SendError {
    let is_unreachable = error.is_connect() || error.is_builder();
    let error = chain(error.without_url());
    if is_unreachable {
        SendError::Unreachable(error)
    } else {
        SendError::Retryable { after: None, error }
    }
}
