//! Connection settings in librdkafka's names.

use rdkafka::ClientConfig;

use super::settings::{ClusterSettings, SaslMechanism, SaslSettings};
use spanscore_base::settings::tls::TlsSettings;

/// Returns librdkafka's connection settings, to which consumer or producer add theirs.
pub fn client_config(settings: &ClusterSettings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", settings.brokers.join(","))
        .set("client.id", &settings.client_id)
        .set("security.protocol", security_protocol(settings));
    if let Some(tls) = &settings.tls {
        set_tls(&mut config, tls);
    }
    if let Some(sasl) = &settings.auth.sasl {
        set_sasl(&mut config, sasl);
    }
    config
}

fn security_protocol(settings: &ClusterSettings) -> &'static str {
    let is_secure = settings.tls.as_ref().is_some_and(|tls| !tls.insecure);
    let signs_in = settings.auth.sasl.is_some();
    if is_secure {
        if signs_in { "sasl_ssl" } else { "ssl" }
    } else if signs_in {
        "sasl_plaintext"
    } else {
        "plaintext"
    }
}

fn set_tls(config: &mut ClientConfig, tls: &TlsSettings) {
    let key_pem = tls.key_pem.as_ref().map(|key| key.reveal());
    let given = [
        ("ssl.ca.location", tls.ca_file.as_deref()),
        ("ssl.ca.pem", tls.ca_pem.as_deref()),
        ("ssl.certificate.location", tls.cert_file.as_deref()),
        ("ssl.certificate.pem", tls.cert_pem.as_deref()),
        ("ssl.key.location", tls.key_file.as_deref()),
        ("ssl.key.pem", key_pem),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            config.set(name, value);
        }
    }
    if tls.ca_file.is_none() && tls.ca_pem.is_none() {
        // The linked OpenSSL does not know the system's folder of authorities.
        config.set("ssl.ca.location", "probe");
    }
    if tls.insecure_skip_verify {
        config.set("enable.ssl.certificate.verification", "false");
    }
}

fn set_sasl(config: &mut ClientConfig, sasl: &SaslSettings) {
    config.set("sasl.mechanism", <&str>::from(sasl.mechanism));
    if sasl.mechanism != SaslMechanism::OauthBearer {
        config.set("sasl.username", &sasl.username).set("sasl.password", sasl.password.reveal());
    }
}
