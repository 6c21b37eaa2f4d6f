//! The `spanscore` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    spanscore::cli::run(std::env::args_os())
}
