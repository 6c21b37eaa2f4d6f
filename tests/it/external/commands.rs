//! External evaluators on the command line, and the examples.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::fixture;

/// A process that ends with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn score(config: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, config).expect("a config");
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    command.arg("score").arg("--config").arg(&file).arg("examples/traces/refund_agent.json");
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("SPANSCORE_CONFIG");
    let done = command.output().expect("it runs");
    let said = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn recorded_traces_are_judged_by_processes_too() {
    let script = fixture("evaluator.py");
    let entry = |mode: &str, name: &str| {
        format!(
            "  agentevals/{name}: {{path: {script:?}, config: {{mode: {mode}}}, timeout: 30s, \
             redact: none}}\n"
        )
    };
    let config =
        format!("evaluators:\n{}{}", entry("good", "one"), entry("failed_by_status", "two"));
    let (code, said) = score(&config);
    assert!(said.contains("agentevals/one  0.750  pass"), "{code:?} {said}");
    assert!(said.contains("agentevals/two  0.900  fail"), "{said}");
    assert!(said.contains("2 evaluations: 1 pass, 1 fail"), "{said}");
}

#[test]
fn an_evaluator_that_is_not_there_is_not_waited_for_by_a_command() {
    let config = "evaluators:\n  grpc/none: {endpoint: \"http://127.0.0.1:1\"}\n";
    let (_, said) = score(config);
    assert!(said.contains("not evaluable  evaluator_unavailable"), "{said}");
}

/// Runs a command on a config; returns its exit code and its words.
fn of_config(command: &str, config: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, config).expect("a config");
    let mut program = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    program.arg(command).arg("--config").arg(&file).env_remove("SPANSCORE_CONFIG");
    let done = program.output().expect("it runs");
    let said = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// Starts a server that says where it listens, as the last word of its first line.
fn start(command: &mut Command) -> (Ended, String) {
    let mut server = Ended(command.stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut line = String::new();
    let stdout = server.0.stdout.take().expect("its output");
    BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
    (server, line.trim().rsplit(' ').next().expect("an address").to_owned())
}

fn python() -> (Ended, String) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/evaluators/python");
    start(Command::new("python3").arg("server.py").args(["--port", "0"]).current_dir(root))
}

#[test]
fn what_an_evaluator_does_not_take_is_a_mistake_in_the_config() {
    let (_server, address) = python();
    let config = |name: &str, more: &str| {
        format!("evaluators:\n  http/{name}:\n    endpoint: {address}\n    {more}\n")
    };
    let check = |command: &str, config: &str, expected: &str| {
        let (code, said) = of_config(command, config);
        assert_eq!(code, Some(78), "{said}");
        assert!(said.contains(expected), "{expected}: {said}");
    };
    let many = config("answer_length", "settings: {words_max: many}");
    for command in ["check", "serve"] {
        check(command, &many, "c.yaml:4:27: `http/answer_length`: it does not take");
    }
    let unknown = config("answer_length", "settings: {words: 3}");
    check("check", &unknown, "c.yaml:4:15: `http/answer_length`: it does not take");
    check("check", &config("other", "kind: shorter"), "c.yaml:4:11: `http/other`: it has no kind");
    let (code, said) = of_config("check", &config("answer_length", "settings: {words_max: 3}"));
    assert!(code == Some(0) && said.contains("no mistakes"), "{said}");
}

#[test]
fn an_evaluator_whose_criteria_come_from_elsewhere_is_asked_at_the_start_too() {
    let (_server, address) = python();
    let folder = tempfile::tempdir().expect("a folder");
    let cases = folder.path().join("cases.jsonl");
    std::fs::write(&cases, "{\"id\": \"one\", \"criteria\": {\"tone\": \"friendly\"}}\n")
        .expect("cases");
    let dataset = format!("{{file: {cases:?}, key: 'attributes[\"case\"]'}}");
    for expect in [dataset.as_str(), "{attribute: case.criteria}"] {
        let config = format!(
            "evaluators:\n  http/answer_length:\n    endpoint: {address}\n    \
             settings: {{words_max: many}}\n    expect: {expect}\n"
        );
        let (code, said) = of_config("check", &config);
        let place = "c.yaml:4:27: `http/answer_length`: it does not take";
        assert!(code == Some(78) && said.contains(place), "{code:?} {said}");
        let (code, said) = of_config("check", &config.replace("many", "3"));
        assert!(code == Some(0) && said.contains("no mistakes"), "{said}");
    }
}

#[test]
fn an_evaluator_that_is_away_is_told_by_the_check_and_no_mistake() {
    let config = "evaluators:\n  grpc/none: {endpoint: \"http://127.0.0.1:1\"}\n";
    let (code, said) = of_config("check", config);
    assert!(code == Some(0) && said.contains("grpc/none could not be asked"), "{said}");
}

/// Judges with the config of an example, whose address is that of a running server, and compares
/// what is said with the example's page.
fn check_page(folder: &str, own: &str, address: &str) {
    let root = format!("{}/examples/evaluators/{folder}", env!("CARGO_MANIFEST_DIR"));
    let config = std::fs::read_to_string(format!("{root}/spanscore.yaml")).expect("its config");
    assert!(config.contains(own), "{config}");
    let (_, said) = score(&config.replace(own, address));
    let page = std::fs::read_to_string(format!("{root}/README.md")).expect("its page");
    let is_row = |line: &&str| line.contains("  http/") || line.contains("  grpc/");
    let shown: Vec<_> = said.lines().filter(is_row).collect();
    assert!(!shown.is_empty(), "{said}");
    for line in shown {
        assert!(page.contains(line.trim_end()), "not in the page: {line}\n{said}");
    }
}

#[test]
fn the_example_in_python_judges_as_its_page_says() {
    let (_server, address) = python();
    check_page("python", "http://127.0.0.1:9000", &address);
}

#[test]
fn the_example_in_rust_judges_as_its_page_says() {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_spanscore")).parent().expect("a folder");
    let program = folder.join("examples/rust_evaluator");
    // It is built with the tests, unless only some of them are.
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--locked", "--example", "rust_evaluator"]);
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.expect("cargo runs").success());
    }
    let (_server, address) = start(Command::new(program).arg("127.0.0.1:0"));
    check_page("rust", "http://127.0.0.1:9001", &address);
}
