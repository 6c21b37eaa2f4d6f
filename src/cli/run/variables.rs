//! Environment variables that point an agent's instrumentation at a collector.
//!
//! Names and values follow the OpenTelemetry specification ("SDK Environment Variables", "Protocol
//! Exporter"). Destinations of telemetry are replaced; the user's settings for its content stay.

use std::net::SocketAddr;

/// Change of one variable: a new value, or its removal.
pub(super) type Change = (&'static str, Option<String>);

/// Endpoints of single signals, which would override the common one.
const SIGNAL_ENDPOINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
];

/// Certificates for the replaced destination: an exporter would read them needlessly, and fail if
/// they are missing.
const CERTIFICATES: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
];

/// Endpoints that some instrumentations prefer; set unless the user has.
const OTHER_ENDPOINTS: [&str; 2] = ["PHOENIX_COLLECTOR_ENDPOINT", "TRACELOOP_BASE_URL"];

/// Defaults of variables that the user has not set.
const DEFAULTS: [(&str, &str); 6] = [
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
    // Events of the GenAI conventions carry messages.
    ("OTEL_LOGS_EXPORTER", "otlp"),
    // No evaluator reads metrics.
    ("OTEL_METRICS_EXPORTER", "none"),
    // A killed command loses the spans of half a second, not of five.
    ("OTEL_BSP_SCHEDULE_DELAY", "500"),
    // Arguments and results: the recording stays on this machine.
    ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
    ("OTEL_SERVICE_NAME", "agent"),
];

/// Returns the changes for a command, given its variables so far.
pub(super) fn changes(address: SocketAddr, get: impl Fn(&str) -> Option<String>) -> Vec<Change> {
    let get = |name: &str| get(name).filter(|value| !value.trim().is_empty());
    let endpoint = format!("http://{address}");
    let mut changes: Vec<Change> = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", Some(endpoint.clone()))];
    let stray = SIGNAL_ENDPOINTS.iter().chain(&CERTIFICATES).filter(|name| get(name).is_some());
    changes.extend(stray.map(|name| (*name, None)));
    // One address serves both protocols, without TLS.
    if get("OTEL_EXPORTER_OTLP_INSECURE").is_some_and(|value| is_not(&value, "true")) {
        changes.push(("OTEL_EXPORTER_OTLP_INSECURE", Some("true".to_owned())));
    }
    if get("OTEL_SDK_DISABLED").is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
        changes.push(("OTEL_SDK_DISABLED", None));
    }
    if let Some(exporters) = exporters(get("OTEL_TRACES_EXPORTER").as_deref()) {
        changes.push(("OTEL_TRACES_EXPORTER", Some(exporters)));
    }
    for name in OTHER_ENDPOINTS {
        if get(name).is_none() {
            changes.push((name, Some(endpoint.clone())));
        }
    }
    for (name, value) in DEFAULTS {
        let is_named = name == "OTEL_SERVICE_NAME"
            && get("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|it| it.contains("service.name="));
        if get(name).is_none() && !is_named {
            changes.push((name, Some(value.to_owned())));
        }
    }
    changes
}

fn is_not(value: &str, word: &str) -> bool {
    !value.trim().eq_ignore_ascii_case(word)
}

/// Adds OTLP to the exporters of traces; `None` if already present.
fn exporters(own: Option<&str>) -> Option<String> {
    let Some(own) = own else { return Some("otlp".to_owned()) };
    let mut all: Vec<&str> = own.split(',').map(str::trim).collect();
    if all.iter().any(|name| name.starts_with("otlp")) {
        return None;
    }
    all.retain(|name| *name != "none" && !name.is_empty());
    all.push("otlp");
    Some(all.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: &[(&str, &str)], name: &str, expected: Option<Option<&str>>) {
        let get = |name: &str| {
            own.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let changes = changes(([127, 0, 0, 1], 4000).into(), get);
        let change = changes.iter().find(|(key, _)| *key == name);
        let change = change.map(|(_, value)| value.as_deref());
        assert_eq!(change, expected, "{own:?} {name}");
    }

    #[test]
    fn where_telemetry_goes_is_replaced() {
        let endpoint = Some(Some("http://127.0.0.1:4000"));
        check(&[], "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        check(
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b")],
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            endpoint,
        );
        let traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        check(&[(traces, "http://b/v1/traces")], traces, Some(None));
        check(&[], traces, None);
        let certificate = "OTEL_EXPORTER_OTLP_CERTIFICATE";
        check(&[(certificate, "/ca.pem")], certificate, Some(None));
        check(&[("OTEL_SDK_DISABLED", "true")], "OTEL_SDK_DISABLED", Some(None));
        let insecure = "OTEL_EXPORTER_OTLP_INSECURE";
        check(&[(insecure, "false")], insecure, Some(Some("true")));
    }

    #[test]
    fn how_telemetry_is_made_stays_as_the_user_has_set_it() {
        let protocol = "OTEL_EXPORTER_OTLP_PROTOCOL";
        check(&[], protocol, Some(Some("http/protobuf")));
        check(&[(protocol, "grpc")], protocol, None);
        check(&[("OTEL_TRACES_SAMPLER", "always_off")], "OTEL_TRACES_SAMPLER", None);
        check(&[("PHOENIX_COLLECTOR_ENDPOINT", "http://p")], "PHOENIX_COLLECTOR_ENDPOINT", None);
        check(&[("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop")], "OTEL_SERVICE_NAME", None);
    }

    #[test]
    fn traces_go_to_otlp_beside_what_the_user_wants() {
        let name = "OTEL_TRACES_EXPORTER";
        check(&[], name, Some(Some("otlp")));
        check(&[(name, "otlp_proto_grpc")], name, None);
        check(&[(name, "console")], name, Some(Some("console,otlp")));
        check(&[(name, "none")], name, Some(Some("otlp")));
    }
}
