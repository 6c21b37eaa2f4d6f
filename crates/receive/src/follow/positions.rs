//! Persistent read positions of followed files.

use std::path::{Path, PathBuf};

use super::file::FilePosition;
use spanscore_net::file::write_by_rename;

/// File of all positions.
pub(super) struct PositionStore {
    path: PathBuf,
    /// Its positions; `None` if there are none, or they are unreadable.
    written: Option<Vec<FilePosition>>,
}

impl PositionStore {
    /// Reads the positions in a data directory; `None` if none were stored, or they are unreadable.
    pub(super) fn open(data_dir: &Path) -> (Self, Option<Vec<FilePosition>>) {
        let path = data_dir.join("receivers").join("file.json");
        let read = match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| error.to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        let positions: Option<Vec<FilePosition>> = read.unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), error,
                "it is not known how far files were read; `start_at` says where to begin");
            None
        });
        (Self { path, written: positions.clone() }, positions)
    }

    /// Writes changed positions atomically, also across a loss of power.
    pub(super) fn write(&mut self, positions: Vec<FilePosition>) -> std::io::Result<()> {
        if self.written.as_ref() == Some(&positions) {
            return Ok(());
        }
        if let Some(folder) = self.path.parent() {
            create_folder(folder)?;
        }
        write_by_rename(&self.path, &serde_json::to_vec(&positions)?)?;
        self.written = Some(positions);
        Ok(())
    }
}

/// Creates a folder that only its owner can read.
fn create_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
