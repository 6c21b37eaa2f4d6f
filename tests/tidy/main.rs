//! The rules of the house, held against the source.
//!
//! A rule without a test is a wish. Each exception stands in a list here with its reason. The
//! reader of the source (`source`, `words`) and the rules for names (`names`) and lines (`lines`)
//! are tested on texts of their own.

mod lines;
mod names;
mod source;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use source::Source;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 100;
const FOLDER_ENTRIES_MAX: usize = 20;

/// Files that may be longer, with the reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Functions that may be longer, as `path::name`, with the reason.
const LONG_FUNCTIONS: &[(&str, &str)] = &[];

/// Folders that may hold more entries, with the reason.
const LARGE_FOLDERS: &[(&str, &str)] = &[];

/// Reader of the tokens of JSON, for all its dialects.
const JSON_LEXER: &str = "crates/base/src/value/json/lexer.rs";

/// Spelling of the choice that only JSON's escapes have: a quote, a backslash or a slash.
const JSON_ESCAPES: &str = r"b'\\' | b'/'";

/// Crates whose functions are `(state, input, now) -> outputs`.
const PURE: [&str; 5] = ["base", "detect", "extract", "assemble", "evaluate"];

/// Fails with every breach, one a line.
fn hold(breaches: impl IntoIterator<Item = String>) {
    let breaches: Vec<_> = breaches.into_iter().collect();
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}

#[test]
fn files_functions_and_lines_are_short() {
    let mut breaches = Vec::new();
    for source in Source::all(&["src", "crates", "tests", "benches"]) {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX && !LONG_FILES.iter().any(|(path, _)| *path == source.path) {
            breaches.push(format!("{}: {lines} lines", source.path));
        }
        let wide = source.lines().filter(|(_, line)| line.chars().count() > LINE_COLUMNS_MAX);
        breaches.extend(wide.map(|(at, _)| format!("{}:{at}: over 100 columns", source.path)));
        for (at, name, length) in functions(&source) {
            let place = format!("{}::{name}", source.path);
            let excused = LONG_FUNCTIONS.iter().any(|(known, _)| *known == place);
            if length > FUNCTION_LINES_MAX && !excused {
                breaches.push(format!("{}:{at}: fn {name} has {length} lines", source.path));
            }
        }
    }
    hold(breaches);
}

/// Line, name and length of each function: formatted code closes it at its own indentation.
fn functions(source: &Source) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let indent = &line[..line.len() - body.len()];
        let Some(at) = body.find("fn ") else { continue };
        let (head, rest) = (&body[..at], &body[at + 3..]);
        let known = ["pub", "const", "async", "super", "crate", "in", "::", "(", ")", " "];
        if !known.iter().fold(head.to_owned(), |rest, word| rest.replace(word, "")).is_empty() {
            continue;
        }
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let close = format!("{indent}}}");
        let end = lines[index..].iter().position(|line| *line == close);
        let stop =
            lines[index..].iter().position(|line| line.ends_with(';') || line.ends_with('}'));
        if let (Some(end), Some(stop)) = (end, stop)
            && stop > 0
        {
            found.push((index + 1, name, end + 1));
        }
    }
    found
}

#[test]
fn folders_are_small() {
    let mut entries: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in Source::all(&["src", "crates"]) {
        let mut path = source.path.as_str();
        while let Some((folder, entry)) = path.rsplit_once('/') {
            entries.entry(folder.to_owned()).or_default().insert(entry.to_owned());
            path = folder;
        }
    }
    let large = entries.iter().filter(|(folder, entries)| {
        let excused = LARGE_FOLDERS.iter().any(|(known, _)| *known == **folder);
        entries.len() > FOLDER_ENTRIES_MAX && !excused
    });
    hold(large.map(|(folder, entries)| format!("{folder}: {} entries", entries.len())));
}

#[test]
fn every_module_says_what_it_is_for() {
    let is_test = |path: &str| path.ends_with("tests.rs") || path.contains("/tests/");
    let without = Source::all(&["src", "crates"])
        .into_iter()
        .filter(|source| !is_test(&source.path) && !source.text.starts_with("//!"));
    hold(without.map(|source| format!("{}: no module head", source.path)));
}

#[test]
fn no_name_of_a_type_means_two_things() {
    hold(names::breaches(&Source::all(&["src", "crates"])));
}

/// Applies a rule to each file of the program and its crates.
fn each(rule: fn(&Source) -> Vec<String>) {
    hold(Source::all(&["src", "crates"]).iter().flat_map(rule));
}

#[test]
fn pure_crates_read_no_clock_and_do_no_io() {
    let folders = PURE.map(|name| format!("crates/{name}/src"));
    let sources = folders.iter().flat_map(|folder| Source::all(&[folder]));
    hold(sources.flat_map(|source| lines::impure(&source)));
}

#[test]
fn folders_of_a_crate_import_in_one_direction() {
    each(lines::arrows);
}

#[test]
fn heads_and_docs_name_the_thing_first() {
    let sources = Source::all(&["src", "crates", "tests", "benches", "examples", "fuzz"]);
    hold(sources.iter().flat_map(lines::questions));
}

#[test]
fn unrelated_values_are_bound_one_a_line() {
    each(lines::tuples);
}

#[test]
fn bools_choose_with_if() {
    each(lines::bools);
}

/// `ARCHITECTURE.md` names the crates and what each depends on.
#[test]
fn the_map_of_crates_is_that_of_the_manifests() {
    let map = include_str!("../../ARCHITECTURE.md");
    let words = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let mut breaches = Vec::new();
    for (name, manifest) in manifests() {
        let row = map.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let mapped: BTreeSet<String> =
            row.and_then(|row| row.rsplit('|').nth(1)).map(words).unwrap_or_default();
        let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let lines = section.lines().take_while(|line| !line.starts_with('['));
        let own = lines.filter_map(|line| line.strip_prefix("spanscore-")?.split('.').next());
        let own: BTreeSet<String> = own.map(str::to_owned).collect();
        if row.is_none() || mapped != own {
            breaches.push(format!("`{name}` depends on {own:?}, the map says {mapped:?}"));
        }
    }
    hold(breaches);
}

/// Name and manifest of each crate.
fn manifests() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |entry: std::fs::DirEntry| {
        let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml")).ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), manifest))
    };
    let found: Vec<_> = entries.filter_map(read).collect();
    assert!(!found.is_empty(), "no crates are found");
    found
}

#[test]
fn crates_inherit_the_lints_and_name_their_level() {
    let manifest = include_str!("../../Cargo.toml");
    let levels = manifest.split("[profile.release.package]").nth(1).unwrap_or_default();
    let mut breaches = Vec::new();
    for (name, own) in manifests() {
        if !own.contains("[lints]\nworkspace = true") {
            breaches.push(format!("crates/{name}: no `lints.workspace = true`"));
        }
        if !levels.contains(&format!("\nspanscore-{name} = {{ opt-level = ")) {
            breaches.push(format!("crates/{name}: no level in `[profile.release.package]`"));
        }
    }
    hold(breaches);
}

/// A crate without examples in its docs says so, since to look for them takes as long as to check
/// all of it.
#[test]
fn examples_in_docs_are_run() {
    let root = ("src".to_owned(), include_str!("../../Cargo.toml").to_owned());
    let crates = manifests().into_iter().map(|(name, own)| (format!("crates/{name}/src"), own));
    let mut breaches = Vec::new();
    for (folder, manifest) in crates.chain([root]) {
        let sources = Source::all(&[&folder]);
        let mut examples = sources.iter().flat_map(lines::examples);
        if manifest.contains("doctest = false") {
            breaches.extend(examples);
        } else if examples.next().is_none() {
            breaches.push(format!("{folder}: no example, and no `doctest = false`"));
        }
    }
    hold(breaches);
}

#[test]
fn what_is_shipped_checks_its_arithmetic() {
    let manifest = include_str!("../../Cargo.toml");
    for profile in ["release", "dist"] {
        let lines = manifest.lines().skip_while(|line| *line != format!("[profile.{profile}]"));
        let mut own = lines.skip(1).take_while(|line| !line.starts_with('['));
        assert!(own.any(|line| line == "overflow-checks = true"), "{profile}");
    }
}

#[test]
fn the_code_holds_no_unfinished_work_and_no_way_to_panic() {
    let words = ["todo!(", "unimplemented!(", "unreachable!(", "panic!(", "FIXME", "TODO", "XXX"];
    let mut breaches = Vec::new();
    for source in Source::all(&["src", "crates"]) {
        for (at, line) in source.shipped() {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                breaches.push(format!("{}:{at}: {word}", source.path));
            }
        }
    }
    hold(breaches);
}

#[test]
fn escapes_of_json_are_read_in_one_file() {
    let sources = Source::all(&["src", "crates"]);
    let reads = |source: &&Source| source.shipped().any(|(_, line)| line.contains(JSON_ESCAPES));
    let files: Vec<_> = sources.iter().filter(reads).map(|source| &*source.path).collect();
    assert_eq!(files, [JSON_LEXER]);
}

/// `CONTRIBUTING.md` shows how a newcomer adds a kind, a dialect and an exporter.
#[test]
fn exercises_of_a_newcomer_still_apply() {
    for exercise in ["evaluator", "dialect", "exporter"] {
        let diff = format!("tests/exercises/{exercise}.diff");
        let applied = std::process::Command::new("git")
            .args(["apply", "--check", &diff])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("git can be run");
        let said = String::from_utf8_lossy(&applied.stderr);
        assert!(applied.status.success(), "apply it by hand and write {diff} anew: {said}");
    }
}
