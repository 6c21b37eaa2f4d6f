//! Files, folders, programs and addresses that people name by mistake, and what they are told.

use std::path::Path;
use std::process::Command;

use crate::support::ran::{ended, program, run};

/// Runs the program in a folder with some files; checks its exit code, and a part of what it says
/// on standard error.
#[track_caller]
fn check(args: &[&str], code: i32, part: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = ended(placed(folder.path(), args));
    assert_eq!(ended.code, code, "{args:?}: {}{}", ended.out, ended.err);
    assert!(ended.err.contains(part), "{args:?}: {}", ended.err);
}

/// Writes the files to a folder; returns the program with these arguments in it.
fn placed(folder: &Path, args: &[&str]) -> Command {
    let at = |name: &str| folder.join(name);
    std::fs::create_dir(at("runs")).expect("a folder");
    std::fs::copy("examples/traces/refund_agent.json", at("runs/run.json")).expect("copied");
    std::fs::write(at("empty.json"), "").expect("written");
    std::fs::write(at("config.yaml"), "evaluators:\n  tool_error:\n").expect("written");
    std::fs::write(at("set.json"), r#"{"cases": []}"#).expect("written");
    std::fs::write(at("judging.json"), r#"{"judging": {"deadline": "1m"}}"#).expect("written");
    std::fs::write(at("agent.py"), "print(1)\n").expect("written");
    let rows = "{\"prompt\": \"p\", \"completion\": \"c\"}\n".repeat(30);
    std::fs::write(at("rows.jsonl"), rows).expect("written");
    let mut command = program(args);
    command.current_dir(folder);
    command
}

#[test]
fn what_is_no_recording_is_told_with_its_remedy() {
    check(&["score", "config.yaml"], 1, "config.yaml: a config, and no recording: name it with");
    check(&["score", "rows.jsonl"], 1, "rows.jsonl:1: a row of a dataset, and no recorded run");
    check(&["score", "rows.jsonl"], 1, "spanscore: 10 more parts could not be read");
    check(&["inspect", "rows.jsonl"], 1, "spanscore: 10 more parts could not be read");
    check(&["inspect", "empty.json"], 0, "what was read is empty");
    let empty = run(&["score", "/dev/null"]);
    assert!(empty.out.contains("what was read holds no trace"), "{}", empty.out);
    check(&["inspect", "runs"], 0, "");
    check(&["score", "--golden", "set.json", "runs"], 64, "neither a config, with `evaluators`");
    let evaluators = ["--set", "evaluators={tool_error: }", "runs"];
    check(&[&["score", "--golden", "judging.json"][..], &evaluators].concat(), 2, "");
    check(&["check", "runs/run.json"], 78, "name it without `--config`");
}

#[test]
fn paths_that_cannot_be_used_get_a_remedy() {
    check(&["check", "runs"], 78, "name the file in it");
    check(&["score", "-config", "a.yaml", "runs"], 78, "two dashes: `--config FILE`");
    check(&["check", "-"], 78, "standard input is /dev/stdin here");
    check(&["init", "--force", "-o", "runs"], 64, "runs is a folder: name a file in it");
    check(&["run", "agent.py"], 127, "`spanscore run -- python agent.py`");
    check(&["run", "--", "./agent.py"], 126, "`spanscore run -- python ./agent.py`");
    check(&["run", "python agent.py"], 127, "a command stands without quotes: `spanscore run --");
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = placed(folder.path(), &["score", "runs"]);
    command.env("SPANSCORE_CONFIG", "nope.yaml");
    let told = ended(command).err;
    assert!(told.contains("the variable SPANSCORE_CONFIG names it"), "{told}");
    let mut command = program(&["send", "--sample"]);
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http");
    let told = ended(command).err;
    assert!(told.contains("that of the variable `OTEL_EXPORTER_OTLP_PROTOCOL`"), "{told}");
}

#[test]
fn what_a_command_cannot_use_is_told_with_its_remedy() {
    check(&["score", "http://a/run.json"], 64, "fetch it, `curl -o run.json http://a/run.json`");
    check(&["show", "runs/run.json"], 64, "`spanscore inspect runs/run.json` shows a recording");
    check(&["scores", "--store", "runs"], 64, "runs is a folder: name the file in it");
    check(&["record", "config.yaml"], 1, "it is there, and no recording: name another file");
    check(&["certs", "agent.py"], 64, "agent.py is a file: name a folder");
    check(&["certs", "c", "--host", "a,b"], 64, "write one for each --host");
    check(&["certs", "c", "--host", "https://a:4317"], 64, "without scheme and port");
    check(&["run", "A=b", "python"], 127, "a variable is set by `env`: `spanscore run -- env A=b");
    check(&["run", "--", "cd", "runs"], 127, "a shell runs that: `spanscore run -- sh -c");
    check(&["run", "--", "source", "v"], 127, "`spanscore run -- sh -c '. FILE; ...'`");
    check(&["run", "--", "true && true"], 127, "a shell runs that: `spanscore run -- sh -c");
    check(&["docs", "langfuse"], 64, "there is no page `langfuse`; these tell of it: ");
    check(&["scores", "--since", "1h", "--until", "2h"], 64, "no run is after `since` and before");
    check(&["scores", "--where", "label=failed"], 64, "`label` cannot be `failed`: known are pass");
    check(&["scores", "--limit", "0"], 64, "for '--limit <N>': number would be zero");
}

#[test]
fn check_warns_of_the_other_protocol_s_port_and_reads_no_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("c.yaml");
    let check = |text: &str, part: &str| {
        std::fs::write(&config, text).expect("written");
        let ended = run(&["check", config.to_str().expect("text")]);
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert!(ended.err.contains(part), "{text}: {}", ended.err);
        assert_eq!(ended.err.is_empty(), part.is_empty(), "{text}: {}", ended.err);
    };
    check(
        "exporters: {otlp_http: {endpoint: 'http://tempo:4317'}}",
        "c.yaml:1:35: `otlp_http` is sent to port 4317, which is mostly that of OTLP/gRPC",
    );
    check("forward: {otlp_grpc/b: {endpoint: 'http://b:4318/'}}", "mostly that of OTLP/HTTP");
    check("exporters: {otlp_grpc: {endpoint: 'http://tempo:4317'}}", "");
    check(
        "exporters: {otlp_http: {endpoint: 'http://tempo:4318', tls: {ca_file: ca.pem}}}",
        "its files are not used: `http://` or `insecure: true` sends in the clear",
    );
    let judge = "api: openai, model: m, base_url: 'http://localhost:11434";
    check(&format!("judges: {{a: {{{judge}'}}}}"), "most servers have the interface at `/v1`");
    check(&format!("judges: {{a: {{{judge}/v1'}}}}"), "");
    let pipe = folder.path().join("token");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let client = format!("{{clients: {{a: {{file: {}}}}}}}", pipe.display());
    let receivers = format!("receivers: {{otlp: {{protocols: {{http: }}, auth: {client}}}}}");
    check(&receivers, "is a named pipe");
}
