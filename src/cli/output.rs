//! Standard output and standard error: the one place that writes to them.

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::{ContentArrangement, Row, Table, presets};

use super::Failure;

/// Writes a line to standard output. A reader that has gone (`| head`) ends the program quietly:
/// see [`Failure::ReaderGone`].
pub(super) fn line(text: impl Display) -> Result<(), Failure> {
    checked(writeln!(io::stdout().lock(), "{text}"))
}

/// Writes text to standard output as it is.
pub(super) fn text(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    checked(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes a line to standard error; that nobody reads it is no failure.
pub(super) fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
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

fn checked(written: io::Result<()>) -> Result<(), Failure> {
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Runtime(anyhow::Error::new(error).context("cannot write to standard output")),
    })
}
