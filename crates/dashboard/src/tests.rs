use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::{Compression, write::GzEncoder};

use super::*;

/// Limit on the compressed size of all files together, bytes.
const ALL_BYTES_MAX: usize = 100_000;

/// Ways to make markup or code of a text. Preact itself contains their names.
const FORBIDDEN: [&str; 9] = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "dangerouslySetInnerHTML",
    "document.write",
    "eval(",
    "new Function",
    "srcdoc",
    "javascript:",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
}

/// Returns the files below a folder, by their path in `assets/`.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"))
    {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let path = path.strip_prefix(self::folder()).expect("inside").to_owned();
            found.push(path.to_str().expect("a name in UTF-8").to_owned());
        }
    }
    found
}

/// Returns false for files that browsers never request: licences, notes.
fn is_served(path: &str) -> bool {
    !path.starts_with("vendor/LICENSE") && !path.ends_with(".md")
}

#[test]
fn the_table_holds_every_file_in_order() {
    let table: Vec<&str> = ASSETS.iter().map(|(path, _)| *path).collect();
    let lying: BTreeSet<String> =
        files(&folder()).into_iter().filter(|path| is_served(path)).collect();
    assert_eq!(table, lying.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn files_are_found_by_their_path_alone() {
    for (path, media_type) in [
        ("index.html", Some("text/html; charset=utf-8")),
        ("app.js", Some("text/javascript; charset=utf-8")),
        ("style.css", Some("text/css; charset=utf-8")),
        ("icon.svg", Some("image/svg+xml")),
        ("", None),
        ("vendor/LICENSE-htm", None),
        ("../Cargo.toml", None),
        ("lib/../index.html", None),
    ] {
        assert_eq!(asset(path).map(|(media_type, _)| media_type), media_type, "{path}");
    }
}

#[test]
fn all_files_together_are_small() {
    let bytes: usize = ASSETS
        .iter()
        .map(|(_, bytes)| {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
            gzip.write_all(bytes).and_then(|()| gzip.finish()).expect("memory").len()
        })
        .sum();
    assert!(bytes <= ALL_BYTES_MAX, "{bytes} bytes, {ALL_BYTES_MAX} at most");
}

#[test]
fn no_file_makes_markup_or_programs_of_a_text() {
    let own = ASSETS.iter().filter(|(path, _)| !path.starts_with("vendor/"));
    for (path, bytes) in own {
        let text = std::str::from_utf8(bytes).expect("UTF-8");
        for word in FORBIDDEN {
            assert!(!text.contains(word), "{path}: {word}");
        }
    }
}

/// The server's policy refuses both, and only a browser would report it.
#[test]
fn the_document_holds_no_program_and_no_style_of_its_own() {
    let (_, bytes) = asset("index.html").expect("the document");
    let text = std::str::from_utf8(&bytes).expect("UTF-8");
    assert!(!text.contains("style="), "an inline style");
    assert!(!text.contains("<style"), "an inline sheet");
    assert_eq!(text.matches("<script").count(), text.matches("src=\"").count());
}

#[test]
fn modules_import_only_files_that_are_there() {
    for (path, bytes) in ASSETS.iter().filter(|(path, _)| path.ends_with(".js")) {
        let text = std::str::from_utf8(bytes).expect("UTF-8");
        let imports = text.split("from").skip(1).filter_map(|rest| {
            let rest = rest.trim_start();
            let quote = rest.chars().next().filter(|it| matches!(it, '\'' | '"'))?;
            rest[1..].split(quote).next()
        });
        for import in imports.filter(|it| it.starts_with('.')) {
            let base = Path::new(path).parent().expect("a folder");
            let mut parts: Vec<&str> = base.iter().filter_map(|part| part.to_str()).collect();
            for part in import.split('/') {
                match part {
                    "." => {}
                    ".." => drop(parts.pop()),
                    name => parts.push(name),
                }
            }
            assert!(asset(&parts.join("/")).is_some(), "{path} imports {import}");
        }
    }
}
