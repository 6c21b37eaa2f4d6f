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
            "  agentevals/{name}: {{path: {script:?}, config: {{mode: {mode}}}, timeout: 30s}}\n"
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

#[test]
fn the_example_in_python_judges_as_its_page_says() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/evaluators/python");
    let mut command = Command::new("python3");
    command.arg("server.py").args(["--port", "0"]).current_dir(root).stdout(Stdio::piped());
    let mut server = Ended(command.spawn().expect("python3 is there"));
    let mut line = String::new();
    let stdout = server.0.stdout.take().expect("its output");
    BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
    let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
    let config = std::fs::read_to_string(format!("{root}/spanscore.yaml")).expect("its config");
    assert!(config.contains("http://127.0.0.1:9000"), "{config}");
    let (_, said) = score(&config.replace("http://127.0.0.1:9000", &address));
    let page = std::fs::read_to_string(format!("{root}/README.md")).expect("its page");
    let shown: Vec<_> = said.lines().filter(|line| line.contains("http/")).collect();
    assert!(!shown.is_empty(), "{said}");
    for line in shown {
        assert!(page.contains(line.trim_end()), "not in the page: {line}\n{said}");
    }
}
