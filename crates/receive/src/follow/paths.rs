//! Glob expansion of file patterns, with `*` and `?` within path components.

use std::path::{Path, PathBuf};

use spanscore_base::glob::matches_glob;

/// Limit on followed files; others wait until one is closed.
pub(super) const FILES_MAX: usize = 1024;

/// Finds the files that match `include` but not `exclude`, without duplicates, sorted by path.
pub(super) fn find(include: &[String], exclude: &[String]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for pattern in include {
        let path = Path::new(pattern);
        let root = if path.is_absolute() { PathBuf::from("/") } else { PathBuf::new() };
        let names: Vec<_> = path
            .components()
            .filter(|part| !matches!(part, std::path::Component::RootDir))
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        descend(&root, &names, &mut found);
    }
    found.retain(|path| {
        let shown = path.to_string_lossy();
        !exclude.iter().any(|pattern| {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            matches_glob(pattern, &shown)
                || (!pattern.contains('/') && matches_glob(pattern, &name))
        })
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// Adds the matching files below a folder.
fn descend(folder: &Path, names: &[String], found: &mut Vec<PathBuf>) {
    let Some((name, below)) = names.split_first() else { return };
    let mut visit = |path: PathBuf| {
        if below.is_empty() {
            if path.is_file() {
                found.push(path);
            }
        } else {
            descend(&path, below, found);
        }
    };
    if !name.contains(['*', '?']) {
        return visit(folder.join(name));
    }
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // A missing or unreadable folder has no files yet.
    let Ok(entries) = std::fs::read_dir(listed) else { return };
    for entry in entries.flatten() {
        if matches_glob(name, &entry.file_name().to_string_lossy()) {
            visit(folder.join(entry.file_name()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_once_and_not_where_they_are_excluded() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/t.json", "a/t-1.json", "b/t.json", "b/skip.json"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let include = ["*/t*.json", "a/t.json", "b/*.json", "c/*"];
        let include = include.map(|pattern| format!("{}/{pattern}", folder.path().display()));
        let found = find(&include, &["skip*".to_owned(), "*/t-1.json".to_owned()]);
        let names: Vec<_> =
            found.iter().map(|it| it.strip_prefix(folder.path()).unwrap().display()).collect();
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a/t.json", "b/t.json"]);
    }
}
