//! Where a report goes: standard output or a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::{CommandError, output};
use crate::receive::file::recording::create_own;
use crate::visible;

/// Buffer for writing to a file, in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// Standard output, or a file.
pub(super) struct ReportOut {
    file: Option<(PathBuf, BufWriter<File>)>,
}

impl ReportOut {
    /// Makes the file anew, if there is one, for its owner alone: explanations quote arguments.
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let open = |path: &Path| -> anyhow::Result<_> {
            let name = path.display();
            let file = create_own(path).with_context(|| format!("cannot write {name}"))?;
            Ok((path.to_owned(), BufWriter::with_capacity(BUFFER_BYTES, file)))
        };
        Ok(Self { file: path.map(open).transpose()? })
    }

    /// Whether it goes to a file, which is as wide as it needs to be.
    pub(super) fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Writes a line, or several.
    pub(super) fn line(&mut self, text: impl std::fmt::Display) -> Result<(), CommandError> {
        match &mut self.file {
            None => output::line(text),
            Some(_) => Ok(self.raw(&format!("{}\n", visible::lines(text)))?),
        }
    }

    /// Writes text of our own as it is.
    pub(super) fn raw(&mut self, text: &str) -> anyhow::Result<()> {
        match &mut self.file {
            None => output::text(text).map_err(anyhow::Error::new),
            Some((path, file)) => file
                .write_all(text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display())),
        }
    }

    /// Ends it.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self.file {
            None => Ok(()),
            Some((path, mut file)) => {
                file.flush().with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}
