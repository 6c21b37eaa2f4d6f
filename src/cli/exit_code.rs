//! Exit codes of the program.

use std::process::ExitCode;

/// Exit codes for scripts and CI. 64 and 78 are those of `sysexits.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Success; for `score` and `run`, the gate is open.
    Success,
    /// Failure at run time: a file, a socket, a collector that refused, a recorded trace cut by a
    /// limit.
    Failure,
    /// `score`, `run`: the gate is shut by `--fail-on`, `--min-pass-rate` or `--baseline`.
    Gate,
    /// `serve`: an orderly shutdown that lost accepted data before judgement and delivery.
    Lost,
    /// Mistake in the command line.
    Usage,
    /// Mistake in the config.
    Config,
    /// `score`, `run`: stopped by Ctrl-C, with the results so far printed.
    Interrupted,
    /// The same by SIGTERM.
    Terminated,
    /// `run`: exit code of the command, if it is not 0.
    Command(u8),
}

/// Text of `--help` about exit codes.
pub(super) const HELP: &str = "\
Exit codes:
  0   success
  1   an error at run time: a file, a socket, a refusal, or a trace judged only in part
  2   `score`, `run`: the gate is shut by --fail-on, --min-pass-rate or --baseline
  3   `serve`: the shutdown lost data; the last line says how much
  64  a mistake in the command line
  78  a mistake in the config
  130 `score`, `run`: stopped by Ctrl-C (143: by SIGTERM); prints the scores so far
  `run` passes on the exit code of the command if that is not 0";

impl Exit {
    /// Returns the exit status for the system.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Gate => 2,
            Self::Lost => 3,
            Self::Usage => 64,
            Self::Config => 78,
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
