//! Certificates and keys in PEM, from a file or from the settings.

use std::io::{self, Read as _};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::remedy::remedy;
use spanscore_base::settings::Secret;
use spanscore_base::settings::tls::TlsVersion;

/// Largest PEM file, bytes: a bundle of all public authorities is a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Error of unusable certificates or keys. Its text never shows a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read `{path}`: {error}")]
    Read {
        /// The file.
        path: String,
        /// Error of the system.
        error: io::Error,
    },
    /// It holds no certificate, or a broken one.
    #[error("{what} holds no certificate in PEM")]
    NoCertificate {
        /// The file or the setting.
        what: String,
    },
    /// It holds no private key, or a broken one.
    #[error("{what} holds no private key in PEM that can be used")]
    NoKey {
        /// The file or the setting.
        what: String,
    },
    /// Certificate and key do not match.
    #[error("{cert} and {key} do not match: {error}")]
    Pair {
        /// File or setting of the certificate.
        cert: String,
        /// File or setting of the key.
        key: String,
        /// Fault of the pair.
        error: rustls::Error,
    },
    /// No peer accepts the certificate's form.
    #[error("{cert} cannot be used: {remedy}")]
    Form {
        /// File or setting of the certificate.
        cert: String,
        /// Fault of the certificate, with its remedy.
        remedy: &'static str,
    },
    /// The authorities are unusable.
    #[error("{what} holds no authority that can be used: {error}")]
    Authorities {
        /// The file or the setting.
        what: String,
        /// Fault of the authorities.
        error: String,
    },
    /// `server_name_override` is not a valid name.
    #[error("`{0}` is not a name of a server")]
    ServerName(String),
    /// The versions and ciphers are incompatible.
    #[error("cannot set up TLS: {0}")]
    Setup(rustls::Error),
}

/// PEM text with its file or setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pem {
    what: String,
    bytes: Secret,
}

impl Pem {
    /// Reads the file or the text; `None` if the settings have neither.
    pub(super) fn read(
        file: Option<&str>,
        text: Option<&str>,
        setting: &str,
    ) -> Result<Option<Self>, TlsError> {
        if let Some(text) = text {
            let what = format!("`{setting}`");
            return Ok(Some(Self { what, bytes: Secret(text.to_owned()) }));
        }
        let Some(path) = file else { return Ok(None) };
        let failed = |error| TlsError::Read { path: path.to_owned(), error };
        let mut text = String::new();
        let opened = std::fs::File::open(path).map_err(failed)?;
        opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        Ok(Some(Self { what: format!("`{path}`"), bytes: Secret(text) }))
    }

    pub(super) fn what(&self) -> &str {
        &self.what
    }

    /// Returns all certificates, at least one.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let found: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(self.bytes.reveal().as_bytes()).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            _ => Err(TlsError::NoCertificate { what: self.what.clone() }),
        }
    }

    /// Returns the first private key.
    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        PrivateKeyDer::from_pem_slice(self.bytes.reveal().as_bytes())
            .map_err(|_| TlsError::NoKey { what: self.what.clone() })
    }

    /// Adds the certificates to the authorities.
    pub(super) fn add_to(&self, roots: &mut RootCertStore) -> Result<(), TlsError> {
        for certificate in self.certificates()? {
            roots.add(certificate).map_err(|error| TlsError::Authorities {
                what: self.what.clone(),
                error: error.to_string(),
            })?;
        }
        Ok(())
    }
}

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPair {
    pub(super) cert: Pem,
    pub(super) key: Pem,
}

impl KeyPair {
    pub(super) fn certified(
        &self,
        provider: &rustls::crypto::CryptoProvider,
    ) -> Result<rustls::sign::CertifiedKey, TlsError> {
        let chain = self.cert.certificates()?;
        let key = self.key.key()?;
        let pair = |error: rustls::Error| {
            let cert = self.cert.what.clone();
            match remedy(&error.to_string()) {
                Some(remedy) => TlsError::Form { cert, remedy },
                None => TlsError::Pair { cert, key: self.key.what.clone(), error },
            }
        };
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|_| TlsError::NoKey { what: self.key.what.clone() })?;
        let certified = rustls::sign::CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
                Ok(certified)
            }
            Err(error) => Err(pair(error)),
        }
    }
}

/// Returns the supported versions from the oldest on.
pub(super) fn versions(min: TlsVersion) -> &'static [&'static rustls::SupportedProtocolVersion] {
    static NEWEST: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
    match min {
        TlsVersion::V1_2 => rustls::ALL_VERSIONS,
        TlsVersion::V1_3 => &NEWEST,
    }
}
