//! Opening of the file: permissions, lock, damage, version.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::schema;

/// Reason that a file is unusable.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// Written by a newer program.
    #[error(
        "`{path}` is of version {found}, and this program knows versions up to {known}: run the \
         newer program, or set another `store.path`"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Newest known version.
        known: u32,
    },
    /// Written by an older program, and opened only for reading.
    #[error(
        "`{path}` is of version {found}, and this program reads version {known}: start a collector \
         on it once, which brings it there"
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Version that is read.
        known: u32,
    },
    /// Locked by another process that writes to it.
    #[error("`{path}` is written by another process: give each its own `data_dir` or `store.path`")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// There is no such file.
    #[error(
        "there is no store at `{path}`: a collector with `data_dir` makes one, or name another \
         with --store"
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Error of the system.
    #[error("cannot open `{path}`: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// SQLite refuses.
    #[error("cannot use `{path}`: {error}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Error of SQLite.
        error: rusqlite::Error,
    },
}

/// File opened exclusively for writing.
#[derive(Debug)]
pub(crate) struct OpenStore {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    /// True if a damaged file was set aside.
    pub(crate) was_damaged: bool,
    _lock: File,
}

impl OpenStore {
    /// Opens or creates the file. A damaged one is renamed and replaced.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreOpenError> {
        let lock = lock(path)?;
        let opened = connect(path);
        let (connection, was_damaged) = match opened {
            Err(StoreOpenError::Sqlite { error, .. }) if is_damage(&error) => {
                set_aside(path)?;
                (connect(path)?, true)
            }
            other => (other?, false),
        };
        Ok(Self { connection, path: path.to_owned(), was_damaged, _lock: lock })
    }

    /// Sets the file aside after damage was found, and begins a new one.
    pub(crate) fn begin_anew(&mut self) -> Result<(), StoreOpenError> {
        set_aside(&self.path)?;
        self.connection = connect(&self.path)?;
        Ok(())
    }
}

/// Returns true for an error of a damaged file, or one of another format.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Returns the path with a suffix on the name.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// Takes the lock of the file, which the system releases at the end of the process.
fn lock(path: &Path) -> Result<File, StoreOpenError> {
    let place = beside(path, ".lock");
    let file =
        private(&place).map_err(|error| StoreOpenError::Io { path: place.clone(), error })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreOpenError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(StoreOpenError::Io { path: place, error }),
    }
}

/// Opens or creates a file with access for its owner only.
fn private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}

fn connect(path: &Path) -> Result<Connection, StoreOpenError> {
    // SQLite gives its side files the permissions of this one.
    private(path).map_err(|error| StoreOpenError::Io { path: path.to_owned(), error })?;
    let sqlite = |error| StoreOpenError::Sqlite { path: path.to_owned(), error };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    let found = schema::version(&connection).map_err(sqlite)?;
    if found > schema::VERSION {
        let known = schema::VERSION;
        return Err(StoreOpenError::Newer { path: path.to_owned(), found, known });
    }
    prepare(&mut connection).map_err(sqlite)?;
    Ok(connection)
}

fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -16384;
         PRAGMA temp_store = MEMORY; PRAGMA busy_timeout = 2000;",
    )?;
    connection.set_prepared_statement_cache_capacity(64);
    schema::migrate(connection)?;
    // Touches each table and index that a damaged file may lack.
    connection
        .query_row("SELECT count(*) FROM pragma_table_list", [], |row| row.get::<_, i64>(0))?;
    connection.query_row("SELECT max(stored) FROM trajectories", [], |_| Ok(()))
}

/// Renames a damaged file and its side files, replacing an earlier damaged one.
fn set_aside(path: &Path) -> Result<(), StoreOpenError> {
    for ending in ["", "-wal", "-shm"] {
        let from = beside(path, ending);
        let to = beside(path, &format!(".damaged{ending}"));
        match std::fs::rename(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreOpenError::Io { path: from, error });
            }
            _ => {}
        }
    }
    tracing::error!(path = %path.display(), "the store was damaged; it was set aside as .damaged");
    Ok(())
}
