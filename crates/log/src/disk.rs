//! File system of a log behind a trait, so that tests can simulate lost power, a full disk and
//! failures.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Permissions of a log's files and folders, for the owner only: they hold agents' data.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Folder of files.
pub trait Disk: Send + Sync + 'static {
    /// Creates an empty file that must not exist yet, for reading and appending.
    ///
    /// # Errors
    /// Those of the system.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file, for reading and truncation.
    ///
    /// # Errors
    /// Those of the system.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Returns the names of all files, in no order.
    ///
    /// # Errors
    /// Those of the system.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Renames a file.
    ///
    /// # Errors
    /// Those of the system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; a missing one is no error.
    ///
    /// # Errors
    /// Those of the system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Syncs the folder: files created, renamed and removed so far survive a loss of power.
    ///
    /// # Errors
    /// Those of the system.
    fn sync_folder(&self) -> io::Result<()>;
}

/// File of a [`Disk`].
pub trait DiskFile: Send + Sync {
    /// Appends part of the given bytes; returns their number.
    ///
    /// # Errors
    /// Those of the system; the number of written bytes is then unknown.
    fn append(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Reads at an offset; returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// Those of the system.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Truncates the file to a length.
    ///
    /// # Errors
    /// Those of the system.
    fn cut(&self, len: u64) -> io::Result<()>;

    /// Syncs the file: bytes appended so far survive a loss of power.
    ///
    /// # Errors
    /// Those of the system; the state of all earlier appends is then unknown.
    fn sync(&self) -> io::Result<()>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn size(&self) -> io::Result<u64>;
}

/// Folder of the host's file system, locked by one process.
pub struct Folder {
    path: PathBuf,
    /// Lock file, locked while open.
    _lock: File,
}

impl Folder {
    /// Opens a folder, creates it if missing, and locks it.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::WouldBlock`] if another process holds the
    /// lock.
    pub fn open(path: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(FILE_MODE)
            .open(path.join("lock"))?;
        lock.try_lock().map_err(io::Error::from)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }
}

impl Disk for Folder {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.create_new(true).read(true).append(true).mode(FILE_MODE);
        Ok(Box::new(options.open(self.path.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        Ok(Box::new(options.read(true).append(true).open(self.path.join(name))?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl DiskFile for File {
    fn append(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut file = self;
        file.write_vectored(parts)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}
