//! An authority of a test's own, and certificates by it.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// An authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub(crate) pem: String,
}

/// A certificate with its key.
pub(crate) struct Identity {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for `localhost`.
    pub(crate) fn server(&self) -> Identity {
        self.issue(&["localhost", "127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth, 2999)
    }

    /// A certificate of a sender, with a URI for its name.
    pub(crate) fn client(&self, uri: &str) -> Identity {
        self.issue(&[uri], ExtendedKeyUsagePurpose::ClientAuth, 2999)
    }

    /// One that has expired.
    pub(crate) fn expired_client(&self) -> Identity {
        self.issue(&["spiffe://test/old"], ExtendedKeyUsagePurpose::ClientAuth, 2021)
    }

    fn issue(&self, names: &[&str], usage: ExtendedKeyUsagePurpose, until: i32) -> Identity {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names
            .iter()
            .map(|name| match name.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) if name.contains("://") => SanType::URI((*name).try_into().unwrap()),
                Err(_) => SanType::DnsName((*name).try_into().unwrap()),
            })
            .collect();
        params.extended_key_usages = vec![usage];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Identity { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// Returns the settings of a server that shows a certificate of this authority, and lets nobody
    /// in who does not.
    pub(crate) fn mutual(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.pem)).unwrap();
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let own = self.server();
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![certificate(&own.cert)], key);
        Arc::new(config.unwrap())
    }
}
