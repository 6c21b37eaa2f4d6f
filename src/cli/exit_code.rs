//! How the program ends.

use std::process::ExitCode;

/// The exit codes, for scripts and CI. 64 and 78 are those of `sysexits.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Everything went well; for `score`, the gate is open.
    Success = 0,
    /// Something failed at run time: a file, a socket, a collector that refused, a recorded trace
    /// that a limit cut short.
    Failure = 1,
    /// `score`: the gate is shut, for what `--fail-on` names.
    Gate = 2,
    /// `serve`: it ended in order, and what it had taken was not all judged and delivered.
    Lost = 3,
    /// The command line is wrong.
    Usage = 64,
    /// The config is wrong.
    Config = 78,
}

/// What `--help` says of them.
pub(super) const HELP: &str = "\
Exit codes:
  0   success
  1   a failure at run time: a file, a socket, a refusal, a trace judged only in part
  2   `score`: an evaluation did what --fail-on names
  3   `serve`: stopped with losses; the last line says how many
  64  a wrong command line
  78  a wrong config";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
