//! The binary's command line: what it prints, and how it ends.

use std::io::{BufRead, BufReader};
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
    for command in [
        "serve", "gateway", "run", "record", "score", "inspect", "scores", "show", "init", "learn",
        "certs", "calibrate", "mcp", "rejudge", "check", "send", "evaluators", "exporters",
        "receivers", "docs", "man",
    ] {
        check(&[command, "--help"], 0, "Usage: spanscore", "");
        check(&["--help"], 0, &format!("\n  {command} "), "");
    }
    insta::assert_snapshot!("help", run(&["-h"]).out);
}

#[test]
fn kinds_and_pages_are_shown_by_name() {
    check(&["exporters"], 0, "otlp_grpc", "");
    check(&["exporters", "otlp_grpc"], 0, "endpoint: text", "");
    check(&["exporters", "otlp_grcp"], 64, "", "did you mean `otlp_grpc`?");
    check(&["receivers", "otlp"], 0, "protocols: ", "");
    check(&["docs"], 0, "# spanscore", "");
    for page in ["gate", "docs/gate.md"] {
        check(&["docs", page], 0, "spanscore score", "");
    }
    check(&["docs", "judges/README"], 0, "#", "");
    check(&["docs", "gaet"], 64, "", "did you mean `gate`?");
}

#[test]
fn what_was_not_judged_is_said_and_can_shut_the_gate() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    write("cases.jsonl", "{\"id\": \"a\", \"criteria\": {\"tool_calls_order\": [\"x\"]}}\n");
    let config = write(
        "eval.yaml",
        r#"{evaluators: {
            tool_loop: {when: 'service_name == "bank"'},
            tool_call_order/cases: {expect: {file: cases.jsonl, key: 'attributes["case"]'}}}}"#,
    );
    let plain = write(
        "plain.json",
        r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331",
            "name": "GET /", "startTimeUnixNano": "1",
            "endTimeUnixNano": "2"}]}]}]}"#,
    );
    let files = ["--config", &config, "examples/traces/refund_agent.json", &plain];
    let score = |more: &[&str]| run(&[&["score"], more, &files[..]].concat());
    let said = score(&["--fail-on", "fail"]);
    assert_eq!(said.code, 0, "{}", said.out);
    for what in [
        "not judged: tool_loop: its `when` selects none of the one trace",
        "1 of 1 cases of the dataset of tool_call_order/cases, that no trace named: `a`",
        "not judged: 1 trace that holds no span of a tool, an agent or a model",
    ] {
        assert!(said.out.contains(what), "{}", said.out);
    }
    for what in ["unused_evaluator", "unused_case", "no_agent"] {
        let records = score(&["--fail-on", what, "--format", "jsonl"]);
        assert_eq!(records.code, 2, "{what}");
        assert!(!records.out.contains("not judged") && records.err.contains("not judged"));
    }
}

#[test]
fn details_follow_the_table() {
    let files = ["--details", "examples/traces/refund_agent.json"];
    check(&[&["score"], &files[..]].concat(), 2, "redundant_calls: [\"issue_refund\",", "");
}

#[test]
fn conditions_that_are_none_are_refused() {
    let refuse = |when: &str, said: &str| {
        let set = format!("evaluators.tool_loop.when={when}");
        check(&["check", "--set", &set], 78, "", said);
    };
    refuse(r#"service_name = "shop""#, "write `==` to compare");
    refuse("service_name", "`when` gives a text, neither true nor false");
    refuse("size(tool_names)", "`when` gives a number");
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
fn kafka_is_checked_by_every_build_and_started_by_those_that_have_it() {
    const ENDPOINTS: [&str; 4] = [
        "telemetry.metrics",
        "telemetry.health",
        "receivers.otlp.protocols.grpc",
        "receivers.otlp.protocols.http",
    ];
    let ports = ENDPOINTS.map(|place| format!("--set={place}.endpoint=127.0.0.1:0"));
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let missing = spanscore_kafka::missing_client();
    for (command, checking, setting) in [
        ("serve", &["check"][..], "receivers.kafka"),
        ("serve", &["check"], "exporters.kafka"),
        ("gateway", &["gateway", "--check"], "kafka"),
    ] {
        let set = format!("{setting}.brokers=[kafka:9092]");
        let set = ["--set", set.as_str()];
        let warning = missing.map(|missing| format!("`{setting}`: {missing}"));
        check(&[checking, &set].concat(), 0, "", &warning.unwrap_or_default());
        if let Some(missing) = missing {
            let alone = if command == "serve" { &["--set", "store=false"][..] } else { &[] };
            check(&[&[command], &ports[..], alone, &set].concat(), 1, "", missing);
        }
    }
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
fn plain_addresses_are_reached_on_a_machine_without_authorities() {
    let output = Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .args(["send", "--sample", "--endpoint", "http://127.0.0.1:9"])
        .env("SSL_CERT_FILE", "/nowhere/at/all")
        .env("SSL_CERT_DIR", "/nowhere/at/all")
        .output()
        .expect("the program starts");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(err.contains("cannot send to http://127.0.0.1:9"), "{err}");
}

#[test]
fn evaluators_schema_and_completions_are_printed() {
    check(&["evaluators"], 0, "tool_efficiency", "");
    check(&["evaluators", "ToolErrorEvaluator"], 0, "treat_blank_as_error: boolean", "");
    for kind in spanscore_evaluate::KINDS {
        let ran = run(&["evaluators", kind.name]);
        assert_eq!(ran.code, 0, "{}", kind.name);
        assert!(ran.out.contains("Example"), "{}", ran.out);
    }
    let schema = std::fs::read_to_string("config/schema.json").expect("the schema");
    let is_current = run(&["schema"]).out == schema;
    assert!(is_current, "out of date: run `cargo run -- schema > config/schema.json`");
    check(&["completions", "bash"], 0, "complete -F", "");
}

const RECORDED: &str = "examples/traces/refund_agent.json";

#[test]
fn the_gate_is_2_for_what_it_names() {
    check(&["score", RECORDED], 2, "4 of 5 tool calls succeeded", "");
    check(&["score", RECORDED, "--fail-on", "never"], 0, "2 fail", "");
    check(&["score", RECORDED, "--fail-on", "failed,not_evaluable"], 0, "2 fail", "");
    let lenient = ["--set", "evaluators.tool_error.threshold=0.5"];
    let lenient = [&lenient[..], &["--set", "evaluators.tool_efficiency.threshold=0.5"]].concat();
    check(&[&["score", RECORDED][..], &lenient].concat(), 0, "2 pass", "");
    check(&["score", RECORDED, "--set", "evaluators={}"], 2, "nothing was judged", "");
    check(&["score", "no-such-file.json"], 1, "nothing was judged", "no-such-file.json");
    check(&["score", "no-such-file.json", RECORDED], 2, "2 fail", "no-such-file.json");
    check(&["score", "no-such-file.json", "--fail-on", "never"], 1, "", "no-such-file.json");
    check(&["score", "--config", "config/examples/ci_gate.yaml", RECORDED], 0, "2 pass", "");
}

/// One more span of the trace in [`RECORDED`].
const ONE_MORE: &str = r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{
    "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "00000000000000aa", "name": "late",
    "startTimeUnixNano": "1", "endTimeUnixNano": "2"}]}]}]}"#;

#[test]
fn a_trace_over_a_limit_is_judged_on_what_was_kept_named_and_no_success() {
    let dir = tempfile::tempdir().expect("a folder");
    let more = dir.path().join("more.json");
    std::fs::write(&more, ONE_MORE).expect("a file");
    let files = [RECORDED, more.to_str().expect("text"), "examples/traces/weather_agent.json"];
    let run_with = |limit: u32, args: &[&str]| {
        let limit = format!("limits.spans_per_trace_max={limit}");
        run(&[args, &["--set", &limit], &files].concat())
    };
    let lenient = ["score", "--set", "evaluators.tool_error.threshold=0.5"];
    let lenient = [&lenient[..], &["--set", "evaluators.tool_efficiency.threshold=0.5"]].concat();
    let whole = run_with(7, &lenient);
    assert_eq!((whole.code, whole.err.as_str()), (0, ""), "{}", whole.out);

    let trace = "5b8efff798038103d269b633813fc60c";
    let said = format!(
        "spanscore: trace {trace}: 1 of 7 spans and log events are left out; to judge it whole, \
         raise `limits.spans_per_trace_max`\n\
         spanscore: 1 trace beyond a limit is judged with what was kept\n"
    );
    let jsonl = [&lenient[..], &["--format", "jsonl"]].concat();
    let never = [&lenient[..], &["--fail-on", "never"]].concat();
    for (args, code) in [
        (&lenient[..], 1),
        (&never, 1),
        (&jsonl, 1),
        (&["score"], 2),
        (&["inspect"], 1),
        (&["inspect", "--explain"], 1),
    ] {
        let ran = run_with(6, args);
        assert_eq!((ran.code, ran.err.as_str()), (code, said.as_str()), "{args:?}: {}", ran.out);
        assert!(ran.out.contains(&trace[..8]), "{args:?}: {}", ran.out);
    }
    let scores = run_with(6, &jsonl).out;
    let completions: Vec<_> = scores
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|score| (score["trace_id"] == trace, score["completion"].to_string()))
        .collect();
    let (cut, uncut) = ((true, "\"evicted\"".into()), (false, "\"end_of_input\"".into()));
    assert_eq!(completions, [cut.clone(), cut, uncut.clone(), uncut], "in the order they came");
}

#[test]
fn jsonl_has_one_object_a_line_with_every_key() {
    let objects = |args: &[&str]| -> Vec<serde_json::Value> {
        let out = run(args).out;
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let weather = "examples/traces/weather_agent.json";
    let scores = objects(&["score", "--format", "jsonl", RECORDED, weather]);
    assert_eq!(scores.len(), 4);
    for key in
        ["evaluation_id", "trace_id", "span_id", "session_id", "evaluator", "kind", "outcome"]
            .into_iter()
            .chain(["score", "label", "threshold", "explanation", "details", "reason", "error"])
    {
        assert!(scores.iter().all(|score| score.get(key).is_some()), "{key}");
    }
    assert!(scores.iter().all(|score| score["completion"] == "end_of_input"));
    let again = objects(&["score", "--format", "jsonl", weather, RECORDED]);
    let ids = |scores: &[serde_json::Value]| {
        let ids = scores.iter().map(|score| score["evaluation_id"].to_string());
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ids(&scores), ids(&again), "the same evidence has the same identity");
    let traces = objects(&["inspect", "--format", "jsonl", RECORDED, weather]);
    let names = |trace: &serde_json::Value| -> Vec<String> {
        let calls = trace["tool_calls"].as_array().expect("calls");
        calls.iter().map(|call| call["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&traces[1]), ["get_forecast", "get_forecast"]);
    assert_eq!(traces[0]["tool_calls"][2]["status"], "error");
}

/// The program as a collector on ports that were free, ended by SIGTERM.
#[test]
fn the_collector_says_where_it_is_scores_and_ends_in_order() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    for setting in [
        "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0",
        "receivers.otlp.protocols.http.endpoint=127.0.0.1:0",
        "telemetry.metrics.endpoint=127.0.0.1:0",
        "telemetry.health.endpoint=127.0.0.1:0",
        "traces.quiet_period=1h",
    ] {
        command.args(["--set", setting]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut said = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let mut line = |start: &str| -> String {
        let mut lines = said.by_ref().map_while(Result::ok);
        lines.find(|line| line.starts_with(start)).expect("the line")
    };
    let agents = line("agents: ");
    assert!(line("scores: ").starts_with("scores: console, http://127.0.0.1:"));
    line("try it: spanscore send --sample --endpoint http://127.0.0.1:");
    let words = agents.split(['=', ' ', ')']);
    let urls: Vec<_> = words.filter(|word| word.starts_with("http")).collect();
    let [http, grpc] = urls[..] else { panic!("two addresses in {agents}") };
    for (endpoint, protocol) in [(http, "http/protobuf"), (http, "http/json"), (grpc, "grpc")] {
        for compression in ["none", "gzip", "zstd"] {
            let to = ["send", "--sample", "--endpoint", endpoint, "--protocol", protocol];
            let args = [&to[..], &["--compression", compression]].concat();
            check(&args, 0, "sent 1 request with 6 items", "");
        }
    }
    let terminated = Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert!(terminated.success());
    let ended = child.wait_with_output().expect("the program ends");
    assert_eq!(ended.status.code(), Some(0));
    let scores = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(scores.matches("shutdown").count(), 9, "{scores}");
    assert_eq!(scores.matches("0.80  tool_error").count(), 9, "{scores}");
}

#[test]
fn closed_output_pipe_changes_no_exit_code() {
    let cases: [(&[&str], i32); 5] = [
        (&["schema"], 0),
        (&["score", "examples/traces"], 2),
        (&["score", "--format", "junit", "examples/traces"], 2),
        (&["inspect", "examples/traces/refund_agent.json"], 0),
        (&["run", "--wait", "0", "--", "sh", "-c", "exit 3"], 3),
    ];
    for (args, code) in cases {
        check(args, code, "", "");
        let mut child = Command::new(env!("CARGO_BIN_EXE_spanscore"))
            .args(args)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("SPANSCORE_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("the program ends");
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{args:?}: {err}");
        assert!(!err.contains("error:"), "{args:?}: {err}");
    }
}

#[test]
fn the_readme_stays_short() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let lines = std::fs::read_to_string(readme).expect("a README").lines().count();
    assert!(lines < 160, "{lines} lines");
}
