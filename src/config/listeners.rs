//! Who may reach the listeners: TLS, addresses beyond the loopback one, and clients.

use super::plan::Config;
use crate::settings::{Node, SettingsError};
use crate::tls::{ListenerTlsSettings, check_exposure};

/// A listener of the config.
struct Listener<'a> {
    /// The keys that lead to its settings.
    keys: &'static [&'static str],
    endpoint: &'a str,
    tls: Option<&'a ListenerTlsSettings>,
    insecure: bool,
}

/// Adds what is wrong with the listeners of a config.
pub(super) fn check(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    for listener in listeners(config) {
        let section = descend(node, listener.keys);
        let place = |key: &str| section.get(key).map_or(section.place, |value| value.place);
        let exposed = check_exposure(listener.endpoint, listener.tls.is_some(), listener.insecure);
        errors.extend(exposed.err().map(|error| error.at(place("endpoint"))));
        if let Some(Err(error)) = listener.tls.map(ListenerTlsSettings::check) {
            errors.push(error.at(place("tls")));
        }
    }
    let telemetry = &config.telemetry;
    for (part, otlp) in [("metrics", &telemetry.metrics.otlp), ("traces", &telemetry.traces.otlp)] {
        if let Some(Err((key, error))) = otlp.as_ref().map(|it| it.check()) {
            let section = descend(node, &["telemetry", part, "otlp"]);
            errors.push(error.at(section.get(key).map_or(section.place, |value| value.place)));
        }
    }
    let Some(otlp) = &config.receivers.otlp else { return };
    let Some(auth) = &otlp.auth else { return };
    let asks = |tls: Option<&ListenerTlsSettings>| {
        tls.is_some_and(|tls| tls.client_ca_file.is_some() || tls.client_ca_pem.is_some())
    };
    let grpc = otlp.protocols.grpc.as_ref().is_some_and(|grpc| asks(grpc.tls.as_ref()));
    let http = otlp.protocols.http.as_ref().is_some_and(|http| asks(http.tls.as_ref()));
    if let Err((keys, text)) = auth.check(grpc || http) {
        let section = descend(node, &["receivers", "otlp", "auth"]);
        errors.push(SettingsError::new(text).at(descend(section, &keys).place));
    }
}

fn listeners(config: &Config) -> Vec<Listener<'_>> {
    let protocols = config.receivers.otlp.as_ref().map(|otlp| &otlp.protocols);
    let grpc = protocols.and_then(|it| it.grpc.as_ref()).map(|it| Listener {
        keys: &["receivers", "otlp", "protocols", "grpc"],
        endpoint: &it.endpoint,
        tls: it.tls.as_ref(),
        insecure: it.insecure,
    });
    let http = protocols.and_then(|it| it.http.as_ref()).map(|it| Listener {
        keys: &["receivers", "otlp", "protocols", "http"],
        endpoint: &it.endpoint,
        tls: it.tls.as_ref(),
        insecure: it.insecure,
    });
    let telemetry = &config.telemetry;
    let metrics = telemetry.metrics.endpoint.as_ref().map(|endpoint| Listener {
        keys: &["telemetry", "metrics"],
        endpoint,
        tls: telemetry.metrics.tls.as_ref(),
        insecure: telemetry.metrics.insecure,
    });
    let health = telemetry.health.endpoint.as_ref().map(|endpoint| Listener {
        keys: &["telemetry", "health"],
        endpoint,
        tls: telemetry.health.tls.as_ref(),
        insecure: telemetry.health.insecure,
    });
    [grpc, http, metrics, health].into_iter().flatten().collect()
}

/// The innermost node on the way that is there.
fn descend<'a>(node: &'a Node, keys: &[&str]) -> &'a Node {
    let mut found = node;
    for key in keys {
        match found.get(key) {
            Some(inner) => found = inner,
            None => break,
        }
    }
    found
}
