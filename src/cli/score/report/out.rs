//! Output of a report: standard output or a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::run::recording::create_own;
use crate::cli::{CommandError, output};
use spanscore_base::visible;

/// Write buffer of a file, bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// Standard output, or a file.
pub(super) struct ReportOut {
    file: Option<(PathBuf, BufWriter<File>)>,
}

impl ReportOut {
    /// Creates or truncates the file, if any, with mode 0600, since explanations quote arguments.
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let open = |path: &Path| -> anyhow::Result<_> {
            let name = path.display();
            let file = create_own(path).with_context(|| format!("cannot write {name}"))?;
            Ok((path.to_owned(), BufWriter::with_capacity(BUFFER_BYTES, file)))
        };
        Ok(Self { file: path.map(open).transpose()? })
    }

    /// Returns true for a file, which has no width limit.
    pub(super) fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Writes one or more lines, escaped.
    pub(super) fn line(&mut self, text: impl std::fmt::Display) -> Result<(), CommandError> {
        match &mut self.file {
            None => output::line(text),
            Some(_) => Ok(self.raw(&format!("{}\n", visible::lines(text)))?),
        }
    }

    /// Writes our own text, unescaped.
    pub(super) fn raw(&mut self, text: &str) -> anyhow::Result<()> {
        match &mut self.file {
            None => output::text(text).map_err(anyhow::Error::new),
            Some((path, file)) => file
                .write_all(text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display())),
        }
    }

    /// Flushes the file.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self.file {
            None => Ok(()),
            Some((path, mut file)) => {
                file.flush().with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}
