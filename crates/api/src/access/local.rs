//! Files of a running collector for its user's commands: its URL, and a header for `curl -H @FILE`.

use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use spanscore_base::settings::Secret;

use super::{code, now_s};
use crate::state::Api;

/// Folder below `data_dir`.
const FOLDER: &str = "dashboard";
/// File of the URL.
const URL_FILE: &str = "url";
/// File of the header.
const HEADER_FILE: &str = "header";
/// Header before the key.
const HEADER: &str = "Authorization: Bearer ";

/// Error of missing or untrusted files.
#[derive(Debug, thiserror::Error)]
pub enum LocalAccessError {
    /// There are no files of a collector.
    #[error(
        "no running collector has left its address in `{folder}`: start one, or name the config \
         that it was started with"
    )]
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// The system refuses access, or others may read the folder.
    #[error("cannot use `{folder}`: {error}")]
    Io {
        /// The folder.
        folder: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// Returns the folder of a collector: in its `data_dir`, or by port in the user's runtime folder.
pub fn access_folder(data_dir: Option<&Path>, port: u16) -> PathBuf {
    let beside = || runtime_folder().join(port.to_string());
    data_dir.map_or_else(beside, |data_dir| data_dir.join(FOLDER))
}

fn runtime_folder() -> PathBuf {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match given.filter(|folder| folder.is_absolute()) {
        Some(folder) => folder.join("spanscore"),
        None => {
            let user = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("spanscore-{user}"))
        }
    }
}

/// URL and key of a running collector.
#[derive(Clone, Debug)]
pub struct LocalAccess {
    url: String,
    key: Secret,
}

impl LocalAccess {
    /// Returns the access to an API that listens at an address.
    pub fn of(api: &Api, address: SocketAddr) -> Self {
        let url = local_url(address, api.guard.is_secure(), &api.base_path);
        Self { url, key: api.guard.keys.key().clone() }
    }

    /// Reads a collector's files from a folder.
    ///
    /// # Errors
    /// They are missing, or others may read them.
    pub fn find(folder: &Path) -> Result<Self, LocalAccessError> {
        let read = || {
            check_private(folder)?;
            let url = std::fs::read_to_string(folder.join(URL_FILE))?;
            let header = std::fs::read_to_string(folder.join(HEADER_FILE))?;
            let key = header.trim_end().strip_prefix(HEADER).unwrap_or_default().to_owned();
            Ok(Self { url: url.trim_end().to_owned(), key: Secret(key) })
        };
        read().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => LocalAccessError::Missing { folder: folder.to_owned() },
            _ => LocalAccessError::Io { folder: folder.to_owned(), error },
        })
    }

    /// Writes the files to a folder, until the returned guard is dropped.
    ///
    /// # Errors
    /// They cannot be written, or others could read them.
    pub fn leave(self, folder: PathBuf) -> Result<LeftAccess, LocalAccessError> {
        let write = || {
            let shared = runtime_folder();
            if folder.starts_with(&shared) {
                make_private(&shared)?;
            } else {
                narrow(&folder)?;
            }
            make_private(&folder)?;
            write_private(&folder, HEADER_FILE, &format!("{HEADER}{}\n", self.key.reveal()))?;
            write_private(&folder, URL_FILE, &format!("{}\n", self.url))
        };
        match write() {
            Ok(()) => Ok(LeftAccess { access: self, folder }),
            Err(error) => Err(LocalAccessError::Io { folder, error }),
        }
    }

    /// Returns the URL of the pages.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a link for one login within ten minutes. The code is after the `#`, which no browser
    /// sends and no proxy logs.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn link(&self) -> io::Result<String> {
        Ok(format!("{}#/login?code={}", self.url, code::make(&self.key, now_s())?))
    }
}

/// Guard of the files in a folder, deleted on drop.
#[derive(Debug)]
pub struct LeftAccess {
    access: LocalAccess,
    folder: PathBuf,
}

impl LeftAccess {
    /// Returns URL and key.
    pub fn access(&self) -> &LocalAccess {
        &self.access
    }
}

impl Drop for LeftAccess {
    fn drop(&mut self) {
        // Another collector may have started here since: its files stay.
        let left = LocalAccess::find(&self.folder);
        if left.is_ok_and(|left| left.key.reveal() == self.access.key.reveal()) {
            let _ = std::fs::remove_file(self.folder.join(URL_FILE));
            let _ = std::fs::remove_file(self.folder.join(HEADER_FILE));
            // Fails if the folder holds anything else.
            let _ = std::fs::remove_dir(&self.folder);
        }
    }
}

/// Returns the URL of a listener for browsers on this host.
fn local_url(address: SocketAddr, is_secure: bool, base_path: &str) -> String {
    let scheme = if is_secure { "https" } else { "http" };
    let host = match address {
        at if at.ip().is_unspecified() => format!("localhost:{}", at.port()),
        at => at.to_string(),
    };
    format!("{scheme}://{host}{base_path}/")
}

/// Creates a folder for its owner only, or checks an existing one.
fn make_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_private(folder),
        other => other,
    }
}

/// Removes others' permissions from our folder in `data_dir`: a volume mounted for a group grants
/// them by default.
fn narrow(folder: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(folder) {
        Ok(found) if is_own_folder(&found) => {
            std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700))
        }
        // Created, or refused, next.
        _ => Ok(()),
    }
}

fn is_own_folder(found: &Metadata) -> bool {
    found.is_dir() && found.uid() == rustix::process::geteuid().as_raw()
}

/// Checks that we own a folder and that no other user can read it: others can create folders in a
/// temporary one.
fn check_private(folder: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(folder)?;
    if is_own_folder(&found) && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let text = "it must be a folder of this user that nobody else may read: remove it";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Writes a file for its owner only, atomically.
fn write_private(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let fresh = folder.join(format!("{name}.new"));
    let mut file =
        OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&fresh)?;
    file.set_permissions(PermissionsExt::from_mode(0o600))?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&fresh, folder.join(name))
}
