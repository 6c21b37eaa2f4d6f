//! Secrets that are planted in a config, and everything that the program prints of it.

use std::process::{Command, Output, Stdio};

/// Parts of the planted secrets, none of which may ever be seen.
const PLANTED: [&str; 5] = ["pl4nt-token", "pl4nt-header", "pl4nt-pass", "pl4nt-key", "pl4nt-env"];

const CONFIG: &str = r#"
receivers:
  otlp:
    protocols: {grpc: {endpoint: "127.0.0.1:0"}}
    auth:
      clients:
        a: {token: pl4nt-token-1}
        b: {token: "${env:PLANTED}"}
exporters:
  otlp_http/b:
    endpoint: http://user:pl4nt-pass-1@127.0.0.1:9
    headers: {authorization: Bearer pl4nt-header-1, x-other: pl4nt-header-2}
    tls:
      cert_file: /nowhere
      key_pem: |
        -----BEGIN PRIVATE KEY-----
        pl4nt-key-1
        -----END PRIVATE KEY-----
forward:
  otlp_http/f: {endpoint: "http://user:pl4nt-pass-2@127.0.0.1:9"}
judges:
  j: {api: openai, model: m, base_url: "http://user:pl4nt-pass-3@127.0.0.1:9"}
evaluators:
  http/e: {endpoint: "http://user:pl4nt-pass-4@127.0.0.1:9"}
telemetry:
  metrics: {endpoint: null, otlp: {endpoint: "http://user:pl4nt-pass-5@127.0.0.1:9"}}
  health: {endpoint: null}
  logs: {level: trace}
"#;

fn run(config: &str, args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, config).unwrap();
    let Output { stdout, stderr, .. } = Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .args(args)
        .arg("--config")
        .arg(&path)
        .env("PLANTED", "pl4nt-env-1")
        .env_remove("SPANSCORE_CONFIG")
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat()
}

#[track_caller]
fn assert_clean(printed: &str, what: &str) {
    for secret in PLANTED {
        assert!(!printed.contains(secret), "{what} shows {secret}:\n{printed}");
    }
}

#[test]
fn a_config_is_checked_and_printed_without_them() {
    let printed = run(CONFIG, &["check", "--print"]);
    assert_clean(&printed, "check --print");
    assert!(printed.contains("http://[REDACTED]@127.0.0.1:9"), "{printed}");
    assert!(printed.contains("${env:PLANTED}"), "{printed}");
    let env = "agentevals: {command: [sh, x], env: {A: pl4nt-env-2}}\n  http/e: {";
    let printed = run(&CONFIG.replace("http/e: {", env), &["check", "--print"]);
    assert_clean(&printed, "check --print");
    assert!(printed.contains("A: \"[REDACTED]\""), "{printed}");
    assert_clean(&run(CONFIG, &["check"]), "check");
}

#[test]
fn no_mistake_shows_them_beside_it() {
    for (from, to) in [
        ("token: pl4nt-token-1", "token: pl4nt-token-1, file: x"),
        ("token: pl4nt-token-1", "tokn: pl4nt-token-1"),
        ("token: pl4nt-token-1", "token: [pl4nt-token-1]"),
        ("token: pl4nt-token-1", "token: pl4nt-token-1, expires: pl4nt-token-2"),
        ("x-other: pl4nt-header-2", "'bad header': pl4nt-header-2"),
        ("x-other: pl4nt-header-2", "x-other: [pl4nt-header-2]"),
        ("http://user:pl4nt-pass-1@127.0.0.1:9", "ftp://user:pl4nt-pass-1@127.0.0.1:9"),
        ("http://user:pl4nt-pass-1@127.0.0.1:9", "'http://user:pl4nt-pass-1@ h'"),
        ("http://user:pl4nt-pass-1@127.0.0.1:9", "ftp://user:an@pl4nt-pass-1@127.0.0.1:9"),
        ("http://user:pl4nt-pass-1@127.0.0.1:9", "'ftp://user:a pl4nt-pass-1@127.0.0.1:9'"),
        ("http://user:pl4nt-pass-1@127.0.0.1:9", "user:pl4nt-pass-1@127.0.0.1:9"),
        ("http://user:pl4nt-pass-1@127.0.0.1:9", "http//user:pl4nt-pass-1@127.0.0.1:9"),
        ("http://user:pl4nt-pass-1@127.0.0.1:9", "http://127.0.0.1:9/?api_key=pl4nt-pass-1"),
        ("http://user:pl4nt-pass-1@127.0.0.1:9", "127.0.0.1:9/?api_key=pl4nt-pass-1"),
        ("http://user:pl4nt-pass-3@127.0.0.1:9", "ftp://user:pl4nt-pass-3@127.0.0.1:9"),
        ("http://user:pl4nt-pass-4@127.0.0.1:9", "http://user:pl4nt-pass-4@far.example:9"),
        ("http://user:pl4nt-pass-5@127.0.0.1:9", "user:pl4nt-pass-5@h/x"),
        ("{api: openai,", "{api: openai, key: pl4nt-key-2,"),
        ("{api: openai,", "{api: openai, bearer: pl4nt-key-2,"),
        ("{api: openai,", "{api: openai, pass: pl4nt-key-2,"),
        ("http/e: {", "agentevals: {comand: [sh], env: {A: pl4nt-env-2}}\n  http/e: {"),
        ("http/e: {", "agentevals: {command: [sh], env: [pl4nt-env-2]}\n  http/e: {"),
        ("http/e: {", "agentevals: {env: {A: pl4nt-env-2\n  http/e: {"),
        ("tls:\n", "tls:\n      pl4nt: 1\n"),
        ("headers: {", "headers: {{"),
        ("token: \"${env:PLANTED}\"", "token: \"${env:PLANTED} x\""),
        ("token: \"${env:PLANTED}\"", "expires: \"${env:PLANTED}\""),
        ("clients:\n        a: {token: pl4nt-token-1}", "clients: {a: {token: pl4nt-token-1}"),
    ] {
        let broken = CONFIG.replace(from, to);
        assert_ne!(broken, CONFIG);
        let printed = run(&broken, &["check"]);
        assert!(printed.contains("mistake"), "{to} is one:\n{printed}");
        // What stands in a place where no secret does is shown, as any other text.
        let printed = printed.replace("pl4nt-token-2", "");
        assert_clean(&printed, to);
    }
}

#[test]
fn no_start_that_fails_shows_them() {
    let secure = CONFIG.replace("http://user", "https://user");
    for args in [&["serve"][..], &["score", "nothing.json"], &["serve", "--watch"]] {
        let printed = run(&secure, args);
        assert!(!printed.is_empty());
        assert_clean(&printed, &args.join(" "));
    }
}

#[test]
fn debug_output_of_a_plan_shows_none() {
    use spanscore::config::{ConfigPart, ResolvedConfig, load};
    let part = ConfigPart::Text { name: "c".into(), text: CONFIG.to_owned() };
    let lookup = |_: &str| Some("pl4nt-env-1".to_owned());
    let plan = ResolvedConfig::new(&load(&[part], &lookup).unwrap()).unwrap();
    let debug = format!("{:?} {:?} {:?}", plan.config, plan.exporters, plan.forward);
    assert_eq!(debug.matches("http://[REDACTED]@127.0.0.1:9").count(), 4, "{debug}");
    assert_clean(&debug, "debug output");
}

#[test]
fn a_schema_of_a_rule_reads_no_file() {
    use spanscore::config::{ConfigPart, ResolvedConfig, load};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    std::fs::write(&path, r#"{"type": "string"}"#).unwrap();
    let check = |schema: &str| {
        let rule = format!("{{name: x, type: json_schema, config: {{schema: {schema}}}}}");
        let config = format!("evaluators: {{output_rules: {{custom_rules: [{rule}]}}}}");
        let part = ConfigPart::Text { name: "c".into(), text: config };
        let loaded = load(&[part], &|_| None).unwrap();
        ResolvedConfig::new(&loaded).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(check("{type: string}"), Ok(()), "the form is right");
    let refused = check(&format!("{{$ref: 'file://{}'}}", path.display()));
    assert!(refused.is_err(), "it is not read");
}
