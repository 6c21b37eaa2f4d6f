//! TLS of a listener.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::pem::{KeyPair, Pem, TlsError, versions};
use super::reread::{Changed, Reread};
use super::settings::ListenerTlsSettings;

/// A connection under TLS.
pub type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

/// TLS of a listener: certificates that are read again while it listens.
pub struct ServerTls {
    settings: ListenerTlsSettings,
    /// The listener, for people.
    listener: &'static str,
    alpn: Vec<Vec<u8>>,
    current: RwLock<LoadedServer>,
}

struct LoadedServer {
    material: ServerMaterial,
    config: Arc<ServerConfig>,
}

/// What the files hold.
#[derive(PartialEq, Eq)]
struct ServerMaterial {
    pair: KeyPair,
    client_authorities: Option<Pem>,
}

impl ServerTls {
    /// Reads the files. `listener` names it in logs and counters; `alpn` are the protocols that it
    /// speaks, the preferred one first.
    ///
    /// # Errors
    /// Which file or setting cannot be used, and why.
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

    /// Greets a peer; how long it may take is for the caller to say.
    ///
    /// # Errors
    /// Why the peer is not let in.
    pub async fn accept(&self, stream: TcpStream) -> Result<TlsStream, HandshakeFailure> {
        let config = {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
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
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            current.material == material
        };
        if is_known {
            return Ok(Changed::No);
        }
        let config = material.config(&self.settings, &self.alpn).map_err(|e| e.to_string())?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
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
        // A session of before would outlive a change of the senders' authorities.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

/// Why a peer was not let in: a closed set, for counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandshakeFailure {
    /// What it sent is no TLS: plain text, mostly.
    NotTls,
    /// It speaks no version or cipher that is spoken here.
    Incompatible,
    /// It showed no certificate where one is asked for.
    NoCertificate,
    /// Its certificate has expired, or does not hold yet.
    ExpiredCertificate,
    /// Its certificate is of another authority, or not for this use.
    UnknownCertificate,
    /// It does not take the certificate that it was shown, or left for another reason of its own.
    RefusedByPeer,
    /// It went away.
    Gone,
    /// It did not come to the end of the greeting in time.
    Timeout,
    /// Too many others were greeted at the same time.
    Crowded,
    /// Anything else.
    Other,
}

impl HandshakeFailure {
    /// All, in the order of declaration.
    pub const ALL: [Self; 10] = [
        Self::NotTls,
        Self::Incompatible,
        Self::NoCertificate,
        Self::ExpiredCertificate,
        Self::UnknownCertificate,
        Self::RefusedByPeer,
        Self::Gone,
        Self::Timeout,
        Self::Crowded,
        Self::Other,
    ];

    /// The value of the counters' `reason`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotTls => "not_tls",
            Self::Incompatible => "incompatible",
            Self::NoCertificate => "no_certificate",
            Self::ExpiredCertificate => "expired_certificate",
            Self::UnknownCertificate => "unknown_certificate",
            Self::RefusedByPeer => "refused_by_peer",
            Self::Gone => "gone",
            Self::Timeout => "timeout",
            Self::Crowded => "crowded",
            Self::Other => "other",
        }
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
