//! The few things that a log asks of a file system, so that tests can take one that forgets what
//! was not synced, is full, or fails.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Files and folders that a log makes are their owner's alone: they hold what agents said.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// One folder of files.
pub trait Disk: Send + Sync + 'static {
    /// Creates an empty file that must not be there yet, to be read and appended to.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that is there, to be read and cut.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// The names of all files, in no order.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Gives a file another name.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; one that is not there is no error.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes what was created, renamed and removed survive a loss of power.
    ///
    /// # Errors
    /// What the system says.
    fn sync_folder(&self) -> io::Result<()>;
}

/// One file of a [`Disk`].
pub trait DiskFile: Send + Sync {
    /// Appends some bytes of what it is given; how many.
    ///
    /// # Errors
    /// What the system says; what was written then is not known.
    fn append(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Reads at a place; how many bytes, 0 at the end.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Cuts the file to a length.
    ///
    /// # Errors
    /// What the system says.
    fn cut(&self, len: u64) -> io::Result<()>;

    /// Makes what was appended survive a loss of power.
    ///
    /// # Errors
    /// What the system says; after an error nothing is known of what was appended before.
    fn sync(&self) -> io::Result<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn size(&self) -> io::Result<u64>;
}

/// A folder of the machine, held by one process at a time.
pub struct Folder {
    path: PathBuf,
    /// Locked for as long as this is there.
    _lock: File,
}

impl Folder {
    /// Opens a folder, created where it is not there, and locks it.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::WouldBlock`] where another process holds it.
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
