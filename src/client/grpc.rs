//! OTLP/gRPC: encoded requests over one HTTP/2 connection.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::Uri;
use http::uri::PathAndQuery;
use tonic::Status;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::answer::{SendError, Taken};
use super::http::USER_AGENT;
use super::settings::{ClientSettings, Compression, TlsSettings};
use crate::otlp::Signal;

/// Time between pings while a request waits, so that a peer that is gone is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A client of one backend.
pub(super) struct GrpcClient {
    grpc: tonic::client::Grpc<Channel>,
    headers: MetadataMap,
    timeout: Duration,
}

impl GrpcClient {
    /// Connects with the first request, and again when the connection is lost.
    pub(super) fn new(uri: Uri, settings: &ClientSettings) -> Result<Self, String> {
        Ok(Self::over(endpoint(uri, settings)?.connect_lazy(), settings))
    }

    /// Connects now.
    pub(super) async fn connect(uri: Uri, settings: &ClientSettings) -> Result<Self, String> {
        let channel = endpoint(uri, settings)?.connect().await.map_err(chain)?;
        Ok(Self::over(channel, settings))
    }

    fn over(channel: Channel, settings: &ClientSettings) -> Self {
        let grpc = tonic::client::Grpc::new(channel)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd);
        let grpc = match settings.compression {
            Compression::Gzip => grpc.send_compressed(CompressionEncoding::Gzip),
            Compression::Zstd => grpc.send_compressed(CompressionEncoding::Zstd),
            Compression::None => grpc,
        };
        let headers = MetadataMap::from_headers(settings.headers.clone());
        Self { grpc, headers, timeout: settings.timeout }
    }

    /// Sends one encoded request.
    pub(super) async fn send(&self, signal: Signal, body: Bytes) -> Result<Taken, SendError> {
        let path = PathAndQuery::from_static(signal.grpc_path());
        let mut request = tonic::Request::new(body);
        *request.metadata_mut() = self.headers.clone();
        request.set_timeout(self.timeout);
        let mut grpc = self.grpc.clone();
        let call = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.unary(request, path, RawCodec).await
        };
        match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(response)) => Taken::from_protobuf(&response.into_inner()),
            Ok(Err(status)) => Err(SendError::from_grpc(&status)),
            Err(_) => Err(SendError::Retryable {
                after: None,
                error: format!("no answer within {:?}", self.timeout),
            }),
        }
    }
}

fn endpoint(uri: Uri, settings: &ClientSettings) -> Result<Endpoint, String> {
    let secure = uri.scheme_str() == Some("https");
    let endpoint = Channel::builder(uri)
        .connect_timeout(settings.timeout)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .user_agent(USER_AGENT)
        .map_err(|error| error.to_string())?;
    if secure { endpoint.tls_config(tls(&settings.tls)?).map_err(chain) } else { Ok(endpoint) }
}

fn tls(settings: &TlsSettings) -> Result<ClientTlsConfig, String> {
    let mut config = ClientTlsConfig::new();
    config = match &settings.ca_file {
        Some(file) => config.ca_certificate(Certificate::from_pem(read(file)?)),
        None => config.with_native_roots(),
    };
    if let (Some(cert), Some(key)) = (&settings.cert_file, &settings.key_file) {
        config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    if let Some(name) = &settings.server_name_override {
        config = config.domain_name(name);
    }
    Ok(config)
}

/// Reads a file that the settings name.
pub(super) fn read(file: &str) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("cannot read `{file}`: {error}"))
}

/// An error with its causes.
pub(crate) fn chain(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Messages that are encoded already, and answers that stay so.
#[derive(Clone, Copy)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
