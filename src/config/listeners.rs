//! Checks of listeners: TLS, addresses other than loopback, and clients.

use super::plan::Config;
use spanscore_base::settings::tls::{ListenerTlsSettings, check_exposure};
use spanscore_base::settings::{Node, SettingsError};

/// Path of keys to the settings of the pages.
const DASHBOARD: &[&str] = &["dashboard"];

/// Listener of the config.
pub(super) struct Listener<'a> {
    /// Path of keys to its settings.
    pub(super) keys: &'static [&'static str],
    pub(super) endpoint: &'a str,
    pub(super) tls: Option<&'a ListenerTlsSettings>,
    pub(super) insecure: bool,
}

/// Adds the mistakes in the listeners of a config.
pub(super) fn check(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    for listener in listeners(config) {
        let section = node.along(listener.keys.iter().copied());
        let place = |key: &str| section.along([key]).place;
        let exposed = check_exposure(listener.endpoint, listener.tls.is_some(), listener.insecure);
        errors.extend(exposed.err().map(|error| error.at(place("endpoint"))));
        if let Some(Err(error)) = listener.tls.map(ListenerTlsSettings::check) {
            errors.push(error.at(place("tls")));
        }
    }
    check_twice(config, node, errors);
    check_dashboard(config, node, errors);
    check_collected(config, node, errors);
    let telemetry = &config.telemetry;
    for (part, otlp) in [("metrics", &telemetry.metrics.otlp), ("traces", &telemetry.traces.otlp)] {
        if let Some(Err((key, error))) = otlp.as_ref().map(|it| it.check()) {
            errors.push(error.at(node.along(["telemetry", part, "otlp", key]).place));
        }
    }
    let auth = config.receivers.otlp.as_ref().and_then(|otlp| otlp.auth.as_ref());
    let is_asked = otlp_ports(config).any(|it| asks(it.tls));
    if let Some(Err((keys, text))) = auth.map(|auth| auth.check(is_asked)) {
        let section = node.along(["receivers", "otlp", "auth"]);
        errors.push(SettingsError::new(text).at(section.along(keys).place));
    }
}

/// Checks that no two listeners have the same address; port 0 is never the same, and without a
/// store the pages are not served.
fn check_twice(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    let mut seen: Vec<Listener<'_>> = Vec::new();
    let listens = |it: &Listener<'_>| {
        !it.endpoint.ends_with(":0") && (config.store.0.is_some() || it.keys != DASHBOARD)
    };
    for listener in listeners(config).filter(listens) {
        if let Some(first) = seen.iter().find(|it| it.endpoint == listener.endpoint) {
            let [first, second] = [first, &listener].map(|it| it.keys.join("."));
            let error = SettingsError::new(format!(
                "`{first}` and `{second}` both listen on {}",
                listener.endpoint
            ));
            let place = node.along(listener.keys.iter().copied()).place_of("endpoint");
            errors.push(error.with_help("give each a port of its own").at(place));
        }
        seen.push(listener);
    }
}

/// Checks the dashboard apart from TLS and exposure: its token, its path, and that there is a
/// store.
fn check_dashboard(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    let Some(dashboard) = &config.dashboard.0 else { return };
    let section = node.along(["dashboard"]);
    if let Err((key, error)) = dashboard.check() {
        errors.push(error.at(section.along([key]).place));
    }
    let is_written = node.get("dashboard").is_some_and(|it| it.entries().next().is_some());
    if config.store.0.is_none() && is_written {
        let error = SettingsError::new("`dashboard` shows the store, which is off");
        let help = "leave out `store: false`, or write `dashboard: false`";
        errors.push(error.with_help(help).at(section.place));
    }
}

/// Checks that the senders of stored evaluations are known: only receivers with `auth` identify
/// them.
fn check_collected(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    let Some(store) = &config.store.0 else { return };
    let auth = config.receivers.otlp.as_ref().and_then(|otlp| otlp.auth.as_ref());
    let is_known = |name: &str| auth.is_some_and(|auth| auth.clients.contains_key(name));
    let Some(unknown) = store.accept_evaluations.iter().find(|name| !is_known(name)) else {
        return;
    };
    let section = node.along(["store", "accept_evaluations"]);
    let error = SettingsError::new(format!(
        "`accept_evaluations` names `{unknown}`, which is no client of `receivers.otlp.auth`"
    ));
    let help = "give it a token or a certificate under `receivers.otlp.auth.clients`";
    errors.push(error.with_help(help).at(section.place));
}

/// Returns warnings about valid settings that are probably mistakes.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let otlp = config.receivers.otlp.as_ref();
    let clients = otlp.and_then(|otlp| otlp.auth.as_ref()).map(|auth| &auth.clients);
    let by_certificate = clients.into_iter().flatten().filter(|(_, it)| it.certificate.is_some());
    let names: Vec<_> = by_certificate.map(|(name, _)| format!("`{name}`")).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let deaf = otlp_ports(config).filter(|it| !asks(it.tls));
    let warning = |it: Listener<'_>| {
        let port = it.keys.last().copied().unwrap_or_default();
        format!(
            "{} may send by certificate, but `receivers.otlp.protocols.{port}` asks for none: set \
             its `tls.client_ca_file`",
            names.join(", ")
        )
    };
    deaf.map(warning).collect()
}

/// Returns true if a port requires certificates.
fn asks(tls: Option<&ListenerTlsSettings>) -> bool {
    tls.is_some_and(|tls| tls.client_ca_file.is_some() || tls.client_ca_pem.is_some())
}

/// Returns the ports of the OTLP receiver.
pub(super) fn otlp_ports(config: &Config) -> impl Iterator<Item = Listener<'_>> {
    let protocols = config.receivers.otlp.as_ref().map(|otlp| &otlp.protocols);
    let grpc = protocols.and_then(|it| it.grpc.as_ref()).map(|it| {
        let keys = &["receivers", "otlp", "protocols", "grpc"];
        Listener { keys, endpoint: &it.endpoint, tls: it.tls.as_ref(), insecure: it.insecure }
    });
    let http = protocols.and_then(|it| it.http.as_ref()).map(|it| {
        let keys = &["receivers", "otlp", "protocols", "http"];
        Listener { keys, endpoint: &it.endpoint, tls: it.tls.as_ref(), insecure: it.insecure }
    });
    grpc.into_iter().chain(http)
}

fn listeners(config: &Config) -> impl Iterator<Item = Listener<'_>> {
    let telemetry = &config.telemetry;
    let metrics = telemetry.metrics.endpoint.as_ref().map(|endpoint| {
        let it = &telemetry.metrics;
        let keys = &["telemetry", "metrics"];
        Listener { keys, endpoint, tls: it.tls.as_ref(), insecure: it.insecure }
    });
    let health = telemetry.health.endpoint.as_ref().map(|endpoint| {
        let it = &telemetry.health;
        let keys = &["telemetry", "health"];
        Listener { keys, endpoint, tls: it.tls.as_ref(), insecure: it.insecure }
    });
    let dashboard = config.dashboard.0.as_ref().map(|it| {
        let keys = DASHBOARD;
        Listener { keys, endpoint: it.endpoint(), tls: it.tls.as_ref(), insecure: it.insecure }
    });
    otlp_ports(config).chain(metrics).chain(health).chain(dashboard)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    #[test]
    fn one_address_is_of_one_listener() {
        let told = |store: &str| {
            let text = format!(
                r#"{{{store} "dashboard": {{"endpoint": "127.0.0.1:13133"}},
                    "telemetry": {{"health": {{"endpoint": "127.0.0.1:13133"}}}}}}"#
            );
            let node = Node::from_value(&json::parse(&text).unwrap());
            let mut errors = Vec::new();
            check_twice(&node.read::<Config>().unwrap(), &node, &mut errors);
            errors.into_iter().map(|error| error.message).collect::<Vec<_>>()
        };
        let both = "`telemetry.health` and `dashboard` both listen on 127.0.0.1:13133";
        assert_eq!(told(r#""store": {"path": "s.db"},"#), [both]);
        assert_eq!(told(r#""store": false,"#), [""; 0]);
    }

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
