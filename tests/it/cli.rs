//! The binary's command line: what it prints, and how it ends.

use std::path::Path;
use std::process::{Command, Stdio};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// Runs the program in the folder of the project, away from the variables of whoever runs the test.
fn run(args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("SPANSCORE_CONFIG")
        .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
        .env_remove("OTEL_EXPORTER_OTLP_PROTOCOL")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[track_caller]
fn check(args: &[&str], code: i32, out: &str, err: &str) {
    let ran = run(args);
    assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
    assert!(ran.out.contains(out), "{args:?}: {}", ran.out);
    assert!(ran.err.contains(err), "{args:?}: {}", ran.err);
}

#[test]
fn help_and_version_are_successes() {
    check(&["--version"], 0, "spanscore 0.", "");
    check(&["--help"], 0, "Exit codes:", "");
    for command in
        ["serve", "score", "inspect", "check", "send", "evaluators", "schema", "completions"]
    {
        check(&[command, "--help"], 0, "Usage: spanscore", "");
        check(&["--help"], 0, &format!("\n  {command} "), "");
    }
    insta::assert_snapshot!("help", run(&["-h"]).out);
}

#[test]
fn a_wrong_command_line_is_64() {
    check(&["frobnicate"], 64, "", "unrecognized subcommand");
    check(&["score"], 64, "", "<FILE>...");
    check(&["send"], 64, "", "<FILE>...");
    check(&["score", "--fail-on", "rain", "x.json"], 64, "", "possible values: fail, failed");
    check(&["send", "--sample", "--rate", "5/h"], 64, "", "per second or minute");
    check(&["evaluators", "tool_eror"], 64, "", "did you mean `tool_error`?");
}

#[test]
fn a_wrong_config_is_78_and_shows_its_mistakes() {
    let config = "tests/fixtures/config/unknown_setting.yaml";
    for command in [&["serve"][..], &[], &["check"], &["validate"]] {
        let args = [command, &["--config", config]].concat();
        check(&args, 78, "", "unknown_setting.yaml:10:5: unknown setting `treshold`");
    }
    check(&["check", "--config", "no-such.yaml"], 78, "", "cannot read no-such.yaml");
    check(&["check", "--set", "limits.queue_mib"], 78, "", "a setting without a value");
}

#[test]
fn a_good_config_is_0_and_is_summed_up() {
    check(&["check"], 0, "tool_error (each trace, passes from 1)", "");
    let secret = "exporters.otlp_grpc.headers.x-api-key=hunter2";
    let endpoint = "exporters.otlp_grpc.endpoint=http://127.0.0.1:4317";
    let ran = run(&["check", "--print", "--set", secret, "--set", endpoint]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("x-api-key: \"[REDACTED]\""), "{}", ran.out);
    assert!(!ran.out.contains("hunter2"), "{}", ran.out);
}

#[test]
fn what_fails_at_run_time_is_1() {
    // Port 9 is that of the discard service: nothing of a test listens there.
    let args = ["send", "--sample", "--endpoint", "http://127.0.0.1:9"];
    check(&args, 1, "", "cannot send to http://127.0.0.1:9");
    check(&[&args[..], &["--protocol", "grpc"]].concat(), 1, "", "cannot connect");
}

#[test]
fn evaluators_schema_and_completions_are_printed() {
    check(&["evaluators"], 0, "tool_efficiency", "");
    check(&["evaluators", "ToolErrorEvaluator"], 0, "treat_blank_as_error: boolean", "");
    for kind in spanscore::evaluate::KINDS {
        let ran = run(&["evaluators", kind.name]);
        assert_eq!(ran.code, 0, "{}", kind.name);
        assert!(ran.out.contains("Example"), "{}", ran.out);
    }
    let schema = std::fs::read_to_string("config/schema.json").expect("the schema");
    assert_eq!(run(&["schema"]).out, schema);
    check(&["completions", "bash"], 0, "complete -F", "");
}

#[test]
fn a_reader_that_goes_early_ends_the_program_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .arg("schema")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("the program ends");
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

#[test]
fn the_readme_stays_short() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let lines = std::fs::read_to_string(readme).expect("a README").lines().count();
    assert!(lines < 250, "{lines} lines");
}
