//! OTLP/HTTP with protobuf bodies.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Certificate, Identity, redirect};

use super::answer;
use super::grpc::{chain, headers, read};
use crate::emit::retry::AttemptError;
use crate::emit::settings::{Compression, OtlpSettings, TlsSettings};
use crate::otlp::Signal;

/// What backends see as our name.
pub(super) const USER_AGENT: &str = concat!("spanscore/", env!("CARGO_PKG_VERSION"));

/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A client of one backend.
pub(super) struct Client {
    http: reqwest::Client,
    logs: String,
    traces: String,
    metrics: String,
    compression: Compression,
}

impl Client {
    pub(super) fn new(base: &str, settings: &OtlpSettings) -> Result<Self, String> {
        let builder = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .default_headers(headers(settings)?)
            .timeout(settings.timeout.0)
            .redirect(redirect::Policy::none());
        let http = tls(builder, &settings.tls)?.build().map_err(chain)?;
        Ok(Self {
            http,
            logs: format!("{base}/v1/logs"),
            traces: format!("{base}/v1/traces"),
            metrics: format!("{base}/v1/metrics"),
            compression: settings.compression,
        })
    }

    /// The body as it travels.
    pub(super) fn compress(&self, body: Vec<u8>) -> Bytes {
        match self.compression {
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
                // Writing to memory cannot fail.
                let _ = encoder.write_all(&body);
                encoder.finish().unwrap_or_default().into()
            }
            Compression::Zstd => zstd::bulk::compress(&body, 1).unwrap_or_default().into(),
            Compression::None => body.into(),
        }
    }

    /// Sends one encoded and compressed request; the encoded response.
    pub(super) async fn send(&self, signal: Signal, body: Bytes) -> Result<Bytes, AttemptError> {
        let url = match signal {
            Signal::Logs => &self.logs,
            Signal::Traces => &self.traces,
            Signal::Metrics => &self.metrics,
        };
        let mut request =
            self.http.post(url).header(CONTENT_TYPE, "application/x-protobuf").body(body);
        request = match self.compression {
            Compression::Gzip => request.header(CONTENT_ENCODING, "gzip"),
            Compression::Zstd => request.header(CONTENT_ENCODING, "zstd"),
            Compression::None => request,
        };
        let transport = |error: reqwest::Error| AttemptError::Retryable {
            after: None,
            error: answer::short(&chain(error.without_url())),
        };
        let mut response = request.send().await.map_err(transport)?;
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after = after.and_then(|value| answer::retry_after(value, unix_seconds()));
        let mut body = Vec::new();
        while body.len() < ANSWER_BYTES_MAX
            && let Some(chunk) = response.chunk().await.map_err(transport)?
        {
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(body.into());
        }
        Err(answer::from_http(status.as_u16(), after, &body))
    }
}

fn tls(
    mut builder: reqwest::ClientBuilder,
    settings: &TlsSettings,
) -> Result<reqwest::ClientBuilder, String> {
    if let Some(file) = &settings.ca_file {
        let authorities = Certificate::from_pem_bundle(&read(file)?)
            .map_err(|error| format!("`{file}` holds no certificates: {}", chain(error)))?;
        builder = builder.tls_certs_only(authorities);
    }
    if let (Some(cert), Some(key)) = (&settings.cert_file, &settings.key_file) {
        let mut pem = read(cert)?;
        pem.push(b'\n');
        pem.extend(read(key)?);
        let identity = Identity::from_pem(&pem).map_err(|error| {
            format!("`{cert}` and `{key}` do not go together: {}", chain(error))
        })?;
        builder = builder.identity(identity);
    }
    Ok(builder)
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
