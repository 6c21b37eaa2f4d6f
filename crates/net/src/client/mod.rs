//! OTLP client: sends an encoded request over gRPC or HTTP, and interprets the answer.
//!
//! A call sends once. Callers decide about retries: an exporter retries for minutes by its
//! settings, `spanscore send` a few times.

mod answer;
mod connection;
mod endpoint;
mod grpc;
mod http;
pub mod retry;
mod settings;
mod withheld;

use bytes::Bytes;

pub use self::http::{http_client, read_body};
pub use answer::{ExportOutcome, SendError};
pub use answer::{retry_after, short};
pub use connection::Connection;
pub use grpc::{chain, channel};
pub use settings::{ClientSettings, Compression, Protocol, TlsSettings, check_endpoint, headers};
pub use withheld::Withheld;

use endpoint::Endpoint;
use spanscore_base::otlp::Signal;

/// OTLP client of one backend.
pub struct Client(Carrier);

enum Carrier {
    Grpc(Box<grpc::GrpcClient>),
    Http(http::HttpClient),
}

impl Client {
    /// Prepares a client without connecting.
    ///
    /// # Errors
    /// A fault of the settings, or of a file that they name.
    pub fn new(settings: &ClientSettings) -> Result<Self, String> {
        use_cryptography();
        Ok(Self(match settings.resolve().map_err(|error| error.to_string())? {
            Endpoint::Grpc(uri) => Carrier::Grpc(Box::new(grpc::GrpcClient::new(uri, settings)?)),
            Endpoint::Http(base) => Carrier::Http(http::HttpClient::new(&base, settings)?),
        }))
    }

    /// Returns a client that is connected if requests share one connection, as over gRPC.
    ///
    /// # Errors
    /// Those of [`Client::new`], and the cause of a failed connection.
    pub async fn connect(settings: &ClientSettings) -> Result<Self, String> {
        use_cryptography();
        match settings.resolve().map_err(|error| error.to_string())? {
            Endpoint::Grpc(uri) => {
                Ok(Self(Carrier::Grpc(Box::new(grpc::GrpcClient::connect(uri, settings).await?))))
            }
            Endpoint::Http(_) => Self::new(settings),
        }
    }

    /// Prepares an encoded request for [`Client::send`]: compressed, unless the connection does
    /// that.
    pub fn prepare(&self, request: impl Into<Bytes>) -> Bytes {
        match &self.0 {
            Carrier::Grpc(_) => request.into(),
            Carrier::Http(client) => client.compress(request.into()),
        }
    }

    /// Returns true if the backend also takes JSON requests and bodies compressed by others, as
    /// over HTTP.
    pub fn takes_bodies(&self) -> bool {
        matches!(&self.0, Carrier::Http(_))
    }

    /// Sends a prepared request once.
    ///
    /// # Errors
    /// The reason of the refusal, and if a retry may succeed.
    pub async fn send(&self, signal: Signal, request: Bytes) -> Result<ExportOutcome, SendError> {
        match &self.0 {
            Carrier::Grpc(client) => client.send(signal, request).await,
            Carrier::Http(client) => client.send(signal, request).await,
        }
    }

    /// Sends a prepared JSON request once, if the backend [takes](Self::takes_bodies) it.
    ///
    /// # Errors
    /// The reason of the refusal, and if a retry may succeed.
    pub async fn send_json(
        &self,
        signal: Signal,
        request: Bytes,
    ) -> Result<ExportOutcome, SendError> {
        match &self.0 {
            Carrier::Grpc(_) => Err(SendError::Refused("gRPC takes no JSON".to_owned())),
            Carrier::Http(client) => client.send_as(signal, request, http::JSON).await,
        }
    }
}

/// Client of a JSON interface over HTTP.
pub struct JsonClient(http::HttpClient);

impl JsonClient {
    /// Prepares a client without connecting; ignores the protocol of the settings.
    ///
    /// # Errors
    /// A fault of the settings, or of a file that they name.
    pub fn new(settings: &ClientSettings) -> Result<Self, String> {
        use_cryptography();
        let settings = ClientSettings { protocol: Protocol::HttpJson, ..settings.clone() };
        match settings.resolve().map_err(|error| error.to_string())? {
            Endpoint::Http(base) => Ok(Self(http::HttpClient::new(&base, &settings)?)),
            Endpoint::Grpc(_) => Err("this endpoint is not HTTP".to_owned()),
        }
    }

    /// Sends a JSON text to a path below the endpoint once, and returns the first bytes of the
    /// answer.
    ///
    /// # Errors
    /// The reason of the refusal, and if a retry may succeed.
    pub async fn send(
        &self,
        method: ::http::Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<Vec<u8>, SendError> {
        let body = self.0.compress(body.into());
        self.0.request(method, path, body, http::JSON).await.map(|(_, body)| body)
    }
}

/// Sets the cryptography of TLS for the process, unless it is set.
pub fn use_cryptography() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
