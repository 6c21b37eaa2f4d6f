//! Files from arguments, with expanded folders and patterns.

use std::path::{Path, PathBuf};

use super::{CommandError, misused};

/// Limit on files for one command.
const FILES_MAX: usize = 1_000_000;

/// Extensions of files taken from a folder, before `.gz` and `.zst`.
const ENDINGS: [&str; 8] = ["json", "jsonl", "ndjson", "pb", "bin", "binpb", "otlp", "proto"];

/// Expands arguments in order; files of a folder or pattern are sorted by name. A path without a
/// file is kept, so that reading it reports the error.
pub(super) fn expand(args: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    let mut files = Vec::new();
    for path in args {
        let pattern = path.to_str().filter(|text| text.contains(['*', '?', '[']));
        match pattern {
            _ if path.is_dir() => {
                let before = files.len();
                walk(path, &mut files)?;
                if files.len() == before {
                    return misused(format!("no recording in {}: {}", path.display(), known()));
                }
            }
            _ if ["http:", "https:"].iter().any(|scheme| path.starts_with(scheme)) => {
                let url = path.display();
                return misused(format!("{url} is no file: fetch it, `curl -o run.json {url}`"));
            }
            Some(pattern) if !path.exists() => matching(pattern, &mut files)?,
            _ => files.push(path.clone()),
        }
        if files.len() > FILES_MAX {
            return misused(format!("more than {FILES_MAX} files in {}", path.display()));
        }
    }
    Ok(files)
}

fn known() -> String {
    format!("files end in .{}, with or without .gz and .zst", ENDINGS.join(", ."))
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        let context = format!("cannot read {}", folder.display());
        CommandError::Runtime(anyhow::Error::new(error).context(context))
    };
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).and_then(Iterator::collect).map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().map_err(failed)?;
        // Links to folders are not followed: they may form a cycle.
        if kind.is_dir() {
            walk(&path, files)?;
        } else if path.is_file() && is_recording(&path) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_recording(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    ENDINGS.iter().any(|end| name.rsplit_once('.').is_some_and(|(_, own)| own == *end))
}

fn matching(pattern: &str, files: &mut Vec<PathBuf>) -> Result<(), CommandError> {
    let paths = glob::glob(pattern)
        .map_err(|error| CommandError::Usage(format!("the pattern {pattern:?}: {error}")))?;
    let before = files.len();
    files.extend(paths.filter_map(Result::ok).filter(|path| path.is_file()));
    if files.len() > before { Ok(()) } else { misused(format!("no file matches {pattern:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_patterns_give_sorted_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("b")).expect("made");
        std::fs::create_dir(at("empty")).expect("made");
        for name in ["c.jsonl", "a.json.gz", "b/d.pb", "notes.md", "noend"] {
            std::fs::write(at(name), "").expect("written");
        }
        let names = |args: &[PathBuf]| -> Vec<String> {
            let files = expand(args).expect("files");
            let names = files.iter().map(|path| path.strip_prefix(folder.path()).unwrap_or(path));
            names.map(|path| path.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&[folder.path().to_owned()]), ["a.json.gz", "b/d.pb", "c.jsonl"]);
        assert_eq!(names(&[at("*.json*")]), ["a.json.gz", "c.jsonl"]);
        assert_eq!(names(&[at("missing.json"), "-".into()]), ["missing.json", "-"]);
        for nothing in ["x*.json", "empty"] {
            assert!(matches!(expand(&[at(nothing)]), Err(CommandError::Usage(_))), "{nothing}");
        }
    }
}
