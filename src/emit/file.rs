//! The `file` exporter: JSON Lines, rotated by size.
//!
//! A full file becomes `<path>.1`, an older `<path>.1` becomes `<path>.2`, and so on; the oldest is
//! deleted. A line is never split over two files.
//!
//! Another program may rotate the file as well, `logrotate` mostly: before each batch the path is
//! looked at. A file that was moved away or deleted is opened anew at its path, one that was copied
//! and cut is written on from its start.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::counters::{Loss, Seldom};
use super::queue::{Deliver, Delivery, EvaluationBatch, QueueLimits};
use super::record;
use super::settings::{Exporter, ExporterKind};
use super::{ExporterStartError, Starting};
use crate::settings::{Node, SettingsError};

/// `file`.
pub(crate) static KIND: ExporterKind = ExporterKind {
    name: "file",
    aliases: &[],
    about: "Appends one JSON object a line for each evaluation to a file.",
    single: false,
    schema: || schemars::schema_for!(FileSettings),
    read: |node| Ok(Arc::new(read(node)?)),
};

/// Longest wait for more evaluations before a batch is written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// Appends evaluations to a file as JSON Lines. A file that another program has moved away or
/// deleted is opened anew at its path with the next batch.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FileSettings {
    /// The file; it is made if it does not exist, its folder is not.
    pub(crate) path: String,
    /// When the file is set aside for a new one.
    pub(crate) rotation: RotationSettings,
    /// Whether explanations and details, which may quote arguments and results, are written.
    /// The file stays on this machine, so they are.
    pub(crate) include_content: bool,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self { path: String::new(), rotation: RotationSettings::default(), include_content: true }
    }
}

/// Rotation of a file by size.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RotationSettings {
    /// Size in MiB (1024 * 1024 bytes) beyond which the file becomes `<path>.1`; 0 never rotates:
    /// for a file that another program rotates.
    pub(crate) max_megabytes: u64,
    /// How many files that were set aside are kept; the oldest is deleted.
    pub(crate) max_backups: u32,
}

impl Default for RotationSettings {
    fn default() -> Self {
        Self { max_megabytes: 100, max_backups: 10 }
    }
}

fn read(node: &Node) -> Result<FileSettings, SettingsError> {
    let file: FileSettings = node.read()?;
    if file.path.is_empty() {
        return Err(SettingsError::new("`path` is missing").with_help("name the file to write"));
    }
    Ok(file)
}

impl Exporter for FileSettings {
    fn start(&self, starting: &mut Starting<'_>) -> Result<(), ExporterStartError> {
        let file = RecordFile::open(self).map_err(|error| {
            let (exporter, path) = (starting.name().to_owned(), self.path.clone());
            ExporterStartError::File { exporter, path, error }
        })?;
        starting.show(self.include_content, true);
        starting.queue(QueueLimits::local(FLUSH_TIMEOUT), file);
        Ok(())
    }
}

/// Writes records to a file.
pub(crate) struct RecordFile {
    content: bool,
    file: Arc<Mutex<Rotating>>,
    broken: Seldom,
}

impl RecordFile {
    /// Opens the file for appending.
    pub(crate) fn open(settings: &FileSettings) -> io::Result<Self> {
        let bytes_max = settings.rotation.max_megabytes.saturating_mul(1 << 20);
        let rotating =
            Rotating::open(Path::new(&settings.path), bytes_max, settings.rotation.max_backups)?;
        let file = Arc::new(Mutex::new(rotating));
        Ok(Self { content: settings.include_content, file, broken: Seldom::new() })
    }
}

impl Deliver for RecordFile {
    async fn deliver(&self, batch: EvaluationBatch) -> Delivery {
        let mut lines = String::new();
        let mut ends = Vec::new();
        for evaluation in batch.iter().flat_map(|evaluations| evaluations.iter()) {
            record::write_line(evaluation, self.content, &mut lines);
            ends.push(lines.len());
        }
        let file = self.file.clone();
        let count = ends.len() as u64;
        let write = move || {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.append(lines.as_bytes(), &ends)
        };
        // A task that was stopped has written nothing that could be counted.
        let (written, error) = tokio::task::spawn_blocking(write)
            .await
            .unwrap_or((0, Some(io::Error::other("stopped"))));
        let Some(error) = error else { return Delivery { sent: written, lost: Vec::new() } };
        if self.broken.may_log() {
            tracing::warn!(%error, "failed to write evaluations to the file");
        }
        Delivery { sent: written, lost: vec![(Loss::Io, count - written)] }
    }
}

struct Rotating {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    backups_max: u32,
}

impl Rotating {
    fn open(path: &Path, bytes_max: u64, backups_max: u32) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes, bytes_max, backups_max })
    }

    /// Opens the file anew if its path leads to another one or to none; notes what it holds.
    fn follow_path(&mut self) -> io::Result<()> {
        let held = self.file.metadata()?;
        let is_elsewhere = match std::fs::metadata(&self.path) {
            Ok(found) => (found.dev(), found.ino()) != (held.dev(), held.ino()),
            // What cannot be looked at may still be written to.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if is_elsewhere {
            return self.reopen();
        }
        self.bytes = held.len();
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        *self = Self::open(&self.path, self.bytes_max, self.backups_max)?;
        Ok(())
    }

    /// Writes lines that end at `ends`; how many were written whole, and what stopped the rest.
    fn append(&mut self, lines: &[u8], ends: &[usize]) -> (u64, Option<io::Error>) {
        if let Err(error) = self.follow_path() {
            return (0, Some(error));
        }
        let (mut start, mut written) = (0, 0);
        while written < ends.len() {
            let until = self.lines_that_fit(start, &ends[written..]);
            if until == 0 {
                if let Err(error) = self.rotate() {
                    return (written as u64, Some(error));
                }
                continue;
            }
            let end = ends[written + until - 1];
            if let Err(error) = self.write(&lines[start..end]) {
                return (written as u64, Some(error));
            }
            (start, written) = (end, written + until);
        }
        (written as u64, None)
    }

    /// How many lines still fit; an empty file takes one of any length.
    fn lines_that_fit(&self, start: usize, ends: &[usize]) -> usize {
        if self.bytes_max == 0 {
            return ends.len();
        }
        let room = self.bytes_max.saturating_sub(self.bytes);
        let fit = ends.partition_point(|end| (end - start) as u64 <= room);
        if self.bytes == 0 { fit.max(1) } else { fit }
    }

    /// Writes whole lines; a torn line is cut off again, so the file stays readable.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self.file.write_all(lines) {
            Ok(()) => {
                self.bytes += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.file.set_len(self.bytes)?;
                Err(error)
            }
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        for index in (1..self.backups_max).rev() {
            ignore_missing(std::fs::rename(self.backup(index), self.backup(index + 1)))?;
        }
        if self.backups_max == 0 {
            ignore_missing(std::fs::remove_file(&self.path))?;
        } else {
            ignore_missing(std::fs::rename(&self.path, self.backup(1)))?;
        }
        self.reopen()
    }

    fn backup(&self, index: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{index}"));
        name.into()
    }
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn append(file: &mut Rotating, lines: &[&str]) -> u64 {
        let text: String = lines.concat();
        let ends: Vec<_> = lines
            .iter()
            .scan(0, |at, line| {
                *at += line.len();
                Some(*at)
            })
            .collect();
        let (written, error) = file.append(text.as_bytes(), &ends);
        assert!(error.is_none(), "{error:?}");
        written
    }

    #[test]
    fn a_full_file_is_set_aside_and_the_oldest_deleted() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("scores.jsonl");
        let mut file = Rotating::open(&path, 8, 2)?;
        assert_eq!(append(&mut file, &["aaa\n", "bbb\n", "ccc\n"]), 3);
        assert_eq!(append(&mut file, &["ddd\n", "a line beyond the limit\n", "e\n"]), 3);
        let read = |name: &str| fs::read_to_string(dir.path().join(name));
        assert_eq!(read("scores.jsonl")?, "e\n");
        assert_eq!(read("scores.jsonl.1")?, "a line beyond the limit\n");
        assert_eq!(read("scores.jsonl.2")?, "ccc\nddd\n");
        assert!(read("scores.jsonl.3").is_err());
        Ok(())
    }

    #[test]
    fn a_file_that_was_moved_away_is_made_anew() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let (path, moved) = (dir.path().join("scores.jsonl"), dir.path().join("moved"));
        let read = || Ok::<_, io::Error>((fs::read_to_string(&path)?, fs::read_to_string(&moved)?));
        let mut file = Rotating::open(&path, 0, 0)?;
        append(&mut file, &["a\n"]);
        fs::rename(&path, &moved)?;
        append(&mut file, &["b\n"]);
        assert_eq!(read()?, ("b\n".into(), "a\n".into()));
        // Whoever moved it has made a new one already.
        fs::rename(&path, &moved)?;
        fs::write(&path, "")?;
        append(&mut file, &["c\n"]);
        append(&mut file, &["d\n"]);
        assert_eq!(read()?, ("c\nd\n".into(), "b\n".into()));
        fs::remove_file(&path)?;
        append(&mut file, &["e\n"]);
        assert_eq!(read()?, ("e\n".into(), "b\n".into()));
        Ok(())
    }

    #[test]
    fn a_file_that_was_cut_has_its_room_again() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("scores.jsonl");
        let mut file = Rotating::open(&path, 8, 2)?;
        append(&mut file, &["aaaa\n"]);
        OpenOptions::new().write(true).open(&path)?.set_len(0)?;
        append(&mut file, &["bbb\n", "ccc\n"]);
        assert_eq!(fs::read_to_string(&path)?, "bbb\nccc\n");
        assert!(!dir.path().join("scores.jsonl.1").exists());
        Ok(())
    }

    #[test]
    fn a_folder_that_is_gone_loses_lines_until_it_is_back() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let folder = dir.path().join("scores");
        fs::create_dir(&folder)?;
        let mut file = Rotating::open(&folder.join("scores.jsonl"), 0, 0)?;
        fs::remove_dir_all(&folder)?;
        assert!(matches!(file.append(b"a\n", &[2]), (0, Some(_))));
        fs::create_dir(&folder)?;
        append(&mut file, &["b\n"]);
        assert_eq!(fs::read_to_string(folder.join("scores.jsonl"))?, "b\n");
        Ok(())
    }

    #[test]
    fn an_existing_file_is_appended_to() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("scores.jsonl");
        append(&mut Rotating::open(&path, 0, 0)?, &["a\n"]);
        append(&mut Rotating::open(&path, 0, 0)?, &["b\n"]);
        assert_eq!(fs::read_to_string(&path)?, "a\nb\n");
        Ok(())
    }
}
