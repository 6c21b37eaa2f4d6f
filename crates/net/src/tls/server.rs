//! TLS of a listener.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, RootCertStore, ServerConfig};
use strum::{IntoStaticStr, VariantArray};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::pem::{KeyPair, Pem, TlsError, versions};
use super::reread::{Changed, Reread};
use spanscore_base::settings::tls::ListenerTlsSettings;

/// Connection under TLS.
pub type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

/// TLS of a listener, with certificates that are reloaded at run time.
pub struct ServerTls {
    settings: ListenerTlsSettings,
    /// Name of the listener, for people.
    listener: &'static str,
    alpn: Vec<Vec<u8>>,
    current: RwLock<LoadedServer>,
}

struct LoadedServer {
    material: ServerMaterial,
    config: Arc<ServerConfig>,
}

/// Content of the files.
#[derive(PartialEq, Eq)]
struct ServerMaterial {
    pair: KeyPair,
    client_authorities: Option<Pem>,
}

impl ServerTls {
    /// Reads the files. `listener` names it in logs and counters; `alpn` lists its protocols, the
    /// preferred one first.
    ///
    /// # Errors
    /// The first unusable file or setting, and its fault.
    pub fn new(
        settings: ListenerTlsSettings,
        listener: &'static str,
        alpn: &[&str],
    ) -> Result<Self, TlsError> {
        let alpn: Vec<_> = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let material = ServerMaterial::read(&settings)?;
        let config = material.config(&settings, &alpn)?;
        let current = RwLock::new(LoadedServer { material, config });
        Ok(Self { settings, listener, alpn, current })
    }

    /// Performs the handshake with a peer. The caller sets a timeout.
    ///
    /// # Errors
    /// Cause of a failed handshake.
    pub async fn accept(&self, stream: TcpStream) -> Result<TlsStream, HandshakeFailure> {
        let config = {
            let current = self.current.read();
            Arc::clone(&current.config)
        };
        let accepting = TlsAcceptor::from(config).accept(stream);
        accepting.await.map_err(|error| HandshakeFailure::of(&error))
    }
}

impl Reread for ServerTls {
    fn name(&self) -> &'static str {
        self.listener
    }

    fn interval(&self) -> Duration {
        self.settings.reload_interval.0
    }

    fn reread(&self) -> Result<Changed, String> {
        let material = ServerMaterial::read(&self.settings).map_err(|error| error.to_string())?;
        let is_known = {
            let current = self.current.read();
            current.material == material
        };
        if is_known {
            return Ok(Changed::No);
        }
        let config = material.config(&self.settings, &self.alpn).map_err(|e| e.to_string())?;
        let mut current = self.current.write();
        *current = LoadedServer { material, config };
        Ok(Changed::Yes)
    }
}

impl ServerMaterial {
    fn read(settings: &ListenerTlsSettings) -> Result<Self, TlsError> {
        let missing = |what: &str| TlsError::NoCertificate { what: format!("`{what}`") };
        let cert =
            Pem::read(settings.cert_file.as_deref(), settings.cert_pem.as_deref(), "cert_pem")?;
        let key_pem = settings.key_pem.as_ref().map(|key| key.reveal());
        let key = Pem::read(settings.key_file.as_deref(), key_pem, "key_pem")?;
        let client_authorities = Pem::read(
            settings.client_ca_file.as_deref(),
            settings.client_ca_pem.as_deref(),
            "client_ca_pem",
        )?;
        let cert = cert.ok_or_else(|| missing("cert_file"))?;
        let key = key.ok_or_else(|| missing("key_file"))?;
        Ok(Self { pair: KeyPair { cert, key }, client_authorities })
    }

    fn config(
        &self,
        settings: &ListenerTlsSettings,
        alpn: &[Vec<u8>],
    ) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = super::provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions(settings.min_version))
            .map_err(TlsError::Setup)?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                authorities.add_to(&mut roots)?;
                let roots = Arc::new(roots);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
                builder.with_client_cert_verifier(verifier.build().map_err(|error| {
                    let what = authorities.what().to_owned();
                    TlsError::Authorities { what, error: error.to_string() }
                })?)
            }
        };
        let certified = Arc::new(self.pair.certified(&provider)?);
        let mut config =
            builder.with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
        config.alpn_protocols = alpn.to_vec();
        // A resumed session would outlive a change of the clients' authorities.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

/// Cause of a failed handshake: a closed set, for counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum HandshakeFailure {
    /// The peer does not speak TLS, but mostly plain text.
    NotTls,
    /// There is no common version or cipher.
    Incompatible,
    /// The peer sent no certificate, but one is required.
    NoCertificate,
    /// Its certificate has expired, or is not yet valid.
    ExpiredCertificate,
    /// Its certificate has another authority, or another purpose.
    UnknownCertificate,
    /// The peer refused our certificate, or sent another alert.
    RefusedByPeer,
    /// The peer closed the connection.
    Gone,
    /// The handshake did not end in time.
    Timeout,
    /// Too many other handshakes were in progress.
    Crowded,
    /// Any other cause.
    Other,
}

impl HandshakeFailure {
    /// All causes, in the order of declaration.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the value of the counters' `reason`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    fn of(error: &io::Error) -> Self {
        use rustls::Error as E;
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        match cause {
            Some(E::InvalidMessage(_)) => Self::NotTls,
            Some(E::PeerIncompatible(_) | E::InappropriateHandshakeMessage { .. }) => {
                Self::Incompatible
            }
            Some(E::NoCertificatesPresented) => Self::NoCertificate,
            Some(E::InvalidCertificate(why)) => match why {
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => Self::ExpiredCertificate,
                _ => Self::UnknownCertificate,
            },
            Some(E::AlertReceived(_)) => Self::RefusedByPeer,
            Some(_) => Self::Other,
            None => Self::Gone,
        }
    }
}
