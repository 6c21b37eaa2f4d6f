//! OTLP/gRPC: encoded requests over one HTTP/2 connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::Status;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};

use super::answer::{ExportOutcome, SendError, short};
use super::http::USER_AGENT;
use super::settings::{ClientSettings, Compression, Protocol, TlsSettings};
use super::withheld::Withheld;
use crate::tls::{ClientTls, TlsError, remedy};
use spanscore_base::otlp::Signal;
use spanscore_base::settings::Address;

/// Interval of pings while a request waits, to detect a lost peer.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Default port of an address with TLS.
const HTTPS_PORT: u16 = 443;

/// OTLP/gRPC client of one backend.
pub(super) struct GrpcClient {
    grpc: tonic::client::Grpc<Channel>,
    headers: MetadataMap,
    timeout: Duration,
    withheld: Withheld,
}

impl GrpcClient {
    /// Returns a client that connects with the first request, and again after a lost connection.
    pub(super) fn new(uri: Uri, settings: &ClientSettings) -> Result<Self, String> {
        Ok(Self::over(Dial::new(uri, settings)?.lazily(), settings))
    }

    /// Returns a client after connecting.
    pub(super) async fn connect(uri: Uri, settings: &ClientSettings) -> Result<Self, String> {
        let channel = Dial::new(uri, settings)?.now().await?;
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
        let withheld = Withheld::of(&settings.headers, &settings.endpoint);
        Self { grpc, headers, timeout: settings.timeout, withheld }
    }

    /// Sends one encoded request.
    pub(super) async fn send(
        &self,
        signal: Signal,
        body: Bytes,
    ) -> Result<ExportOutcome, SendError> {
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
            Ok(Ok(response)) => {
                ExportOutcome::from_protobuf(&response.into_inner(), &self.withheld)
            }
            Ok(Err(status)) => Err(SendError::from_grpc(&self.withheld.without_status(status))),
            Err(_) => Err(SendError::Retryable {
                after: None,
                error: format!("no answer within {:?}", self.timeout),
            }),
        }
    }
}

/// Returns a channel for services beside OTLP, which connects with the first request and again
/// after a lost connection. `uri` has a scheme; `https` means TLS.
pub fn channel(uri: Uri, timeout: Duration, tls: &TlsSettings) -> Result<Channel, String> {
    super::use_cryptography();
    let settings = ClientSettings {
        protocol: Protocol::Grpc,
        endpoint: Address::default(),
        headers: http::HeaderMap::new(),
        compression: Compression::None,
        timeout,
        tls: tls.clone(),
    };
    Ok(Dial::new(uri, &settings)?.lazily())
}

/// Target of a connection, with TLS if the address asks for it.
struct Dial {
    endpoint: Endpoint,
    tls: Option<(ClientTls, ServerName<'static>)>,
}

impl Dial {
    fn new(uri: Uri, settings: &ClientSettings) -> Result<Self, String> {
        let is_secure = uri.scheme_str() == Some("https");
        // For TLS the channel connects to the plain address, and `connect` adds TLS. The origin of
        // requests is still the address with TLS.
        let builder = if is_secure {
            Channel::builder(plain(&uri)).origin(uri.clone())
        } else {
            Channel::builder(uri.clone())
        };
        let endpoint = builder
            .connect_timeout(settings.timeout)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .user_agent(USER_AGENT)
            .map_err(|error| error.to_string())?;
        let text = |error: TlsError| error.to_string();
        let tls = if is_secure {
            let tls = ClientTls::new(&settings.tls, &["h2"]).map_err(text)?;
            let name = tls.name_of(uri.host().unwrap_or_default()).map_err(text)?;
            Some((tls, name))
        } else {
            None
        };
        Ok(Self { endpoint, tls })
    }

    fn lazily(self) -> Channel {
        match self.tls {
            None => self.endpoint.connect_lazy(),
            Some((tls, name)) => {
                let connect = move |uri| connect(uri, tls.clone(), name.clone());
                self.endpoint.connect_with_connector_lazy(tower::service_fn(connect))
            }
        }
    }

    async fn now(self) -> Result<Channel, String> {
        let connected = match self.tls {
            None => self.endpoint.connect().await,
            Some((tls, name)) => {
                let connect = move |uri| connect(uri, tls.clone(), name.clone());
                self.endpoint.connect_with_connector(tower::service_fn(connect)).await
            }
        };
        connected.map_err(chain)
    }
}

/// Returns the address without TLS.
fn plain(uri: &Uri) -> Uri {
    let host = uri.host().unwrap_or_default();
    let address = format!("http://{host}:{}", uri.port_u16().unwrap_or(HTTPS_PORT));
    address.parse().unwrap_or_default()
}

/// Opens a TLS stream to an address.
async fn connect(
    uri: Uri,
    tls: ClientTls,
    name: ServerName<'static>,
) -> std::io::Result<TokioIo<TlsStream<TcpStream>>> {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(HTTPS_PORT))).await?;
    stream.set_nodelay(true)?;
    let connector = TlsConnector::from(Arc::clone(tls.config()));
    connector.connect(name, stream).await.map(TokioIo::new)
}

/// Returns an error with its causes, truncated, and with a remedy if a certificate was refused.
pub fn chain(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    match remedy(&text) {
        Some(remedy) => format!("{}; {remedy}", short(&text)),
        None => short(&text),
    }
}

/// Codec for messages and answers that stay encoded.
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
