//! The rules of the house, held against the source.
//!
//! A rule without a test is a wish. Each exception stands in a list here with its reason. What
//! reads the source (`source`, `imports`) and the rules for rooms (`rooms`) and names (`names`) are
//! tested on texts of their own.

mod imports;
mod names;
mod rooms;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use imports::{Tree, What};
use rooms::Room;
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
const LARGE_FOLDERS: &[(&str, &str)] =
    &[("src", "the rooms themselves, each of which stands in ROOMS")];

/// The rooms, in the order of `lib.rs`: the vocabulary imports no stage, stages import the
/// vocabulary and never each other, and only `pipeline` and those that start it know them all.
const ROOMS: &[Room] = &[
    Room { name: "crate", imports: &["cli"] },
    Room { name: "model", imports: &["otlp", "value"] },
    Room { name: "otlp", imports: &["value"] },
    Room { name: "detect", imports: &["model", "settings", "value"] },
    Room { name: "panics", imports: &[] },
    Room { name: "settings", imports: &["value"] },
    Room { name: "value", imports: &[] },
    Room { name: "visible", imports: &[] },
    Room { name: "tls", imports: &["settings", "visible"] },
    Room { name: "assemble", imports: VOCABULARY },
    Room {
        name: "config",
        imports: &[
            "assemble/*",
            "emit/*",
            "evaluate/*",
            "extract/*",
            "receive/*",
            "judge",
            "detect",
            "telemetry",
            "tls",
            "log",
            "model",
            "settings",
            "value",
            "visible",
        ],
    },
    Room { name: "client", imports: LISTENING },
    Room { name: "lane", imports: &["panics"] },
    Room { name: "log", imports: &["model", "settings"] },
    Room {
        name: "emit",
        imports: &[
            "client", "detect", "lane", "log", "model", "otlp", "panics", "settings", "tls",
            "value", "visible",
        ],
    },
    Room { name: "evaluate", imports: &["evaluate/*", "model"] },
    Room {
        name: "evaluate/evaluator",
        imports: &["evaluate/external", "evaluate/inquiry", "model", "settings"],
    },
    Room { name: "evaluate/inquiry", imports: &["evaluate/external", "model"] },
    // The messages of evaluators outside of this process, and what their answers mean.
    Room {
        name: "evaluate/external",
        imports: &["detect", "model", "settings", "tls", "value", "visible"],
    },
    Room {
        name: "evaluate/judged",
        imports: &[
            "evaluate/evaluator",
            "evaluate/inquiry",
            "evaluate/shared",
            "detect",
            "model",
            "otlp",
            "settings",
            "value",
        ],
    },
    Room {
        name: "evaluate/shared",
        imports: &["detect", "evaluate/evaluator", "model", "settings", "value"],
    },
    Room {
        name: "evaluate/compat",
        imports: &["evaluate/shared", "evaluate/evaluator", "model", "otlp", "settings", "value"],
    },
    Room {
        name: "evaluate/kinds",
        imports: &[
            "evaluate/compat",
            "evaluate/external",
            "evaluate/judged",
            "evaluate/inquiry",
            "evaluate/shared",
            "evaluate/evaluator",
            "detect",
            "model",
            "otlp",
            "settings",
            "tls",
            "value",
        ],
    },
    Room {
        name: "evaluate/engine",
        imports: &[
            "evaluate/asked",
            "evaluate/evaluator",
            "evaluate/external",
            "evaluate/inquiry",
            "evaluate/shared",
            "model",
            "otlp",
            "settings",
            "value",
        ],
    },
    Room {
        name: "evaluate/asked",
        imports: &["evaluate/external", "evaluate/inquiry", "model", "value"],
    },
    Room { name: "extract", imports: &["extract/*", "model", "otlp"] },
    Room { name: "extract/decode", imports: &["model", "settings", "value"] },
    Room {
        name: "extract/dialect",
        imports: &["extract/decode", "model", "otlp", "settings", "value"],
    },
    Room { name: "extract/table", imports: &["extract/dialect", "model", "otlp"] },
    Room {
        name: "extract/record",
        imports: &[
            "extract/table",
            "extract/dialect",
            "extract/unknown_tool",
            "model",
            "otlp",
            "value",
        ],
    },
    Room {
        name: "extract/resolve",
        imports: &[
            "extract/record",
            "extract/table",
            "extract/dialect",
            "extract/decode",
            "extract/unknown_tool",
            "model",
            "otlp",
            "value",
            "visible",
        ],
    },
    Room {
        name: "extract/suggest",
        imports: &["extract/decode", "extract/dialect", "model", "otlp", "value", "visible"],
    },
    Room { name: "extract/testing", imports: &["*"] },
    Room { name: "extract/unknown_tool", imports: &[] },
    Room {
        name: "judge",
        imports: &[
            "tls",
            "client",
            "evaluate",
            "evaluate/asked",
            "evaluate/inquiry",
            "lane",
            "model",
            "panics",
            "settings",
        ],
    },
    Room {
        name: "external",
        imports: &[
            "client",
            "evaluate",
            "evaluate/external",
            "lane",
            "model",
            "otlp",
            "panics",
            "tls",
        ],
    },
    Room { name: "receive", imports: LISTENING },
    Room {
        name: "telemetry",
        imports: &["client", "model", "otlp", "panics", "settings", "tls", "value", "visible"],
    },
    Room { name: "cli", imports: &["*"] },
    Room {
        name: "pipeline",
        imports: &[
            "receive/*",
            "extract/*",
            "assemble/*",
            "evaluate/*",
            "emit/*",
            "config",
            "detect",
            "external",
            "judge",
            "log",
            "telemetry",
            "tls",
            "model",
            "otlp",
            "panics",
        ],
    },
];

/// What those import that speak over the network.
const LISTENING: &[&str] = &["model", "otlp", "panics", "settings", "tls", "value", "visible"];

/// What every stage may import.
const VOCABULARY: &[&str] = &["model", "otlp", "panics", "settings", "value", "visible"];

/// Where the tokens of JSON are read, for all its dialects.
const JSON_LEXER: &str = "src/value/json/lexer.rs";

/// How code spells the choice that only JSON's escapes have: a quote, a backslash or a slash.
const JSON_ESCAPES: &str = r"b'\\' | b'/'";

/// Rooms whose functions are `(state, input, now) -> outputs`.
const PURE: &[&str] =
    &["model", "value", "visible", "otlp", "detect", "extract", "assemble", "evaluate"];

/// What reads a clock or does I/O.
const IMPURE: &[&[&str]] = &[
    &["std", "*"],
    &["std", "time", "*"],
    &["std", "time", "SystemTime", "now"],
    &["std", "time", "Instant", "now"],
    &["std", "fs"],
    &["std", "net", "*"],
    &["std", "net", "TcpStream"],
    &["std", "net", "TcpListener"],
    &["std", "net", "UdpSocket"],
    &["std", "env"],
    &["std", "process"],
    &["std", "thread"],
    &["tokio"],
];

/// Fails with every breach, one a line.
fn hold(breaches: impl IntoIterator<Item = String>) {
    let breaches: Vec<_> = breaches.into_iter().collect();
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}

#[test]
fn files_functions_and_lines_are_short() {
    let mut breaches = Vec::new();
    for source in Source::all(&["src", "tests", "benches"]) {
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
    for source in Source::all(&["src"]) {
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
    let without = Source::all(&["src"])
        .into_iter()
        .filter(|source| !is_test(&source.path) && !source.text.starts_with("//!"));
    hold(without.map(|source| format!("{}: no module head", source.path)));
}

#[test]
fn rooms_import_what_they_may() {
    hold(rooms::breaches(&Tree::new(&Source::all(&["src"])), ROOMS));
}

#[test]
fn no_rooms_form_a_circle() {
    hold(rooms::circles(&Tree::new(&Source::all(&["src"])), ROOMS));
}

#[test]
fn no_name_of_a_type_means_two_things() {
    hold(names::breaches(&Source::all(&["src"])));
}

/// Whether a path is one that these names stand for, or lies inside of it.
fn begins_with(path: &[String], names: &[&str]) -> bool {
    path.len() >= names.len() && path.iter().zip(names).all(|(own, name)| own == name)
}

#[test]
fn pure_rooms_read_no_clock_and_do_no_io() {
    let tree = Tree::new(&Source::all(&["src"]));
    let breaches = tree.named().filter_map(|(path, named)| {
        let What::Theirs(what) = &named.what else { return None };
        let is_pure = named.from.first().is_some_and(|room| PURE.contains(&room.as_str()));
        let is_impure = IMPURE.iter().any(|impure| begins_with(what, impure));
        (is_pure && is_impure).then(|| format!("{path}:{}: {}", named.line, what.join("::")))
    });
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
    for source in Source::all(&["src"]) {
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
    let sources = Source::all(&["src"]);
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
