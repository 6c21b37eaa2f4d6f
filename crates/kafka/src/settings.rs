//! Settings of the broker connection, named as in the OpenTelemetry Collector.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;
use strum::IntoStaticStr;

use spanscore_base::settings::tls::{TlsSettings, TlsVersion};
use spanscore_base::settings::{Secret, SettingsError};

/// Connection to the brokers of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSettings {
    /// Addresses of brokers, as `host:port`. The client learns the other brokers of the cluster
    /// from them. Default `localhost:9092`.
    #[default(vec!["localhost:9092".to_owned()])]
    pub brokers: Vec<String>,
    /// Client name in the logs and quotas of the brokers. Default `spanscore`.
    #[default = "spanscore"]
    pub client_id: String,
    /// TLS of connections to the brokers. Without this section connections use plain text.
    pub tls: Option<TlsSettings>,
    /// Authentication at the brokers.
    pub auth: SignInSettings,
}

/// Authentication at the brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SignInSettings {
    /// SASL authentication.
    pub sasl: Option<SaslSettings>,
}

/// SASL authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SaslSettings {
    /// SASL mechanism. Default `PLAIN`.
    pub mechanism: SaslMechanism,
    /// User name.
    pub username: String,
    /// Password, or the token for `OAUTHBEARER`. Take it from the environment:
    /// `${env:KAFKA_PASSWORD}`.
    pub password: Secret,
}

/// SASL mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, IntoStaticStr)]
pub enum SaslMechanism {
    /// User name and password in plain text. Use it only with TLS.
    #[default]
    #[serde(rename = "PLAIN")]
    #[strum(serialize = "PLAIN")]
    Plain,
    /// SCRAM with SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    #[strum(serialize = "SCRAM-SHA-256")]
    ScramSha256,
    /// SCRAM with SHA-512.
    #[serde(rename = "SCRAM-SHA-512")]
    #[strum(serialize = "SCRAM-SHA-512")]
    ScramSha512,
    /// Bearer token.
    #[serde(rename = "OAUTHBEARER")]
    #[strum(serialize = "OAUTHBEARER")]
    OauthBearer,
}

impl ClusterSettings {
    /// Checks the settings without opening anything; the error comes with its key.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        if self.brokers.is_empty() {
            let error = SettingsError::new("`brokers` is empty");
            return Err(("brokers", error.with_help("name one or more brokers as `host:port`")));
        }
        if let Some(broker) = self.brokers.iter().find(|broker| !is_address(broker)) {
            let error = SettingsError::new(format!("`{broker}` is not the address of a broker"));
            return Err(("brokers", error.with_help("write `host:port`, without a scheme")));
        }
        self.auth.sasl.as_ref().map_or(Ok(()), check_sasl).map_err(|error| ("auth", error))?;
        self.tls.as_ref().map_or(Ok(()), check_tls).map_err(|error| ("tls", error))
    }
}

/// Checks that a sign-in has the settings of its mechanism.
fn check_sasl(sasl: &SaslSettings) -> Result<(), SettingsError> {
    if sasl.password.reveal().is_empty() {
        let error = SettingsError::new("`sasl` has no `password`");
        return Err(error.with_help("write `password: ${env:KAFKA_PASSWORD}`"));
    }
    if sasl.mechanism != SaslMechanism::OauthBearer && sasl.username.is_empty() {
        let error = SettingsError::new("`sasl` has no `username`");
        return Err(error.with_help("write `username: NAME`, as the brokers know it"));
    }
    Ok(())
}

/// Refuses settings without an equivalent in librdkafka.
fn check_tls(tls: &TlsSettings) -> Result<(), SettingsError> {
    if tls.min_version == TlsVersion::V1_3 {
        let error = SettingsError::new("`min_version: 1.3` is not supported with Kafka");
        return Err(error.with_help("leave it out: TLS 1.3 is used if the brokers support it"));
    }
    if tls.server_name_override.is_some() {
        let error = SettingsError::new("`server_name_override` is not supported with Kafka");
        return Err(error
            .with_help("leave it out: the certificate must contain the host name in `brokers`"));
    }
    tls.check()
}

/// Returns true for `host:port`; a list in one text would pass for a single host.
fn is_address(broker: &str) -> bool {
    let Some((host, port)) = broker.rsplit_once(':') else { return false };
    !host.is_empty() && !host.contains(['/', ',', ' ']) && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_hosts_with_ports() {
        for (broker, is_valid) in [
            ("kafka:9092", true),
            ("[::1]:9092", true),
            ("kafka", false),
            ("kafka:port", false),
            ("http://kafka:9092", false),
            ("a:9092,b:9092", false),
            (":9092", false),
        ] {
            let settings =
                ClusterSettings { brokers: vec![broker.to_owned()], ..ClusterSettings::default() };
            assert_eq!(settings.check().is_ok(), is_valid, "{broker}");
        }
    }

    #[test]
    fn a_sign_in_needs_user_and_password() {
        let check = |username: &str, password: &str, is_right: bool| {
            let password = Secret(password.to_owned());
            let sasl = SaslSettings { username: username.into(), password, ..Default::default() };
            let auth = SignInSettings { sasl: Some(sasl) };
            let settings = ClusterSettings { auth, ..ClusterSettings::default() };
            let key = settings.check().err().map(|(key, _)| key);
            assert_eq!(key, (!is_right).then_some("auth"), "{username}");
        };
        check("a", "b", true);
        check("a", "", false);
        check("", "b", false);
    }

    #[test]
    fn no_brokers_are_a_mistake() {
        let settings = ClusterSettings { brokers: Vec::new(), ..ClusterSettings::default() };
        assert!(settings.check().is_err());
    }
}
