//! The rules of the house, held against the source.
//!
//! A rule without a test is a wish. Each exception stands in a list here with its reason. The
//! reader of the source (`source`, `words`) and the rule for names (`names`) are tested on texts of
//! their own.

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

/// Where the tokens of JSON are read, for all its dialects.
const JSON_LEXER: &str = "crates/base/src/value/json/lexer.rs";

/// How code spells the choice that only JSON's escapes have: a quote, a backslash or a slash.
const JSON_ESCAPES: &str = r"b'\\' | b'/'";

/// Crates whose functions are `(state, input, now) -> outputs`.
const PURE: &[&str] = &["base", "detect", "extract", "assemble", "evaluate"];

/// Words of code that reads a clock or does I/O.
const IMPURE: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::env",
    "std::process",
    "std::thread",
    "tokio::",
];

/// First words that say nothing of the thing that they are about.
const QUESTIONS: &[&str] =
    &["What", "Whether", "Where", "How", "Which", "Who", "Whose", "When", "Why"];

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

#[test]
fn pure_crates_read_no_clock_and_do_no_io() {
    let mut breaches = Vec::new();
    for source in PURE.iter().flat_map(|name| Source::all(&[&format!("crates/{name}/src")])) {
        for (at, line) in source.code() {
            let impure = IMPURE.iter().find(|word| line.contains(*word));
            breaches.extend(impure.map(|word| format!("{}:{at}: {word}", source.path)));
        }
    }
    hold(breaches);
}

#[test]
fn crates_inherit_the_lints_and_name_their_level() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = include_str!("../../Cargo.toml");
    let levels = manifest.split("[profile.release.package]").nth(1).unwrap_or_default();
    let mut breaches = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).expect("crates").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let own = std::fs::read_to_string(entry.path().join("Cargo.toml")).unwrap_or_default();
        if !own.contains("[lints]\nworkspace = true") {
            breaches.push(format!("crates/{name}: no `lints.workspace = true`"));
        }
        if !levels.contains(&format!("\nspanscore-{name} = {{ opt-level = ")) {
            breaches.push(format!("crates/{name}: no level in `[profile.release.package]`"));
        }
    }
    hold(breaches);
}

#[test]
fn heads_and_docs_name_the_thing_first() {
    let mut breaches = Vec::new();
    for source in Source::all(&["src", "crates"]) {
        let mut before = "";
        for (at, line) in source.lines() {
            let line = line.trim_start();
            for mark in ["//!", "///"] {
                let Some(text) = line.strip_prefix(mark) else { continue };
                let first = text.split_whitespace().next().unwrap_or_default();
                if !before.starts_with(mark) && QUESTIONS.contains(&first) {
                    breaches.push(format!("{}:{at}: begins with `{first}`", source.path));
                }
            }
            before = line;
        }
    }
    hold(breaches);
}

#[test]
fn unrelated_values_are_bound_one_a_line() {
    let mut breaches = Vec::new();
    for source in Source::all(&["src", "crates"]) {
        for (at, line) in source.code() {
            let line = line.trim();
            let Some((names, values)) = line.strip_prefix("let (").and_then(|rest| {
                let (names, rest) = rest.split_once(')')?;
                Some((names, rest.trim().strip_prefix("= (")?))
            }) else {
                continue;
            };
            let names: Vec<_> = names.split(',').map(str::trim).collect();
            let is_swap =
                line.ends_with(");") && names.iter().skip(1).any(|n| values.starts_with(n));
            let is_one = names.len() < 2 || line.contains(") else {") || line.contains(").");
            if !is_one && !is_swap {
                breaches.push(format!("{}:{at}: a tuple of values", source.path));
            }
        }
    }
    hold(breaches);
}

#[test]
fn bools_choose_with_if() {
    let mut breaches = Vec::new();
    for source in Source::all(&["src", "crates"]) {
        for (at, line) in source.code() {
            let line = line.trim_start();
            if ["true =>", "false =>", "true if ", "false if "].iter().any(|w| line.starts_with(w))
            {
                breaches.push(format!("{}:{at}: a match on a bool", source.path));
            }
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
