//! The first hour of somebody new: a first config, certificates to try TLS with.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::json;

use crate::support::program::Program;
use crate::support::ran::run;

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A run by an instrumentation that no dialect knows.
fn unknown_instrumentation() -> String {
    let attribute =
        |(key, value): &(&str, &str)| json!({"key": key, "value": {"stringValue": value}});
    let span = |id: u64, attributes: &[(&str, &str)]| {
        json!({
            "traceId": format!("{:032x}", 7),
            "spanId": format!("{id:016x}"),
            "parentSpanId": if id == 1 { String::new() } else { format!("{:016x}", 1) },
            "name": "step",
            "startTimeUnixNano": "1790000000000000000",
            "endTimeUnixNano": "1790000001000000000",
            "attributes": attributes.iter().map(attribute).collect::<Vec<_>>(),
        })
    };
    let call = |id: u64, order: &str| {
        let input = format!(r#"{{"order": "{order}"}}"#);
        let call = id.to_string();
        span(
            id,
            &[
                ("acme.kind", "step"),
                ("acme.step.tool", "find_order"),
                ("acme.step.call_id", &call),
                ("acme.step.arguments", &input),
                ("acme.step.result", "found"),
            ],
        )
    };
    let spans = [span(1, &[("acme.kind", "turn")]), call(2, "A-1"), call(3, "A-2")];
    json!({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "acme"}, "spans": spans}]}]})
        .to_string()
}

#[test]
fn a_first_config_is_one_that_check_accepts_and_replaces_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("shop.yaml");
    let check = |args: &[&str], code: i32, parts: &[&str]| {
        let ended = run(&[&["init", "--output", text(&path)], args].concat());
        assert_eq!(ended.code, code, "{args:?}: {}", ended.err);
        let written = std::fs::read_to_string(&path).expect("a config");
        for part in parts {
            assert!(written.contains(part), "{args:?} {part}: {written}");
        }
        let checked = run(&["check", text(&path)]);
        assert!(checked.code == 0 && checked.out.contains("no mistakes"), "{}", checked.err);
        ended.err
    };
    check(&[], 0, &["  tool_error:\n", "  # tool_call_args/refund:", "\n  console:\n"]);
    assert!(check(&[], 64, &[]).contains("shop.yaml is there: add --force"));
    let traces = ["--force", "--from", "examples/traces"];
    let proposed = [
        "# Each was tried on 2 recorded runs.",
        "  # Here 0 of 2 passed.\n  tool_error:\n",
        "  # Here it judged none: no definition of the tools is known\n  # tool_call_validity:\n",
        "        \"find_order\": [\"<=\", 2]\n",
    ];
    check(&traces, 0, &proposed);
    let scored = run(&["score", "--config", text(&path), "examples/traces/refund_agent.json"]);
    assert!(scored.out.contains("tool_call_count/seen  1.000  pass"), "{}", scored.out);
    let recording = folder.path().join("unknown.json");
    std::fs::write(&recording, unknown_instrumentation()).expect("written");
    check(
        &["--force", "--from", text(&recording)],
        0,
        &["\ndialects:\n", "  tool_call_count/seen:\n"],
    );
    let none = run(&["init", "-o", text(&path), "--force", "--from", "nothing-is-here.json"]);
    assert!(none.code == 1 && none.err.contains("no run to learn from"), "{}", none.err);
    assert_eq!(run(&["init", "-o", text(&path), "--force", "--from", "-"]).code, 64);
}

#[test]
fn expressions_find_any_span_of_a_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("c.yaml");
    let check = |when: &str, said: &str| {
        let written = format!("evaluators: {{tool_error: {{when: '{when}'}}}}");
        std::fs::write(&config, written).expect("written");
        let traces = "examples/traces/refund_agent.json";
        let args = ["score", "--fail-on", "never", "--config", text(&config), traces];
        let scored = run(&args).out;
        assert!(scored.contains(said), "{when}: {scored}");
    };
    check(
        r#"spans.exists(s, s.name == "find_order" && s.status == "unset")"#,
        "nothing was judged",
    );
    check(r#"spans.exists(s, s.attributes["tool.name"] == "find_order")"#, "1 evaluation: ");
    check(r#"spans.exists(s, s.status == "error" && s.kind == "internal")"#, "1 evaluation: ");
}

/// Sends the sample to a collector that shows the certificate of these files.
fn sent(folder: &Path, (cert, key): (&str, &str), args: &[&str]) -> Result<String, String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let tls = format!("tls: {{cert_file: {}, key_file: {}}}", file(cert), file(key));
    let config = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: \"127.0.0.1:0\", {tls}}}}}}}}}\n\
         telemetry: {{metrics: {{endpoint: \"127.0.0.1:0\"}}, health: {{endpoint: null}}}}\n\
         store: false\n"
    );
    let collector = Program::start(folder, &config);
    let endpoint = collector.grpc_address().replace("127.0.0.1", "localhost");
    assert!(endpoint.starts_with("https://"), "{endpoint}");
    let ended = run(&[&["send", "--sample", "--endpoint", &endpoint], args].concat());
    if ended.code == 0 { Ok(ended.out) } else { Err(ended.err) }
}

#[test]
fn certificates_to_try_tls_with_are_made_and_trusted_where_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let made = run(&["certs", text(folder)]);
    assert!(made.code == 0 && made.err.contains("OTEL_EXPORTER_OTLP_CERTIFICATE="), "{}", made.err);
    let again = run(&["certs", text(folder)]);
    assert!(
        again.code == 64 && again.err.contains("ca.pem is there: add --force"),
        "{}",
        again.err
    );
    let ca = folder.join("ca.pem");
    let pair = ("server.pem", "server.key");
    let trusting = sent(folder, pair, &["--ca", text(&ca)]);
    assert!(trusting.as_ref().is_ok_and(|said| said.contains("sent 1 request")), "{trusting:?}");
    let remedy = "name it with `tls.ca_file`, or with `send --ca FILE`";
    assert!(sent(folder, pair, &[]).is_err_and(|error| error.contains(remedy)));
    let half = run(&["send", "--sample", "--cert", "c.pem"]);
    assert!(half.err.contains("needs both --cert and --key"), "{}", half.err);
}

#[test]
fn keys_that_replace_others_are_their_owner_s_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    assert_eq!(run(&["certs", text(folder)]).code, 0);
    let [key, linked, elsewhere] =
        ["server.key", "client.key", "elsewhere"].map(|it| folder.join(it));
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("permissions");
    std::fs::rename(&linked, &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &linked).expect("a link");
    let before = std::fs::read(&elsewhere).expect("a key");
    let again = run(&["certs", "--force", text(folder)]);
    assert_eq!(again.code, 0, "{}", again.err);
    for path in [&key, &linked] {
        let found = path.symlink_metadata().expect("a key");
        let mode = found.permissions().mode() & 0o777;
        assert!(found.is_file() && mode == 0o600, "{}: {mode:o}", path.display());
    }
    assert_eq!(std::fs::read(&elsewhere).expect("a key"), before, "a link is not followed");
    assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 6, "nothing is left behind");
}

#[test]
fn certificates_that_no_client_accepts_get_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let check = |names: &[&str], is_ca: IsCa, fault: &str| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.is_ca = is_ca;
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        std::fs::write(folder.join("own.pem"), cert.pem()).expect("written");
        std::fs::write(folder.join("own.key"), key.serialize_pem()).expect("written");
        let ca = folder.join("own.pem");
        let error = sent(folder, ("own.pem", "own.key"), &["--ca", text(&ca)]);
        let error = error.expect_err("it is refused");
        assert!(error.contains(fault) && error.contains("`spanscore certs DIR`"), "{error}");
    };
    let authority = IsCa::Ca(BasicConstraints::Unconstrained);
    check(&["localhost"], authority, "the certificate of an authority (CA:TRUE)");
    check(&[], IsCa::ExplicitNoCa, "a common name (CN) does not count");
}
