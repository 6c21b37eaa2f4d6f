//! Standard output and standard error: the one place that writes to them.
//!
//! Commands print names and texts of strangers, so nothing leaves here that a terminal would obey:
//! fields are made [`visible::line`] where they are put together, what is left is escaped here.

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::{ContentArrangement, Row, Table, presets};

use super::CommandError;
use crate::visible;

/// Writes a line, or several, to standard output. A reader that has gone (`| head`) ends the
/// program quietly: see [`CommandError::ReaderGone`].
pub(super) fn line(text: impl Display) -> Result<(), CommandError> {
    checked(writeln!(io::stdout().lock(), "{}", visible::lines(text)))
}

/// Writes one JSON value in a line of its own, to a terminal and to a file alike: what a terminal
/// would obey stands in escapes that read back as the same value.
pub(super) fn record(json: impl Display) -> Result<(), CommandError> {
    checked(writeln!(io::stdout().lock(), "{}", visible::json(json)))
}

/// Writes text of our own to standard output as it is.
pub(super) fn text(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    checked(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes a line to standard error; that nobody reads it is no failure.
pub(super) fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{}", visible::lines(text));
}

/// Shows a line of our own on a terminal's standard error, in the place of the one shown before.
pub(super) fn transient(line: &str) {
    const RETURN_AND_ERASE: &str = "\r\u{1b}[K";
    // A terminal that has gone wants no line.
    let _ = write!(io::stderr().lock(), "{RETURN_AND_ERASE}{line}");
}

/// An empty table without lines, as wide as the terminal where there is one.
pub(super) fn table(header: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}

fn checked(written: io::Result<()>) -> Result<(), CommandError> {
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CommandError::ReaderGone,
        _ => CommandError::Runtime(
            anyhow::Error::new(error).context("cannot write to standard output"),
        ),
    })
}
