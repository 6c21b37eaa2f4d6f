//! The program run to its end.

use std::process::{Command, Stdio};

/// Exit code and output of a process.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The program in the folder of the project, away from the variables of whoever runs the test.
pub(crate) fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["OTEL_", "SPANSCORE_", "GITHUB_", "AWS_"].iter().any(|start| name.starts_with(start)) {
            command.env_remove(&*name);
        }
    }
    command
}

/// Runs it.
pub(crate) fn ended(mut command: Command) -> Ended {
    let output = command.output().expect("the program starts");
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs it with these arguments.
pub(crate) fn run(args: &[&str]) -> Ended {
    ended(program(args))
}
