//! Standard output and standard error: the only place that writes to them.
//!
//! Commands print foreign names and texts, whose control sequences must not reach a terminal.
//! Fields pass [`visible::line`] where lines are composed; the rest is escaped here.

pub(super) mod interrupt;
pub(super) mod misuse;
pub(super) mod progress;

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::{ContentArrangement, Row, Table, presets};

use super::CommandError;
use spanscore_base::visible;
use spanscore_telemetry::to_stderr;

/// Writes one or more lines to standard output. Without a reader (`| head`) they are dropped: the
/// command runs to its end, with the same exit code.
pub(super) fn line(text: impl Display) -> Result<(), CommandError> {
    checked(writeln!(io::stdout().lock(), "{}", visible::lines(text)))
}

/// Writes one JSON value as a line, the same to a terminal and a file: control characters are JSON
/// escapes, so the value reads back unchanged.
pub(super) fn record(json: impl Display) -> Result<(), CommandError> {
    checked(writeln!(io::stdout().lock(), "{}", visible::json(json)))
}

/// Writes a line that is already escaped; returns false without a reader, for endless commands.
pub(super) fn followed(line: &str) -> Result<bool, CommandError> {
    match writeln!(io::stdout().lock(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => checked(written).map(|()| true),
    }
}

/// Writes our own text to standard output, unescaped.
pub(super) fn text(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    checked(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes a line to standard error; ignores a missing reader. A collector does not wait for a slow
/// one.
pub(super) fn note(text: impl Display) {
    to_stderr(&format!("{}\n", visible::lines(text)));
}

/// Replaces the current line on a terminal's standard error by our own text.
pub(super) fn transient(line: &str) {
    const RETURN_AND_ERASE: &str = "\r\u{1b}[K";
    // Fails only if the terminal is gone.
    let _ = write!(io::stderr().lock(), "{RETURN_AND_ERASE}{line}");
}

/// Creates a table without borders, as wide as the terminal, if any.
pub(super) fn table(header: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}

fn checked(written: io::Result<()>) -> Result<(), CommandError> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let error = anyhow::Error::new(error).context("cannot write to standard output");
            Err(CommandError::Runtime(error))
        }
        _ => Ok(()),
    }
}
