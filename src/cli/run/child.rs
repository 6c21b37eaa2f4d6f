//! Child process of `run`: started, awaited, with our signals passed on.

use std::ffi::OsString;
use std::future::poll_fn;
use std::io::{ErrorKind, IsTerminal};
use std::process::ExitStatus;
use std::task::Poll;

use rustix::process::{Pid, Signal as Number, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::variables::Change;
use crate::cli::Exit;

/// Exit codes of shells for a command that is not found, and for one that cannot be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;
/// Offset of shells' exit codes for a command ended by a signal.
const SIGNALLED: i32 = 128;

/// Failure to start a command, with its exit code.
pub(super) struct NotStarted {
    pub(super) exit: Exit,
    pub(super) error: std::io::Error,
}

/// Starts a command with our standard streams.
pub(super) fn start(command: &[OsString], changes: &[Change]) -> Result<Child, NotStarted> {
    let mut words = command.iter();
    let mut command = Command::new(words.next().map_or("".as_ref(), |it| it.as_os_str()));
    command.args(words);
    for (name, value) in changes {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.spawn().map_err(|error| {
        let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
        NotStarted { exit: Exit::Command(code), error }
    })
}

/// Signals that are passed on.
pub(super) struct PassedSignals {
    passed: [(Number, Signal); 6],
}

impl PassedSignals {
    pub(super) fn new() -> std::io::Result<Self> {
        let passed = |number: Number| -> std::io::Result<_> {
            Ok((number, signal(SignalKind::from_raw(number.as_raw()))?))
        };
        Ok(Self {
            passed: [
                passed(Number::TERM)?,
                passed(Number::INT)?,
                passed(Number::HUP)?,
                passed(Number::QUIT)?,
                passed(Number::USR1)?,
                passed(Number::USR2)?,
            ],
        })
    }

    /// Waits for the end of a command, and passes signals on to it meanwhile.
    pub(super) async fn wait(&mut self, child: &mut Child) -> std::io::Result<ExitStatus> {
        loop {
            tokio::select! {
                status = child.wait() => return status,
                number = self.next() => pass(child, number),
            }
        }
    }

    async fn next(&mut self) -> Number {
        poll_fn(|cx| {
            let came = self
                .passed
                .iter_mut()
                .find_map(|(number, signal)| signal.poll_recv(cx).is_ready().then_some(*number));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

fn pass(child: &Child, number: Number) {
    // Ctrl-C and Ctrl-\ at a terminal reach the command anyway, which is in the foreground group.
    let is_typed = matches!(number, Number::INT | Number::QUIT) && std::io::stdin().is_terminal();
    if is_typed {
        return;
    }
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(id) = id {
        // Fails if the command has just ended, which `wait` reports.
        let _ = kill_process(id, number);
    }
}

/// Converts the status of the command to our exit; `None` on success.
pub(super) fn failure(status: ExitStatus) -> Option<Exit> {
    use std::os::unix::process::ExitStatusExt;
    if status.success() {
        return None;
    }
    let code = status.code().or_else(|| status.signal().map(|number| SIGNALLED + number));
    let code = code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
    Some(Exit::Command(code.unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn codes_are_those_that_a_shell_gives() {
        let of = |raw| failure(ExitStatus::from_raw(raw));
        assert_eq!(of(0), None);
        assert_eq!(of(3 << 8), Some(Exit::Command(3)));
        assert_eq!(of(15), Some(Exit::Command(143)));
    }
}
