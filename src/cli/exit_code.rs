//! Exit codes of the program.

use std::process::ExitCode;

/// Exit codes for scripts and CI. 64 and 78 are those of `sysexits.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Success; for `score` and `run`, the gate is open.
    Success,
    /// Failure at run time: a file, a socket, a collector that refused, a recorded trace that a
    /// limit cut short.
    Failure,
    /// `score`, `run`: the gate is shut by `--fail-on`, `--min-pass-rate` or `--baseline`.
    Gate,
    /// `serve`: an orderly shutdown that lost accepted data before it was judged and delivered.
    Lost,
    /// Mistake in the command line.
    Usage,
    /// Mistake in the config.
    Config,
    /// `run`: exit code of the command, if it is not 0.
    Command(u8),
}

/// Text of `--help` about exit codes.
pub(super) const HELP: &str = "\
Exit codes:
  0   success
  1   a failure at run time: a file, a socket, a refusal, a trace judged only in part
  2   `score`, `run`: an evaluation did what --fail-on names, or it got worse
  3   `serve`: stopped with losses; the last line says how many
  64  a wrong command line
  78  a wrong config
  `run` ends with the command's own code where that is not 0";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Gate => 2,
            Exit::Lost => 3,
            Exit::Usage => 64,
            Exit::Config => 78,
            Exit::Command(code) => code,
        })
    }
}
