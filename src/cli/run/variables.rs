//! The variables that point an agent's instrumentation at a collector.
//!
//! Names and values are those of the OpenTelemetry specification ("SDK Environment Variables",
//! "Protocol Exporter"). What says where telemetry goes is replaced; how it is made stays as the
//! user has set it.

use std::net::SocketAddr;

/// A change of one variable: a new value, or none.
pub(super) type Change = (&'static str, Option<String>);

/// Endpoints of one signal, which would win over the common one.
const SIGNAL_ENDPOINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
];

/// Endpoints of instrumentations that read a name of their own first; an own setting stays.
const OTHER_ENDPOINTS: [&str; 2] = ["PHOENIX_COLLECTOR_ENDPOINT", "TRACELOOP_BASE_URL"];

/// Variables that get a value where the user has set none.
const DEFAULTS: [(&str, &str); 6] = [
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
    // Events of the GenAI conventions carry what was said.
    ("OTEL_LOGS_EXPORTER", "otlp"),
    // No evaluator reads them.
    ("OTEL_METRICS_EXPORTER", "none"),
    // A command that is killed loses little.
    ("OTEL_BSP_SCHEDULE_DELAY", "500"),
    // Arguments and results: what is recorded stays on this machine.
    ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
    ("OTEL_SERVICE_NAME", "agent"),
];

/// What to change for a command, given the variables that it would have.
pub(super) fn changes(address: SocketAddr, get: impl Fn(&str) -> Option<String>) -> Vec<Change> {
    let get = |name: &str| get(name).filter(|value| !value.trim().is_empty());
    let endpoint = format!("http://{address}");
    let mut changes: Vec<Change> = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", Some(endpoint.clone()))];
    let stray = SIGNAL_ENDPOINTS.iter().filter(|name| get(name).is_some());
    changes.extend(stray.map(|name| (*name, None)));
    // Both protocols are at one address, which does not speak TLS.
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

/// The exporters of traces with OTLP among them; `None` where it is.
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
