//! Atomic replacement of small files.

use std::io::Write;
use std::path::Path;

/// Writes a file for its owner only. Readers see the old or the new text, also after a loss of
/// power. The new file is written beside it, with the extension `json.new`.
///
/// # Errors
/// Those of the file system; the old text stays.
pub fn write_by_rename(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("json.new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&new)?;
    file.write_all(text)?;
    // Otherwise a loss of power may leave an empty file under the old name.
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
