//! Append-only file of lines, rotated by size.
//!
//! A full file becomes `<path>.1`, an older `<path>.1` becomes `<path>.2`, and so on; the oldest is
//! deleted. A line is never split over two files.
//!
//! Other programs such as `logrotate` may rotate the file as well, so the path is checked before
//! each batch. A moved or deleted file is reopened at its path; a truncated one is appended to from
//! its start.
//!
//! A named pipe is opened with the first batch, since that waits for a reader, and never rotated.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Limits of a rotated file.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Size beyond which the file is rotated, bytes; 0 never rotates.
    pub bytes_max: u64,
    /// Number of rotated files.
    pub backups_max: u32,
    /// True if only its owner can read it; lines deleted by rotation are counted.
    pub is_private: bool,
}

/// Append-only file that is rotated by size.
pub struct Rotating {
    path: PathBuf,
    /// Open file; `None` for a pipe without a known reader.
    file: Option<File>,
    bytes: u64,
    /// False for a pipe or a device, which cannot be truncated or rotated.
    is_regular: bool,
    rotation: Rotation,
    dropped: u64,
}

impl Rotating {
    /// Opens the file for appending; a named pipe only at the first write.
    pub(crate) fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let path = path.to_owned();
        let is_pipe = std::fs::metadata(&path).is_ok_and(|it| it.file_type().is_fifo());
        let mut rotating =
            Self { path, file: None, bytes: 0, is_regular: !is_pipe, rotation, dropped: 0 };
        if !is_pipe {
            rotating.reopen()?;
        }
        Ok(rotating)
    }

    /// Opens the file for appending, in a folder private to its owner, created if missing.
    pub fn open_private(path: &Path, rotation: Rotation) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Self::open(path, rotation)
    }

    /// Returns and resets the number of lines deleted by rotation of a private file.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Reopens the file if its path leads to another file or none, else reads its size.
    fn follow_path(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return self.reopen() };
        let held = file.metadata()?;
        let is_elsewhere = match std::fs::metadata(&self.path) {
            Ok(found) => (found.dev(), found.ino()) != (held.dev(), held.ino()),
            // A path with unreadable metadata may still lead to the open file.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if is_elsewhere {
            return self.reopen();
        }
        self.bytes = held.len();
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = open(&self.path, self.rotation)?;
        let metadata = file.metadata()?;
        (self.bytes, self.is_regular) = (metadata.len(), metadata.is_file());
        self.file = Some(file);
        Ok(())
    }

    /// Writes lines that end at `ends`; returns the number of whole lines written, and the error
    /// that stopped the rest.
    pub fn append(&mut self, lines: &[u8], ends: &[usize]) -> (u64, Option<io::Error>) {
        if let Err(error) = self.follow_path() {
            return (0, Some(error));
        }
        let mut start = 0;
        let mut written = 0;
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

    /// Returns the number of lines that still fit; an empty file takes one of any length.
    fn lines_that_fit(&self, start: usize, ends: &[usize]) -> usize {
        if self.rotation.bytes_max == 0 || !self.is_regular {
            return ends.len();
        }
        let room = self.rotation.bytes_max.saturating_sub(self.bytes);
        let fit = ends.partition_point(|end| (end - start) as u64 <= room);
        if self.bytes == 0 { fit.max(1) } else { fit }
    }

    /// Writes whole lines; a torn line is truncated, so the file stays readable. A pipe waits for
    /// its next reader.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotConnected.into()) };
        match file.write_all(lines) {
            Ok(()) => {
                self.bytes += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                if self.is_regular {
                    file.set_len(self.bytes)?;
                } else {
                    self.file = None;
                }
                Err(error)
            }
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        if self.rotation.is_private {
            let oldest = match self.rotation.backups_max {
                0 => self.path.clone(),
                kept => self.backup(kept),
            };
            self.dropped += count_lines(&oldest);
        }
        for index in (1..self.rotation.backups_max).rev() {
            ignore_missing(std::fs::rename(self.backup(index), self.backup(index + 1)))?;
        }
        if self.rotation.backups_max == 0 {
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

fn open(path: &Path, rotation: Rotation) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    if rotation.is_private {
        options.mode(0o600);
    }
    options.open(path)
}

/// Returns the number of lines of a file; 0 if it cannot be read.
fn count_lines(path: &Path) -> u64 {
    let Ok(file) = File::open(path) else { return 0 };
    let mut reader = BufReader::new(file);
    let mut lines = 0;
    while let Ok(bytes) = reader.fill_buf() {
        if bytes.is_empty() {
            break;
        }
        lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        let read = bytes.len();
        reader.consume(read);
    }
    lines
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

    fn rotation(bytes_max: u64, backups_max: u32) -> Rotation {
        Rotation { bytes_max, backups_max, is_private: false }
    }

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
        let mut file = Rotating::open(&path, rotation(8, 2))?;
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
        let path = dir.path().join("scores.jsonl");
        let moved = dir.path().join("moved");
        let read = || Ok::<_, io::Error>((fs::read_to_string(&path)?, fs::read_to_string(&moved)?));
        let mut file = Rotating::open(&path, rotation(0, 0))?;
        append(&mut file, &["a\n"]);
        fs::rename(&path, &moved)?;
        append(&mut file, &["b\n"]);
        assert_eq!(read()?, ("b\n".into(), "a\n".into()));
        // The program that moved it may have made a new file already.
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
        let mut file = Rotating::open(&path, rotation(8, 2))?;
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
        let mut file = Rotating::open(&folder.join("scores.jsonl"), rotation(0, 0))?;
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
        append(&mut Rotating::open(&path, rotation(0, 0))?, &["a\n"]);
        append(&mut Rotating::open(&path, rotation(0, 0))?, &["b\n"]);
        assert_eq!(fs::read_to_string(&path)?, "a\nb\n");
        Ok(())
    }
}
