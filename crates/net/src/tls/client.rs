//! TLS of a client.
//!
//! One `rustls` configuration serves all connections of a client. It looks up the authorities and
//! the client's certificate for each connection. They are reloaded at a new connection after
//! [`TlsSettings::reload_interval`].

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::pem::{KeyPair, Pem, TlsError, versions};
use spanscore_base::settings::tls::TlsSettings;

/// TLS of a client, with certificates that are reloaded while it runs.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// Reads the files; `alpn` lists the client's protocols.
    ///
    /// # Errors
    /// The first unusable file or setting, and its fault.
    pub fn new(settings: &TlsSettings, alpn: &[&str]) -> Result<Self, TlsError> {
        let provider = super::provider();
        let name = settings.server_name_override.as_deref().map(server_name).transpose()?;
        let material = ClientMaterial::read(settings)?;
        let trust = Arc::new(ClientTrust {
            current: Mutex::new(LoadedClient {
                trusted: material.load(settings, &provider)?,
                material,
                looked_at: Instant::now(),
            }),
            settings: settings.clone(),
            name: name.clone(),
            provider: Arc::clone(&provider),
        });
        let verifier = Arc::clone(&trust) as Arc<dyn ServerCertVerifier>;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions(settings.min_version))
            .map_err(TlsError::Setup)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = builder.with_client_cert_resolver(trust);
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        // A resumed session would outlive a change of the authorities.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self { config: Arc::new(config), name })
    }

    /// Returns the configuration of an HTTP client of one address. For a plain address it trusts no
    /// authority and reads no file, so it also works on a machine without authorities.
    ///
    /// # Errors
    /// Those of [`ClientTls::new`].
    pub fn config_for(
        url: &str,
        settings: &TlsSettings,
        alpn: &[&str],
    ) -> Result<ClientConfig, TlsError> {
        if url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
            return Self::new(settings, alpn).map(|tls| tls.config.as_ref().clone());
        }
        let builder = ClientConfig::builder_with_provider(super::provider())
            .with_protocol_versions(versions(settings.min_version))
            .map_err(TlsError::Setup)?;
        Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
    }

    /// Returns the configuration, for clients that open connections themselves.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Returns the expected certificate name of a server at `host`.
    ///
    /// # Errors
    /// If the host is not a valid name.
    pub fn name_of(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => server_name(host.trim_start_matches('[').trim_end_matches(']')),
        }
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::ServerName(name.to_owned()))
}

/// Content of the files.
#[derive(PartialEq, Eq)]
struct ClientMaterial {
    authorities: Option<Pem>,
    pair: Option<KeyPair>,
}

impl ClientMaterial {
    fn read(settings: &TlsSettings) -> Result<Self, TlsError> {
        let authorities =
            Pem::read(settings.ca_file.as_deref(), settings.ca_pem.as_deref(), "ca_pem")?;
        let cert =
            Pem::read(settings.cert_file.as_deref(), settings.cert_pem.as_deref(), "cert_pem")?;
        let key_pem = settings.key_pem.as_ref().map(|key| key.reveal());
        let key = Pem::read(settings.key_file.as_deref(), key_pem, "key_pem")?;
        let pair = cert.zip(key).map(|(cert, key)| KeyPair { cert, key });
        Ok(Self { authorities, pair })
    }

    fn load(
        &self,
        settings: &TlsSettings,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Trusted, TlsError> {
        let identity = self.pair.as_ref().map(|pair| pair.certified(provider)).transpose()?;
        let identity = identity.map(Arc::new);
        if settings.insecure_skip_verify {
            return Ok(Trusted { verifier: None, identity });
        }
        let mut roots = RootCertStore::empty();
        if let Some(authorities) = &self.authorities {
            authorities.add_to(&mut roots)?;
        }
        if self.authorities.is_none() || settings.include_system_ca_certs_pool {
            // Some system authorities may be unreadable; the others still count.
            let system = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(system.certs);
        }
        if roots.is_empty() {
            let error = "the system has none; name them in `ca_file`".to_owned();
            return Err(TlsError::Authorities { what: "the system".to_owned(), error });
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let verifier = verifier.build().map_err(|error| {
            let what = "`ca_file`".to_owned();
            TlsError::Authorities { what, error: error.to_string() }
        })?;
        Ok(Trusted { verifier: Some(verifier), identity })
    }
}

/// Trusted authorities and certificate of a client.
#[derive(Clone)]
struct Trusted {
    /// Verifier of servers; `None` trusts any.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    identity: Option<Arc<CertifiedKey>>,
}

struct LoadedClient {
    material: ClientMaterial,
    trusted: Trusted,
    looked_at: Instant,
}

/// Verifier and certificate resolver of a client, reloaded from the files.
struct ClientTrust {
    settings: TlsSettings,
    name: Option<ServerName<'static>>,
    provider: Arc<CryptoProvider>,
    current: Mutex<LoadedClient>,
}

impl ClientTrust {
    fn now(&self) -> Trusted {
        let mut current = self.current.lock();
        let interval = self.settings.reload_interval.0;
        if interval > Duration::ZERO && current.looked_at.elapsed() >= interval {
            current.looked_at = Instant::now();
            self.reread(&mut current);
        }
        current.trusted.clone()
    }

    fn reread(&self, current: &mut LoadedClient) {
        let material = match ClientMaterial::read(&self.settings) {
            Ok(material) if material == current.material => return,
            read => read,
        };
        let loaded = material
            .and_then(|material| Ok((material.load(&self.settings, &self.provider)?, material)));
        match loaded {
            Ok((trusted, material)) => {
                tracing::info!("certificates of a client were read again");
                *current = LoadedClient { material, trusted, looked_at: current.looked_at };
            }
            Err(error) => {
                tracing::error!(%error, "certificates of a client stay as they were");
            }
        }
    }
}

/// Hides the settings and certificates.
impl fmt::Debug for ClientTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTrust")
    }
}

impl ServerCertVerifier for ClientTrust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(verifier) = self.now().verifier else {
            return Ok(ServerCertVerified::assertion());
        };
        let name = self.name.as_ref().unwrap_or(server_name);
        verifier.verify_server_cert(end_entity, intermediates, name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl rustls::client::ResolvesClientCert for ClientTrust {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let identity = self.now().identity?;
        identity.key.choose_scheme(schemes).map(|_| identity)
    }

    fn has_certs(&self) -> bool {
        self.current.lock().trusted.identity.is_some()
    }
}
