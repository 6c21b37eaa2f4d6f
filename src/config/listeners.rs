//! Checks of the listeners' exposure: TLS, addresses beyond the loopback one, and clients.

use super::plan::Config;
use spanscore_base::settings::tls::{ListenerTlsSettings, check_exposure};
use spanscore_base::settings::{Node, SettingsError};

/// Listener of the config.
struct Listener<'a> {
    /// The keys that lead to its settings.
    keys: &'static [&'static str],
    endpoint: &'a str,
    tls: Option<&'a ListenerTlsSettings>,
    insecure: bool,
}

/// Adds the mistakes in the listeners of a config.
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
    check_dashboard(config, node, errors);
    check_collected(config, node, errors);
    let telemetry = &config.telemetry;
    for (part, otlp) in [("metrics", &telemetry.metrics.otlp), ("traces", &telemetry.traces.otlp)] {
        if let Some(Err((key, error))) = otlp.as_ref().map(|it| it.check()) {
            let section = descend(node, &["telemetry", part, "otlp"]);
            errors.push(error.at(section.get(key).map_or(section.place, |value| value.place)));
        }
    }
    let Some(otlp) = &config.receivers.otlp else { return };
    let Some(auth) = &otlp.auth else { return };
    let grpc = otlp.protocols.grpc.as_ref().is_some_and(|grpc| asks(grpc.tls.as_ref()));
    let http = otlp.protocols.http.as_ref().is_some_and(|http| asks(http.tls.as_ref()));
    if let Err((keys, text)) = auth.check(grpc || http) {
        let section = descend(node, &["receivers", "otlp", "auth"]);
        errors.push(SettingsError::new(text).at(descend(section, &keys).place));
    }
}

/// Checks the dashboard but for TLS and exposure: its token, its path, and that there is a store.
fn check_dashboard(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    let Some(dashboard) = &config.dashboard.0 else { return };
    let section = descend(node, &["dashboard"]);
    if let Err((key, error)) = dashboard.check() {
        errors.push(error.at(section.get(key).map_or(section.place, |value| value.place)));
    }
    let is_written = node.get("dashboard").is_some_and(|it| it.entries().next().is_some());
    if config.store.0.is_none() && is_written {
        let error = SettingsError::new("`dashboard` shows the store, which is off");
        let help = "leave out `store: false`, or write `dashboard: false`";
        errors.push(error.with_help(help).at(section.place));
    }
}

/// Checks that the clients whose evaluations are stored are known: only receivers with `auth` tell
/// who sends.
fn check_collected(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    let Some(store) = &config.store.0 else { return };
    let auth = config.receivers.otlp.as_ref().and_then(|otlp| otlp.auth.as_ref());
    let is_known = |name: &str| auth.is_some_and(|auth| auth.clients.contains_key(name));
    let Some(unknown) = store.accept_evaluations.iter().find(|name| !is_known(name)) else {
        return;
    };
    let section = descend(node, &["store", "accept_evaluations"]);
    let error = SettingsError::new(format!(
        "`accept_evaluations` names `{unknown}`, which is no client of `receivers.otlp.auth`"
    ));
    let help = "give it a token or a certificate under `receivers.otlp.auth.clients`";
    errors.push(error.with_help(help).at(section.place));
}

/// Returns warnings about settings that are valid but hardly meant.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let otlp = config.receivers.otlp.as_ref();
    let clients = otlp.and_then(|otlp| otlp.auth.as_ref()).map(|auth| &auth.clients);
    let by_certificate = clients.into_iter().flatten().filter(|(_, it)| it.certificate.is_some());
    let names: Vec<_> = by_certificate.map(|(name, _)| format!("`{name}`")).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let protocols = otlp.map(|otlp| &otlp.protocols);
    let grpc = protocols.and_then(|it| it.grpc.as_ref()).map(|it| ("grpc", it.tls.as_ref()));
    let http = protocols.and_then(|it| it.http.as_ref()).map(|it| ("http", it.tls.as_ref()));
    let deaf = grpc.into_iter().chain(http).filter(|(_, tls)| !asks(*tls));
    let warning = |(port, _)| {
        format!(
            "{} may send by certificate, but `receivers.otlp.protocols.{port}` asks for none: set \
             its `tls.client_ca_file`",
            names.join(", ")
        )
    };
    deaf.map(warning).collect()
}

/// Returns true if a port asks for certificates.
fn asks(tls: Option<&ListenerTlsSettings>) -> bool {
    tls.is_some_and(|tls| tls.client_ca_file.is_some() || tls.client_ca_pem.is_some())
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
    let dashboard = config.dashboard.0.as_ref().map(|it| Listener {
        keys: &["dashboard"],
        endpoint: it.endpoint(),
        tls: it.tls.as_ref(),
        insecure: it.insecure,
    });
    [grpc, http, metrics, health, dashboard].into_iter().flatten().collect()
}

/// Returns the innermost node on the path that exists.
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

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    #[test]
    fn a_certificate_that_a_port_asks_nobody_for_is_warned_of() {
        let warned = |grpc: &str, http: &str, client: &str| {
            let text = format!(
                r#"{{"receivers": {{"otlp": {{
                    "protocols": {{"grpc": {grpc}, "http": {http}}},
                    "auth": {{"clients": {{"a": {client}}}}}
                }}}}}}"#
            );
            let node = Node::from_value(&json::parse(&text).unwrap());
            warnings(&node.read::<Config>().unwrap())
        };
        let asking = r#"{"tls": {"cert_file": "c", "key_file": "k", "client_ca_file": "a"}}"#;
        let certificate = r#"{"certificate": "spiffe://a"}"#;
        let warning = |port: &str| {
            format!(
                "`a` may send by certificate, but `receivers.otlp.protocols.{port}` asks for none: \
                 set its `tls.client_ca_file`"
            )
        };
        assert_eq!(warned("{}", asking, certificate), [warning("grpc")]);
        assert_eq!(warned(asking, "{}", certificate), [warning("http")]);
        assert_eq!(warned(asking, asking, certificate), [""; 0]);
        assert_eq!(warned("{}", asking, r#"{"token": "t"}"#), [""; 0]);
    }
}
