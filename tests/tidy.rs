//! The rules of the house, held against the source.
//!
//! A rule without a test is a wish. Each exception stands in a list here with its reason.

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 100;

/// Files that may be longer, with the reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Functions that may be longer, as `path::name`, with the reason.
const LONG_FUNCTIONS: &[(&str, &str)] = &[];

/// What each stage may import of ours, beside itself and the vocabulary.
const STAGES: &[&str] = &["receive", "extract", "assemble", "evaluate", "emit"];
const VOCABULARY: &[&str] = &["model", "otlp", "semconv", "settings", "value"];

struct Source {
    path: String,
    text: String,
}

impl Source {
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The part before the unit tests.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test = self.path.ends_with("tests.rs") || self.path.contains("/tests/");
        let end = self.text.find("#[cfg(test)]").unwrap_or(self.text.len());
        let end = if is_test { 0 } else { end };
        self.text[..end].lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

fn sources(folders: &[&str]) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    folders.iter().for_each(|folder| gather(&root.join(folder), &mut paths));
    paths.sort();
    let read = |path: PathBuf| Source {
        text: fs::read_to_string(&path).unwrap_or_default(),
        path: path.strip_prefix(root).unwrap_or(&path).display().to_string(),
    };
    paths.into_iter().map(read).collect()
}

fn gather(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            gather(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// Fails with every breach, one a line.
fn hold(breaches: impl IntoIterator<Item = String>) {
    let breaches: Vec<_> = breaches.into_iter().collect();
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}

#[test]
fn files_functions_and_lines_are_short() {
    let mut breaches = Vec::new();
    for source in sources(&["src", "tests", "benches"]) {
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
fn every_module_says_what_it_is_for() {
    let is_test = |path: &str| path.ends_with("tests.rs") || path.contains("/tests/");
    let without = sources(&["src"])
        .into_iter()
        .filter(|source| !is_test(&source.path) && !source.text.starts_with("//!"));
    hold(without.map(|source| format!("{}: no module head", source.path)));
}

#[test]
fn stages_import_the_vocabulary_and_never_each_other() {
    let mut breaches = Vec::new();
    for source in sources(&["src"]) {
        let module = source.path.trim_start_matches("src/").trim_end_matches(".rs");
        let module = module.split('/').next().unwrap_or_default();
        let forbidden: Vec<&str> = if VOCABULARY.contains(&module) {
            let stages = STAGES.iter().copied();
            stages.chain(["config", "cli", "pipeline", "telemetry"]).collect()
        } else if STAGES.contains(&module) {
            let others = STAGES.iter().copied().filter(|stage| *stage != module);
            others.chain(["config", "cli", "pipeline", "telemetry"]).collect()
        } else {
            continue;
        };
        for (at, line) in source.code().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for name in &forbidden {
                if line.contains(&format!("crate::{name}::"))
                    || line.contains(&format!("crate::{name};"))
                {
                    breaches.push(format!("{}:{at}: {module} imports {name}", source.path));
                }
            }
        }
    }
    hold(breaches);
}

#[test]
fn pure_stages_read_no_clock_and_do_no_io() {
    let words = [
        "SystemTime::now",
        "Instant::now",
        "std::fs",
        "std::net::Tcp",
        "std::net::Udp",
        "tokio::",
        "std::env::",
    ];
    let mut breaches = Vec::new();
    for source in sources(&["src/model", "src/value", "src/otlp", "src/extract", "src/assemble"])
        .into_iter()
        .chain(sources(&["src/evaluate"]))
    {
        for (at, line) in source.code().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                breaches.push(format!("{}:{at}: {word}", source.path));
            }
        }
    }
    hold(breaches);
}

#[test]
fn what_is_shipped_checks_its_arithmetic() {
    let manifest = include_str!("../Cargo.toml");
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
    for source in sources(&["src"]) {
        for (at, line) in source.code() {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                breaches.push(format!("{}:{at}: {word}", source.path));
            }
        }
    }
    hold(breaches);
}
