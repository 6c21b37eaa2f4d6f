//! TLS settings, under the names of the OpenTelemetry Collector.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::{HumanDuration, Secret, SettingsError};

/// Default interval at which files are reloaded.
const RELOAD_INTERVAL: HumanDuration = HumanDuration::from_secs(60);

/// TLS of a port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct ListenerTlsSettings {
    /// PEM file with the server certificate and its intermediate certificates.
    pub cert_file: Option<String>,
    /// The same certificates as PEM text, instead of `cert_file`.
    pub cert_pem: Option<String>,
    /// PEM file with the private key of the certificate.
    pub key_file: Option<String>,
    /// The same key as PEM text, instead of `key_file`. Take it from the environment:
    /// `${env:TLS_KEY}`.
    pub key_pem: Option<Secret>,
    /// PEM file with the authorities of client certificates. With it, only clients with a
    /// certificate of these authorities are accepted (mutual TLS).
    pub client_ca_file: Option<String>,
    /// The same authorities as PEM text, instead of `client_ca_file`.
    pub client_ca_pem: Option<String>,
    /// Oldest accepted version of TLS: `1.2` (default) or `1.3`.
    pub min_version: TlsVersion,
    /// Interval between reloads of the files. Open connections continue. `0` reloads the files only
    /// together with the config. Default `1m`.
    #[default(RELOAD_INTERVAL)]
    pub reload_interval: HumanDuration,
}

/// TLS of connections to a server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// Uses plain text with a gRPC endpoint that has neither `http://` nor `https://`. Default
    /// `false`.
    pub insecure: bool,
    /// Accepts any certificate of the server. Anyone on the network path can then read the traffic.
    /// Default `false`.
    pub insecure_skip_verify: bool,
    /// PEM file with the trusted authorities, instead of those of the system.
    pub ca_file: Option<String>,
    /// The same authorities as PEM text, instead of `ca_file`.
    pub ca_pem: Option<String>,
    /// Trusts the authorities of the system in addition to `ca_file`. Default `false`.
    pub include_system_ca_certs_pool: bool,
    /// PEM file with the client certificate.
    pub cert_file: Option<String>,
    /// The same certificate as PEM text, instead of `cert_file`.
    pub cert_pem: Option<String>,
    /// PEM file with the private key of the client certificate.
    pub key_file: Option<String>,
    /// The same key as PEM text, instead of `key_file`. Take it from the environment:
    /// `${env:TLS_KEY}`.
    pub key_pem: Option<Secret>,
    /// Host name in the server's certificate, if it differs from the host of the endpoint.
    pub server_name_override: Option<String>,
    /// Oldest accepted version of TLS: `1.2` (default) or `1.3`.
    pub min_version: TlsVersion,
    /// Interval between reloads of the files. New connections use the new files. `0` reads the
    /// files only at the start. Default `1m`.
    #[default(RELOAD_INTERVAL)]
    pub reload_interval: HumanDuration,
}

/// Version of TLS. Older versions are insecure (RFC 8996) and not supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    V1_3,
}

impl ListenerTlsSettings {
    /// Checks the settings without reading files.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), SettingsError> {
        one_of("cert_file", "cert_pem", self.cert_file.is_some(), self.cert_pem.is_some())?;
        one_of("key_file", "key_pem", self.key_file.is_some(), self.key_pem.is_some())?;
        let ca_file = self.client_ca_file.is_some();
        let ca_pem = self.client_ca_pem.is_some();
        one_of("client_ca_file", "client_ca_pem", ca_file, ca_pem)?;
        if self.cert_file.is_none() && self.cert_pem.is_none() {
            let error = SettingsError::new("`tls` of a listener needs a certificate");
            return Err(error.with_help("name it in `cert_file`, and its key in `key_file`"));
        }
        if self.key_file.is_none() && self.key_pem.is_none() {
            let error = SettingsError::new("`tls` of a listener needs the certificate's key");
            return Err(error.with_help("name it in `key_file`"));
        }
        Ok(())
    }
}

impl TlsSettings {
    /// Checks the settings without reading files.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), SettingsError> {
        one_of("ca_file", "ca_pem", self.ca_file.is_some(), self.ca_pem.is_some())?;
        one_of("cert_file", "cert_pem", self.cert_file.is_some(), self.cert_pem.is_some())?;
        one_of("key_file", "key_pem", self.key_file.is_some(), self.key_pem.is_some())?;
        let has_cert = self.cert_file.is_some() || self.cert_pem.is_some();
        let has_key = self.key_file.is_some() || self.key_pem.is_some();
        if has_cert != has_key {
            return Err(SettingsError::new("`cert_file` and `key_file` go together"));
        }
        Ok(())
    }
}

fn one_of(file: &str, pem: &str, has_file: bool, has_pem: bool) -> Result<(), SettingsError> {
    if has_file && has_pem {
        let error = SettingsError::new(format!("`{file}` and `{pem}` name the same thing twice"));
        return Err(error.with_help("leave out one of them"));
    }
    Ok(())
}

/// Checks the exposure of a listener. Beyond the loopback address it requires TLS, or the owner's
/// statement that other means protect it (`insecure: true`).
///
/// # Errors
/// The error with its remedy.
pub fn check_exposure(endpoint: &str, has_tls: bool, insecure: bool) -> Result<(), SettingsError> {
    if has_tls && insecure {
        let error = SettingsError::new("`insecure: true` contradicts `tls`");
        return Err(error.with_help("leave out one of them"));
    }
    if has_tls || insecure || is_loopback(endpoint) {
        return Ok(());
    }
    let text = format!("`{endpoint}` is beyond the loopback address, and has no TLS");
    let help = "add `tls: {cert_file: FILE, key_file: FILE}`, or `insecure: true` where the \
                network around it is trusted";
    Err(SettingsError::new(text).with_help(help))
}

/// Returns true if only this host can reach an endpoint. Any name other than `localhost` counts as
/// reachable.
fn is_loopback(endpoint: &str) -> bool {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_a_listener_needs_tls_or_a_word() {
        for endpoint in ["127.0.0.1:4317", "127.9.9.9:1", "localhost:0", "[::1]:4317"] {
            assert_eq!(check_exposure(endpoint, false, false), Ok(()), "{endpoint}");
        }
        for endpoint in ["0.0.0.0:4317", "[::]:4317", "10.0.0.1:1", "collector:4317"] {
            assert!(check_exposure(endpoint, false, false).is_err(), "{endpoint}");
            assert_eq!(check_exposure(endpoint, true, false), Ok(()));
            assert_eq!(check_exposure(endpoint, false, true), Ok(()));
            assert!(check_exposure(endpoint, true, true).is_err());
        }
    }

    #[test]
    fn a_listener_needs_a_certificate_and_its_key_once_each() {
        let some = |text: &str| Some(text.to_owned());
        let good = ListenerTlsSettings {
            cert_file: some("c"),
            key_file: some("k"),
            ..ListenerTlsSettings::default()
        };
        assert_eq!(good.check(), Ok(()));
        for bad in [
            ListenerTlsSettings::default(),
            ListenerTlsSettings { key_file: None, ..good.clone() },
            ListenerTlsSettings { cert_pem: some("c"), ..good.clone() },
            ListenerTlsSettings { key_pem: Some(Secret::default()), ..good.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
