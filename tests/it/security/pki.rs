//! An authority of a test's own, and certificates by it.

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
    date_time_ymd,
};

/// An authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub(super) pem: String,
}

/// A certificate with its key.
pub(super) struct Identity {
    pub(super) cert: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for `localhost`.
    pub(super) fn server(&self) -> Identity {
        self.issue(&["localhost", "127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth, 2999)
    }

    /// A certificate of a sender, with a URI for its name.
    pub(super) fn client(&self, uri: &str) -> Identity {
        self.issue(&[uri], ExtendedKeyUsagePurpose::ClientAuth, 2999)
    }

    /// One that has expired.
    pub(super) fn expired_client(&self) -> Identity {
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
}
